"""`Rows`: the lines of a job laid out for the compiled counter, one row for each item."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.copurchase.job import Job, removal_codes
from neatrec.copurchase.records import Int32, Int64

BLOCK = 1 << 19
"""Unordered pairs that a block holds at most, where one row does not make more."""

MANY_LINES = 2**32
"""Up to here 32 bits hold the place of a line: half the memory of 64."""

NONE: Int32 = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Rows:
    """The lines, and which way the counter tallies them. Ranks and shapes as in `layout.py`."""

    way: int
    directed: bool
    once: bool
    lines: tuple[npt.NDArray[Any], ...]
    """bounds, begin, before (or length), after, line_rank, line."""
    who: Int32
    """The customer of each posting; empty where customers are not counted apart."""
    code: Int32
    """The item's code, by rank."""
    removal: Int32
    """The item's removal code, by rank."""
    visits: Int64
    """Line pairs that each row looks at."""
    customers_known: bool

    @property
    def most_pairs(self) -> Int64:
        """A bound of the unordered pairs of each row: partners have a lower rank, or are the item itself."""
        return np.minimum(self.visits, np.arange(1, len(self.visits) + 1))

    def blocks(self) -> list[tuple[int, int]]:
        """Rows cut into runs of about one block, the same for any number of threads."""
        cost = np.cumsum(np.maximum(self.most_pairs, self.visits // 8))
        cuts = [0]
        while cuts[-1] < len(cost):
            done = int(cost[cuts[-1] - 1]) if cuts[-1] else 0
            cuts.append(max(cuts[-1] + 1, int(np.searchsorted(cost, done + BLOCK, side="right"))))
        return list(pairwise(cuts))

    def scratch(self) -> tuple[npt.NDArray[Any], ...]:
        """One thread's counters: tally, partners met, their counts, then customers, the last of them, their counts."""
        m = len(self.code)
        people = m if len(self.who) else 0
        return (
            np.zeros(m, dtype=np.int64),
            np.empty(m + 1, dtype=np.int32),
            np.empty(m + 1, dtype=np.int64),
            np.zeros(people, dtype=np.int64),
            np.full(2 * people, -1, dtype=np.int32),
            np.empty(people + 1, dtype=np.int64),
        )


def make_rows(job: Job) -> Rows:
    """The job's lines by item and by basket, in two passes of counting sort: a line costs the same in any basket."""
    from neatrec.copurchase import layout

    apart = job.customers is not None and not job.customers_are_counts
    if apart:
        job = job.by_customer()
    counts = np.zeros(len(job.catalog), dtype=np.int64)
    layout.line_counts(job.items, job.start, job.stop, counts)
    code = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)].astype(np.int32)
    bounds = _starts(counts[code])
    begin, before = _postings(job, code, bounds)
    who = job.customers[begin] if apart and job.customers is not None else NONE
    lines, visits = _lay_out(job, bounds, begin, before, positions=apart or job.counting.directed)
    c = job.counting
    removal = removal_codes(c.category_of(job.catalog))[code]
    known = job.customers is not None
    return Rows(_way(job, apart), c.directed, c.once_per_customer, lines, who, code, removal, visits, known)


def _postings(job: Job, code: Int32, bounds: Int64) -> tuple[npt.NDArray[Any], Int32]:
    """The basket and the position of each posting."""
    from neatrec.copurchase import layout

    n = int(bounds[-1])
    rank = np.empty(len(job.catalog), dtype=np.int32)
    rank[code] = np.arange(len(code), dtype=np.int32)
    basket = np.empty(n, dtype=np.uint32 if n < MANY_LINES else np.int64)
    position = np.empty(n, dtype=np.int32)
    layout.postings(job.items, job.start, job.stop, rank, bounds[:-1].copy(), basket, position)
    return basket, position


def _lay_out(
    job: Job, bounds: Int64, begin: npt.NDArray[Any], before: Int32, positions: bool
) -> tuple[tuple[npt.NDArray[Any], ...], Int64]:
    """`Rows.lines` and `Rows.visits`; `begin` and `before` come in as the basket and position of each posting."""
    from neatrec.copurchase import layout

    base, n = _starts(job.sizes), len(begin)
    visits = np.empty(len(bounds) - 1, dtype=np.int64)
    if not job.all_pairs:
        line_rank, after = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        layout.keep_order(bounds, base, job.window, begin, before, after, line_rank, visits)
        return (bounds, begin, before, after, line_rank, np.empty(0, dtype=np.int64)), visits
    line_rank = np.empty(0 if positions else n, dtype=np.int32)
    line = np.empty(n if positions else 0, dtype=np.int64)
    layout.sort_baskets(bounds, np.repeat(base[:-1], 2), begin, before, line_rank, line, visits)
    return (bounds, begin, before, NONE, line_rank, line), visits


def _way(job: Job, apart: bool) -> int:
    from neatrec.copurchase import tallies

    if not job.all_pairs:
        return tallies.WINDOW_CUSTOMERS if apart else tallies.WINDOW
    if apart:
        return tallies.CUSTOMERS
    return tallies.ALL_DIRECTED if job.counting.directed else tallies.ALL


def _starts(sizes: Int64) -> Int64:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
