"""`recommend`: what goes with an item or a cart, each answer with its evidence, none with less than asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from neatrec.errors import must_be, must_be_one_of
from neatrec.models.recommendations import RankedItem, Ranking, count_new
from neatrec.serving.evidence import GRADES, GUESS, PairEvidence
from neatrec.serving.table import ServingTable

PAIR_GRADES = GRADES[:3]
"""The grades that the evidence of a pair can have."""
CART_NOTE = "A cart has a ranking of its own: goals are for one item."
DEPTH = 100
"""Answers looked through at least: what has evidence may stand behind what has none."""


@dataclass(frozen=True)
class AnswerWithEvidence:
    """One answer, and the best evidence that one of the items asked for gives it."""

    answer: RankedItem
    evidence: PairEvidence

    @property
    def score(self) -> float:
        return self.answer.score

    @property
    def grade(self) -> str:
        return self.evidence.grade

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
            "strength": self.evidence.strength,
            "evidence": {"words": self.evidence.words(), **self.evidence.to_dict()},
        }


@dataclass(frozen=True)
class QueryResult:
    """What was found."""

    cart: tuple[int, ...]
    """Codes of what was asked for."""
    answers: tuple[AnswerWithEvidence, ...]
    left_out: int
    """How many of the first answers had less evidence than asked for; those that strata explain are not counted."""
    notes: tuple[str, ...]
    explained: tuple[AnswerWithEvidence, ...] = ()
    """On request: items that look certain overall, but not within strata."""


def recommend(bundle: str | Path, items: str | Sequence[str], k: int = 10, **choices: Any) -> QueryResult:
    """What goes with an item, or with a cart, by the bundle at a path; `choices` as for `ask`.

    >>> recommend("bundle", "Tortilla Chips").answers[0].evidence.words()  # doctest: +SKIP
    """
    return ask(ServingTable.open(bundle), [items] if isinstance(items, str) else items, k, **choices)


def ask(
    index: ServingTable,
    items: Sequence[str],
    k: int = 10,
    *,
    min_evidence: str = "likely",
    category: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    same_category: bool = False,
    include_new: bool = False,
    goal: str | None = None,
    include_explained: bool = False,
    month: int | None = None,
) -> QueryResult:
    """The first `k` answers of the bundle's model that have at least the evidence asked for.

    `include_new`: also items that nobody has bought, whatever the evidence asked for, below all that have evidence.
    `goal`: of a model that has several; None is that of `index`. Carts may have a ranking of their own instead.
    `include_explained`: and the first `k` pairs that their season, their store or the size of baskets explains; with
    `month` (1 to 12) those in season.
    """
    if k < 1:
        raise must_be("k", "at least 1", k)
    if month is not None and not 1 <= month <= 12:
        raise must_be("month", "a whole number from 1 to 12", month)
    if min_evidence not in PAIR_GRADES:
        raise must_be_one_of("min_evidence", PAIR_GRADES, min_evidence)
    index = index if goal is None else index.with_goal(goal)
    found = index.model.rank(
        items,
        max(k, DEPTH),
        category=category,
        exclude=exclude,
        same_category=same_category,
        include_new=include_new,
    )
    enough = PAIR_GRADES[: PAIR_GRADES.index(min_evidence) + 1]
    kept: list[AnswerWithEvidence] = []
    new: list[AnswerWithEvidence] = []
    left_out = 0
    for line, code in zip(found, found.codes.tolist(), strict=True):
        is_new = index.item_count[code] == 0
        if len(kept) == k and not is_new:
            continue
        evidence = min((index.evidence(asked, code) for asked in found.asked.tolist()), key=_weakness)
        if is_new:
            new.append(AnswerWithEvidence(line, evidence))
        elif evidence.grade in enough:
            kept.append(AnswerWithEvidence(line, evidence))
        elif line.rank <= k and evidence.grade in PAIR_GRADES:
            left_out += 1
    explained = _explained(index, found, k, month) if include_explained or month is not None else ()
    placed = [
        replace(one, answer=replace(one.answer, rank=rank)) for rank, one in enumerate(place_new(kept, new, k), 1)
    ]
    notes = found.notes + ((CART_NOTE,) if goal is not None and index.model.ranks_as_cart(found.asked) else ())
    return QueryResult(tuple(found.cart.tolist()), tuple(placed), left_out, notes, explained)


def _explained(index: ServingTable, found: Ranking, k: int, month: int | None) -> tuple[AnswerWithEvidence, ...]:
    """The pairs of each item asked for, the largest overall lift first, each answer once."""
    cart, catalog = set(found.cart.tolist()), index.catalog
    best: dict[int, tuple[int, float, PairEvidence]] = {}
    for asked in found.asked.tolist():
        table = index.explained(asked, month, k + len(cart))
        for row, item in enumerate(table.item.tolist()):
            evidence = table.evidence(row)
            if item not in cart and (item not in best or evidence.overall_lift > best[item][2].overall_lift):
                best[item] = asked, float(table.score[row]), evidence
    ordered = sorted(best.items(), key=lambda each: -each[1][2].overall_lift)[:k]
    lines = []
    for rank, (item, (asked, score, evidence)) in enumerate(ordered, 1):
        about = catalog.id(item), catalog.name(item), catalog.category_path(item)
        lines.append(AnswerWithEvidence(RankedItem(rank, *about, score, (catalog.name(asked),)), evidence))
    return tuple(lines)


class ScoredLine(Protocol):
    """An answer with a score and a grade."""

    @property
    def score(self) -> float | None: ...
    @property
    def grade(self) -> str: ...


Line = TypeVar("Line", bound=ScoredLine)


def place_new(known: list[Line], new: list[Line], k: int) -> list[Line]:
    """`k` of both, new items last and none instead of an answer with evidence; both are sorted by score."""
    kept = max((place for place, line in enumerate(known, 1) if line.grade in GRADES[:GUESS]), default=0)
    size = count_new([line.score or 0.0 for line in known], [line.score or 0.0 for line in new], k, kept)
    return [*known[: k - size], *new[:size]]


def _weakness(evidence: PairEvidence) -> tuple[int, float]:
    grade = evidence.grade
    return GRADES.index(grade) if grade in GRADES else len(GRADES), -evidence.lift_low
