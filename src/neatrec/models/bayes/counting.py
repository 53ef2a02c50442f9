"""Counts of pairs within a bound: where there are more pairs than that, the rarest are left out.

Pairs come in blocks, one at a time, and each is kept in few bytes. When more than `most` are kept, those below the
smallest count that makes the rest fit are dropped, and so are all later ones. What is left in the end does not depend
on the blocks: a count is given up only when more than `most` pairs reach it. Totals, records, and the sums over groups
of items (categories, words) are those of all pairs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.compiled import compiled
from neatrec.cooccurrence import CooccurrenceCounts, CountOptions, Margins, PairBlock, count
from neatrec.data.baskets import BasketStream
from neatrec.models.counts import PairCounts

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
log = logging.getLogger(__name__)

NO_TIMES: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)


class CountMode(NamedTuple):
    """Which came first."""

    before: Array
    """Records with the item first, shape (items,)."""
    after: Array
    """Records with the item second."""
    groups: Floats
    """Times together of the groups of the first table of members, the row's one first: (groups, groups)."""


class Counted(NamedTuple):
    """What was counted of some baskets."""

    counts: PairCounts
    directed: sparse.csr_matrix | None
    """Of the same pairs, how often the row's item went into the cart first; None where order is not known."""
    groups: list[Floats]
    """For each table of members, times together of each two groups, both orders: (groups, groups)."""
    ways: CountMode | None
    """None where order is not known."""


class Gatherer:
    """A `keep` for `count` that keeps the pairs by itself, each once, never more than `most` and a block of them."""

    def __init__(
        self,
        most: int | None,
        members: Sequence[sparse.csr_matrix],
        only: PairCounts | None = None,
        pairs: bool = True,
    ) -> None:
        """`only`: no other pairs; without `pairs` none at all, but the sums over groups."""
        self.most, self.members, self.only, self.pairs = most, members, only, pairs
        self.least = 1
        self.blocks: list[tuple[Array, Array, Array, Array]] = []
        """Query, item, times in this order, times in the other; query < item, the last empty without an order."""
        self.groups = [np.zeros((table.shape[1], table.shape[1])) for table in members]
        self._kept = 0

    def __call__(self, block: PairBlock, margins: Margins) -> npt.NDArray[np.bool_]:
        """None of the block: what is wanted of it stands here."""
        for table, groups in zip(self.members, self.groups, strict=True):
            add_groups(block.query, block.item, block.count, table.indptr, table.indices, groups)
        if self.pairs:
            self._take(block)
        return np.zeros(len(block), dtype=bool)

    def _take(self, block: PairBlock) -> None:
        # a directed pair seen both ways comes twice
        once = block if block.reverse is None else block.where((block.query < block.item) | (block.reverse == 0))
        if self.only is not None:
            once = once.where(self.only.of_pairs(once.query, once.item) > 0)
        self._add(_narrow(once))
        if self.most is not None and self._kept > self.most:
            self._drop_rarest(self.most)

    def _add(self, block: tuple[Array, Array, Array, Array]) -> None:
        kept = _at_least(block, self.least)
        self.blocks.append(kept)
        self._kept += len(kept[0])

    def _drop_rarest(self, most: int) -> None:
        times = np.concatenate([_both(block) for block in self.blocks])
        place = len(times) - 1 - most
        times.partition(place)
        self.least = int(times[place]) + 1
        del times
        blocks, self.blocks, self._kept = self.blocks[::-1], [], 0
        while blocks:
            self._add(blocks.pop())

    def matrices(self, items: int, *, ways: bool) -> tuple[sparse.csr_matrix, sparse.csr_matrix | None]:
        """C, and with `ways` the part of it with the row's item first (None: no order); what was gathered is gone then.

        The two share where their pairs stand.
        """
        blocks, self.blocks = self.blocks[::-1], []
        ordered = any(len(block[3]) for block in blocks)
        upper, lower = np.zeros(items, dtype=np.int64), np.zeros(items, dtype=np.int64)
        for query, item, _, _ in blocks:
            upper += np.bincount(query, minlength=items)
            lower += np.bincount(item, minlength=items)
        dtype = np.result_type(np.int32, *(block[2].dtype for block in blocks))
        one_way = _one_way(blocks, upper, ordered, dtype)
        start = _starts(upper + lower)
        size = int(start[-1])
        index = np.empty(size, dtype=np.int32)
        first, second = np.empty(size, dtype=dtype), np.empty(size if ordered else 0, dtype=dtype)
        mirror(_starts(upper), *one_way, start, lower, index, first, second)
        del one_way
        if not ordered:
            return _csr(first, index, start), None
        second += first
        counts = _csr(second, index, start)
        return counts, _csr(first, counts.indices, counts.indptr) if ways else None


