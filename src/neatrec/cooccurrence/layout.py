"""The compiled floor of the memory engine, first half: totals and the layout of the lines.

Items are relabelled by popularity: rank 0 is bought most. A posting is a line seen from its item: the lines of rank r
are the postings bounds[r]:bounds[r + 1], in basket order.
m: items bought at all; L: lines of the counted baskets; B: counted baskets, basket b being items[start[b]:stop[b]].
"""

from __future__ import annotations

import numpy as np

from neatrec.compiled import compiled
from neatrec.cooccurrence.prefetch import AHEAD, prefetch


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
def margins_of_all_pairs(items, start, stop, removal, seen, either, second):
    """either[i] += lines of another removal code in the basket of each line of i; second[i]: those before it.

    seen: zeros, one for each removal code; second: empty where it is not wanted.
    """
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
def margins_of_window(items, start, stop, removal, window, seen, either, second):
    """`margins_of_all_pairs` for lines at most `window` positions apart."""
    for b in range(len(start)):
        s, e = start[b], stop[b]
        for k in range(s, e):
            if k - s > window:
                seen[removal[items[k - window - 1]]] -= 1
            c = removal[items[k]]
            before = min(k - s, window) - seen[c]
            either[items[k]] += before
            if len(second):
                second[items[k]] += before
            seen[c] += 1
        for k in range(max(s, e - 1 - window), e):
            seen[removal[items[k]]] = 0
        for k in range(e - 1, s - 1, -1):
            if e - 1 - k > window:
                seen[removal[items[k + window + 1]]] -= 1
            c = removal[items[k]]
            either[items[k]] += min(e - 1 - k, window) - seen[c]
            seen[c] += 1
        for k in range(s, min(e, s + 1 + window)):
            seen[removal[items[k]]] = 0


@compiled
def fill_postings(items, start, stop, rank, customers, cursor, posting, who):
    """posting[p] = (basket, position in the basket) of each line of each item, by rank, then in basket order.

    posting: shape (L, 2); who[p]: the basket's customer, where wanted; cursor: where each rank begins; left at its end.
    """
    for b in range(len(start)):
        s = start[b]
        for k in range(s, stop[b]):
            r = rank[items[k]]
            p = cursor[r]
            cursor[r] = p + 1
            posting[p, 0] = b
            posting[p, 1] = k - s
            if len(who):
                who[p] = customers[b]


@compiled
def fill_window(items, start, stop, rank, customers, window, cursor, posting, who, line_rank, visits):
    """The lines in cart order, and posting[p] = (the line, its neighbours before it in the window, those behind it).

    posting: shape (L, 3); visits: zeros, the neighbours of each row; the rest as in `fill_postings`.
    """
    line = 0
    for b in range(len(start)):
        s, e = start[b], stop[b]
        for k in range(s, e):
            r = rank[items[k]]
            p = cursor[r]
            cursor[r] = p + 1
            before, after = min(window, k - s), min(window, e - 1 - k)
            posting[p, 0] = line
            posting[p, 1] = before
            posting[p, 2] = after
            visits[r] += before + after
            line_rank[line] = r
            line += 1
            if len(who):
                who[p] = customers[b]


@compiled
def sort_baskets(bounds, places, posting, line_rank, line, visits):
    """Lay the lines out basket by basket, each sorted by rank: those of lower rank come before a line.

    posting goes out as (where the basket starts, how many of its lines stand before this one). places: where each
    basket starts and where its next line goes, shape (B, 2), both the same at first. Where positions are wanted
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
