"""Matrix products on one thread, so that their bits do not depend on how many there are."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products take one thread each while this holds; afterwards what the caller had set holds again."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        log.info("threadpoolctl is not installed: the matrix product keeps its own threads")
        yield
        return
    with threadpool_limits(limits=1, user_api="blas"):
        yield
