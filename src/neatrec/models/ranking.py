"""`rank`: the best items for an item or a cart by the scores of a model; `Ranking`: its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.catalog import Catalog
from neatrec.data.table_result import TableResult
from neatrec.errors import must_be, require_whole
from neatrec.models.items import Item, find_items, in_categories, same_category_as
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.models.base import Model

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(TableResult):
    """The best items for an item or a cart, best first."""

    catalog: Catalog
    cart: Codes
    """The items asked for."""
    codes: Codes
    scores: Floats
    queries: Codes
    """The items of the cart that the model has learned."""
    parts: Floats
    """The contribution of each of them, shape (answers, queries)."""
    notes: tuple[str, ...] = ()
    """Items of the cart that were never bought, for example."""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def ids(self) -> list[str | int]:
        """The ids of the items."""
        return [self.catalog.public_id(code) for code in self.codes]

    @property
    def names(self) -> list[str]:
        """The names of the items."""
        return [self.catalog.name(code) for code in self.codes]

    def to_arrow(self) -> pa.Table:
        """Rank, id, name, category, score, and the contributing items of the cart, best first."""
        return pa.table(
            {
                "rank": np.arange(1, len(self) + 1),
                "id": pa.array(self.ids, pa.int64() if self.catalog.integer_ids else pa.string()),
                "name": pa.array(self.names, pa.string()),
                "category": pa.array(map(self.catalog.category_path, self.codes), TEXTS),
                "score": self.scores,
                "goes_with": pa.array(map(self._contributors, self.parts), TEXTS),
            }
        )

    def _contributors(self, parts: Floats) -> list[str]:
        order = np.argsort(-parts, kind="stable")
        return [
            self.catalog.name(self.queries[i]) for i in order if parts[i] > 0 or len(parts) == 1
        ]

    def _caption(self) -> str:
        cart = ", ".join(printable(self.catalog.name(code)) for code in self.cart)
        return f"Answers for {cart}"

    def _notes(self) -> Sequence[str]:
        return self.notes


TEXTS = pa.list_(pa.string())


@dataclass(frozen=True)
class CartScores:
    """The scores of candidates for a cart."""

    codes: Codes
    """Candidates that may be recommended for it."""
    total: Floats
    """Shape (codes,)."""
    parts: Callable[[Codes], Floats]
    """The contributions of the cart's items to some codes, shape (any, queries)."""


class CartScorer(Protocol):
    """A model's own ranking of carts of several items."""

    def score(self, cart: Codes, candidates: Codes) -> CartScores:
        """The scores of the candidates, and what each item of the cart contributes."""


def rank(
    model: Model,
    items: Item | Sequence[Item],
    k: int = 10,
    *,
    category: str | Sequence[str] | None = None,
    exclude: Item | Sequence[Item] = (),
    same_category: bool = False,
) -> Ranking:
    """The best `k` items for an item or a cart; fewer where fewer score above `min_score`.

    This is the ranking alone, whatever the evidence; a shop shows what `neatrec.recommend` gives.
    Ties go to the smaller code. For one item the scores are the model's own. For a cart they are
    those of `cart_ranking`; without one each item's scores are scaled, 0 for its median candidate
    and 1 for its best, and averaged, so that no item dominates because its scores are large.

    Parameters
    ----------
    model
        A fitted model.
    items
        Ids or names. Items of the cart and items that no training basket holds never answer.
    k
        Number of answers.
    category
        Name of a category, or its path as "produce / fresh fruits", that answers must belong to,
        or several.
    exclude
        Items that must not answer.
    same_category
        Whether items that share a category with one of the cart may answer.
    """
    k, catalog = require_whole("k", k), model.catalog
    cart = np.unique(find_items(catalog, items))
    if not len(cart):
        raise must_be("items", "at least one item", items)
    allowed = may_answer(model, cart, same_category=same_category)
    allowed[find_items(catalog, exclude)] = False
    if category is not None:
        allowed &= in_categories(catalog, category)
    queries, scored = score_allowed(model, cart, allowed)
    top = best(scored.total, k)
    codes = scored.codes[top]
    notes = tuple(
        f"{printable(catalog.name(code))} is in no training basket"
        for code in cart[model.item_count[cart] == 0]
    )
    return Ranking(catalog, cart, codes, scored.total[top], queries, scored.parts(codes), notes)