def counted(
    baskets: BasketStream,
    counting: CountOptions,
    *,
    ordered: bool,
    most: int | None = None,
    members: Sequence[sparse.csr_matrix] = (),
    ways: bool = True,
    threads: int | None = None,
) -> Counted:
    """Counts of undirected pairs, standing both ways; with `ways` those of each way too, where carts have an order."""
    # a customer who bought in both orders counts once in all and twice in the two ways
    apart = ordered and counting.once_per_customer
    gathered = Gatherer(most, members)
    found = count(baskets, replace(counting, directed=ordered and not apart), keep=gathered, threads=threads)
    if gathered.least > 1:
        log.info("more than %d pairs: those seen fewer than %d times are left out", most, gathered.least)
    items = len(found.catalog)
    matrix, directed = gathered.matrices(items, ways=ways)
    counts = PairCounts(matrix, _total(found), gathered.least)
    groups = gathered.groups
    if apart:
        gathered = Gatherer(None, members[:1], only=counts, pairs=ways)
        found = count(baskets, replace(counting, directed=True), keep=gathered, threads=threads)
        directed = gathered.matrices(items, ways=True)[1] if ways else None
    found_ways = None
    if ordered:
        first_table = gathered.groups[0].copy() if members else np.zeros((0, 0))
        found_ways = CountMode(found.margins.first, found.margins.second, first_table)
        if ways and directed is None:  # nothing was ever bought together
            directed = sparse.csr_matrix(matrix.shape, dtype=matrix.dtype)
    for table in groups:
        table += table.T  # in place: there may be thousands of groups
    return Counted(counts, directed, groups, found_ways)


def counted_near(baskets: BasketStream, counting: CountOptions, counts: PairCounts, threads: int | None) -> PairCounts:
    """Counts of undirected pairs by a narrower `counting`, only of those that `counts` kept."""
    gathered = Gatherer(None, (), only=counts if counts.least > 1 else None)
    found = count(baskets, replace(counting, directed=False), keep=gathered, threads=threads)
    return PairCounts(gathered.matrices(len(found.catalog), ways=False)[0], _total(found), counts.least)


def recounted(
    baskets: BasketStream, counting: CountOptions, threads: int | None, queries: Array, items: Array
) -> npt.NDArray[np.int64]:
    """Times together of chosen undirected pairs, whatever was left out of other counts, shape (pairs,)."""

    def numbers(query: Array, item: Array) -> npt.NDArray[np.int64]:
        return np.minimum(query, item).astype(np.int64) << 32 | np.maximum(query, item)

    asked, place = np.unique(numbers(queries, items), return_inverse=True)
    times = np.zeros(len(asked), dtype=np.int64)

    def look(block: PairBlock, _: Margins) -> npt.NDArray[np.bool_]:
        number = numbers(block.query, block.item)
        where = np.minimum(np.searchsorted(asked, number), len(asked) - 1)
        wanted = asked[where] == number
        times[where[wanted]] = block.count[wanted]
        return np.zeros(len(block), dtype=bool)

    if len(asked):
        count(baskets, replace(counting, directed=False), keep=look, threads=threads)
    return times[place]


def _total(found: CooccurrenceCounts) -> npt.NDArray[np.int64]:
    """Records that hold each item, shape (items,)."""
    margins = found.margins
    return margins.first + margins.second if found.counting.directed else margins.first


