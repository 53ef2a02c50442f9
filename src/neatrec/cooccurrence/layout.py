"""The compiled counter, one row of counters per item, and the layout of the lines that it needs.

Items are relabelled by popularity: rank 0 is bought most. A posting is a line seen from its item:
the lines of rank r are the postings bounds[r]:bounds[r + 1], in basket order. Row r counts the
partners j of lower rank of item r: each unordered pair is met once, and the busy part of the
counters, the popular items, stays in the cache.

    counter[j] = c_rj + 2³² c_jr        c_rj: lines of r before lines of j; undirected: all lines

m: bought items; L: lines of the counted baskets; B: counted baskets.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled, prefetch
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import frozen
from neatrec.data.counts import CountOptions, Int32, Int64

BLOCK = 1 << 19
"""Largest number of unordered pairs of a block, unless a single row makes more."""
MAX_32_BIT_LINES = 2**32
"""With fewer lines a position takes 32 bits: half the memory of 64."""
LOW = 0xFFFFFFFF
AHEAD = 12
"""Distance of the prefetches in postings: the lines arrive in time and are not evicted yet."""


class BasketLines(NamedTuple):
    """Some baskets: basket b is items[start[b]:stop[b]]. All arrays are frozen."""

    items: Int32
    start: Int64
    stop: Int64
    customer: Int32
    """The customer of each basket; empty where users are not known or not wanted."""

    @classmethod
    def of(cls, baskets: Baskets, numbers: Int64, *, users: bool = True) -> BasketLines:
        """The lines of the baskets with these numbers; `users`: with customers, where known."""
        given = baskets.users if users else None
        customer = np.empty(0) if given is None else given[numbers]
        offsets = baskets.offsets
        return cls.frozen(baskets.items, offsets[numbers], offsets[numbers + 1], customer)

    @classmethod
    def frozen(cls, items: Any, start: Any, stop: Any, customer: Any) -> BasketLines:
        """The compiled code takes frozen arrays only: one machine code for all callers."""
        starts, stops = frozen(start, np.int64), frozen(stop, np.int64)
        return cls(frozen(items, np.int32), starts, stops, frozen(customer, np.int32))

    @property
    def sizes(self) -> Int64:
        """Lines of each basket."""
        return self.stop - self.start


class Band(NamedTuple):
    """Rows first:last of the items in `code`, most bought first."""

    code: Int32
    first: int
    last: int


class RowCounters(NamedTuple):
    """One thread's counters; they come in and go out clean."""

    counter: Int64
    """Shape (m,): c_rj + 2³² c_jr of partner j; c_rj has both directions if not `ordered`."""
    touched: Int32
    """The partners of the row, shape (m + 1,)."""
    counts: Int64
    """Their counts, shape (m + 1,)."""
    by_customer: Int64
    """Shape (m, 3): customers packed alike, last customer of each direction."""
    customers: Int64
    """Customers of the partners, shape (m + 1,)."""


