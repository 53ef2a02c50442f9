"""The compiled floor of the memory engine, first half: totals and the layout of the lines.

Items are relabelled by popularity: rank 0 is bought most. A posting is a line seen from its item: the lines of rank r
are the postings bounds[r]:bounds[r + 1], in basket order.
m: items bought at all; L: lines of the counted baskets; B: counted baskets, basket b being items[start[b]:stop[b]].
"""

from __future__ import annotations

import numpy as np

from neatrec.compiled import compiled
from neatrec.copurchase.prefetch import AHEAD, prefetch


@compiled
def line_counts(items, start, stop, out):
    """out[i] += lines of item i in the baskets items[start[b]:stop[b]]."""
    for b in range(len(start)):
        for k in range(start[b], stop[b]):
            out[items[k]] += 1


@compiled
def has_repeats(items, start, stop, last_basket):
    """Whether an item stands twice in one basket; last_basket: -1 for each item."""
    for b in range(len(start)):
        for k in range(start[b], stop[b]):
            if last_basket[items[k]] == b:
                return True
            last_basket[items[k]] = b
    return False


@compiled
def largest_tally(items, start, stop, squares):
    """The largest sum over baskets of (lines of an item in the basket)², a bound of every pair count.

    c_ij = Σ_b n_bi n_bj <= sqrt(Σ_b n_bi² Σ_b n_bj²); squares: zeros, shape (items, 2).
    """
    for b in range(len(start)):
        for k in range(start[b], stop[b]):
            squares[items[k], 1] += 1
        for k in range(start[b], stop[b]):
            n = squares[items[k], 1]
            squares[items[k], 0] += n * n
            squares[items[k], 1] = 0
    return squares[:, 0].max() if len(squares) else 0


@compiled
def margins_of_baskets(items, start, stop, removal, window, seen, first, second):
    """first[i] += lines after each line of i within the window and of another removal code; second[i]: lines before.

    seen: zeros, one for each removal code; a window as long as the longest basket means all pairs.
    """
    for b in range(len(start)):
        s, e = start[b], stop[b]
        for k in range(s, e):
            if k - s > window:
                seen[removal[items[k - window - 1]]] -= 1
            c = removal[items[k]]
            second[items[k]] += min(k - s, window) - seen[c]
            seen[c] += 1
        for k in range(s, e):
            seen[removal[items[k]]] = 0
        for k in range(e - 1, s - 1, -1):
            if e - 1 - k > window:
                seen[removal[items[k + window + 1]]] -= 1
            c = removal[items[k]]
            first[items[k]] += min(e - 1 - k, window) - seen[c]
            seen[c] += 1
        for k in range(s, e):
            seen[removal[items[k]]] = 0


@compiled
def postings(items, start, stop, rank, cursor, basket, position):
    """For each item, by rank, its lines: basket[p] and position[p] in the basket, p from cursor[r] on, in basket order.

    Leaves cursor[r] at the end of rank r.
    """
    for b in range(len(start)):
        s = start[b]
        for k in range(s, stop[b]):
            r = rank[items[k]]
            p = cursor[r]
            cursor[r] = p + 1
            basket[p] = b
            position[p] = k - s


@compiled
def sort_baskets(bounds, places, begin, length, line_rank, line, visits):
    """Lay the lines out basket by basket, each sorted by rank: those of lower rank come before a line.

    begin comes in as the basket of each posting and length as its position; they go out as where the basket starts and
    how many of its lines stand before this one. places: where each basket starts, and again where its next line goes,
    shape (2 B,). Where positions are wanted line_rank is empty and line[k] = 2³² position + rank.
    """
    last = len(begin) - 1
    for r in range(len(bounds) - 1):
        seen = 0
        for p in range(bounds[r], bounds[r + 1]):
            prefetch(places, 2 * np.int64(begin[min(p + 2 * AHEAD, last)]))
            ahead = places[2 * np.int64(begin[min(p + AHEAD, last)]) + 1]
            b = 2 * np.int64(begin[p])
            base, k = places[b], places[b + 1]
            places[b + 1] = k + 1
            if len(line):
                prefetch(line, ahead)
                line[k] = (np.int64(length[p]) << 32) + r
            else:
                prefetch(line_rank, ahead)
                line_rank[k] = r
            begin[p] = base
            length[p] = k - base
            seen += k - base
        visits[r] = seen


@compiled
def keep_order(bounds, base, window, begin, before, after, line_rank, visits):
    """Lay the lines out basket by basket in cart order, and for each posting how many neighbours it has.

    begin comes in as the basket of each posting and before as its position; they go out as the line itself and the
    neighbours before it within the window; after: those behind it.
    """
    for r in range(len(bounds) - 1):
        seen = 0
        for p in range(bounds[r], bounds[r + 1]):
            b = begin[p]
            k = base[b] + before[p]
            line_rank[k] = r
            begin[p] = k
            after[p] = min(window, base[b + 1] - 1 - k)
            before[p] = min(window, before[p])
            seen += before[p] + after[p]
        visits[r] = seen


@compiled
def order_of_pairs(query, item, by_item, order, cursor):
    """order: the places of the pairs sorted by (query, item), by two counting sorts, the minor key first.

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
