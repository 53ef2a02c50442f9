"""Matrix products on one thread, so that their bits do not depend on how many there are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

log = logging.getLogger(__name__)


class _Limit:
    """The limit of the whole process: the first who asks for it sets it, the last who leaves takes it away."""

    def __init__(self) -> None:
        self.lock, self.held, self.undo = threading.Lock(), 0, ExitStack()

    def take(self, limit: Callable[[], AbstractContextManager[object]]) -> None:
        with self.lock:
            if not self.held:
                self.undo.enter_context(limit())
            self.held += 1

    def leave(self) -> None:
        with self.lock:
            self.held -= 1
            if not self.held:
                self.undo.close()


_limit = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products take one thread each while this holds; afterwards what the caller had set holds again.

    For all threads of the process: where several hold it at the same time, until the last of them leaves.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        log.info("threadpoolctl is not installed: the matrix product keeps its own threads")
        yield
        return
    _limit.take(lambda: threadpool_limits(limits=1, user_api="blas"))
    try:
        yield
    finally:
        _limit.leave()
