"""The compiled floor of the memory engine, second half: one row of counters at a time.

Row r is the item of rank r with its partners j of lower rank, so that each unordered pair is met once, and the busy
part of the counters, the popular items, stays in the cache.

    tally[j] = c_rj + 2³² c_jr        c_rj: lines of r before lines of j; undirected: all of them in c_rj

`touched` lists the partners met. All scratch arrays come in and go out clean.
m: items bought at all; shapes as in `layout.py`.
"""

from __future__ import annotations

import numpy as np

from neatrec.compiled import compiled
from neatrec.cooccurrence.prefetch import AHEAD, prefetch

ALL, ALL_DIRECTED, WINDOW, CUSTOMERS, WINDOW_CUSTOMERS = 0, 1, 2, 3, 4
"""The ways to tally a row."""

LOW = 0xFFFFFFFF
BACKWARD = 1 << 32


@compiled
def _ask_ahead(p, posting, line):
    """Have the basket that is needed a few postings later brought from memory; the last ones ask for the last again."""
    prefetch(line, posting[min(p + AHEAD, len(posting) - 1), 0])


@compiled
def _tally_all(p0, p1, posting, line_rank, tally, touched):
    """Every line that stands before one of the row's lines in the sorted basket; returns how many partners were met."""
    met = np.int64(0)
    for p in range(p0, p1):
        _ask_ahead(p, posting, line_rank)
        s = np.int64(posting[p, 0])
        for k in range(s, s + posting[p, 1]):
            j = np.uint32(line_rank[k])
            t = tally[j]
            touched[met] = j  # kept only if the next line counts it: no branch to mispredict
            met += np.int64(t == 0)
            tally[j] = t + 1
    return met


@compiled
def _tally_all_directed(p0, p1, posting, line, tally, touched):
    """As `_tally_all`; a line's position stands in its upper half, so that the earlier line is the smaller number."""
    met = np.int64(0)
    for p in range(p0, p1):
        _ask_ahead(p, posting, line)
        s = np.int64(posting[p, 0])
        e = s + posting[p, 1]
        own = line[e]
        for k in range(s, e):
            j = np.uint32(line[k])
            t = tally[j]
            touched[met] = j
            met += np.int64(t == 0)
            tally[j] = t + (np.int64(1) << (np.int64(line[k] < own) << 5))
    return met


@compiled
def _tally_window(r, p0, p1, posting, line_rank, back, tally, touched):
    """Neighbours of lower rank; back: what a neighbour before the line adds (BACKWARD, or 1 when undirected).

    All others count as the row's own item, which makes no pair with itself and whose counter is at hand.
    """
    met = np.int64(0)
    own = np.uint32(r)
    for p in range(p0, p1):
        _ask_ahead(p, posting, line_rank)
        k0 = np.int64(posting[p, 0])
        for k in range(k0 - posting[p, 1], k0):
            j = min(np.uint32(line_rank[k]), own)
            t = tally[j]
            touched[met] = j
            met += np.int64(t == 0)
            tally[j] = t + back
        for k in range(k0 + 1, k0 + 1 + posting[p, 2]):
            j = min(np.uint32(line_rank[k]), own)
            t = tally[j]
            touched[met] = j
            met += np.int64(t == 0)
            tally[j] = t + 1
    return met


@compiled
def _count_customer(j, way, who, people, touched, met):
    """One more line pair of partner j; a customer counts once a way (0: the row's item first, 1: the partner first).

    people[j] = (tally, customers packed alike, last customer of way 0, of way 1): one place in memory for all.
    Customers come one after another, so that the last one seen is enough to know a new one.
    """
    one = np.int64(1) << (way << 5)
    t = people[j, 0]
    touched[met] = j
    people[j, 0] = t + one
    people[j, 1] += one * np.int64(people[j, 2 + way] != who)
    people[j, 2 + way] = who
    return met + np.int64(t == 0)


@compiled
def _tally_customers(p0, p1, directed, posting, line, who, people, touched):
    met = np.int64(0)
    for p in range(p0, p1):
        _ask_ahead(p, posting, line)
        s = np.int64(posting[p, 0])
        e = s + posting[p, 1]
        own = line[e] if directed else np.int64(-1)
        for k in range(s, e):
            met = _count_customer(np.uint32(line[k]), np.int64(line[k] < own), who[p], people, touched, met)
    return met


@compiled
def _tally_window_customers(r, p0, p1, directed, posting, line_rank, who, people, touched):
    met = np.int64(0)
    for p in range(p0, p1):
        _ask_ahead(p, posting, line_rank)
        own = np.int64(posting[p, 0])
        for k in range(own - posting[p, 1], own + posting[p, 2] + 1):
            if line_rank[k] < r:
                way = np.int64(directed and k < own)
                met = _count_customer(np.uint32(line_rank[k]), way, who[p], people, touched, met)
    return met


@compiled
def _tally_row(r, way, directed, lines, who, scratch):
    """Fill the counters of row r by one of the five ways; returns how many partners were met."""
    bounds, posting, line_rank, line = lines
    tally, touched, _, people, _ = scratch
    p0, p1 = bounds[r], bounds[r + 1]
    if way == ALL:
        return _tally_all(p0, p1, posting, line_rank, tally, touched)
    if way == ALL_DIRECTED:
        return _tally_all_directed(p0, p1, posting, line, tally, touched)
    if way == WINDOW:
        return _tally_window(r, p0, p1, posting, line_rank, BACKWARD if directed else 1, tally, touched)
    if way == CUSTOMERS:
        return _tally_customers(p0, p1, directed, posting, line, who, people, touched)
    return _tally_window_customers(r, p0, p1, directed, posting, line_rank, who, people, touched)


