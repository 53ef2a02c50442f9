"""Leave-one-out cart completion: hide one item of a test basket and find its rank in the recommendations for the rest.

No labels are needed. `rank` is called with the whole cart, as a shop calls it. The measure rewards popular items,
so the held-out lift of the answers stands beside it: sum of O over sum of E of all pairs of a cart item and an answer,
O counted in the other test baskets and E what chance would give there.
On the Instacart half-split best sellers have a lift of 1.24, and the answers of `ease` one of 1.41.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.data.randomness import Seed, as_generator
from neatrec.errors import must_be
from neatrec.evaluation.held_out_lift import HeldOutPairs, held_out_pairs, pair_counts
from neatrec.evaluation.intervals import pooled_ratios
from neatrec.evaluation.metrics import KS, hit_rate, ndcg
from neatrec.statistics.blas import one_blas_thread

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

CARTS = 3_000
SMALLEST_CART = 2
"""Items that stay in the cart when one is hidden."""


@dataclass(frozen=True)
class HiddenItems:
    """Carts of held-out baskets, each with the item that was taken out of it."""

    carts: tuple[npt.NDArray[np.int32], ...]
    hidden: npt.NDArray[np.int32]
    """shape (carts,)"""
    pairs: HeldOutPairs | None = None
    """What the test baskets hold about the items of the carts."""

    def __len__(self) -> int:
        return len(self.hidden)


def leave_one_out(
    train: Baskets,
    test: Baskets,
    *,
    carts: int = CARTS,
    smallest: int = SMALLEST_CART,
    rng: Seed | None = 0,
) -> HiddenItems:
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
        if len(items) > smallest and len(could_hide):
            out = int(generator.choice(could_hide))
            chosen.append(items[items != out])
            hidden.append(out)
        if len(chosen) == carts:
            break
    in_carts = np.unique(np.concatenate([*chosen, np.zeros(0, dtype=np.int32)]))
    return HiddenItems(
        tuple(chosen), np.array(hidden, dtype=np.int32), held_out_pairs(test, in_carts)
    )


def _alone_in_category(category: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    _, code, size = np.unique(category, return_inverse=True, return_counts=True)
    alone: npt.NDArray[np.bool_] = (size[code] == 1) | (category == UNKNOWN)
    return alone


def answer_hidden(model: Any, hidden: HiddenItems, *, k: int = max(KS)) -> Codes:
    """The first k recommendations for each cart, -1 where there are fewer, shape (carts, k).

    By `rank(items, k)` of the model, or `rank_carts(carts, k)`, the codes for many carts at once, where it has that.
    """
    together = getattr(model, "rank_carts", None)
    # threads of the matrix product would spin while our own threads work
    with one_blas_thread():
        found = (
            together(hidden.carts, k)
            if together
            else [model.rank(cart, k).codes for cart in hidden.carts]
        )
    out = np.full((len(hidden), k), -1, dtype=np.int32)
    for row, codes in zip(out, found, strict=True):
        row[: len(codes)] = codes[:k]
    return out


@dataclass(frozen=True)
class CartCompletion:
    """How often the hidden item is among the first k answers, and their held-out lift: by k, each (mean, low, high)."""

    carts: int
    hr: dict[int, tuple[float, float, float]]
    ndcg: dict[int, tuple[float, float, float]]
    lift: dict[int, tuple[float, float, float]]


def completion(
    answers: Codes,
    hidden: HiddenItems,
    *,
    ks: Sequence[int] = KS,
    rounds: int = 1_000,
    rng: Seed | None = 0,
) -> CartCompletion:
    """How well a model's answers (carts, at least max(ks)) complete the carts, with intervals over carts."""
    if not len(hidden) or not len(ks):
        return CartCompletion(len(hidden), {}, {}, {})
    gains = completion_gains(answers, hidden, ks)
    observed, expected = answer_counts(answers, hidden, ks)
    totals = np.concatenate([gains, observed], axis=1)  # (carts, metrics)
    sizes = np.concatenate([np.ones_like(gains), expected], axis=1)
    lines = pooled_ratios(totals, sizes, rounds=rounds, rng=rng)
    parts = [dict(zip(ks, lines[first:], strict=False)) for first in range(0, len(lines), len(ks))]
    return CartCompletion(len(hidden), *parts)


def completion_gains(answers: Codes, hidden: HiddenItems, ks: Sequence[int]) -> Floats:
    """HR@k, then NDCG@k, of each cart, shape (carts, 2 ks)."""
    found = answers == hidden.hidden[:, None]
    rank, there = found.argmax(axis=1), found.any(axis=1).astype(np.int64)
    return np.stack([metric(rank, there, k) for metric in (hit_rate, ndcg) for k in ks], axis=1)


def answer_counts(answers: Codes, hidden: HiddenItems, ks: Sequence[int]) -> tuple[Floats, Floats]:
    """O and E of each cart's pairs with its first k answers, the cart's own basket not counted, shape (carts, ks)."""
    if hidden.pairs is None:
        return np.zeros((len(hidden), len(ks))), np.zeros((len(hidden), len(ks)))
    sizes = np.array([len(cart) for cart in hidden.carts])
    cart = np.repeat(np.arange(len(hidden)), sizes)  # of each line
    of_line = answers[cart, : max(ks)]
    times, chance = pair_counts(np.concatenate(hidden.carts), of_line, hidden.pairs)
    times -= (
        of_line == hidden.hidden[cart][:, None]
    )  # it is in the cart's own basket with every other item
    columns, start = np.array(ks) - 1, np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return tuple(
        np.add.reduceat(part, start).cumsum(axis=1)[:, columns] for part in (times, chance)
    )  # type: ignore[return-value]
