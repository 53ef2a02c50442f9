"""Limits on the threads of BLAS."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

log = logging.getLogger(__name__)
_lock, _undo = threading.Lock(), ExitStack()
_blocks = 0
"""Running blocks: the first sets the limit of the process, the last removes it."""


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit matrix products to one thread: their bits do not depend on the number of threads.

    Small products are also cheaper: threads of BLAS spin while they wait for each other. The limit
    holds for all threads of the process until the last such block ends.
    """
    global _blocks  # noqa: PLW0603
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        log.info("threadpoolctl is not installed: matrix products keep their own threads")
        yield
        return
    with _lock:
        if not _blocks:
            _undo.enter_context(threadpool_limits(limits=1, user_api="blas"))
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                _undo.close()
