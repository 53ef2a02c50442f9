"""The compiled counter of the memory engine: one row of counters at a time.

Row r is the item of rank r with its partners j of lower rank, so that each unordered pair is met once, and the busy
part of the counters, the popular items, stays in the cache.

    counter[j] = c_rj + 2³² c_jr        c_rj: lines of r before lines of j; undirected: all of them in c_rj

`touched` lists the partners met. Records and shapes as in `layout.py`.
"""

from __future__ import annotations

import numpy as np

from neatrec.compiled import compiled, prefetch
from neatrec.cooccurrence.layout import AHEAD, ALL, ALL_DIRECTED, CUSTOMERS, WINDOW

LOW = 0xFFFFFFFF
BACKWARD = 1 << 32


@compiled
def _prefetch_basket(p, posting, line):
    """Load the basket of a later posting; the last postings ask for the last one again."""
    prefetch(line, posting[min(p + AHEAD, len(posting) - 1), 0])


@compiled
def _count_all(r, rows, counters):
    """Every line that stands before one of the row's lines in the sorted basket; returns how many partners were met."""
    posting, line_rank = rows.posting, rows.line_rank
    counter, touched = counters.counter, counters.touched
    met = np.int64(0)
    for p in range(rows.bounds[r], rows.bounds[r + 1]):
        _prefetch_basket(p, posting, line_rank)
        s = np.int64(posting[p, 0])
        for k in range(s, s + posting[p, 1]):
            j = np.uint32(line_rank[k])
            t = counter[j]
            touched[met] = j  # kept only if the next line counts it: no branch to mispredict
            met += np.int64(t == 0)
            counter[j] = t + 1
    return met


@compiled
def _count_all_directed(r, rows, counters):
    """As `_count_all`; a line's position stands in its upper half, so that the earlier line is the smaller number."""
    posting, line = rows.posting, rows.line
    counter, touched = counters.counter, counters.touched
    met = np.int64(0)
    for p in range(rows.bounds[r], rows.bounds[r + 1]):
        _prefetch_basket(p, posting, line)
        s = np.int64(posting[p, 0])
        e = s + posting[p, 1]
        own = line[e]
        for k in range(s, e):
            j = np.uint32(line[k])
            t = counter[j]
            touched[met] = j
            met += np.int64(t == 0)
            counter[j] = t + (np.int64(1) << (np.int64(line[k] < own) << 5))
    return met


@compiled
def _count_window(r, rows, counters):
    """Neighbours of lower rank; a neighbour before the line adds to the upper half where direction counts.

    All others count as the row's own item, which makes no pair with itself and whose counter is at hand.
    """
    posting, line_rank = rows.posting, rows.line_rank
    counter, touched = counters.counter, counters.touched
    back = BACKWARD if rows.directed else 1
    met = np.int64(0)
    own = np.uint32(r)
    for p in range(rows.bounds[r], rows.bounds[r + 1]):
        _prefetch_basket(p, posting, line_rank)
        k0 = np.int64(posting[p, 0])
        for k in range(k0 - posting[p, 1], k0):
            j = min(np.uint32(line_rank[k]), own)
            t = counter[j]
            touched[met] = j
            met += np.int64(t == 0)
            counter[j] = t + back
        for k in range(k0 + 1, k0 + 1 + posting[p, 2]):
            j = min(np.uint32(line_rank[k]), own)
            t = counter[j]
            touched[met] = j
            met += np.int64(t == 0)
            counter[j] = t + 1
    return met


@compiled
def _count_customer(j, backward, customer, by_customer, touched, met):
    """One more line pair of partner j; a customer counts once per direction (backward: the partner first).

    by_customer[j] = (counter, customers packed alike, last customer forward, backward): one place in memory for all.
    Customers come one after another, so the last one seen is enough to know a new one.
    """
    one = np.int64(1) << (backward << 5)
    t = by_customer[j, 0]
    touched[met] = j
    by_customer[j, 0] = t + one
    by_customer[j, 1] += one * np.int64(by_customer[j, 2 + backward] != customer)
    by_customer[j, 2 + backward] = customer
    return met + np.int64(t == 0)


@compiled
def _count_customers(r, rows, counters):
    posting, line, customer = rows.posting, rows.line, rows.customer
    by_customer, touched = counters.by_customer, counters.touched
    met = np.int64(0)
    for p in range(rows.bounds[r], rows.bounds[r + 1]):
        _prefetch_basket(p, posting, line)
        s = np.int64(posting[p, 0])
        e = s + posting[p, 1]
        own = line[e] if rows.directed else np.int64(-1)
        for k in range(s, e):
            backward = np.int64(line[k] < own)
            met = _count_customer(np.uint32(line[k]), backward, customer[p], by_customer, touched, met)
    return met


@compiled
def _count_window_customers(r, rows, counters):
    posting, line_rank, customer = rows.posting, rows.line_rank, rows.customer
    by_customer, touched = counters.by_customer, counters.touched
    met = np.int64(0)
    for p in range(rows.bounds[r], rows.bounds[r + 1]):
        _prefetch_basket(p, posting, line_rank)
        own = np.int64(posting[p, 0])
        for k in range(own - posting[p, 1], own + posting[p, 2] + 1):
            if line_rank[k] < r:
                backward = np.int64(rows.directed and k < own)
                met = _count_customer(np.uint32(line_rank[k]), backward, customer[p], by_customer, touched, met)
    return met


@compiled
def _fill_counters(r, rows, counters):
    """Fill the counters of row r by one of the five ways; returns how many partners were met."""
    if rows.way == ALL:
        return _count_all(r, rows, counters)
    if rows.way == ALL_DIRECTED:
        return _count_all_directed(r, rows, counters)
    if rows.way == WINDOW:
        return _count_window(r, rows, counters)
    if rows.way == CUSTOMERS:
        return _count_customers(r, rows, counters)
    return _count_window_customers(r, rows, counters)


