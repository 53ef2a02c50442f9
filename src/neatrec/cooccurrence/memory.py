"""The memory engine: compiled counting. Memory grows with the lines and the kept pairs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from queue import SimpleQueue
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence import layout
from neatrec.cooccurrence.count_input import CountInput, removal_codes
from neatrec.cooccurrence.count_kernels import count_rows, margins_of_rows
from neatrec.cooccurrence.kept_pairs import KeptPairs, PairBlock
from neatrec.cooccurrence.layout import ItemRows, RowCounters, basket_lines, make_rows
from neatrec.data.counts import CountOptions, Int64, Margins
from neatrec.errors import ResourceError

MAX_COUNT = 2**31 - 1
"""Two counts share one 64-bit counter."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def count_in_memory(
    source: CountInput, totals: Margins | None, threads: int
) -> tuple[KeptPairs, Margins]:
    """Count the kept pairs, and the margins of all pairs."""
    refuse_overflow(source)
    rows = make_rows(source)
    if totals is None:
        totals = _margins(source, rows, threads)
    kept, pairs = count_kept(rows, source.counting, threads)
    return kept, replace(totals, pairs=pairs)


def count_kept(rows: ItemRows, options: CountOptions, threads: int) -> tuple[KeptPairs, int]:
    """The pairs of the rows that the options keep, and the number of all pairs."""
    kept, pairs = KeptPairs(options, customers=rows.has_customers), 0
    for block, seen in _in_order(
        rows.blocks(), lambda task, c: _count_block(rows, task, options, c), rows, threads
    ):
        kept.add(block)
        pairs += seen
    return kept, pairs


def margins_in_memory(source: CountInput, threads: int) -> Margins:
    """Count the totals without keeping pairs."""
    refuse_overflow(source)
    return _margins(source, make_rows(source) if source.margins_need_pairs else None, threads)


def _margins(source: CountInput, rows: ItemRows | None, threads: int) -> Margins:
    if rows is None or not source.margins_need_pairs:
        either, second = margins_of_lines(source, threads)
    else:
        either, second = margins_of_pairs(rows, len(source.category), threads)
    return Margins.of(either, second, source.counting, source.category, len(source.start))


def margins_of_lines(source: CountInput, threads: int) -> tuple[Int64, Int64]:
    """Records of each item in either position, and in the second, where all pairs count."""
    removal = removal_codes(source.category)

    def some_baskets(part: slice) -> npt.NDArray[np.int64]:
        either, second = totals = np.zeros((2, len(source.category)), dtype=np.int64)
        second = second if source.counting.directed else second[:0]
        seen = np.zeros(int(removal.max(initial=0)) + 1, dtype=np.int32)
        layout.margins_of_all_pairs(basket_lines(source, part), removal, seen, either, second)
        return totals

    cuts = np.linspace(0, len(source.start), threads + 1).astype(int)
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(some_baskets, [slice(a, b) for a, b in pairwise(cuts)]))
    either, second = np.sum(parts, axis=0)
    return either, second


def margins_of_pairs(rows: ItemRows, items: int, threads: int) -> tuple[Int64, Int64]:
    """Records of each item in either position, and in the second."""

    def some_rows(task: tuple[int, int], counters: RowCounters) -> npt.NDArray[np.int64]:
        either, second = totals = np.zeros((2, items), dtype=np.int64)
        margins_of_rows(*task, rows.layout, counters, either, second)
        return totals

    either, second = sum(
        _in_order(rows.blocks(), some_rows, rows, threads), np.zeros((2, items), dtype=np.int64)
    )
    return either, second


def _count_block(
    rows: ItemRows, task: tuple[int, int], options: CountOptions, counters: RowCounters
) -> tuple[PairBlock, int]:
    """The pairs of some rows that occur often enough, and the number of all pairs."""
    most = int(rows.max_pairs[slice(*task)].sum()) * (2 if options.directed else 1)
    block = PairBlock.empty(most, ordered=rows.layout.ordered, customers=rows.has_customers)
    written, pairs = count_rows(*task, rows.layout, counters, options.min_count, block)
    return block.where(slice(written)), int(pairs)


def _in_order(
    tasks: Sequence[Task], work: Callable[[Task, RowCounters], Result], rows: ItemRows, threads: int
) -> Iterator[Result]:
    """Yield the results in the order of the tasks; a few are computed ahead by other threads."""
    if threads == 1:
        counters = rows.counters()
        yield from (work(task, counters) for task in tasks)
        return
    free: SimpleQueue[RowCounters] = SimpleQueue()
    for _ in range(threads):
        free.put(rows.counters())

    def with_counters(task: Task) -> Result:
        counters = free.get()
        try:
            return work(task, counters)
        finally:
            free.put(counters)

    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for task in tasks:
            waiting.append(pool.submit(with_counters, task))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def refuse_overflow(source: CountInput) -> None:
    """Refuse baskets in which a pair may have more records than a counter holds."""
    largest = _largest_count(source)
    if largest > MAX_COUNT:
        raise ResourceError(
            f"a pair may have up to {largest:,} records, more than can be counted ({MAX_COUNT:,})",
            hint="Count a part of the baskets at a time, or leave out items that occur thousands "
            "of times in a basket.",
        )


def _largest_count(source: CountInput) -> int:
    """A bound of every pair's count; the closer bound costs a pass over the lines."""
    if source.records <= MAX_COUNT:
        return source.records
    squares = np.zeros((len(source.category), 2), dtype=np.int64)
    return int(layout.largest_pair_count(basket_lines(source), squares))
