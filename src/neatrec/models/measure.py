"""The wall time and the peak memory of a call."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

Result = TypeVar("Result")


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
