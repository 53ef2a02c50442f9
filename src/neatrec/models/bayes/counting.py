"""Pair counts with a bounded number of pairs: beyond `max_pairs` the rarest pairs are dropped.

Pairs arrive in blocks. When more than `max_pairs` are held, all pairs below the smallest count that makes the rest fit
are dropped, now and later, so the result does not depend on the blocks. Totals, and the counts of categories, are those
of all pairs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.compiled import compiled
from neatrec.cooccurrence import CountOptions, Margins, PairBlock, count
from neatrec.cooccurrence.expected_counts import StratifiedExpected, unexplained
from neatrec.data.baskets import BasketStream, as_shards
from neatrec.data.catalog import UNKNOWN
from neatrec.models.counts import PairCounts, whole_totals

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
NEAR_DISTANCE = 5
"""Pairs at most this far apart in the cart are near pairs."""

log = logging.getLogger(__name__)


class BoundedCounts(NamedTuple):
    """What was counted of some baskets."""

    counts: PairCounts
    directed: sparse.csr_matrix | None
    """Of the same pairs, the times with the row's item first in the cart; None where carts have no order, or nobody
    asked."""
    of_categories: Floats
    """Times together of each two categories, symmetric, (categories + 1, categories + 1), the last for UNKNOWN."""
    directed_categories: Floats | None
    """The same with the row's category first; None where carts have no order."""
    within: StratifiedExpected | None
    """What counts were lowered by; None without strata."""


class PairCollector:
    """A `keep` callback for `count` that holds each pair once, never more than `max_pairs` and one block of them."""

    def __init__(
        self,
        max_pairs: int | None,
        *,
        category: Array | None = None,
        only: PairCounts | None = None,
        within: StratifiedExpected | None = None,
    ) -> None:
        """`category`: codes of shape (items,), whose counts are summed; `only`: collect no other pairs; `within`: what
        strata explain of a count is taken off."""
        self.max_pairs, self.category, self.only, self.within = max_pairs, category, only, within
        self.min_count = 1
        self.blocks: list[tuple[Array, Array, Array, Array]] = []
        """Query, item, times in this order, times in the other order; query < item."""
        size = 0 if category is None else int(category.max(initial=UNKNOWN)) + 2
        self.of_categories = np.zeros((size, size))
        self._held = 0

    def __call__(self, block: PairBlock, margins: Margins) -> npt.NDArray[np.bool_]:
        size = len(block)
        # a directed pair seen in both orders arrives twice
        mine = slice(None) if block.reverse is None else (block.query < block.item) | (block.reverse == 0)
        if (within := self.within) is not None:
            lower = [None if x is None else within.lowered(x, block.query, block.item) for x in block.columns[2:4]]
            block = PairBlock(block.query, block.item, *lower)  # type: ignore[arg-type]
        if self.category is not None:
            add_by_category(block.query, block.item, block.count, self.category, self.of_categories)
        once = block.where(mine)
        if self.only is not None:
            once = once.where(self.only.of_pairs(once.query, once.item) > 0)
        self._hold([_ascending(once)])
        return np.zeros(size, dtype=bool)  # `count` itself need not keep any

    def collected(self) -> Any:
        """What it has collected since it was asked last, for `add_collected` of another process."""
        found = self.min_count, self.blocks, self.of_categories
        self.blocks, self._held, self.of_categories = [], 0, np.zeros_like(self.of_categories)
        return found

    def add_collected(self, found: Any) -> None:
        """Take over what a collector of other pairs has."""
        min_count, blocks, of_categories = found
        self.of_categories += of_categories
        if min_count > self.min_count:
            self._drop_below(min_count)
        self._hold(blocks)

    def _hold(self, blocks: Iterable[tuple[Array, Array, Array, Array]]) -> None:
        for block in blocks:
            if self.min_count > 1 or self.within is not None:
                often = block[2] + block[3] >= self.min_count
                block = (block[0][often], block[1][often], block[2][often], block[3][often])
            self.blocks.append(block)
            self._held += len(block[0])
        if self.max_pairs is not None and self._held > self.max_pairs:
            times = np.concatenate([first + second for _, _, first, second in self.blocks])
            place = len(times) - 1 - self.max_pairs
            self._drop_below(int(np.partition(times, place)[place]) + 1)

    def _drop_below(self, min_count: int) -> None:
        self.min_count = min_count
        blocks, self.blocks, self._held = self.blocks[::-1], [], 0
        while blocks:  # each is released before the next is copied
            self._hold([blocks.pop()])

    def matrices(self, items: int, *, directed: bool) -> tuple[sparse.csr_matrix, sparse.csr_matrix | None]:
        """The symmetric counts, and on request those with the row's item first; the collected blocks are released."""
        parts = zip(*self.blocks, strict=True) if self.blocks else [[np.zeros(0, dtype=np.int32)]] * 4
        query, item, first, second = (np.concatenate(part) for part in parts)
        self.blocks = []
        upper = sparse.csr_matrix((first + second, (query, item)), shape=(items, items))
        matrix = sparse.csr_matrix(upper + upper.T)
        matrix.sort_indices()
        if not directed:
            return matrix, None
        one_way = sparse.csr_matrix((first, (query, item)), shape=(items, items))
        other_way = sparse.csr_matrix((second, (item, query)), shape=(items, items))
        return matrix, sparse.csr_matrix(one_way + other_way)


