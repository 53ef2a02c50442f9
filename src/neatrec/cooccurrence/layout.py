"""The layout of the lines for the compiled counter: one row per item.

Items are relabelled by popularity: rank 0 is bought most. A posting is a line seen from its item:
the lines of rank r are the postings bounds[r]:bounds[r + 1], in basket order.
m: bought items; L: lines of the counted baskets; B: counted baskets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled, prefetch
from neatrec.cooccurrence.count_input import CountInput, removal_codes
from neatrec.data.counts import Int32, Int64

BLOCK = 1 << 19
"""Largest number of unordered pairs of a block, unless a single row makes more."""

MAX_32_BIT_LINES = 2**32
"""With fewer lines a position takes 32 bits: half the memory of 64."""

ALL, ALL_ORDERED, WINDOW, CUSTOMERS, WINDOW_CUSTOMERS = 0, 1, 2, 3, 4
"""The ways to count a row."""


class Band(NamedTuple):
    """Rows first:last of the items in `code`, most bought first."""

    code: Int32
    first: int
    last: int


class BasketLines(NamedTuple):
    """Basket b is items[start[b]:stop[b]]; customer of each basket, empty without users."""

    items: Int32
    start: Int64
    stop: Int64
    customer: Int32


class RowLayout(NamedTuple):
    """The input of the compiled counter."""

    way: int
    directed: bool
    ordered: bool
    """Whether counters separate the directions."""
    once: bool
    """Whether a pair counts at most once per customer."""
    bounds: Int64
    posting: npt.NDArray[Any]
    line_rank: Int32
    line: Int64
    customer: Int32
    """The customer of each posting; empty where users are not known."""
    code: Int32
    """The item's code, by rank."""
    removal: Int32
    """The item's removal code, by rank."""


class RowCounters(NamedTuple):
    """One thread's counters; they come in and go out clean."""

    counter: Int64
    """Shape (m,): c_rj + 2³² c_jr of partner j; c_rj has both directions if not `ordered`."""
    touched: Int32
    """The partners of the row, shape (m + 1,)."""
    counts: Int64
    """Their counts, shape (m + 1,)."""
    by_customer: Int64
    """Shape (m, 4): counter, customers packed alike, last customer of each direction."""
    customers: Int64
    """Customers of the partners, shape (m + 1,)."""


@dataclass(frozen=True, eq=False)
class ItemRows:
    """The layout, and the amount of work of each row."""

    layout: RowLayout
    visits: Int64
    """Line pairs that each row looks at."""
    counted: range
    """The rows to count: all, or those of a band."""

    @property
    def has_customers(self) -> bool:
        """Whether pairs have customers."""
        return self.layout.way >= CUSTOMERS

    @cached_property
    def max_pairs(self) -> Int64:
        """A bound of the unordered pairs of each row: its partners have a lower or equal rank."""
        return np.minimum(self.visits, np.arange(1, len(self.visits) + 1))

    def blocks(self) -> list[tuple[int, int]]:
        """The rows to count in runs of about one block, the same for any number of threads."""
        cost = np.cumsum(np.maximum(self.max_pairs, self.visits // 8)[: self.counted.stop])
        cuts = [self.counted.start]
        while cuts[-1] < len(cost):
            done = int(cost[cuts[-1] - 1]) if cuts[-1] else 0
            cuts.append(max(cuts[-1] + 1, int(np.searchsorted(cost, done + BLOCK, side="right"))))
        return list(pairwise(cuts))

    def counters(self) -> RowCounters:
        """Clean counters for one thread."""
        m = len(self.layout.code)
        with_customers = m if len(self.layout.customer) else 0
        by_customer = np.zeros((with_customers, 4), dtype=np.int64)
        by_customer[:, 2:] = -1
        return RowCounters(
            np.zeros(m, dtype=np.int64),
            np.empty(m + 1, dtype=np.int32),
            np.empty(m + 1, dtype=np.int64),
            by_customer,
            np.empty(with_customers + 1, dtype=np.int64),
        )


def basket_lines(source: CountInput, part: slice = slice(None)) -> BasketLines:
    """The lines of some baskets for the compiled loops."""
    customer = np.empty(0, dtype=np.int32) if source.customers is None else source.customers[part]
    return BasketLines(source.items, source.start[part], source.stop[part], customer)


def make_rows(source: CountInput, band: Band | None = None) -> ItemRows:
    """Sort the lines by item and by basket: two counting sorts, a constant cost per line."""
    apart = source.customers is not None
    if apart:
        source = source.by_customer()
    lines, c = basket_lines(source), source.counting
    counts = np.zeros(len(source.category), dtype=np.int64)
    line_counts(lines, counts)
    code = by_popularity(counts) if band is None else band.code
    rank = rank_of(code, len(source.category))
    bounds = _starts(counts[code])
    n, visits = int(bounds[-1]), np.zeros(len(code), dtype=np.int64)
    customer = np.empty(n if apart else 0, dtype=np.int32)
    place_type = np.uint32 if n < MAX_32_BIT_LINES else np.int64
    ordered = c.directed or c.forward
    # with positions the ranks are in `line`, and `line_rank` is empty
    positions = source.all_pairs and (apart or ordered)
    line_rank = np.empty(0 if positions else n, dtype=np.int32)
    line = np.empty(n if positions else 0, dtype=np.int64)
    posting = np.empty((n, 2 if source.all_pairs else 3), dtype=place_type)
    fill_postings(lines, rank, bounds[:-1].copy(), posting, customer)
    first = _starts(source.sizes)
    if source.all_pairs:  # baskets sorted by rank
        way = CUSTOMERS if apart else ALL_ORDERED if ordered else ALL
        places = np.repeat(first[:-1], 2).reshape(-1, 2)
        sort_baskets(bounds, places, posting, line_rank, line, visits)
    else:  # baskets in cart order
        way = WINDOW_CUSTOMERS if apart else WINDOW
        find_neighbours(bounds, first, source.window, posting, line_rank, visits)
    removal = removal_codes(source.category)[code]
    layout = RowLayout(
        way,
        c.directed,
        ordered,
        c.once_per_customer,
        bounds,
        posting,
        line_rank,
        line,
        customer,
        code,
        removal,
    )
    counted = range(len(code)) if band is None else range(band.first, band.last)
    return ItemRows(layout, visits, counted)


def by_popularity(counts: Int64) -> Int32:
    """The bought items, most lines first: the rank of an item is its row."""
    return np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)].astype(np.int32)


