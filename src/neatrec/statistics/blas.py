"""Limits on the threads of BLAS."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

log = logging.getLogger(__name__)


class _BlasLimit:
    """The limit of the process: set by the first block that needs it, removed by the last."""

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
    """Limit matrix products to one thread: their bits do not depend on the number of threads.

    Small products are also cheaper: threads of BLAS spin while they wait for each other. The limit
    holds for all threads of the process until the last such block ends.
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