@compiled
def _sweep(r, met, min_count, removal, tally, touched, counts):
    """Empty the counters; touched and counts then begin with the partners that count often enough, either way.

    Returns how many those are, and how many pairs there were, each direction on its own.
    """
    stay, pairs = np.int64(0), np.int64(0)
    for k in range(met):
        j = np.uint32(touched[k])
        t = tally[j]
        tally[j] = 0
        ahead, behind = t & LOW, t >> 32
        # not a partner of the same category, nor the item itself dealt twice into a basket
        other = np.int64(removal[j] != removal[r])
        pairs += other * (np.int64(ahead > 0) + np.int64(behind > 0))
        touched[stay] = j
        counts[stay] = t
        stay += other & np.int64(max(ahead, behind) >= min_count)
    return stay, pairs


@compiled
def _sweep_undirected(r, met, min_count, removal, tally, touched, counts):
    """`_sweep` where each pair has one count."""
    stay, pairs = np.int64(0), np.int64(0)
    for k in range(met):
        j = np.uint32(touched[k])
        t = tally[j]
        tally[j] = 0
        other = np.int64(removal[j] != removal[r])
        pairs += other
        touched[stay] = j
        counts[stay] = t
        stay += other & np.int64(t >= min_count)
    return stay, pairs


@compiled
def _sweep_customers(r, met, min_count, once, removal, scratch):
    """`_sweep` that also empties the customers' counters; once: a customer counts once."""
    _, touched, counts, people, customers = scratch
    stay, pairs = np.int64(0), np.int64(0)
    for k in range(met):
        j = np.uint32(touched[k])
        t = people[j, 1] if once else people[j, 0]
        customers[stay] = people[j, 1]
        counts[stay] = t
        touched[stay] = j
        people[j, 0], people[j, 1], people[j, 2], people[j, 3] = 0, 0, -1, -1
        ahead, behind = t & LOW, t >> 32
        other = np.int64(removal[j] != removal[r])
        pairs += other * (np.int64(ahead > 0) + np.int64(behind > 0))
        stay += other & np.int64(max(ahead, behind) >= min_count)
    return stay, pairs


@compiled
def _count_row(r, way, directed, once, min_count, lines, who, removal, scratch):
    """(partners left in touched and counts, pairs met) of row r, all counters clean again."""
    met = _tally_row(r, way, directed, lines, who, scratch)
    if way >= CUSTOMERS:
        return _sweep_customers(r, met, min_count, once, removal, scratch)
    if directed:
        return _sweep(r, met, min_count, removal, scratch[0], scratch[1], scratch[2])
    return _sweep_undirected(r, met, min_count, removal, scratch[0], scratch[1], scratch[2])


@compiled
def _write(n, i, stay, touched, counts, people, code, directed, screen, out):
    """Append the pairs of item i that pass the screen to out; returns the new length. See `Screen` for the test."""
    min_count, a, b, u, w = screen
    query, item, count, reverse, customers = out
    for k in range(stay):
        j = code[touched[k]]
        for backward in range(2 if directed else 1):
            ahead = counts[k] >> (32 * backward) & LOW
            if ahead < min_count:
                continue
            q, v = (j, i) if backward or (j < i and not directed) else (i, j)
            if len(a):
                excess = ahead - a[q] * b[v]
                if not (excess >= 0 and excess * excess >= u[q] * w[v]):
                    continue
            query[n], item[n], count[n] = q, v, ahead
            if len(reverse):
                reverse[n] = counts[k] >> (32 - 32 * backward) & LOW
            if len(customers):
                customers[n] = people[k] >> (32 * backward) & LOW
            n += 1
    return n


@compiled
def count_rows(r0, r1, way, directed, once, lines, who, code, removal, screen, scratch, out):
    """The pairs of rows r0 to r1 that pass the screen, written to out; returns (pairs written, pairs met).

    code, removal: the item's code and its removal code, by rank, shape (m,).
    out: query, item, count, reverse, customers, the last two of length 0 where they are not wanted.
    """
    # where customers have no counters of their own, every record has its own customer
    customers = scratch[4] if way >= CUSTOMERS else scratch[2]
    written, pairs = 0, 0
    for r in range(r0, r1):
        stay, met = _count_row(r, way, directed, once, screen[0], lines, who, removal, scratch)
        written = _write(written, code[r], stay, scratch[1], scratch[2], customers, code, directed, screen, out)
        pairs += met
    return written, pairs


@compiled
def margins_of_rows(r0, r1, way, directed, once, lines, who, code, removal, scratch, either, second):
    """either[i] += records of rows r0 to r1 with item i in either place; second[i]: in the second."""
    _, touched, counts, _, _ = scratch
    for r in range(r0, r1):
        stay, _ = _count_row(r, way, directed, once, 1, lines, who, removal, scratch)
        i = code[r]
        for k in range(stay):
            j = code[touched[k]]
            ahead, behind = counts[k] & LOW, counts[k] >> 32
            either[i] += ahead + behind
            either[j] += ahead + behind
            second[j] += ahead
            second[i] += behind
