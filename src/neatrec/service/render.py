"""Answers as JSON."""

from __future__ import annotations

import json
from collections import Counter
from json.encoder import encode_basestring
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.service.answers import Answered
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.problems import Problem
from neatrec.service.schemas import PairFilters, PairsQuery
from neatrec.service.snapshot import Rendered
from neatrec.serving import FOOTER, PairEvidence
from neatrec.serving.answers import CartLine
from neatrec.serving.evidence import months_of
from neatrec.serving.pair_list import PairSelection
from neatrec.serving.table import AnswerLine

VARIANCES = ("query_variance", "item_variance")


def dumps(answer: Any) -> bytes:
    return json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def evidence_json(evidence: PairEvidence, public: bool, suggested: bool = True) -> str:
    """Words, and the numbers unless withheld, written by hand: it is half the work of an answer.

    Variances are there only where the model has them.
    """
    e = evidence
    if public:
        return f'{{"words":{_text(e.words(True, suggested))}}}'
    rest = ""
    if e.weighted >= 0:
        rest = f',"weighted":{e.weighted}'
    if e.item_variance == e.item_variance:
        rest += "".join(f',"{name}":{real(getattr(e, name))}' for name in VARIANCES)
    return (
        f'{{"words":{_text(e.words(False, suggested))},"count":{whole(e.count)},"customers":{whole(e.customers)},'
        f'"forward":{whole(e.forward)},"backward":{whole(e.backward)},"query_count":{whole(e.query_count)},'
        f'"item_count":{whole(e.item_count)},"expected":{real(e.expected)},"lift":{real(e.lift)},'
        f'"lift_low":{real(e.lift_low)},"lift_high":{real(e.lift_high)},"q":{real(e.q)},'
        f'"overall_lift":{real(e.overall_lift)},"season":{_months(e.season)}{rest}}}'
    )


def _text(words: str) -> str:
    """A sentence as JSON; one may hold the name of a column."""
    return encode_basestring(words)  # a tenth of the time of `json.dumps`, which makes an encoder each time


def _months(season: int) -> str:
    months = months_of(season)
    return json.dumps(months) if months else "null"


def whole(value: int) -> str:
    return str(value) if value >= 0 else "null"


def real(value: float) -> str:
    """Six digits are more than any count supports; null where not known or not finite."""
    return f"{value:.6g}" if isfinite(value) else "null"


def score_json(score: float | None, public: bool) -> str:
    return "null" if public or score is None else real(score)


def complements_out(answered: Answered[AnswerLine], query: dict[str, Any], public: bool) -> Rendered:
    bundle = answered.bundle
    explained = (
        "" if answered.explained is None else f',"explained":[{_lines_json(bundle, answered.explained, public)}]'
    )
    head = json.dumps({**_head(bundle), "query": query}, ensure_ascii=False, separators=(",", ":"))
    notes = json.dumps(answered.notes, ensure_ascii=False)
    lines = _lines_json(bundle, answered.lines, public)
    body = f'{head[:-1]},"complements":[{lines}]{explained},"notes":{notes},"footer":"{FOOTER}"}}'
    return _rendered(body.encode("utf-8", "replace"), answered)


def _lines_json(bundle: LoadedBundle, lines: list[AnswerLine], public: bool) -> str:
    return ",".join(
        f'{{"rank":{rank},{bundle.brief_json(line.code)},"score":{score_json(line.score, public)},'
        f'{_words_json(line.evidence)},"evidence":{evidence_json(line.evidence, public)}}}'
        for rank, line in enumerate(lines, 1)
    )


def _words_json(evidence: PairEvidence) -> str:
    """The two words: how sure, how strong."""
    strength = evidence.strength
    return f'"grade":{_text(evidence.grade)},"strength":{"null" if strength is None else _text(strength)}'


