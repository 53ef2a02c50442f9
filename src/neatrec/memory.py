"""Memory and processors of this machine or its container, memory used, threads."""

from __future__ import annotations

import logging
import os
import re
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Generic, TypeVar

Result = TypeVar("Result")
log = logging.getLogger(__name__)

CONTROL_GROUPS = Path("/sys/fs/cgroup")
LIMIT_AND_USE = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),  # version 1
)
_lock, _undo = threading.Lock(), ExitStack()
_blocks = 0
"""Running blocks: the first sets the limit of the process, the last removes it."""


def total_memory() -> int:
    """Bytes that this process could have if nothing else ran."""
    return min(_machine_memory(), container_memory()[0])


def available_memory() -> int:
    """Bytes that can be had now without swapping."""
    limit, used = container_memory()
    return min(_free_on_machine(), max(limit - used, 0))


def available_processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def container_memory(folder: Path = CONTROL_GROUPS) -> tuple[int, int]:
    """Bytes that the container may have, and those it has; without a limit 2**63 and 0."""
    for limit, used in LIMIT_AND_USE:
        try:
            return int((folder / limit).read_text()), int((folder / used).read_text())
        except (OSError, ValueError):  # no such group, or "max": no limit of this kind
            continue
    return 2**63, 0


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _free_on_machine() -> int:
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:  # not Linux
        found = None
    # half of what is built in, where the free part is not known
    return int(found[1]) * 1024 if found else _machine_memory() // 2


@dataclass(frozen=True)
class Measured(Generic[Result]):
    """The result of a call and its cost."""

    result: Result
    seconds: float
    peak_mb: float
    """The largest resident memory of the process during the call; since its start, where the system
    cannot reset that number."""


def measured(work: Callable[[], Result]) -> Measured[Result]:
    """The result of `work()` with its wall time and peak memory."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak begins anew
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    # kilobytes, but bytes on macOS
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Measured(result, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)


def parallel_slices(
    rows: int, work: Callable[[slice], None], threads: int | None = None, *, min_rows: int = 1
) -> None:
    """Call `work` with slices that cover range(rows), each of at least `min_rows` rows.

    It must release the GIL. `threads`: the most that work; None: one per core.
    """
    parts = max(1, min(threads or available_processors(), rows // max(min_rows, 1)))
    ends = [rows * number // parts for number in range(parts + 1)]
    slices = [slice(start, stop) for start, stop in pairwise(ends)]
    if len(slices) == 1:
        return work(slices[0])
    with ThreadPoolExecutor(parts) as pool:
        for _ in pool.map(work, slices):
            pass


def blocks(rows: int, size: int = 2_000_000) -> Iterator[slice]:
    """Cut range(rows) into slices: arrays that are made for one at a time stay small."""
    return (slice(first, first + size) for first in range(0, rows, size))


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
