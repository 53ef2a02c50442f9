"""The compiled scan: rows of scores in, the best of each row kept in heaps (`compiled.offer_best`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled, offer_best, sort_best

CHUNK = 16
"""Scores looked at together: mostly none of them is among the best, and one comparison says so."""


class SearchSpace(NamedTuple):
    """What is searched for."""

    query: npt.NDArray[np.int32]
    """Codes of the items to answer for, shape (queries,)."""
    group: npt.NDArray[np.int32]
    """Items of one group are no answers to each other, shape (items,)."""
    min_score: Any
    """Only higher scores are kept; of the type of the scores."""


class Heaps(NamedTuple):
    """The best so far of every query."""

    score: npt.NDArray[Any]
    """shape (queries, k)"""
    item: npt.NDArray[np.int32]
    filled: npt.NDArray[np.int64]
    """How many of each heap are in use, shape (queries,)."""


@compiled(fastmath={"nnan", "nsz", "reassoc"})
def keep_best(scores, places, code, space, heaps):
    """Offer the scores (rows, columns) of the queries `space.query[places[row]]` and the items `code[column]` to the
    heaps. Items of the query's own group, and scores that are not above `min_score`, are left out.
    """
    rows, columns = scores.shape
    whole = columns // CHUNK * CHUNK
    for row in range(rows):
        me = places[row]
        mine = space.group[space.query[me]]
        limit = _limit(heaps, me, space.min_score)
        for begin in range(0, whole, CHUNK):
            highest = scores[row, begin]
            for step in range(1, CHUNK):
                highest = max(highest, scores[row, begin + step])
            if highest >= limit:
                for column in range(begin, begin + CHUNK):
                    if scores[row, column] >= limit and space.group[code[column]] != mine:
                        limit = _offer(heaps, me, scores[row, column], code[column], space.min_score)
        for column in range(whole, columns):
            if scores[row, column] >= limit and space.group[code[column]] != mine:
                limit = _offer(heaps, me, scores[row, column], code[column], space.min_score)


@compiled(fastmath={"nnan", "nsz", "reassoc"})
def keep_best_down(scores, first, code, space, heaps):
    """As `keep_best` with the two sides changed: a column is the query `space.query[first + column]`, a row the item
    `code[row]`. The other half of a symmetric product needs no product of its own.
    """
    rows, columns = scores.shape
    whole = columns // CHUNK * CHUNK
    limit = np.empty(columns, dtype=scores.dtype)
    for column in range(columns):
        limit[column] = _limit(heaps, first + column, space.min_score)
    for row in range(rows):
        item = code[row]
        its = space.group[item]
        for begin in range(0, whole, CHUNK):
            highest = scores[row, begin] - limit[begin]
            for step in range(1, CHUNK):
                highest = max(highest, scores[row, begin + step] - limit[begin + step])
            if highest >= 0:
                for column in range(begin, begin + CHUNK):
                    me = first + column
                    if scores[row, column] >= limit[column] and space.group[space.query[me]] != its:
                        limit[column] = _offer(heaps, me, scores[row, column], item, space.min_score)
        for column in range(whole, columns):
            me = first + column
            if scores[row, column] >= limit[column] and space.group[space.query[me]] != its:
                limit[column] = _offer(heaps, me, scores[row, column], item, space.min_score)


@compiled
def keep_best_of_lists(start, scores, items, first, space, heaps):
    """As `keep_best`, for queries that are scored with items of their own: `start[row]:start[row + 1]` are those of
    `space.query[first + row]` in `scores` and `items`.
    """
    for row in range(len(start) - 1):
        me = first + row
        mine = space.group[space.query[me]]
        limit = _limit(heaps, me, space.min_score)
        for place in range(start[row], start[row + 1]):
            if scores[place] >= limit and space.group[items[place]] != mine:
                limit = _offer(heaps, me, scores[place], items[place], space.min_score)


@compiled
def put_in_order(heaps):
    """Turn each heap into a list, best first."""
    for me in range(len(heaps.filled)):
        sort_best(heaps.score[me], heaps.item[me], heaps.filled[me])


@compiled
def _offer(heaps, me, score, item, min_score):
    """Put (score, item) into the heap of a query if it is among the best; the least score the next one must have."""
    if score > min_score:
        heaps.filled[me] = offer_best(heaps.score[me], heaps.item[me], heaps.filled[me], score, item)
    return _limit(heaps, me, min_score)


@compiled
def _limit(heaps, me, min_score):
    return heaps.score[me, 0] if heaps.filled[me] == heaps.score.shape[1] else min_score
