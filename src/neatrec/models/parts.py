"""`in_parts`: one piece of work on many rows, a thread for each core. The work must leave the GIL, as NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from neatrec.copurchase.resources import thread_count


def in_parts(rows: int, work: Callable[[slice], None], *, fewest: int = 1) -> None:
    """`work` of slices that together are range(rows), each of at least `fewest` rows where there are so many."""
    parts = max(1, min(thread_count(None), rows // max(fewest, 1)))
    ends = [rows * number // parts for number in range(parts + 1)]
    slices = [slice(start, stop) for start, stop in pairwise(ends)]
    if parts == 1:
        return work(slices[0])
    with ThreadPoolExecutor(parts) as pool:
        for _ in pool.map(work, slices):
            pass
