"""`in_parts`: one piece of work on many rows, a thread for each core. The work must leave the GIL, as NumPy does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise

from neatrec.cooccurrence.resources import thread_count

MIN_PAIRS_PER_THREAD = 10_000
"""Pairs of items for which a thread is worth starting, where the work is a product of their vectors."""

_most: ContextVar[int | None] = ContextVar("most threads", default=None)


@contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """`in_parts` takes so many threads while this holds (None: one for each core)."""
    token = _most.set(threads)
    try:
        yield
    finally:
        _most.reset(token)


def in_parts(rows: int, work: Callable[[slice], None], *, min_rows: int = 1) -> None:
    """`work` of slices that together are range(rows), each of at least `min_rows` rows where there are so many."""
    parts = max(1, min(thread_count(_most.get()), rows // max(min_rows, 1)))
    ends = [rows * number // parts for number in range(parts + 1)]
    slices = [slice(start, stop) for start, stop in pairwise(ends)]
    if parts == 1:
        return work(slices[0])

    def alone(part: slice) -> None:
        with at_most(1):  # a part has its thread and no more
            work(part)

    with ThreadPoolExecutor(parts) as pool:
        for _ in pool.map(alone, slices):
            pass