@dataclass(frozen=True)
class FeatureOptions:
    """Which pairs are counted, and how features are made of them."""

    counting: CountOptions
    ordered: bool
    """Whether carts have an order."""
    rank: int = 128
    min_pair_count: int = 2
    """Pairs seen fewer times are left out of the low-rank factors."""
    max_pairs: int | None = None
    threads: int | None = None
    strata: tuple[str, ...] = ()
    """What these explain of a count is taken off."""

    def count(self, baskets: BasketStream, category: Array | None = None, *, directed: bool = True) -> BoundedCounts:
        """Counts of undirected pairs, and of categories (codes of the items) if given; `directed`: also of each order,
        where carts have one.
        """
        within = unexplained(as_shards(baskets), self.strata, self.counting)
        # a customer who bought a pair in both orders counts once without order and once in each order
        separately = self.ordered and self.counting.once_per_customer
        collector = PairCollector(self.max_pairs, category=category, within=within)
        total = self._collect(baskets, collector, directed=self.ordered and not separately)
        if collector.min_count > 1:
            log.info("more than %d pairs: pairs with a count below %d are dropped", self.max_pairs, collector.min_count)
        matrix, one_way = collector.matrices(len(total), directed=self.ordered and directed)
        counts, of_categories = PairCounts(matrix, total, collector.min_count), collector.of_categories
        if separately and (directed or category is not None):
            collector = PairCollector(None, category=category, only=counts, within=within)
            self._collect(baskets, collector, directed=True)
            one_way = collector.matrices(len(total), directed=True)[1] if directed else None
        by_order = collector.of_categories if self.ordered else None
        return BoundedCounts(counts, one_way, of_categories + of_categories.T, by_order, within)

    def count_near(self, baskets: BasketStream, found: BoundedCounts) -> PairCounts | None:
        """Those of the pairs found that are near in the cart; None where carts have no order."""
        if not self.ordered:
            return None
        counting, least = self.counting, found.counts.least
        near = replace(counting, window=min(NEAR_DISTANCE, counting.window or NEAR_DISTANCE))
        # weighted counts are rounded by direction: a near pair may be left of a pair that is not
        dropped = least > 1 or found.within is not None or counting.half_life is not None
        collector = PairCollector(None, only=found.counts if dropped else None, within=found.within)
        total = replace(self, counting=near)._collect(baskets, collector, directed=False)
        return PairCounts(collector.matrices(len(total), directed=False)[0], total, least)

    def _collect(self, baskets: BasketStream, collector: PairCollector, *, directed: bool) -> npt.NDArray[np.int64]:
        """Give the collector all pairs; records that hold each item, shape (items,)."""
        found = count(baskets, replace(self.counting, directed=directed), keep=collector, threads=self.threads)
        return whole_totals(found.margins.first + found.margins.second if directed else found.margins.first)


def _ascending(block: PairBlock) -> tuple[Array, Array, Array, Array]:
    """Copies with query < item, counts in 32 bits where they fit."""
    back = np.zeros(len(block), dtype=np.int8) if block.reverse is None else block.reverse
    largest = int(block.count.max(initial=0)) + int(back.max(initial=0))
    dtype = np.int32 if largest < 2**31 else np.int64
    turned = block.query > block.item
    query, item = np.where(turned, block.item, block.query), np.where(turned, block.query, block.item)
    if block.reverse is None:
        return query, item, block.count.astype(dtype), back
    first, second = np.where(turned, back, block.count), np.where(turned, block.count, back)
    return query, item, first.astype(dtype), second.astype(dtype)


@compiled
def add_by_category(query, item, times, category, out):  # type: ignore[no-untyped-def]
    """Add each pair's count to its two categories, out: (categories + 1, categories + 1), the last for UNKNOWN.

    Whole numbers in float64: the order of the pairs does not matter.
    """
    for pair in range(len(query)):
        out[category[query[pair]], category[item[pair]]] += times[pair]
