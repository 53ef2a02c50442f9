"""The compiled scan: rows of scores in, the best of each row kept.

The best of a query are a heap whose root is the worst of them: the lowest score, and of equal scores the largest code.
What is kept does not depend on the order in which items are offered.
"""

from __future__ import annotations

import numpy as np

from neatrec.compiled import compiled

CHUNK = 16
"""Scores looked at together: mostly none of them is among the best, and one comparison says so."""


@compiled(fastmath={"nnan", "nsz", "reassoc"})
def keep_best(scores, places, query, code, group, min_score, best, best_item, filled):
    """Offer the scores (rows, columns) of the queries `query[places[row]]` and the items `code[column]` to the heaps
    `best` and `best_item` (queries, k), of which `filled` (queries,) are in use. Items of the query's own group, and
    scores that are not above `min_score`, are left out.
    """
    rows, columns = scores.shape
    k = best.shape[1]
    whole = columns // CHUNK * CHUNK
    for row in range(rows):
        me = places[row]
        mine = group[query[me]]
        limit = best[me, 0] if filled[me] == k else min_score
        for begin in range(0, whole, CHUNK):
            highest = scores[row, begin]
            for step in range(1, CHUNK):
                highest = max(highest, scores[row, begin + step])
            if highest >= limit:
                for column in range(begin, begin + CHUNK):
                    if scores[row, column] >= limit and group[code[column]] != mine:
                        limit = _offer(
                            best[me], best_item[me], filled, me, scores[row, column], code[column], min_score
                        )
        for column in range(whole, columns):
            if scores[row, column] >= limit and group[code[column]] != mine:
                limit = _offer(best[me], best_item[me], filled, me, scores[row, column], code[column], min_score)


@compiled(fastmath={"nnan", "nsz", "reassoc"})
def keep_best_down(scores, first, query, code, group, min_score, best, best_item, filled):
    """As `keep_best` with the two sides changed: a column is the query `query[first + column]`, a row the item
    `code[row]`. The other half of a symmetric product needs no product of its own.
    """
    rows, columns = scores.shape
    k = best.shape[1]
    whole = columns // CHUNK * CHUNK
    limit = np.empty(columns, dtype=scores.dtype)
    for column in range(columns):
        limit[column] = best[first + column, 0] if filled[first + column] == k else min_score
    for row in range(rows):
        item = code[row]
        its = group[item]
        for begin in range(0, whole, CHUNK):
            highest = scores[row, begin] - limit[begin]
            for step in range(1, CHUNK):
                highest = max(highest, scores[row, begin + step] - limit[begin + step])
            if highest >= 0:
                for column in range(begin, begin + CHUNK):
                    me = first + column
                    if scores[row, column] >= limit[column] and group[query[me]] != its:
                        limit[column] = _offer(
                            best[me], best_item[me], filled, me, scores[row, column], item, min_score
                        )
        for column in range(whole, columns):
            me = first + column
            if scores[row, column] >= limit[column] and group[query[me]] != its:
                limit[column] = _offer(best[me], best_item[me], filled, me, scores[row, column], item, min_score)


@compiled
def keep_best_of_lists(start, scores, items, first, query, group, min_score, best, best_item, filled):
    """As `keep_best`, for queries that are scored with items of their own: `start[row]:start[row + 1]` are those of
    `query[first + row]` in `scores` and `items`.
    """
    k = best.shape[1]
    for row in range(len(start) - 1):
        me = first + row
        mine = group[query[me]]
        limit = best[me, 0] if filled[me] == k else min_score
        for place in range(start[row], start[row + 1]):
            if scores[place] >= limit and group[items[place]] != mine:
                limit = _offer(best[me], best_item[me], filled, me, scores[place], items[place], min_score)


@compiled
def put_in_order(best, best_item, filled):
    """Turn each heap into a list, best first."""
    for me in range(len(best)):
        for last in range(filled[me] - 1, 0, -1):
            score, item = best[me, last], best_item[me, last]
            best[me, last], best_item[me, last] = best[me, 0], best_item[me, 0]
            _sink(best[me], best_item[me], last, score, item)


@compiled
def _offer(heap, heap_item, filled, me, score, item, min_score):
    """Put (score, item) into a heap if it is among the best; the least score that the next one must have."""
    k, have = len(heap), filled[me]
    if have == k:
        if _worse(heap[0], heap_item[0], score, item):
            _sink(heap, heap_item, k, score, item)
        return heap[0]
    if not score > min_score:
        return min_score
    place = have
    while place > 0:
        above = (place - 1) // 2
        if not _worse(score, item, heap[above], heap_item[above]):
            break
        heap[place], heap_item[place] = heap[above], heap_item[above]
        place = above
    heap[place], heap_item[place] = score, item
    filled[me] = have + 1
    return heap[0] if have + 1 == k else min_score


@compiled
def _sink(heap, heap_item, size, score, item):
    """Replace the root of the first `size` by (score, item)."""
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        other = below + 1
        if other < size and _worse(heap[other], heap_item[other], heap[below], heap_item[below]):
            below = other
        if not _worse(heap[below], heap_item[below], score, item):
            break
        heap[place], heap_item[place] = heap[below], heap_item[below]
        place = below
    heap[place], heap_item[place] = score, item


@compiled
def _worse(score, item, other_score, other_item):
    return score < other_score or (score == other_score and item > other_item)