def rank_carts(model: Model, carts: Sequence[Codes], k: int = 10) -> list[Codes]:
    """The codes of `rank` for each cart of codes."""
    k, answers = require_whole("k", k), []
    for cart in map(np.unique, carts):
        _, scored = score_allowed(model, cart, may_answer(model, cart))
        answers.append(scored.codes[best(scored.total, k)])
    return answers


def may_answer(model: Model, cart: Codes, *, same_category: bool = False) -> npt.NDArray[np.bool_]:
    """Which items may answer a cart, shape (items,)."""
    allowed = model.item_count > 0
    allowed[cart] = False
    if not same_category:
        allowed &= ~same_category_as(model.catalog, cart, model.category_level)
    return allowed


def score_allowed(
    model: Model, cart: Codes, allowed: npt.NDArray[np.bool_]
) -> tuple[Codes, CartScores]:
    """The items of a cart for which the model has scores, and the scores of the allowed items."""
    queries = cart if model.scores_unseen_items else cart[model.item_count[cart] > 0]
    if not len(queries):
        return queries, CartScores(queries, np.zeros(0), lambda codes: np.zeros((len(codes), 0)))
    return queries, score_cart(model, queries, np.flatnonzero(allowed).astype(np.int32))


def score_cart(model: Model, queries: Codes, candidates: Codes) -> CartScores:
    """The scores of `candidates` for the items of a cart for which the model has scores."""
    if model.cart_ranking is not None and np.count_nonzero(model.item_count[queries]) > 1:
        return model.cart_ranking.score(queries, candidates)
    return mean_of_scaled(model.score_all(queries), candidates, model.min_score)


def mean_of_scaled(rows: npt.NDArray[Any], candidates: Codes, min_score: float) -> CartScores:
    """The mean scores of a cart whose items score all items by `rows`, shape (queries, items).

    What no item scores above `min_score` is left out. Of several items each is put on one scale:
    0 for its median candidate, 1 for its best; one that scores all alike contributes zeros. One
    item keeps its own scores.

    >>> rows = np.array([[0.0, 1.0, 9.0], [5.0, 5.0, 5.0]])
    >>> mean_of_scaled(rows, np.arange(3, dtype=np.int32), -np.inf).total.tolist()
    [-0.0625, 0.0, 0.5]
    """
    scores = rows[:, candidates]
    above = (scores > min_score).any(axis=0) | (min_score == -np.inf)
    codes, scores = candidates[above], scores[:, above].astype(np.float64)
    if len(scores) > 1 and len(codes):
        middle = np.median(scores, axis=1, keepdims=True)
        reach = scores.max(axis=1, keepdims=True) - middle
        scores = (scores - middle) / np.where(reach > 0, reach, np.inf)
    position = np.full(rows.shape[1], -1)
    position[codes] = np.arange(len(codes))
    total = scores.sum(axis=0) / len(scores)
    return CartScores(codes, total, lambda some: scores[:, position[some]].T)


def best(scores: npt.NDArray[Any], k: int) -> npt.NDArray[np.intp]:
    """Positions of the `k` highest scores, best first; equal scores in the order of positions.

    >>> best(np.array([1.0, 3.0, 3.0, 2.0]), 3).tolist()
    [1, 2, 3]
    """
    if k >= len(scores):
        return np.argsort(-scores, kind="stable")
    bound = np.partition(scores, len(scores) - k)[len(scores) - k]
    near = np.flatnonzero(scores >= bound)
    return near[np.argsort(-scores[near], kind="stable")[:k]]
