"""Work on slices of many rows, one thread per core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise

from neatrec.memory import available_processors

MIN_PAIRS_PER_THREAD = 10_000
"""Pairs of items for which a thread is worth starting, if the work is a product of vectors."""

_max_threads: ContextVar[int | None] = ContextVar("max threads", default=None)


@contextmanager
def thread_limit(threads: int | None) -> Iterator[None]:
    """`parallel_slices` uses at most `threads` threads inside the block (None: one per core)."""
    token = _max_threads.set(threads)
    try:
        yield
    finally:
        _max_threads.reset(token)


def parallel_slices(rows: int, work: Callable[[slice], None], *, min_rows: int = 1) -> None:
    """Call `work` with slices that cover range(rows), each of at least `min_rows` rows.

    It must release the GIL.
    """
    parts = max(1, min(_max_threads.get() or available_processors(), rows // max(min_rows, 1)))
    ends = [rows * number // parts for number in range(parts + 1)]
    slices = [slice(start, stop) for start, stop in pairwise(ends)]
    if len(slices) == 1:
        return work(slices[0])

    def one_thread(part: slice) -> None:
        with thread_limit(1):  # nested calls start no threads
            work(part)

    with ThreadPoolExecutor(parts) as pool:
        for _ in pool.map(one_thread, slices):
            pass