def _narrow(block: PairBlock) -> tuple[Array, Array, Array, Array]:
    """Query below item, counts in 32 bits where they fit."""
    back = NO_TIMES if block.reverse is None else block.reverse
    largest = int(block.count.max(initial=0)) + int(back.max(initial=0))
    dtype = np.int32 if largest < 2**31 else np.int64
    if block.reverse is None:
        # copies: a block may be a view of much more room
        return block.query.copy(), block.item.copy(), block.count.astype(dtype), NO_TIMES
    turned = block.query > block.item
    query, item = np.where(turned, block.item, block.query), np.where(turned, block.query, block.item)
    first, second = np.where(turned, back, block.count), np.where(turned, block.count, back)
    return query, item, first.astype(dtype), second.astype(dtype)


def _both(block: tuple[Array, Array, Array, Array]) -> Array:
    return block[2] + block[3] if len(block[3]) else block[2]


def _at_least(block: tuple[Array, Array, Array, Array], least: int) -> tuple[Array, Array, Array, Array]:
    if least == 1:
        return block
    often = _both(block) >= least
    query, item, first, second = block
    return query[often], item[often], first[often], second[often] if len(second) else second


def _one_way(
    blocks: list[tuple[Array, Array, Array, Array]], upper: Array, ordered: bool, dtype: Any
) -> tuple[Array, Array, Array]:
    """Items and counts of all blocks, query by query, in any order within; the blocks are used up."""
    size, cursor = int(upper.sum()), _starts(upper)[:-1].copy()
    item, first = np.empty(size, dtype=np.int32), np.empty(size, dtype=dtype)
    second = np.empty(size if ordered else 0, dtype=dtype)
    while blocks:
        put_pairs(*blocks.pop(), cursor, item, first, second)
    return item, first, second


def _starts(sizes: Array) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _csr(data: Array, index: Array, start: Array) -> sparse.csr_matrix:
    matrix = sparse.csr_matrix((data, index, start), shape=(len(start) - 1, len(start) - 1))
    matrix.has_sorted_indices = True
    return matrix


@compiled
def add_groups(query, item, times, start, group, out):  # type: ignore[no-untyped-def]
    """Adds each pair's count to the groups of its query and of its item, out: (groups, groups).

    start, group: which groups each item is of. Whole numbers, which float64 holds exactly: order does not matter.
    """
    for pair in range(len(query)):
        q, v = query[pair], item[pair]
        for one in range(start[q], start[q + 1]):
            for other in range(start[v], start[v + 1]):
                out[group[one], group[other]] += times[pair]


@compiled
def put_pairs(query, item, first, second, cursor, out_item, out_first, out_second):  # type: ignore[no-untyped-def]
    """Each pair to the place that the cursor (items,) of its query says."""
    for pair in range(len(query)):
        place = cursor[query[pair]]
        cursor[query[pair]] = place + 1
        out_item[place] = item[pair]
        out_first[place] = first[pair]
        if len(second):
            out_second[place] = second[pair]


@compiled
def mirror(upper, item, first, second, start, lower, index, out_first, out_second):  # type: ignore[no-untyped-def]
    """Rows of both orders, ascending: partners of lower code, then those of higher code.

    upper, item, first, second: each query's pairs with items of higher code, in any order. Going through the queries
    puts them in order among an item's lower partners; going through the items does the same for the higher ones.
    start: where rows begin; lower: how many lower partners each item has.
    """
    items = len(upper) - 1
    cursor = start[:-1].copy()
    for query in range(items):
        for pair in range(upper[query], upper[query + 1]):
            place = cursor[item[pair]]
            cursor[item[pair]] = place + 1
            index[place] = query
            # the row's item is the pair's second
            if len(second):
                out_first[place], out_second[place] = second[pair], first[pair]
            else:
                out_first[place] = first[pair]
    for row in range(items):
        for pair in range(start[row], start[row] + lower[row]):
            place = cursor[index[pair]]
            cursor[index[pair]] = place + 1
            index[place] = row
            if len(second):
                out_first[place], out_second[place] = out_second[pair], out_first[pair]
            else:
                out_first[place] = out_first[pair]
