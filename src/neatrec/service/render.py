"""Answers as JSON."""

from __future__ import annotations

import json
from collections import Counter
from math import isfinite
from typing import Any

from neatrec.service.answers import AnsweredQuery, AnswerLine
from neatrec.service.cart import AnsweredCart, CartLine
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.snapshot import Rendered
from neatrec.serving import FOOTER, PairEvidence

SELDOM = ("query_variance", "item_variance", "posterior", "posterior_low", "posterior_high")


def dumps(answer: Any) -> bytes:
    return json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def number(value: float) -> float | None:
    """`real` as a number."""
    return float(f"{value:.6g}") if isfinite(value) else None


def evidence_out(evidence: PairEvidence, public: bool) -> dict[str, Any]:
    """Words, and the numbers unless they are withheld."""
    out: dict[str, Any] = json.loads(evidence_json(evidence, public))
    return out


def evidence_json(evidence: PairEvidence, public: bool) -> str:
    """`evidence_out` as text, written by hand: it is half the work of an answer. Words are ours: nothing to escape.

    Variances and posteriors stand there only where the model has them.
    """
    e = evidence
    if public:
        return f'{{"words":"{e.words(public=True)}"}}'
    rest = ""
    if e.item_variance == e.item_variance or e.posterior == e.posterior:
        rest = "".join(f',"{name}":{real(getattr(e, name))}' for name in SELDOM)
    return (
        f'{{"words":"{e.words()}","count":{whole(e.count)},"customers":{whole(e.customers)},'
        f'"forward":{whole(e.forward)},"backward":{whole(e.backward)},"query_count":{whole(e.query_count)},'
        f'"item_count":{whole(e.item_count)},"expected":{real(e.expected)},"lift":{real(e.lift)},'
        f'"lift_low":{real(e.lift_low)},"lift_high":{real(e.lift_high)},"q":{real(e.q)}{rest}}}'
    )


def whole(value: int) -> str:
    return str(value) if value >= 0 else "null"


def real(value: float) -> str:
    """Six digits are more than any count supports; null where not known or not finite."""
    return f"{value:.6g}" if isfinite(value) else "null"


def score_out(score: float | None, public: bool) -> float | None:
    return None if public or score is None else number(score)


def complements_out(answered: AnsweredQuery, query: dict[str, Any], public: bool) -> Rendered:
    """The answer to `complements`, ready to go out."""
    shelf = answered.shelf
    lines = ",".join(_line_json(shelf, rank, line, public) for rank, line in enumerate(answered.lines, 1))
    head = json.dumps({**_head(shelf), "query": query}, ensure_ascii=False, separators=(",", ":"))
    notes = json.dumps(answered.notes, ensure_ascii=False)
    body = f'{head[:-1]},"complements":[{lines}],"notes":{notes},"footer":"{FOOTER}"}}'
    grades = Counter(line.evidence.grade for line in answered.lines)
    return _rendered(body.encode("utf-8", "replace"), shelf, grades, answered.asked, answered.rules)


def _line_json(shelf: LoadedBundle, rank: int, line: AnswerLine, public: bool) -> str:
    score, evidence = "null" if public or line.score is None else real(line.score), line.evidence
    return (
        f'{{"rank":{rank},{shelf.brief_json(line.code)},"score":{score},'
        f'"grade":"{evidence.grade}","evidence":{evidence_json(evidence, public)}}}'
    )


def cart_out(answered: AnsweredCart, public: bool) -> Rendered:
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


def _cart_line(shelf: LoadedBundle, rank: int, line: CartLine, public: bool) -> dict[str, Any]:
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


def _head(shelf: LoadedBundle) -> dict[str, Any]:
    return {"bundle": shelf.version, "model": shelf.name}


def _rendered(body: bytes, shelf: LoadedBundle, grades: Counter[str], asked: int, rules: tuple[str, ...]) -> Rendered:
    named = sum(grades.values())
    return Rendered(body, tuple(grades.items()), named == 0, named < asked, rules, shelf.short)
