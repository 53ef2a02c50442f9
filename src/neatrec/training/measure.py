"""The wall time and the peak memory of a call."""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

Result = TypeVar("Result")

STATM = Path("/proc/self/statm")
EVERY_SECONDS = 0.02


@dataclass(frozen=True)
class Measured(Generic[Result]):
    """The result of a call and its cost."""

    result: Result
    seconds: float
    peak_mb: float
    """The largest resident memory of the whole process during the call."""
    private_mb: float
    """The same without mapped files, which the system drops when it needs memory, and shared memory; on Linux only."""


def measured(work: Callable[[], Result]) -> Measured[Result]:
    """The result of `work()` with its wall time and peak memory.

    Memory is sampled fifty times per second on Linux; elsewhere it is the largest since the process started.
    """
    peak = _memory_mb()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(EVERY_SECONDS):
            peak[:] = map(max, peak, _memory_mb())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    try:
        result = work()
    finally:
        seconds = time.perf_counter() - start
        done.set()
        watcher.join()
    return Measured(result, seconds, *map(max, peak, _memory_mb()))


def _memory_mb() -> list[float]:
    """Of this process: resident, and private."""
    if not STATM.exists():
        return [peak_mb()] * 2
    resident, shared = (
        int(pages) * resource.getpagesize() / 2**20 for pages in STATM.read_text().split()[1:3]
    )
    return [resident, resident - shared]


def peak_mb() -> float:
    """The largest resident memory of this process so far."""
    # kilobytes, but bytes on macOS
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        2**20 if sys.platform == "darwin" else 2**10
    )