def cart_out(answered: Answered[CartLine], public: bool) -> Rendered:
    bundle = answered.bundle
    body = {
        **_head(bundle),
        "cart": [bundle.brief(code) for code in answered.cart],
        "complements": [_cart_line(bundle, rank, line, public) for rank, line in enumerate(answered.lines, 1)],
        "notes": answered.notes,
        "footer": FOOTER,
    }
    return _rendered(dumps(body), answered)


def _cart_line(bundle: LoadedBundle, rank: int, line: CartLine, public: bool) -> dict[str, Any]:
    goes_with = [
        {
            **bundle.brief(one.code),
            "grade": one.evidence.grade,
            "strength": one.evidence.strength,
            "words": one.evidence.words(public=public),
        }
        for one in line.contributions
    ]
    score = None if public else float(f"{line.score:.6g}")
    return {"rank": rank, **bundle.brief(line.code), "score": score, "grade": line.grade, "goes_with": goes_with}


def pair_out(bundle: LoadedBundle, a: int, b: int, public: bool) -> bytes:
    evidence = bundle.index.evidence(a, b)
    score = None if public else float(bundle.index.model.score([a], [b])[0])
    head = dumps({**_head(bundle), "a": bundle.brief(a), "b": bundle.brief(b)}).decode()
    return (
        f'{head[:-1]},"score":{score_json(score, public)},{_words_json(evidence)},'
        f'"evidence":{evidence_json(evidence, public, suggested=False)},"footer":"{FOOTER}"}}'
    ).encode()


def pair_filter(bundle: LoadedBundle, query: PairFilters) -> PairSelection:
    """What a caller asked for, looked up in the bundle."""
    if query.sort == "new" and bundle.pairs.earlier is None:
        hint = "Serve a store to which `neatrec publish` has published twice."
        message = "`sort` must be strength, customers or sure: no earlier version is there, got 'new'"
        raise Problem(404, "ParameterError", message, hint=hint, argument="sort")
    left, right = (None if name is None else bundle.in_category(name) for name in (query.category, query.with_category))
    return PairSelection(left, right, None if query.q is None else bundle.search.holding(query.q))


def page_of_pairs(bundle: LoadedBundle, query: PairsQuery) -> tuple[int, npt.NDArray[np.int64], int | None]:
    """How many pairs fit, the rows of one page of them, and the number of the next page that has some."""
    skip = (query.page - 1) * query.k
    total, rows = bundle.pairs.find(query.sort, pair_filter(bundle, query), skip, query.k)
    return total, rows, query.page + 1 if skip + len(rows) < total and len(rows) else None


def pairs_out(bundle: LoadedBundle, query: PairsQuery, public: bool) -> bytes:
    pairs = bundle.pairs
    total, rows, more = page_of_pairs(bundle, query)
    lines = (
        f'{{"a":{{{bundle.brief_json(a)}}},"b":{{{bundle.brief_json(b)}}},{_words_json(evidence)},'
        f'"new":{"null" if pairs.is_new is None else str(bool(pairs.is_new[row])).lower()},'
        f'"evidence":{evidence_json(evidence, public, suggested=False)}}}'
        for row, (a, b, evidence) in zip(rows.tolist(), pairs.evidence(rows), strict=True)
    )
    head = {**_head(bundle), "total": None if public else total, "page": query.page, "next_page": more}
    return f'{dumps(head).decode()[:-1]},"pairs":[{",".join(lines)}],"footer":"{FOOTER}"}}'.encode("utf-8", "replace")


def _head(bundle: LoadedBundle) -> dict[str, Any]:
    goal = {} if bundle.index.goal is None else {"goal": bundle.index.goal}
    return {"bundle": bundle.version, "model": bundle.name, **goal}


def _rendered(body: bytes, answered: Answered[Any]) -> Rendered:
    grades = Counter(line.grade for line in answered.lines)
    return Rendered(body, grades, len(answered.lines) < answered.k, answered.rule_hits, answered.bundle.short)