@compiled
def _sweep(r, met, min_count, removal, counters):
    """Empty the counters; touched and counts then begin with the partners that count often enough, either way.

    Returns how many those are, and how many pairs there were, each direction on its own.
    """
    counter, touched, counts = counters.counter, counters.touched, counters.counts
    stay, pairs = np.int64(0), np.int64(0)
    for k in range(met):
        j = np.uint32(touched[k])
        t = counter[j]
        counter[j] = 0
        ahead, behind = t & LOW, t >> 32
        # not a partner of the same category, nor the item itself put twice into a basket
        other = np.int64(removal[j] != removal[r])
        pairs += other * (np.int64(ahead > 0) + np.int64(behind > 0))
        touched[stay] = j
        counts[stay] = t
        stay += other & np.int64(max(ahead, behind) >= min_count)
    return stay, pairs


@compiled
def _sweep_undirected(r, met, min_count, removal, counters):
    """`_sweep` where each pair has one count."""
    counter, touched, counts = counters.counter, counters.touched, counters.counts
    stay, pairs = np.int64(0), np.int64(0)
    for k in range(met):
        j = np.uint32(touched[k])
        t = counter[j]
        counter[j] = 0
        other = np.int64(removal[j] != removal[r])
        pairs += other
        touched[stay] = j
        counts[stay] = t
        stay += other & np.int64(t >= min_count)
    return stay, pairs


@compiled
def _sweep_customers(r, met, min_count, once, removal, counters):
    """`_sweep` that also empties the customers' counters; once: a customer counts once."""
    _, touched, counts, by_customer, customers = counters
    stay, pairs = np.int64(0), np.int64(0)
    for k in range(met):
        j = np.uint32(touched[k])
        t = by_customer[j, 1] if once else by_customer[j, 0]
        customers[stay] = by_customer[j, 1]
        counts[stay] = t
        touched[stay] = j
        by_customer[j, 0], by_customer[j, 1], by_customer[j, 2], by_customer[j, 3] = 0, 0, -1, -1
        ahead, behind = t & LOW, t >> 32
        other = np.int64(removal[j] != removal[r])
        pairs += other * (np.int64(ahead > 0) + np.int64(behind > 0))
        stay += other & np.int64(max(ahead, behind) >= min_count)
    return stay, pairs


@compiled
def _count_row(r, min_count, rows, counters):
    """(partners left in touched and counts, pairs met) of row r, all counters clean again."""
    met = _fill_counters(r, rows, counters)
    if rows.way >= CUSTOMERS:
        return _sweep_customers(r, met, min_count, rows.once, rows.removal, counters)
    if rows.directed:
        return _sweep(r, met, min_count, rows.removal, counters)
    return _sweep_undirected(r, met, min_count, rows.removal, counters)


@compiled
def _write(n, r, stay, rows, counters, sink):
    """Append the pairs of row r that pass the filter to out; returns the new length. See `PairFilter` for the test."""
    (min_count, a, b, u, w), (query, item, count, reverse, customers) = sink
    counts = counters.counts
    # where customers have no counters of their own, every record has its own customer
    customer_counts = counters.customers if rows.way >= CUSTOMERS else counts
    i = rows.code[r]
    for k in range(stay):
        j = rows.code[counters.touched[k]]
        for backward in range(2 if rows.directed else 1):
            ahead = counts[k] >> (32 * backward) & LOW
            if ahead < min_count:
                continue
            q, v = (j, i) if backward or (j < i and not rows.directed) else (i, j)
            if len(a):
                excess = ahead - a[q] * b[v]
                if not (excess >= 0 and excess * excess >= u[q] * w[v]):
                    continue
            query[n], item[n], count[n] = q, v, ahead
            if len(reverse):
                reverse[n] = counts[k] >> (32 - 32 * backward) & LOW
            if len(customers):
                customers[n] = customer_counts[k] >> (32 * backward) & LOW
            n += 1
    return n


@compiled
def count_rows(r0, r1, rows, counters, conditions, out):
    """The pairs of rows r0 to r1 that pass the filter, written to out; returns (pairs written, pairs met).

    conditions: `PairFilter.conditions`; out: query, item, count, reverse, customers, the last two of length 0 where
    they are not wanted.
    """
    written, pairs = 0, 0
    for r in range(r0, r1):
        stay, met = _count_row(r, conditions[0], rows, counters)
        written = _write(written, r, stay, rows, counters, (conditions, out))
        pairs += met
    return written, pairs


@compiled
def margins_of_rows(r0, r1, rows, counters, either, second):
    """either[i] += records of rows r0 to r1 with item i in either place; second[i]: in the second."""
    touched, counts, code = counters.touched, counters.counts, rows.code
    for r in range(r0, r1):
        stay, _ = _count_row(r, 1, rows, counters)
        i = code[r]
        for k in range(stay):
            j = code[touched[k]]
            ahead, behind = counts[k] & LOW, counts[k] >> 32
            either[i] += ahead + behind
            either[j] += ahead + behind
            second[j] += ahead
            second[i] += behind


@compiled
def find_pairs(start, item, rows, items):
    """Where each pair (rows[n], items[n]) stands in `item`, -1 where it does not; items of a row ascend.

    The items of row r are item[start[r]:start[r + 1]].
    """
    out = np.full(len(rows), -1, np.int64)
    for n in range(len(rows)):
        low, high = start[rows[n]], start[rows[n] + 1]
        end = high
        while low < high:
            middle = (low + high) // 2
            if item[middle] < items[n]:
                low = middle + 1
            else:
                high = middle
        if low < end and item[low] == items[n]:
            out[n] = low
    return out
