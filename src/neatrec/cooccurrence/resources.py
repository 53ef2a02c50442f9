"""Memory and threads: how much there is, how much may be used."""

from __future__ import annotations

import os
import re
from pathlib import Path

from neatrec.errors import must_be
from neatrec.text import parse_size

SHARE = 0.6
"""The part of the available memory that counting may take when no limit is set: others live on the machine too."""


def as_bytes(limit: int | str) -> int:
    """A memory limit in bytes.

    >>> as_bytes("2GiB"), as_bytes("500 MB"), as_bytes(4096)
    (2147483648, 500000000, 4096)
    """
    try:
        size = parse_size(limit) if isinstance(limit, str) else limit
    except ValueError:
        size = 0
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise must_be("memory_limit", 'a number of bytes or a size such as "2GB" or "512MiB"', limit)
    return size


def human(size: float) -> str:
    """
    >>> human(3 * 2**30), human(150 * 2**20)
    ('3.0 GiB', '150 MiB')
    """
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{max(size, 0) / 2**20:.0f} MiB"


def available_memory() -> int:
    """Bytes that can be had now without swapping: what the machine has free, or the container where that is less."""
    return min(_free_on_machine(), _free_in_container())


MOST_THREADS = 1024
"""More would only wait for each other; tens of thousands bring a machine down."""


def thread_count(threads: int | None) -> int:
    """`threads`, or one for each core this process may use."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
        raise must_be("threads", f"None or a whole number from 1 to {MOST_THREADS}", threads)
    return threads


def _free_on_machine() -> int:
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:  # not Linux
        found = None
    if found:
        return int(found[1]) * 1024
    # half of what is built in, where nothing says how much of it is free
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _free_in_container(folder: Path = Path("/sys/fs/cgroup")) -> int:
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            return max(int((folder / limit).read_text()) - int((folder / used).read_text()), 0)
        except (OSError, ValueError):  # no such group, or "max": no limit of this kind
            continue
    return 2**63
