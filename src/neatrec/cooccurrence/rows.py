"""`ItemRows`: the lines of a job laid out for the compiled counter, one row for each item."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.count_input import CountInput, removal_codes
from neatrec.cooccurrence.counts import Int32, Int64

BLOCK = 1 << 19
"""Unordered pairs that a block holds at most, where one row does not make more."""

MANY_LINES = 2**32
"""Up to here 32 bits hold the place of a line: half the memory of 64."""

NONE: Int32 = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class ItemRows:
    """The lines, and which way the counter tallies them. Ranks and shapes as in `layout.py`."""

    way: int
    directed: bool
    once: bool
    lines: tuple[npt.NDArray[Any], ...]
    """bounds, posting, line_rank, line."""
    who: Int32
    """The customer of each posting; empty where customers are not counted apart."""
    code: Int32
    """The item's code, by rank."""
    removal: Int32
    """The item's removal code, by rank."""
    visits: Int64
    """Line pairs that each row looks at."""
    customers_known: bool

    @cached_property
    def max_pairs(self) -> Int64:
        """A bound of the unordered pairs of each row: partners have a lower rank, or are the item itself."""
        return np.minimum(self.visits, np.arange(1, len(self.visits) + 1))

    def blocks(self) -> list[tuple[int, int]]:
        """ItemRows cut into runs of about one block, the same for any number of threads."""
        cost = np.cumsum(np.maximum(self.max_pairs, self.visits // 8))
        cuts = [0]
        while cuts[-1] < len(cost):
            done = int(cost[cuts[-1] - 1]) if cuts[-1] else 0
            cuts.append(max(cuts[-1] + 1, int(np.searchsorted(cost, done + BLOCK, side="right"))))
        return list(pairwise(cuts))

    def scratch(self) -> tuple[npt.NDArray[Any], ...]:
        """One thread's counters: tally, partners met, their counts; people, their counts (see `tallies.py`)."""
        m = len(self.code)
        with_people = m if len(self.who) else 0
        people = np.zeros((with_people, 4), dtype=np.int64)
        people[:, 2:] = -1
        return (
            np.zeros(m, dtype=np.int64),
            np.empty(m + 1, dtype=np.int32),
            np.empty(m + 1, dtype=np.int64),
            people,
            np.empty(with_people + 1, dtype=np.int64),
        )


def make_rows(job: CountInput) -> ItemRows:
    """The job's lines by item and by basket, in two passes of counting sort: a line costs the same in any basket."""
    from neatrec.cooccurrence import layout

    apart = job.customers is not None and not job.customers_are_counts
    if apart:
        job = job.by_customer()
    counts = np.zeros(len(job.catalog), dtype=np.int64)
    layout.line_counts(job.items, job.start, job.stop, counts)
    code = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)].astype(np.int32)
    bounds = _starts(counts[code])
    lines, who, visits = (_sorted_lines if job.all_pairs else _lines_in_order)(job, code, bounds, apart)
    c = job.counting
    removal = removal_codes(c.category_of(job.catalog))[code]
    known = job.customers is not None
    return ItemRows(_way(job, apart), c.directed, c.once_per_customer, lines, who, code, removal, visits, known)


Layout = tuple[tuple[npt.NDArray[Any], ...], Int32, Int64]
"""`ItemRows.lines`, `ItemRows.who` and `ItemRows.visits`."""


def _sorted_lines(job: CountInput, code: Int32, bounds: Int64, apart: bool) -> Layout:
    """For all pairs: baskets sorted by rank, with positions where they matter."""
    from neatrec.cooccurrence import layout

    n, positions = int(bounds[-1]), apart or job.counting.directed
    posting, who = np.empty((n, 2), dtype=_place_type(n)), np.empty(n if apart else 0, dtype=np.int32)
    rank, customers = _ranks(job, code), NONE if job.customers is None else job.customers
    layout.fill_postings(job.items, job.start, job.stop, rank, customers, bounds[:-1].copy(), posting, who)
    visits = np.empty(len(code), dtype=np.int64)
    line_rank, line = np.empty(0 if positions else n, dtype=np.int32), np.empty(n if positions else 0, dtype=np.int64)
    places = np.repeat(_starts(job.sizes)[:-1], 2).reshape(-1, 2)
    layout.sort_baskets(bounds, places, posting, line_rank, line, visits)
    return (bounds, posting, line_rank, line), who, visits


def _lines_in_order(job: CountInput, code: Int32, bounds: Int64, apart: bool) -> Layout:
    """For a window: baskets in cart order."""
    from neatrec.cooccurrence import layout

    n = int(bounds[-1])
    posting, who = np.empty((n, 3), dtype=_place_type(n)), np.empty(n if apart else 0, dtype=np.int32)
    rank, customers = _ranks(job, code), NONE if job.customers is None else job.customers
    line_rank, visits = np.empty(n, dtype=np.int32), np.zeros(len(code), dtype=np.int64)
    layout.fill_window(
        job.items,
        job.start,
        job.stop,
        rank,
        customers,
        job.window,
        bounds[:-1].copy(),
        posting,
        who,
        line_rank,
        visits,
    )
    return (bounds, posting, line_rank, np.empty(0, dtype=np.int64)), who, visits


def _ranks(job: CountInput, code: Int32) -> Int32:
    """The rank of each item that is bought, by code."""
    rank = np.empty(len(job.catalog), dtype=np.int32)
    rank[code] = np.arange(len(code), dtype=np.int32)
    return rank


def _place_type(lines: int) -> type[np.integer[Any]]:
    return np.uint32 if lines < MANY_LINES else np.int64


def _way(job: CountInput, apart: bool) -> int:
    from neatrec.cooccurrence import count_kernels as tallies

    if not job.all_pairs:
        return tallies.WINDOW_CUSTOMERS if apart else tallies.WINDOW
    if apart:
        return tallies.CUSTOMERS
    return tallies.ALL_DIRECTED if job.counting.directed else tallies.ALL


def _starts(sizes: Int64) -> Int64:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