class Rows(NamedTuple):
    """The input of the compiled counter."""

    directed: bool
    ordered: bool
    """Whether counters separate the directions."""
    once: bool
    """Whether a pair counts at most once per customer."""
    bounds: Int64
    posting: npt.NDArray[Any]
    """(start of the basket, lines of the basket before this one), shape (L, 2)."""
    line: npt.NDArray[Any]
    """The ranks of each basket's lines, ascending; if ordered + 2³² position in the cart, (L,)."""
    customer: Int32
    """The customer of each posting; empty where users are not known."""
    code: Int32
    """The item's code, by rank."""
    group: Int64
    """The item's group, by rank: items of one group make no pair."""
    visits: Int64
    """Line pairs that each row looks at."""
    first: int
    """The rows to count: first:last."""
    last: int

    @property
    def max_pairs(self) -> Int64:
        """A bound of the unordered pairs of each row: its partners have a lower or equal rank."""
        return np.minimum(self.visits, np.arange(1, len(self.visits) + 1))

    def blocks(self) -> list[tuple[int, int]]:
        """The rows to count in runs of about one block, the same for any number of threads."""
        cost = np.cumsum(np.maximum(self.max_pairs, self.visits // 8)[: self.last])
        cuts = [self.first]
        while cuts[-1] < len(cost):
            done = int(cost[cuts[-1] - 1]) if cuts[-1] else 0
            cuts.append(max(cuts[-1] + 1, int(np.searchsorted(cost, done + BLOCK, side="right"))))
        return list(pairwise(cuts))

    def counters(self) -> RowCounters:
        """Clean counters for one thread."""
        m = len(self.code)
        with_customers = m if len(self.customer) else 0
        by_customer = np.zeros((with_customers, 3), dtype=np.int64)
        by_customer[:, 1:] = -1
        return RowCounters(
            np.zeros(m, dtype=np.int64),
            np.empty(m + 1, dtype=np.int32),
            np.empty(m + 1, dtype=np.int64),
            by_customer,
            np.empty(with_customers + 1, dtype=np.int64),
        )


def make_rows(
    lines: BasketLines, group: Int64, options: CountOptions, counts: Int64, band: Band | None = None
) -> Rows:
    """Sort the lines by item and by basket: two counting sorts, a constant cost per line.

    `counts`: the lines of each item; `band`: the rows to count, default all.
    """
    apart = len(lines.customer) > 0
    if apart:  # the lines of a customer follow each other
        order = np.argsort(lines.customer, kind="stable")
        lines = BasketLines.frozen(lines.items, *(each[order] for each in lines[1:]))
    code = by_popularity(counts) if band is None else band.code
    bounds, first_line = _starts(counts[code]), _starts(lines.sizes)
    n = int(bounds[-1])
    customer = np.empty(n if apart else 0, dtype=np.int32)
    posting = np.empty((n, 2), dtype=np.uint32 if n < MAX_32_BIT_LINES else np.int64)
    fill_postings(lines, rank_of(code, len(group)), bounds[:-1].copy(), posting, customer)
    ordered = options.directed or options.forward
    line, visits = np.empty(n, np.int64 if ordered else np.int32), np.zeros(len(code), np.int64)
    sort_baskets(bounds, np.repeat(first_line[:-1], 2).reshape(-1, 2), posting, line, visits)
    flags = options.directed, ordered, options.once_per_customer
    limits = (0, len(code)) if band is None else (band.first, band.last)
    return Rows(*flags, bounds, posting, line, customer, code, group[code], visits, *limits)


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


@compiled
def count_lines(lines, counts, squares, within):  # type: ignore[no-untyped-def]
    """counts[i] += lines of item i; squares[i] += Σ_b n_bi², n_bi: lines of i in basket b.

    No pair counts more: c_ij = Σ_b n_bi n_bj <= sqrt(Σ_b n_bi² Σ_b n_bj²). within: zeros.
    """
    items, start, stop, _ = lines
    for b in range(len(start)):
        for k in range(start[b], stop[b]):
            i = items[k]
            within[i] += 1
            counts[i] += 1
            squares[i] += 2 * within[i] - 1
        for k in range(start[b], stop[b]):
            within[items[k]] = 0


@compiled
def fill_postings(lines, rank, cursor, posting, customer):  # type: ignore[no-untyped-def]
    """posting[p] = (basket, position in the basket) of each line, by rank, then in basket order.

    customer[p]: that of the basket, or empty; cursor: the first posting of each rank; moved to its
    end.
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
def sort_baskets(bounds, places, posting, line, visits):  # type: ignore[no-untyped-def]
    """Lay out the lines basket by basket, each sorted by rank: lines of lower rank come first.

    posting becomes (start of the basket, lines of the basket before this one). places: the start
    of each basket and the position of its next line, shape (B, 2), equal at first.
    line[k] = 2³² position + rank, of which a line of 32 bits keeps the rank.
    """
    last = len(posting) - 1
    for r in range(len(bounds) - 1):
        seen = 0
        for p in range(bounds[r], bounds[r + 1]):
            prefetch(places, 2 * np.int64(posting[min(p + 2 * AHEAD, last), 0]))
            prefetch(line, places[posting[min(p + AHEAD, last), 0], 1])
            b = posting[p, 0]
            base, k = places[b, 0], places[b, 1]
            places[b, 1] = k + 1
            line[k] = (np.int64(posting[p, 1]) << 32) + r
            posting[p, 0] = base
            posting[p, 1] = k - base
            seen += k - base
        visits[r] = seen


@compiled
def order_of_pairs(query, item, by_item, order, cursor):  # type: ignore[no-untyped-def]
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
            position = source[k]
            c = column[position]
            target[cursor[c]] = position
            cursor[c] += 1


@compiled
def _fill_counters(r, rows, counters):  # type: ignore[no-untyped-def]
    """Count the lines before each line of the row in its sorted basket; return the partners met.

    If ordered, the upper half of a line is its position in the cart.
    """
    posting, line = rows.posting, rows.line
    counter, touched = counters.counter, counters.touched
    met = np.int64(0)
    for p in range(rows.bounds[r], rows.bounds[r + 1]):
        # the last postings load the last basket again
        prefetch(line, posting[min(p + AHEAD, len(posting) - 1), 0])
        s = np.int64(posting[p, 0])
        e = s + posting[p, 1]
        own = np.int64(line[e]) if rows.ordered else np.int64(-1)
        for k in range(s, e):
            j = np.uint32(line[k])
            t = counter[j]
            touched[met] = j  # kept only if `met` grows: no branch to mispredict
            met += np.int64(t == 0)
            counter[j] = t + (np.int64(1) << (np.int64(line[k] < own) << 5))
    return met


@compiled
def _fill_customers(r, rows, by_customer):  # type: ignore[no-untyped-def]
    """Count the customers of each partner, per direction if directed.

    by_customer[j] = (customers packed as counters are, last customer of either direction). The
    lines of a customer follow each other: a new customer differs from the last one.
    """
    posting, line = rows.posting, rows.line
    for p in range(rows.bounds[r], rows.bounds[r + 1]):
        prefetch(line, posting[min(p + AHEAD, len(posting) - 1), 0])
        s = np.int64(posting[p, 0])
        e = s + posting[p, 1]
        own = np.int64(line[e]) if rows.directed else np.int64(-1)
        for k in range(s, e):
            j = np.uint32(line[k])
            side = np.int64(line[k] < own)
            by_customer[j, 0] += np.int64(by_customer[j, 1 + side] != rows.customer[p]) << (
                side << 5
            )
            by_customer[j, 1 + side] = rows.customer[p]


@compiled
def _times(t, directed):  # type: ignore[no-untyped-def]
    """The count of a pair; if directed, that of its more frequent direction."""
    ahead, behind = t & LOW, t >> 32
    return max(ahead, behind) if directed else ahead + behind


@compiled
def _directions(t, directed):  # type: ignore[no-untyped-def]
    """The number of pairs in a counter: directed, one per direction."""
    return np.int64(t & LOW > 0) + np.int64(t >> 32 > 0) if directed else np.int64(1)


@compiled
def _count_row(r, min_count, rows, counters):  # type: ignore[no-untyped-def]
    """Count row r and empty the counters; touched and counts then begin with the frequent partners.

    Returns the number of these partners, and of all pairs.
    """
    met = _fill_counters(r, rows, counters)
    counter, touched, counts, by_customer, customers = counters
    group, with_customers = rows.group, len(rows.customer) > 0
    if with_customers:
        _fill_customers(r, rows, by_customer)
    stay, pairs = np.int64(0), np.int64(0)
    for k in range(met):
        j = np.uint32(touched[k])
        t = counter[j]
        counter[j] = 0
        if with_customers:
            customers[stay] = by_customer[j, 0]
            t = by_customer[j, 0] if rows.once else t
            by_customer[j, 0], by_customer[j, 1], by_customer[j, 2] = 0, -1, -1
        # no partner of the same category, nor the item itself where a basket holds it twice
        other = np.int64(group[j] != group[r])
        touched[stay] = j
        counts[stay] = t
        stay += other & np.int64(_times(t, rows.directed) >= min_count)
        pairs += other * _directions(t, rows.directed)
    return stay, pairs


@compiled
def _write(n, r, stay, rows, counters, min_count, out):  # type: ignore[no-untyped-def]
    """Append the frequent enough pairs of row r to out; return the new length."""
    query, item, count, ordered, customers = out
    counts = counters.counts
    i = rows.code[r]
    for k in range(stay):
        j, t = rows.code[counters.touched[k]], counts[k]
        for backward in range(2 if rows.directed else 1):
            turned = backward if rows.directed else j < i
            ahead, behind = t >> (32 * turned) & LOW, t >> (32 - 32 * turned) & LOW
            times = ahead if rows.directed else ahead + behind
            if times < min_count:
                continue
            query[n], item[n], count[n] = (j, i, times) if turned else (i, j, times)
            if len(ordered):
                ordered[n] = behind if rows.directed else ahead
            if len(customers):
                customers[n] = counters.customers[k] >> (32 * backward) & LOW
            n += 1
    return n


@compiled
def count_rows(r0, r1, rows, counters, min_count, out):  # type: ignore[no-untyped-def]
    """Write the frequent enough pairs of rows r0 to r1 to out; return (pairs written, all pairs).

    out: `PairBlock`, its last two columns of length 0 where they are not wanted.
    """
    written, pairs = 0, 0
    for r in range(r0, r1):
        stay, met = _count_row(r, min_count, rows, counters)
        written = _write(written, r, stay, rows, counters, min_count, out)
        pairs += met
    return written, pairs
