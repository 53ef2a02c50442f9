"""The compiled counter of the memory engine: one row of counters at a time.

Row r is the item of rank r with its partners j of lower rank: each unordered pair is met once, and
the busy part of the counters, the popular items, stays in the cache.

    counter[j] = c_rj + 2³² c_jr        c_rj: lines of r before lines of j; undirected: all lines

`touched` lists the partners. Records and shapes as in `layout.py`.
"""

from __future__ import annotations

import numpy as np

from neatrec.compiled import compiled, prefetch
from neatrec.cooccurrence.layout import AHEAD

LOW = 0xFFFFFFFF


@compiled
def _fill_counters(r, rows, counters):
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
def _fill_customers(r, rows, by_customer):
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
def _times(t, directed):
    """The count of a pair; if directed, that of its more frequent direction."""
    ahead, behind = t & LOW, t >> 32
    return max(ahead, behind) if directed else ahead + behind


@compiled
def _directions(t, directed):
    """The number of pairs in a counter: directed, one per direction."""
    return np.int64(t & LOW > 0) + np.int64(t >> 32 > 0) if directed else np.int64(1)


@compiled
def _count_row(r, min_count, rows, counters):
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
def _write(n, r, stay, rows, counters, min_count, out):
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
def count_rows(r0, r1, rows, counters, min_count, out):
    """Write the frequent enough pairs of rows r0 to r1 to out; return (pairs written, all pairs).

    out: `PairBlock`, its last two columns of length 0 where they are not wanted.
    """
    written, pairs = 0, 0
    for r in range(r0, r1):
        stay, met = _count_row(r, min_count, rows, counters)
        written = _write(written, r, stay, rows, counters, min_count, out)
        pairs += met
    return written, pairs
