"""Leave-one-out cart completion: hide an item of a test basket, rank it in the answers to the rest.

No labels are needed. The measure rewards popular items; the held-out lift of the answers does not:
sum of O over sum of E of all pairs of a cart item and an answer, O counted in the other test
baskets and E expected there by chance. On the Instacart half-split best sellers have a lift of
1.24, and the answers of `ease` one of 1.41.
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
"""Smallest number of items that stay in the cart."""


@dataclass(frozen=True)
class HiddenItems:
    """Carts of held-out baskets, each with its hidden item."""

    carts: tuple[Codes, ...]
    hidden: Codes
    """The hidden item of each cart, shape (carts,)."""
    pairs: HeldOutPairs | None = None
    """The pairs of the items of the carts in the test baskets."""

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
    """Hide a random item in each of at most `carts` random baskets of `test`.

    Items that no training basket holds are removed first: no model can know them. No item left in
    the cart shares the category of the hidden one, since models do not offer such items.
    """
    if carts < 1:
        raise must_be("carts", "at least 1", carts)
    generator = as_generator(rng)
    known = train.item_counts > 0
    category = train.catalog.category_of()
    selected: list[Codes] = []
    hidden: list[int] = []
    for basket in generator.permutation(len(test)):
        items = np.unique(test.items[test.offsets[basket] : test.offsets[basket + 1]])
        items = items[known[items]]
        could_hide = items[_alone_in_category(category[items])]
        if len(items) > smallest and len(could_hide):
            out = int(generator.choice(could_hide))
            selected.append(items[items != out])
            hidden.append(out)
        if len(selected) == carts:
            break
    in_carts = np.unique(np.concatenate([*selected, np.zeros(0, dtype=np.int32)]))
    pairs = held_out_pairs(test, in_carts)
    return HiddenItems(tuple(selected), np.array(hidden, dtype=np.int32), pairs)


def _alone_in_category(category: Codes) -> npt.NDArray[np.bool_]:
    _, code, size = np.unique(category, return_inverse=True, return_counts=True)
    alone: npt.NDArray[np.bool_] = (size[code] == 1) | (category == UNKNOWN)
    return alone


def answer_hidden(model: Any, hidden: HiddenItems, *, k: int = max(KS)) -> Codes:
    """The first k answers to each cart, shape (carts, k), padded with -1.

    By `rank_carts(carts, k)` of the model, codes for many carts at once, or by `rank(items, k)`.
    """
    rank_carts = getattr(model, "rank_carts", None)
    # threads of the matrix product would spin while our own threads work
    with one_blas_thread():
        if rank_carts:
            answers = rank_carts(hidden.carts, k)
        else:
            answers = [model.rank(cart, k).codes for cart in hidden.carts]
    out = np.full((len(hidden), k), -1, dtype=np.int32)
    for row, codes in zip(out, answers, strict=True):
        row[: len(codes)] = codes[:k]
    return out


@dataclass(frozen=True)
class CartCompletion:
    """Ranks of the hidden items in the answers, and the held-out lift: (mean, low, high) by k."""

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
    """Measure the answers, shape (carts, at least max(ks)), with intervals over carts."""
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
    matches = answers == hidden.hidden[:, None]
    rank, hit = matches.argmax(axis=1), matches.any(axis=1).astype(np.int64)
    return np.stack([metric(rank, hit, k) for metric in (hit_rate, ndcg) for k in ks], axis=1)


def answer_counts(answers: Codes, hidden: HiddenItems, ks: Sequence[int]) -> tuple[Floats, Floats]:
    """O and E of each cart with its first k answers, without its own basket, shape (carts, ks)."""
    if hidden.pairs is None:
        return np.zeros((len(hidden), len(ks))), np.zeros((len(hidden), len(ks)))
    sizes = np.array([len(cart) for cart in hidden.carts])
    cart = np.repeat(np.arange(len(hidden)), sizes)  # of each line
    of_line = answers[cart, : max(ks)]
    times, chance = pair_counts(np.concatenate(hidden.carts), of_line, hidden.pairs)
    # the hidden item is in the cart's own basket, with every other item
    times -= of_line == hidden.hidden[cart][:, None]
    columns, start = np.array(ks) - 1, np.concatenate([[0], np.cumsum(sizes)[:-1]])
    observed, expected = (
        np.add.reduceat(part, start).cumsum(axis=1)[:, columns] for part in (times, chance)
    )
    return observed, expected
