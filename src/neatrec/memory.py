"""The memory and the processors of this machine, or of the container where they are fewer."""

from __future__ import annotations

import os
import re
from pathlib import Path

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
