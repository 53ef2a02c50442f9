"""`recommend`: what goes with an item or a cart, each answer with its evidence, none with less than asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from neatrec.data.table_result import TableResult
from neatrec.errors import must_be, require_whole
from neatrec.models.items import Item, find_items, in_categories
from neatrec.models.recommendations import RankedItem
from neatrec.serving.answers import (
    AnswerFilter,
    CartAnswers,
    CartLine,
    answer_item,
    explained_answers,
    level_of,
    new_note,
)
from neatrec.serving.evidence import GUESS, LIKELY, PairEvidence
from neatrec.serving.table import AnswerLine, ServingTable

CART_NOTE = "A cart has a ranking of its own: goals are for one item."


@dataclass(frozen=True)
class AnswerWithEvidence:
    """One answer, and the best evidence that one of the items asked for gives it."""

    answer: RankedItem
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
            "strength": self.evidence.strength,
            "evidence": {"words": self.evidence.words(), **self.evidence.to_dict()},
        }


@dataclass(frozen=True, repr=False)
class QueryResult(TableResult):
    """What was found."""

    cart: tuple[int, ...]
    """Codes of what was asked for."""
    answers: tuple[AnswerWithEvidence, ...]
    left_out: int
    """How many answers with less evidence than asked for would fill the list; those that strata explain do not."""
    notes: tuple[str, ...]
    explained: tuple[AnswerWithEvidence, ...] = ()
    """On request: items that look certain overall, but not within strata."""

    def to_arrow(self) -> pa.Table:
        rows = [
            {
                "item": line.answer.name,
                "id": line.answer.id,
                "goes_with": ", ".join(line.answer.goes_with[:1]),
                "grade": line.evidence.grade,
                "strength": line.evidence.strength,
                "lift": line.evidence.lift,
                "lift_low": line.evidence.lift_low,
                "lift_high": line.evidence.lift_high,
                "evidence": line.evidence.words(),
            }
            for line in self.answers
        ]
        return pa.Table.from_pylist(rows, ANSWER_SCHEMA)

    def _caption(self) -> str:
        return "Answers"


ANSWER_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("item", "id", "goes_with", "grade", "strength")),
        *((name, pa.float64()) for name in ("lift", "lift_low", "lift_high")),
        ("evidence", pa.string()),
    ]
)


def recommend(
    bundle: str | Path | ServingTable,
    items: Item | Sequence[Item],
    k: int = 10,
    *,
    min_evidence: str | None = None,
    category: str | Sequence[str] | None = None,
    exclude: Item | Sequence[Item] = (),
    same_category: bool = False,
    include_new: bool = False,
    goal: str | None = None,
    include_explained: bool = False,
    month: int | None = None,
) -> QueryResult:
    """What goes with an item, or with a cart, by the bundle at a path or opened: the first `k` answers with evidence.

    `min_evidence`: `certain`, `likely` or `guess`; None: `likely`, and for an item that nobody has bought what goes
    with its category. `include_new`: also items that nobody has bought, below all that have evidence. `goal`: of a
    model that has several; None is that of the bundle. Carts may have a ranking of their own instead.
    `include_explained`: and the first `k` pairs that their season, their store or the size of baskets explains; with
    `month` (1 to 12) those in season.

    >>> recommend("bundle", "Tortilla Chips").answers[0].evidence.words()  # doctest: +SKIP
    """
    require_whole("k", k)
    if month is not None:
        require_whole("month", month, 1, 12)
    level = level_of(min_evidence)
    index = bundle if isinstance(bundle, ServingTable) else ServingTable.open(bundle)
    index = index if goal is None else index.with_goal(goal)
    cart = np.unique(find_items(index.catalog, items)).tolist()
    if not cart:
        raise must_be("items", "at least one item", items)
    excluded = find_items(index.catalog, exclude).tolist()
    chosen = None if category is None else in_categories(index.catalog, category)

    def remaining() -> AnswerFilter:
        return AnswerFilter(index, cart, exclude=excluded, chosen=chosen, same_category=same_category)

    lines: list[AnswerLine | CartLine] = []
    if len(cart) > 1:
        scored = CartAnswers(index, cart, remaining(), include_new=include_new)
        lines += scored.lines(k, level, remaining())
    else:
        lines += answer_item(index, cart[0], k, level, remaining(), include_new=include_new)
    left_out = 0
    if len(lines) < k and (LIKELY if level is None else level) < GUESS:
        if len(cart) > 1:
            filled = scored.best(k, GUESS, remaining())[0]
        else:
            filled = [line.code for line in answer_item(index, cart[0], k, GUESS, remaining())]
        left_out = len(set(filled) - {line.code for line in lines})
    explained: list[tuple[int, AnswerLine]] = []
    if include_explained or month is not None:
        explained = explained_answers(index, cart, month, k, remaining())
    notes = [new_note(index, code) for code in cart if not index.item_count[code]]
    if goal is not None and index.model.ranks_as_cart(cart):
        notes.append(CART_NOTE)
    return QueryResult(
        cart=tuple(cart),
        answers=tuple(
            _with_names(index, rank, line, _contributing_items(cart, line)) for rank, line in enumerate(lines, 1)
        ),
        left_out=left_out,
        notes=tuple(notes),
        explained=tuple(_with_names(index, rank, line, [query]) for rank, (query, line) in enumerate(explained, 1)),
    )


def _contributing_items(cart: list[int], line: AnswerLine | CartLine) -> list[int]:
    """The items of the cart that an answer goes with."""
    return [one.code for one in line.contributions] if isinstance(line, CartLine) else cart


def _with_names(
    index: ServingTable, rank: int, line: AnswerLine | CartLine, goes_with: Sequence[int]
) -> AnswerWithEvidence:
    catalog, code = index.catalog, line.code
    about = catalog.id(code), catalog.name(code), catalog.category_path(code), float(line.score or 0.0)
    answer = RankedItem(rank, *about, tuple(catalog.name(query) for query in goes_with))
    return AnswerWithEvidence(answer, line.evidence)
