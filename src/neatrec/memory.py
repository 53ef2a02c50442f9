"""Memory and processors of this machine, or of the container where they are fewer; memory used."""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

Result = TypeVar("Result")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
LIMIT_AND_USE = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),  # version 1
)


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
