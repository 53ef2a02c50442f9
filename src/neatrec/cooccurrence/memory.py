"""The memory engine: compiled counting of what fits. Memory grows with lines, and with pairs only if they are kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.count_input import CountInput, removal_codes
from neatrec.cooccurrence.counts import Int64, Keep, Margins, PairBlock
from neatrec.cooccurrence.input_summary import pairs_of_size
from neatrec.cooccurrence.pair_filter import PairFilter, kept, screen_of
from neatrec.cooccurrence.rows import ItemRows, make_rows
from neatrec.errors import ResourceError

MOST_COUNTED = 2**31 - 1
"""Two counts share one 64-bit counter."""

Scratch = tuple[npt.NDArray[Any], ...]
Task = TypeVar("Task")
Result = TypeVar("Result")


def count_in_memory(job: CountInput, keep: Keep | None, threads: int) -> tuple[PairBlock, Margins]:
    """The kept pairs, sorted, and the margins of all pairs."""
    _refuse_overflow(job)
    rows = make_rows(job)
    margins = _margins(job, rows, threads)
    screen = screen_of(keep, margins)
    blocks = [PairBlock.room(0, reverse=rows.directed, customers=rows.customers_known)]
    pairs = 0
    for block, seen in _in_order(rows.blocks(), lambda task, s: _count_block(rows, task, screen, s), rows, threads):
        blocks.append(kept(block, margins, keep))
        pairs += seen
    together = PairBlock.joined(blocks)
    blocks.clear()  # they may be most of the memory
    return _sorted(together, len(job.catalog)), replace(margins, pairs=pairs)


def margins_in_memory(job: CountInput, threads: int) -> Margins:
    """The totals without the pairs, in time and memory of the lines; `once_per_customer` has to look at the pairs."""
    _refuse_overflow(job)
    return _margins(job, make_rows(job) if job.margins_need_pairs else None, threads)


def _margins(job: CountInput, rows: ItemRows | None, threads: int) -> Margins:
    if rows is None or not job.margins_need_pairs:
        either, second = _margins_of_lines(job, threads)
    else:
        either, second = _margins_of_rows(rows, len(job.catalog), threads)
    first, second = (either - second, second) if job.counting.directed else (either, either)
    category = job.counting.category_of(job.catalog)
    return Margins(first, second, int(either.sum()) // 2, 0, len(job.start), category)


def _margins_of_lines(job: CountInput, threads: int) -> tuple[Int64, Int64]:
    """Records of each item in either place, and in the second."""
    from neatrec.cooccurrence import layout

    removal = removal_codes(job.counting.category_of(job.catalog))

    def some_baskets(part: slice) -> npt.NDArray[np.int64]:
        either, second = totals = np.zeros((2, len(job.catalog)), dtype=np.int64)
        second = second if job.counting.directed else second[:0]
        seen = np.zeros(int(removal.max(initial=0)) + 1, dtype=np.int32)
        start, stop = job.start[part], job.stop[part]
        if job.all_pairs:
            layout.margins_of_all_pairs(job.items, start, stop, removal, seen, either, second)
        else:
            layout.margins_of_window(job.items, start, stop, removal, job.window, seen, either, second)
        return totals

    cuts = np.linspace(0, len(job.start), threads + 1).astype(int)
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(some_baskets, [slice(a, b) for a, b in pairwise(cuts)]))
    either, second = np.sum(parts, axis=0)
    return either, second


def _margins_of_rows(rows: ItemRows, items: int, threads: int) -> tuple[Int64, Int64]:
    """Records of each item in either place, and in the second."""
    from neatrec.cooccurrence import count_kernels as tallies

    def some_rows(task: tuple[int, int], scratch: Scratch) -> npt.NDArray[np.int64]:
        either, second = totals = np.zeros((2, items), dtype=np.int64)
        tallies.margins_of_rows(
            *task,
            rows.way,
            rows.directed,
            rows.once,
            rows.lines,
            rows.who,
            rows.code,
            rows.removal,
            scratch,
            either,
            second,
        )
        return totals

    either, second = sum(_in_order(rows.blocks(), some_rows, rows, threads), np.zeros((2, items), dtype=np.int64))
    return either, second


def _count_block(rows: ItemRows, task: tuple[int, int], screen: PairFilter, scratch: Scratch) -> tuple[PairBlock, int]:
    """The pairs of some rows that pass the screen, and how many there were before it."""
    from neatrec.cooccurrence import count_kernels as tallies

    most = int(rows.max_pairs[slice(*task)].sum()) * (2 if rows.directed else 1)
    block = PairBlock.room(most, reverse=rows.directed, customers=rows.customers_known)
    out = tuple(np.empty(0, dtype=np.int64) if column is None else column for column in block.columns)
    written, pairs = tallies.count_rows(
        *task,
        rows.way,
        rows.directed,
        rows.once,
        rows.lines,
        rows.who,
        rows.code,
        rows.removal,
        (screen.min_count, *screen.vectors()),
        scratch,
        out,
    )
    return block.where(slice(written)), int(pairs)


def _in_order(
    tasks: Sequence[Task], work: Callable[[Task, Scratch], Result], rows: ItemRows, threads: int
) -> Iterator[Result]:
    """The results in the order of the tasks, a few of them ahead: the caller sees one at a time, in its own thread."""
    if threads == 1:
        scratch = rows.scratch()
        yield from (work(task, scratch) for task in tasks)
        return
    free: SimpleQueue[Scratch] = SimpleQueue()
    for _ in range(threads):
        free.put(rows.scratch())

    def with_scratch(task: Task) -> Result:
        scratch = free.get()
        try:
            return work(task, scratch)
        finally:
            free.put(scratch)

    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for task in tasks:
            waiting.append(pool.submit(with_scratch, task))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _sorted(block: PairBlock, items: int) -> PairBlock:
    """The same pairs, sorted by query, then item."""
    from neatrec.cooccurrence import layout

    order = np.arange(len(block), dtype=np.int32 if len(block) < 2**31 else np.int64)
    cursor = np.zeros(items + 1, dtype=np.int64)
    layout.order_of_pairs(block.query, block.item, np.empty_like(order), order, cursor)
    return block.where(order)


def _refuse_overflow(job: CountInput) -> None:
    most = _most_counted(job)
    if most > MOST_COUNTED:
        raise ResourceError(
            f"a pair may have up to {most:,} records, more than the memory engine counts ({MOST_COUNTED:,})",
            hint='Use engine="duckdb".',
        )


def can_count(job: CountInput) -> bool:
    """Whether no pair can overflow a counter."""
    return _most_counted(job) <= MOST_COUNTED


def _most_counted(job: CountInput) -> int:
    """No pair is counted more often than this: bounds ever closer and dearer, until one is within `MOST_COUNTED`."""
    from neatrec.cooccurrence import layout

    records = int(pairs_of_size(job.sizes, job.counting.window).sum())
    if records <= MOST_COUNTED:
        return records
    counts = np.zeros(len(job.catalog), dtype=np.int64)
    layout.line_counts(job.items, job.start, job.stop, counts)
    # a line has at most 2 * window neighbours, and as many partners as its basket has lines
    busiest = int(counts.max()) * min(2 * job.window, int(job.sizes.max()))
    if busiest <= MOST_COUNTED:
        return busiest
    return int(layout.largest_tally(job.items, job.start, job.stop, np.zeros((len(job.catalog), 2), dtype=np.int64)))
