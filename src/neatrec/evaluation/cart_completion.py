"""Leave-one-out cart completion: hide one item of a test basket and find its rank in the recommendations for the rest.

No labels are needed. `recommend` is called with the whole cart, as a shop calls it. The measure rewards popular items,
which lift does not: use it in addition to the label measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.data.randomness import Seed, as_generator
from neatrec.errors import must_be
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.evaluation.metrics import KS, hit_rate, ndcg
from neatrec.models.parallel import one_blas_thread

ItemRanks = npt.NDArray[np.int64]

CARTS = 200
SMALLEST_CART = 2
"""Items that stay in the cart when one is hidden."""


class Recommender(Protocol):
    """What completion needs of a model: recommendations for a cart. Every `neatrec.models.Model` is one.

    `recommend_carts(carts, k)`, the codes for many carts at once, is used where a model has it.
    """

    def recommend(self, items: Any, k: int = 10) -> Any: ...


@dataclass(frozen=True)
class HiddenItems:
    """Carts of held-out baskets, each with the item that was taken out of it."""

    carts: tuple[npt.NDArray[np.int32], ...]
    hidden: npt.NDArray[np.int32]
    """shape (carts,)"""

    def __len__(self) -> int:
        return len(self.hidden)


def leave_one_out(train: Baskets, test: Baskets, *, carts: int = CARTS, rng: Seed | None = 0) -> HiddenItems:
    """At most `carts` baskets of `test`, drawn at random, each without one of its items, drawn at random.

    Items that no training basket holds are taken out first: no model can know them. What is hidden shares its
    category with nothing left in the cart, since models do not offer what is there already.
    """
    if carts < 1:
        raise must_be("carts", "at least 1", carts)
    generator = as_generator(rng)
    known = train.item_counts > 0
    category = train.catalog.category_of()
    chosen: list[npt.NDArray[np.int32]] = []
    hidden: list[int] = []
    for basket in generator.permutation(len(test)):
        items = np.unique(test.items[test.offsets[basket] : test.offsets[basket + 1]])
        items = items[known[items]]
        could_hide = items[_alone_in_category(category[items])]
        if len(items) > SMALLEST_CART and len(could_hide):
            out = int(generator.choice(could_hide))
            chosen.append(items[items != out])
            hidden.append(out)
        if len(chosen) == carts:
            break
    return HiddenItems(tuple(chosen), np.array(hidden, dtype=np.int32))


def _alone_in_category(category: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    _, code, size = np.unique(category, return_inverse=True, return_counts=True)
    alone: npt.NDArray[np.bool_] = (size[code] == 1) | (category == UNKNOWN)
    return alone


def hidden_item_ranks(model: Recommender, hidden: HiddenItems, *, k: int = max(KS)) -> ItemRanks:
    """Rank of the hidden item among the first k recommendations, from 0; -1 where it is missing, shape (carts,)."""
    together = getattr(model, "recommend_carts", None)
    # threads of the matrix product would spin while our own threads work
    with one_blas_thread():
        found = together(hidden.carts, k) if together else [model.recommend(cart, k).codes for cart in hidden.carts]

    def rank(codes: npt.NDArray[np.int32], item: np.int32) -> int:
        at = np.flatnonzero(codes == item)
        return int(at[0]) if len(at) else -1

    return np.array([rank(*pair) for pair in zip(found, hidden.hidden, strict=True)], dtype=np.int64)


@dataclass(frozen=True)
class CartCompletion:
    """How often the hidden item is among the first k recommendations: `hr` and `ndcg` by k, each (mean, low, high)."""

    carts: int
    hr: dict[int, tuple[float, float, float]]
    ndcg: dict[int, tuple[float, float, float]]


def completion(
    ranks: ItemRanks, *, ks: Sequence[int] = KS, rounds: int = 1_000, rng: Seed | None = 0
) -> CartCompletion:
    """How well a model completes the carts, with intervals over carts."""
    if not len(ranks):
        return CartCompletion(0, {}, {})
    higher, found = np.maximum(ranks, 0), (ranks >= 0).astype(np.int64)
    columns = [hit_rate(higher, found, k) for k in ks] + [ndcg(higher, found, k) for k in ks]
    table = np.stack(columns, axis=1)  # (carts, metrics)
    low, high = interval(resampled_means(table, np.ones(len(table)), rounds=rounds, rng=rng))
    lines = list(zip(table.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True))
    return CartCompletion(
        len(ranks), dict(zip(ks, lines[: len(ks)], strict=True)), dict(zip(ks, lines[len(ks) :], strict=True))
    )
