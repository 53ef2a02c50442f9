"""How `bayes` ranks for a cart of several items: `CartRanking` by its counts, with settings chosen on training carts.

Each cart is a training basket without one of its items, and that item is ranked by the counts of all other baskets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from itertools import islice, product
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.models.cart_ranking import CartRanking
from neatrec.models.carts import CartCandidates
from neatrec.models.counts import PairCounts

Codes = npt.NDArray[np.int32]

STRENGTHS, DISCOUNTS = (0.05, 0.1, 0.2, 0.3, 0.5), (0.0, 0.2)
K, RIDGE = 5.0, 100.0
FIRST = 10
"""Ranks that count."""
MIN_GAIN = 1.0
"""Standard errors by which other settings must beat the defaults."""
MAX_CARTS, MIN_CARTS = 1_000, 200
"""Carts that settings are chosen on; with fewer the choice would be noise."""
MIN_CART = 2
"""Items that stay in the cart."""
MAX_TIMES = 1 << 24
"""Counts above are taken as this one: the table of their logarithms takes memory."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CartSettings:
    """Settings of a `CartRanking`, and how they rank the items left out of training carts."""

    strength: float = 0.2
    discount: float = 0.2
    k: float = K
    ridge: float = RIDGE
    carts: int = 0
    """Training carts they were chosen on; 0: too few to choose."""
    gain: float = 0.0
    """NDCG@10 of the items left out."""

    def to_array(self) -> npt.NDArray[np.float64]:
        return np.array(astuple(self), dtype=np.float64)

    @classmethod
    def from_array(cls, values: npt.NDArray[Any]) -> CartSettings:
        strength, discount, k, ridge, carts, gain = values.tolist()
        return cls(strength, discount, k, ridge, int(carts), gain)

    def ranking(self, counts: PairCounts, bought: npt.NDArray[np.int64]) -> CartRanking:
        """By `counts`; bought: purchases of each item, shape (items,)."""
        matrix, (totals, place) = counts.matrix, counts.totals
        most = int(matrix.data.max(initial=0))
        times = np.arange(min(most, MAX_TIMES) + 1)
        return CartRanking(
            start=matrix.indptr.astype(np.int64),
            item=matrix.indices.astype(np.int32, copy=False),
            value=matrix.data if most <= MAX_TIMES else np.minimum(matrix.data, MAX_TIMES),
            table=(self.strength * np.log1p(times / self.k)).astype(np.float32),
            bought=bought.astype(np.float64),
            total=counts.total.astype(np.float64),
            totals=totals.astype(np.float64),
            total_place=place,
            per_record=1.0 / max(counts.records, 1),
            ridge=self.ridge,
            k=self.k,
            strength=self.strength,
            discount=self.discount,
        )


DEFAULT_CART_SETTINGS = CartSettings()


def choose_cart_settings(
    shards: Iterable[Baskets], counts: PairCounts, category: Codes, rng: np.random.Generator
) -> CartSettings:
    """The settings that rank the items left out of training carts best; the defaults where there are too few carts."""
    bought = sum((shard.item_counts for shard in shards), start=np.zeros(len(category), dtype=np.int64))
    baskets = sum(len(shard) for shard in shards)
    found: list[tuple[Codes, int]] = []
    for shard in shards:
        found += islice(_carts(shard, bought, category, rng), ceil(MAX_CARTS * len(shard) / baskets))
    if len(found) < MIN_CARTS:
        log.info("only %d training carts to choose cart settings on: keeping the defaults", len(found))
        return DEFAULT_CART_SETTINGS
    carts, hidden = [cart for cart, _ in found], np.array([item for _, item in found], dtype=np.int32)
    candidates = CartCandidates.of(bought > 0, category, -np.inf)
    tried = [DEFAULT_CART_SETTINGS, *(CartSettings(*setting) for setting in product(STRENGTHS, DISCOUNTS))]
    gains = [_gains(each.ranking(counts, bought).left_out_ranks(carts, hidden, candidates)) for each in tried]
    best = int(np.argmax([gain.mean() for gain in gains]))
    more = gains[best] - gains[0]
    if more.mean() <= MIN_GAIN * more.std() / np.sqrt(len(carts)):
        best = 0
    chosen = replace(tried[best], carts=len(carts), gain=float(gains[best].mean()))
    settings = chosen.strength, chosen.discount
    log.info("cart settings chosen on %d training carts: strength %g, discount %g", len(carts), *settings)
    return chosen


def _gains(ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """NDCG of the item left out of each cart."""
    return np.where((ranks < 0) | (ranks >= FIRST), 0.0, 1.0 / np.log2(2.0 + np.maximum(ranks, 0)))


def _carts(
    shard: Baskets, bought: npt.NDArray[np.int64], category: Codes, rng: np.random.Generator
) -> Iterator[tuple[Codes, int]]:
    """Baskets without one item, and that item: bought in others too, of another category than all in the cart."""
    for basket in rng.permutation(len(shard)):
        items = np.unique(shard.items[shard.offsets[basket] : shard.offsets[basket + 1]])
        _, group, members = np.unique(category[items], return_inverse=True, return_counts=True)
        free = items[((members[group] == 1) | (category[items] == UNKNOWN)) & (bought[items] > 1)]
        if len(items) > MIN_CART and len(free):
            out = int(rng.choice(free))
            yield items[items != out], out
