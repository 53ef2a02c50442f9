"""Work on slices of many rows, one thread per core, and limits on the threads of BLAS."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from itertools import pairwise

from neatrec.cooccurrence.resources import thread_count

MIN_PAIRS_PER_THREAD = 10_000
"""Pairs of items for which a thread is worth starting, where the work is a product of their vectors."""

log = logging.getLogger(__name__)
_max_threads: ContextVar[int | None] = ContextVar("max threads", default=None)


@contextmanager
def thread_limit(threads: int | None) -> Iterator[None]:
    """`parallel_slices` uses at most so many threads inside the block (None: one per core)."""
    token = _max_threads.set(threads)
    try:
        yield
    finally:
        _max_threads.reset(token)


def parallel_slices(rows: int, work: Callable[[slice], None], *, min_rows: int = 1) -> None:
    """Call `work`, which must release the GIL, with slices that cover range(rows), each of at least `min_rows` rows."""
    parts = max(1, min(thread_count(_max_threads.get()), rows // max(min_rows, 1)))
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


class _BlasLimit:
    """The limit of the whole process: set by the first block that needs it, removed by the last."""

    def __init__(self) -> None:
        self.lock, self.held, self.undo = threading.Lock(), 0, ExitStack()

    def acquire(self, limit: Callable[[], AbstractContextManager[object]]) -> None:
        with self.lock:
            if not self.held:
                self.undo.enter_context(limit())
            self.held += 1

    def release(self) -> None:
        with self.lock:
            self.held -= 1
            if not self.held:
                self.undo.close()


_limit = _BlasLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products use one thread each inside the block, so that their bits do not depend on the thread count.

    The limit holds for all threads of the process, until the last such block ends.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        log.info("threadpoolctl is not installed: matrix products keep their own threads")
        yield
        return
    _limit.acquire(lambda: threadpool_limits(limits=1, user_api="blas"))
    try:
        yield
    finally:
        _limit.release()
