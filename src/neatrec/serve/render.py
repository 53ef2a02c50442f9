"""Answers as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from neatrec.index import FOOTER, Evidence
from neatrec.serve.answers import Answered, Line
from neatrec.serve.cart import CartAnswered, CartLine
from neatrec.serve.edition import Rendered
from neatrec.serve.shelf import Shelf

WHOLE = ("count", "customers", "forward", "backward", "query_count", "item_count")
REAL = (
    "expected",
    "lift",
    "lift_low",
    "lift_high",
    "q",
    "query_variance",
    "item_variance",
    "posterior",
    "posterior_low",
    "posterior_high",
)
ALWAYS = ("expected", "lift", "lift_low", "lift_high", "q")


def dumps(answer: Any) -> bytes:
    return json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def number(value: float) -> float | None:
    """Six digits are more than any count supports; None where not known or not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def evidence_out(evidence: Evidence, public: bool) -> dict[str, Any]:
    """Words, and the numbers unless they are withheld."""
    out: dict[str, Any] = json.loads(evidence_json(evidence, public))
    return out


def evidence_json(evidence: Evidence, public: bool) -> str:
    """`evidence_out` as text. Written by hand: it is half the work of an answer. Variances only where there are any."""
    words = json.dumps(evidence.words(public=public))
    if public:
        return f'{{"words":{words}}}'
    parts = [f'{{"words":{words}']
    for name in WHOLE:
        value = getattr(evidence, name)
        parts.append(f'"{name}":{value if value >= 0 else "null"}')
    for name in REAL:
        value = getattr(evidence, name)
        if math.isfinite(value):
            parts.append(f'"{name}":{value:.6g}')
        elif name in ALWAYS:
            parts.append(f'"{name}":null')
    return ",".join(parts) + "}"


def score_out(score: float | None, public: bool) -> float | None:
    return None if public or score is None else number(score)


def complements_out(answered: Answered, query: dict[str, Any], public: bool) -> Rendered:
    """The answer to `complements`, ready to go out."""
    shelf = answered.shelf
    lines = ",".join(_line_json(shelf, rank, line, public) for rank, line in enumerate(answered.lines, 1))
    head = json.dumps({**_head(shelf), "query": query}, ensure_ascii=False, separators=(",", ":"))
    notes = json.dumps(answered.notes, ensure_ascii=False)
    body = f'{head[:-1]},"complements":[{lines}],"notes":{notes},"footer":"{FOOTER}"}}'
    grades = Counter(line.evidence.grade for line in answered.lines)
    return _rendered(body.encode("utf-8", "replace"), shelf, grades, answered.asked, answered.rules)


def _line_json(shelf: Shelf, rank: int, line: Line, public: bool) -> str:
    score, evidence = score_out(line.score, public), line.evidence
    return (
        f'{{"rank":{rank},{shelf.brief_json(line.code)},"score":{"null" if score is None else score},'
        f'"grade":"{evidence.grade}","evidence":{evidence_json(evidence, public)}}}'
    )


def cart_out(answered: CartAnswered, public: bool) -> Rendered:
    """The answer to a cart, ready to go out."""
    shelf = answered.shelf
    body = {
        **_head(shelf),
        "cart": [shelf.brief(code) for code in answered.cart],
        "complements": [_cart_line(shelf, rank, line, public) for rank, line in enumerate(answered.lines, 1)],
        "notes": answered.notes,
        "footer": FOOTER,
    }
    grades = Counter(line.grade for line in answered.lines)
    return _rendered(dumps(body), shelf, grades, answered.asked, answered.rules)


def _cart_line(shelf: Shelf, rank: int, line: CartLine, public: bool) -> dict[str, Any]:
    speakers = [
        {
            **shelf.brief(speaker.code),
            "grade": speaker.evidence.grade,
            "words": speaker.evidence.words(public=public),
        }
        for speaker in line.speakers
    ]
    score = score_out(line.score, public)
    return {"rank": rank, **shelf.brief(line.code), "score": score, "grade": line.grade, "goes_with": speakers}


def _head(shelf: Shelf) -> dict[str, Any]:
    return {"bundle": shelf.version, "model": shelf.name}


def _rendered(body: bytes, shelf: Shelf, grades: Counter[str], asked: int, rules: tuple[str, ...]) -> Rendered:
    named = sum(grades.values())
    return Rendered(body, tuple(grades.items()), named == 0, named < asked, rules, shelf.short)
