"""`rank`: the best items for an item or a cart by the scores of a model; `Ranking`: its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

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

BLOCK_SCORES = 16_000_000
"""Scores in memory per block of carts."""


@dataclass(frozen=True)
class RankedItem:
    """One line of an answer."""

    rank: int
    id: str | int
    name: str
    category: tuple[str, ...]
    score: float
    goes_with: tuple[str, ...]
    """Names of the items of the cart that contribute to its score, the largest contribution first."""


RANKED = pa.schema(
    [
        ("rank", pa.int64()),
        ("id", pa.string()),
        ("name", pa.string()),
        ("category", pa.list_(pa.string())),
        ("score", pa.float64()),
        ("goes_with", pa.list_(pa.string())),
    ]
)


@dataclass(frozen=True, eq=False)
class Ranking(TableResult):
    """An answer, best first. Iterate it for `RankedItem` lines; `codes` and `scores` are arrays."""

    catalog: Catalog
    cart: Codes
    """Codes of what was asked for."""
    codes: Codes
    scores: Floats
    asked: Codes
    """The items of the cart that the model knows."""
    parts: Floats
    """The contribution of each of them, shape (answers, asked)."""
    notes: tuple[str, ...] = ()
    """What the reader should know: an item of the cart that was never bought, for example."""

    @classmethod
    def empty(cls, catalog: Catalog, cart: Codes, notes: tuple[str, ...]) -> Self:
        """No answer."""
        no_codes = np.zeros(0, dtype=np.int32)
        return cls(catalog, cart, no_codes, np.zeros(0), no_codes, np.zeros((0, 0)), notes)

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[RankedItem]:
        for row, code in enumerate(self.codes.tolist()):
            yield RankedItem(
                rank=row + 1,
                id=self.catalog.public_id(code),
                name=self.catalog.name(code),
                category=self.catalog.category_path(code),
                score=float(self.scores[row]),
                goes_with=self._contributors(row),
            )

    def _contributors(self, row: int) -> tuple[str, ...]:
        part = self.parts[row]
        order = np.argsort(-part, kind="stable")
        return tuple(
            self.catalog.name(self.asked[i]) for i in order if part[i] > 0 or len(part) == 1
        )

    def __repr__(self) -> str:
        cart = ", ".join(printable(self.catalog.name(code)) for code in self.cart)
        lines = [f"{line.rank:3d}  {line.score:10.4g}  {printable(line.name)}" for line in self]
        return "\n".join([f"<{len(self)} recommendations for {cart}>", *lines, *self.notes])

    def to_arrow(self) -> pa.Table:
        id_type = pa.int64() if self.catalog.integer_ids else pa.string()
        schema = RANKED.set(1, pa.field("id", id_type))
        return pa.Table.from_pylist([asdict(line) for line in self], schema)

    def _caption(self) -> str:
        return repr(self).split("\n")[0]

    @property
    def ids(self) -> list[str | int]:
        return [self.catalog.public_id(code) for code in self.codes]

    @property
    def names(self) -> list[str]:
        return [self.catalog.name(code) for code in self.codes]

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON holds it."""
        return {
            "items": [
                {"id": self.catalog.public_id(code), "name": self.catalog.name(code)}
                for code in self.cart
            ],
            "recommendations": self.to_arrow().to_pylist(),
            "notes": list(self.notes),
        }


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

    def score(self, cart: Codes, candidates: Codes) -> CartScores: ...


def rank(
    model: Model,
    items: Item | Sequence[Item],
    k: int = 10,
    *,
    category: str | Sequence[str] | None = None,
    exclude: Item | Sequence[Item] = (),
    same_category: bool = False,
) -> Ranking:
    """The best `k` items for an item or a cart; see `Model.rank`."""
    k, catalog = require_whole("k", k), model.catalog
    cart = np.unique(find_items(catalog, items))
    if not len(cart):
        raise must_be("items", "at least one item", items)
    allowed = may_answer(model, cart, same_category=same_category)
    allowed[find_items(catalog, exclude)] = False
    if category is not None:
        allowed &= in_categories(catalog, category)
    notes = tuple(
        f"{printable(catalog.name(code))} is in no training basket"
        for code in cart
        if model.item_count[code] == 0
    )
    asked, candidates = known_queries(model, cart), np.flatnonzero(allowed).astype(np.int32)
    if not len(asked) or not len(candidates):
        return Ranking.empty(catalog, cart, notes)
    scored = score_cart(model, asked, candidates)
    if not len(scored.codes):
        return Ranking.empty(catalog, cart, notes)
    top = best(scored.total, k)
    codes = scored.codes[top]
    return Ranking(catalog, cart, codes, scored.total[top], asked, scored.parts(codes), notes)


def rank_carts(model: Model, carts: Sequence[Codes], k: int = 10) -> list[Codes]:
    """The codes of `rank` for each cart of codes; an item of several carts is scored once."""
    k, answers = require_whole("k", k), []
    block_of = np.cumsum([len(cart) for cart in carts]) * len(model.catalog) // BLOCK_SCORES
    for block in np.split(np.arange(len(carts)), np.flatnonzero(np.diff(block_of)) + 1):
        asked = [known_queries(model, np.unique(carts[number])) for number in block]
        plain = [cart for cart in asked if not ranks_as_cart(model, cart)]
        queries = np.unique(np.concatenate([np.zeros(0, dtype=np.int32), *plain]))
        scores = model.score_all(queries)
        for number, cart in zip(block, asked, strict=True):
            allowed = may_answer(model, np.unique(carts[number]))
            candidates = np.flatnonzero(allowed).astype(np.int32)
            if not len(cart):
                answers.append(cart)
                continue
            if ranks_as_cart(model, cart):
                found = score_cart(model, cart, candidates)
            else:
                rows = scores[np.searchsorted(queries, cart)]
                found = mean_of_scaled(rows, candidates, model.min_score)
            answers.append(found.codes[best(found.total, k)])
    return answers


def may_answer(model: Model, cart: Codes, *, same_category: bool = False) -> npt.NDArray[np.bool_]:
    """Which items may answer a cart, shape (items,)."""
    allowed = model.item_count > 0
    allowed[cart] = False
    if not same_category:
        allowed &= ~same_category_as(model.catalog, cart, model.category_level)
    return allowed


def known_queries(model: Model, cart: Codes) -> Codes:
    """The items of the cart for which the model has scores."""
    return cart if model.scores_unseen_items else cart[model.item_count[cart] > 0]


def ranks_as_cart(model: Model, asked: Codes) -> bool:
    """Whether `model.cart_ranking` ranks for these items."""
    return model.cart_ranking is not None and int((model.item_count[asked] > 0).sum()) > 1


def score_cart(model: Model, asked: Codes, candidates: Codes) -> CartScores:
    """The scores of `candidates` for the items of a cart that the model knows."""
    if model.cart_ranking is not None and ranks_as_cart(model, asked):
        return model.cart_ranking.score(asked, candidates)
    return mean_of_scaled(model.score_all(asked), candidates, model.min_score)


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
