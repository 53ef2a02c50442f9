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

ALL, ALL_DIRECTED, WINDOW, CUSTOMERS, WINDOW_CUSTOMERS = 0, 1, 2, 3, 4
"""The ways to tally a row."""

LOW = 0xFFFFFFFF
BACKWARD = 1 << 32


@compiled
def _tally_all(p0, p1, begin, length, line_rank, tally, touched):
    """Every line that stands before one of the row's lines in the sorted basket; returns how many partners were met."""
    met = 0
    for p in range(p0, p1):
        s = np.int64(begin[p])
        for k in range(s, s + length[p]):
            j = np.uint32(line_rank[k])
            t = tally[j]
            touched[met] = j  # kept only if the next line counts it: no branch to mispredict
            met += np.int64(t == 0)
            tally[j] = t + 1
    return met


@compiled
def _tally_all_directed(p0, p1, begin, length, line_rank, line_position, tally, touched):
    met = 0
    for p in range(p0, p1):
        s = np.int64(begin[p])
        e = s + length[p]
        own = line_position[e]
        for k in range(s, e):
            j = np.uint32(line_rank[k])
            t = tally[j]
            touched[met] = j
            met += np.int64(t == 0)
            tally[j] = t + (np.int64(1) << (np.int64(line_position[k] < own) << 5))
    return met


@compiled
def _tally_window(r, p0, p1, begin, before, after, line_rank, back, tally, touched):
    """Neighbours of lower rank; back: what a neighbour before the line adds (BACKWARD, or 1 when undirected)."""
    met = 0
    for p in range(p0, p1):
        own = np.int64(begin[p])
        for k in range(own - before[p], own + after[p] + 1):
            j = np.uint32(line_rank[k])
            lower = np.int64(j < r)
            t = tally[j]
            touched[met] = j
            met += np.int64(t == 0) & lower
            tally[j] = t + (back if k < own else 1) * lower
    return met


@compiled
def _count_customer(j, way, who, tally, customers, last, touched, met):
    """One more line pair of partner j; a customer counts once a way (0: the row's item first, 1: the partner first).

    Customers come one after another, so that the last one seen is enough to know a new one.
    """
    one = np.int64(1) << (way << 5)
    t = tally[j]
    touched[met] = j
    tally[j] = t + one
    slot = 2 * np.int64(j) + way
    if last[slot] != who:
        last[slot] = who
        customers[j] += one
    return met + np.int64(t == 0)


@compiled
def _tally_customers(p0, p1, directed, begin, length, line_rank, line_position, who, tally, customers, last, touched):
    met = 0
    for p in range(p0, p1):
        s = np.int64(begin[p])
        e = s + length[p]
        for k in range(s, e):
            way = np.int64(directed and line_position[k] < line_position[e])
            met = _count_customer(np.uint32(line_rank[k]), way, who[p], tally, customers, last, touched, met)
    return met


@compiled
def _tally_window_customers(r, p0, p1, directed, begin, before, after, line_rank, who, tally, customers, last, touched):
    met = 0
    for p in range(p0, p1):
        own = np.int64(begin[p])
        for k in range(own - before[p], own + after[p] + 1):
            if line_rank[k] < r:
                way = np.int64(directed and k < own)
                met = _count_customer(np.uint32(line_rank[k]), way, who[p], tally, customers, last, touched, met)
    return met


@compiled
def _tally_row(r, way, directed, lines, who, scratch):
    """Fill the counters of row r by one of the five ways; returns how many partners were met."""
    bounds, begin, before, after, line_rank, line_position = lines
    tally, customers, last, touched = scratch
    p0, p1 = bounds[r], bounds[r + 1]
    if way == ALL:
        return _tally_all(p0, p1, begin, before, line_rank, tally, touched)
    if way == ALL_DIRECTED:
        return _tally_all_directed(p0, p1, begin, before, line_rank, line_position, tally, touched)
    if way == WINDOW:
        back = BACKWARD if directed else 1
        return _tally_window(r, p0, p1, begin, before, after, line_rank, back, tally, touched)
    if way == CUSTOMERS:
        return _tally_customers(
            p0, p1, directed, begin, before, line_rank, line_position, who, tally, customers, last, touched
        )
    return _tally_window_customers(
        r, p0, p1, directed, begin, before, after, line_rank, who, tally, customers, last, touched
    )


@compiled
def _take(j, way, once, scratch):
    """(lines, customers) of partner j both packed, leaving its counters clean; once: lines are the customers."""
    tally, customers, last, _ = scratch
    t = tally[j]
    tally[j] = 0
    if way < CUSTOMERS:
        return t, t
    c = customers[j]
    customers[j] = 0
    last[2 * np.int64(j)] = -1
    last[2 * np.int64(j) + 1] = -1
    return (c if once else t), c


@compiled
def _passes(count, q, v, min_count, a, b, u, w):
    """The test of `Screen`."""
    if count < min_count:
        return False
    if len(a) == 0:
        return True
    excess = count - a[q] * b[v]
    return excess >= 0 and excess * excess >= u[q] * w[v]


@compiled
def _write(out, n, q, v, count, reverse, customers):
    query, item, counts, reverses, people = out
    query[n] = q
    item[n] = v
    counts[n] = count
    if len(reverses):
        reverses[n] = reverse
    if len(people):
        people[n] = customers
    return n + 1


@compiled
def count_rows(r0, r1, way, directed, once, lines, who, code, removal, screen, scratch, out):
    """The pairs of rows r0 to r1 that pass the screen, written to out; returns (pairs written, pairs seen).

    code, removal: the item's code and its removal code, by rank, shape (m,).
    out: query, item, count, reverse, customers, the last two of length 0 where they are not wanted.
    """
    min_count, a, b, u, w = screen
    written, pairs = 0, 0
    for r in range(r0, r1):
        met = _tally_row(r, way, directed, lines, who, scratch)
        touched = scratch[3]
        i = code[r]
        for k in range(met):
            t, c = _take(np.uint32(touched[k]), way, once, scratch)
            # a partner of the same category, or the item itself dealt twice into a basket
            if removal[touched[k]] == removal[r]:
                continue
            ahead, behind = t & LOW, t >> 32
            j = code[touched[k]]
            if not directed:
                pairs += 1
                q, v = min(i, j), max(i, j)
                if _passes(ahead, q, v, min_count, a, b, u, w):
                    written = _write(out, written, q, v, ahead, 0, c)
                continue
            pairs += np.int64(ahead > 0) + np.int64(behind > 0)
            if ahead > 0 and _passes(ahead, i, j, min_count, a, b, u, w):
                written = _write(out, written, i, j, ahead, behind, c & LOW)
            if behind > 0 and _passes(behind, j, i, min_count, a, b, u, w):
                written = _write(out, written, j, i, behind, ahead, c >> 32)
    return written, pairs


@compiled
def margins_of_rows(r0, r1, way, directed, once, lines, who, code, removal, scratch, first, second):
    """first[i] += records of rows r0 to r1 with item i first, second[i]: second; undirected: each once in `first`."""
    for r in range(r0, r1):
        met = _tally_row(r, way, directed, lines, who, scratch)
        touched = scratch[3]
        i = code[r]
        for k in range(met):
            t, _ = _take(np.uint32(touched[k]), way, once, scratch)
            if removal[touched[k]] != removal[r]:
                j = code[touched[k]]
                first[i] += t & LOW
                second[j] += t & LOW
                first[j] += t >> 32
                second[i] += t >> 32
