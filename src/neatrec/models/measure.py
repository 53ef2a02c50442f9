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


def measured(work: Callable[[], Result]) -> Measured[Result]:
    """The result of `work()` with its wall time and peak memory.

    Memory is sampled fifty times per second on Linux; elsewhere it is the largest since the
    process started.
    """
    peak = [_resident_mb()]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(EVERY_SECONDS):
            peak.append(max(peak.pop(), _resident_mb()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    try:
        result = work()
    finally:
        seconds = time.perf_counter() - start
        done.set()
        watcher.join()
    return Measured(result, seconds, max(*peak, _resident_mb()))


def _resident_mb() -> float:
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * resource.getpagesize() / 2**20
    # kilobytes, but bytes on macOS
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
