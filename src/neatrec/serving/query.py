"""`ask`: what goes with an item or a cart, each answer with its evidence, and none below the evidence asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from neatrec.errors import must_be_one_of
from neatrec.models.recommendations import Recommendation
from neatrec.serving.evidence import GRADES, PairEvidence
from neatrec.serving.table import ServingTable

PAIR_GRADES = GRADES[:3]
"""The grades that the evidence of a pair can have."""
DEPTH = 100
"""Answers looked through at least: what has evidence may stand behind what has none."""


@dataclass(frozen=True)
class AnswerWithEvidence:
    """One answer, and the best evidence that one of the items asked for gives it."""

    answer: Recommendation
    evidence: PairEvidence

    def to_dict(self) -> dict[str, Any]:
        a = self.answer
        return {
            "rank": a.rank,
            "id": a.id,
            "name": a.name,
            "category": list(a.category),
            "score": a.score,
            "goes_with": list(a.goes_with),
            "grade": self.evidence.grade,
            "evidence": {"words": self.evidence.words(), **self.evidence.to_dict()},
        }


@dataclass(frozen=True)
class QueryResult:
    """What was found."""

    cart: tuple[int, ...]
    """Codes of what was asked for."""
    answers: tuple[AnswerWithEvidence, ...]
    left_out: int
    """How many of the first answers had less evidence than asked for."""
    notes: tuple[str, ...]


def ask(
    index: ServingTable,
    items: Sequence[str],
    k: int = 10,
    *,
    min_evidence: str = "some",
    category: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    same_category: bool = False,
    goal: str | None = None,
) -> QueryResult:
    """The first `k` answers of the bundle's model that have at least the evidence asked for.

    `goal`: of a model that has several; None is that of `index`.
    """
    if min_evidence not in PAIR_GRADES:
        raise must_be_one_of("min_evidence", PAIR_GRADES, min_evidence)
    index = index if goal is None else index.with_goal(goal)
    found = index.model.recommend(items, max(k, DEPTH), category=category, exclude=exclude, same_category=same_category)
    enough = PAIR_GRADES[: PAIR_GRADES.index(min_evidence) + 1]
    kept: list[AnswerWithEvidence] = []
    left_out = 0
    for line, code in zip(found, found.codes.tolist(), strict=True):
        evidence = min((index.evidence(asked, code) for asked in found.asked.tolist()), key=_weakness)
        if evidence.grade in enough:
            kept.append(AnswerWithEvidence(replace(line, rank=len(kept) + 1), evidence))
        elif line.rank <= k:
            left_out += 1
        if len(kept) == k:
            break
    return QueryResult(tuple(found.cart.tolist()), tuple(kept), left_out, found.notes)


def _weakness(evidence: PairEvidence) -> tuple[int, float]:
    return GRADES.index(evidence.grade), -evidence.lift_low