def rank_of(code: Int32, items: int) -> Int32:
    """The position of each item in `code`, shape (items,); undefined for other items."""
    rank = np.zeros(items, dtype=np.int32)
    rank[code] = np.arange(len(code), dtype=np.int32)
    return rank


def _starts(sizes: Int64) -> Int64:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


AHEAD = 12
"""Distance of the prefetches in postings: the lines arrive in time and are not evicted yet."""


@compiled
def line_counts(lines, out):
    """out[i] += lines of item i."""
    items, start, stop, _ = lines
    for b in range(len(start)):
        for k in range(start[b], stop[b]):
            out[items[k]] += 1


@compiled
def largest_pair_count(lines, squares):
    """The largest sum over baskets of (lines of an item)², a bound of every pair count.

    c_ij = Σ_b n_bi n_bj <= sqrt(Σ_b n_bi² Σ_b n_bj²); squares: zeros, shape (items, 2).
    """
    items, start, stop, _ = lines
    for b in range(len(start)):
        for k in range(start[b], stop[b]):
            squares[items[k], 1] += 1
        for k in range(start[b], stop[b]):
            n = squares[items[k], 1]
            squares[items[k], 0] += n * n
            squares[items[k], 1] = 0
    return squares[:, 0].max() if len(squares) else 0


@compiled
def margins_of_all_pairs(lines, removal, seen, either, second):
    """either[i] += lines of another removal code in the basket of each line of i.

    second[i]: those before the line, or empty where not wanted; seen: a zero per removal code.
    """
    items, start, stop, _ = lines
    for b in range(len(start)):
        s, e = start[b], stop[b]
        for k in range(s, e):
            c = removal[items[k]]
            if len(second):
                second[items[k]] += k - s - seen[c]
            seen[c] += 1
        for k in range(s, e):
            either[items[k]] += e - s - seen[removal[items[k]]]
        for k in range(s, e):
            seen[removal[items[k]]] = 0


@compiled
def fill_postings(lines, rank, cursor, posting, customer):
    """posting[p] = (basket, position in the basket) of each line, by rank, then in basket order.

    posting: shape (L, 2) or wider; customer[p]: that of the basket, or empty; cursor: the first
    posting of each rank; moved to its end.
    """
    items, start, stop, customers = lines
    for b in range(len(start)):
        s = start[b]
        for k in range(s, stop[b]):
            r = rank[items[k]]
            p = cursor[r]
            cursor[r] = p + 1
            posting[p, 0] = b
            posting[p, 1] = k - s
            if len(customer):
                customer[p] = customers[b]


@compiled
def find_neighbours(bounds, first, window, posting, line_rank, visits):
    """Lay out the lines in cart order; posting becomes (line, neighbours before it, after it).

    first: the first line of each basket and the end of the last one, shape (B + 1,); visits: zeros,
    receives the neighbours of each row.
    """
    for r in range(len(bounds) - 1):
        for p in range(bounds[r], bounds[r + 1]):
            b, before = np.int64(posting[p, 0]), np.int64(posting[p, 1])
            line = first[b] + before
            before, after = min(window, before), min(window, first[b + 1] - 1 - line)
            posting[p, 0], posting[p, 1], posting[p, 2] = line, before, after
            line_rank[line] = r
            visits[r] += before + after


@compiled
def sort_baskets(bounds, places, posting, line_rank, line, visits):
    """Lay out the lines basket by basket, each sorted by rank: lines of lower rank come first.

    posting becomes (start of the basket, lines of the basket before this one). places: the start
    of each basket and the position of its next line, shape (B, 2), equal at first. With positions
    line_rank is empty and line[k] = 2³² position + rank.
    """
    last = len(posting) - 1
    for r in range(len(bounds) - 1):
        seen = 0
        for p in range(bounds[r], bounds[r + 1]):
            prefetch(places, 2 * np.int64(posting[min(p + 2 * AHEAD, last), 0]))
            ahead = places[posting[min(p + AHEAD, last), 0], 1]
            b = posting[p, 0]
            base, k = places[b, 0], places[b, 1]
            places[b, 1] = k + 1
            if len(line):
                prefetch(line, ahead)
                line[k] = (np.int64(posting[p, 1]) << 32) + r
            else:
                prefetch(line_rank, ahead)
                line_rank[k] = r
            posting[p, 0] = base
            posting[p, 1] = k - base
            seen += k - base
        visits[r] = seen


@compiled
def order_of_pairs(query, item, by_item, order, cursor):
    """order: the positions of the pairs sorted by (query, item), by two counting sorts.

    by_item: scratch of order's shape; cursor: zeros, shape (items + 1,).
    """
    for column, source, target in ((item, order, by_item), (query, by_item, order)):
        cursor[:] = 0
        for k in range(len(column)):
            cursor[column[k] + 1] += 1
        for i in range(1, len(cursor)):
            cursor[i] += cursor[i - 1]
        for k in range(len(column)):
            place = source[k]
            c = column[place]
            target[cursor[c]] = place
            cursor[c] += 1
