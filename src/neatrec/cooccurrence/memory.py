"""The memory engine: compiled counting. Memory grows with the lines and the kept pairs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.compiled import find_pairs, splitmix64
from neatrec.cooccurrence.layout import RowCounters, Rows, count_rows, order_of_pairs
from neatrec.data.counts import Column, CountOptions, Int32, Mask


class PairBlock(NamedTuple):
    """Some of the pairs: arrays of one length, or empty where a column is not wanted."""

    query: Int32
    item: Int32
    times: Int32
    ordered: Int32
    """Directed: the count of (item, query); undirected: records with the query first."""
    customers: Int32

    @classmethod
    def empty(cls, pairs: int, *, ordered: bool, customers: bool) -> PairBlock:
        """A block to be written into."""
        return cls(
            np.empty(pairs, dtype=np.int32),
            np.empty(pairs, dtype=np.int32),
            np.empty(pairs, dtype=np.int32),
            np.empty(pairs if ordered else 0, dtype=np.int32),
            np.empty(pairs if customers else 0, dtype=np.int32),
        )

    def where(self, selected: Column | slice) -> PairBlock:
        """The pairs of a mask, of a slice, or of positions in that order."""
        columns: Any = (column[selected] if len(column) else column for column in self)
        return PairBlock(*columns)


class KeptPairs:
    """The kept pairs; at any time at most `max_pairs` and one block."""

    def __init__(self, options: CountOptions) -> None:
        self.options = options
        """With `min_count` as it was raised."""
        self.blocks = [PairBlock.empty(0, ordered=False, customers=False)]
        self.all_pairs = 0
        """Number of pairs, kept or not."""

    def add(self, block: PairBlock) -> None:
        """Add the pairs of a block that the options keep."""
        wanted = self._wanted(block)
        # copies: a block is a view of larger arrays
        kept = PairBlock(*map(np.copy, block)) if wanted.all() else block.where(wanted)
        self.blocks.append(kept)
        most = self.options.max_pairs
        if most is not None and sum(len(each.query) for each in self.blocks) > most:
            times = np.concatenate([each.times for each in self.blocks])
            first_dropped = len(times) - 1 - most
            least = int(np.partition(times, first_dropped)[first_dropped]) + 1
            self.options = replace(self.options, min_count=least)
            self.blocks = [each.where(each.times >= least) for each in self.blocks]

    def _wanted(self, block: PairBlock) -> Mask:
        query, item, times, options = block.query, block.item, block.times, self.options
        wanted: Mask = times >= options.min_count
        if options.only is not None:
            wanted &= find_pairs(options.only.start, options.only.item, query, item) >= 0
        if options.share < 1:
            wanted &= pair_hash(query, item) < np.uint64(2**64 * options.share)
        if options.limit is not None:
            wanted[wanted] = options.limit.passes(query[wanted], item[wanted], times[wanted])
        return wanted

    def columns(self, items: int, *, customers: bool) -> dict[str, Column]:
        """The pairs by column, sorted by query, then item; the blocks are released."""
        wanted = {"query": "query", "item": "item", "count": "times"}
        if self.options.directed or self.options.forward:
            wanted["reverse" if self.options.directed else "forward"] = "ordered"
        if customers:
            wanted["customers"] = "customers"
        columns = {
            name: np.concatenate([getattr(block, field) for block in self.blocks])
            for name, field in wanted.items()
        }
        self.blocks.clear()
        query = columns["query"]
        order = np.arange(len(query), dtype=np.int32 if len(query) < 2**31 else int)
        cursor = np.zeros(items + 1, dtype=np.int64)
        order_of_pairs(query, columns["item"], np.empty_like(order), order, cursor)
        for name, column in columns.items():
            columns[name] = column[order]
        return columns


def pair_hash(query: Int32, item: Int32) -> npt.NDArray[np.uint64]:
    """64 bits for each ordered pair."""
    hashed: Any = splitmix64.py_func(
        query.astype(np.uint64) << np.uint64(32) | item.astype(np.uint64)
    )
    return np.asarray(hashed)


def count_in_memory(rows: Rows, options: CountOptions, threads: int) -> KeptPairs:
    """Count the pairs of the rows that the options keep."""
    kept = KeptPairs(options)
    for block, pairs in _blocks_in_order(rows, options.min_count, threads):
        kept.add(block)
        kept.all_pairs += pairs
    return kept


def _blocks_in_order(rows: Rows, min_count: int, threads: int) -> Iterator[tuple[PairBlock, int]]:
    """Yield the counted blocks in order; a few are counted ahead by other threads."""
    free: SimpleQueue[RowCounters] = SimpleQueue()
    for _ in range(threads):
        free.put(rows.counters())

    def counted(block: tuple[int, int]) -> tuple[PairBlock, int]:
        counters = free.get()
        try:
            return _count_block(block, rows, min_count, counters)
        finally:
            free.put(counters)

    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[tuple[PairBlock, int]]] = deque()
        for block in rows.blocks():
            waiting.append(pool.submit(counted, block))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _count_block(
    block: tuple[int, int], rows: Rows, min_count: int, counters: RowCounters
) -> tuple[PairBlock, int]:
    """The pairs of some rows that occur often enough, and the number of all pairs."""
    most = int(rows.max_pairs[slice(*block)].sum()) * (2 if rows.directed else 1)
    out = PairBlock.empty(most, ordered=rows.ordered, customers=len(rows.customer) > 0)
    written, pairs = count_rows(*block, rows, counters, min_count, out)
    return out.where(slice(written)), int(pairs)
