"""The compiled scan: rows of scores in, the best of each row kept."""

from __future__ import annotations

from neatrec.compiled import compiled

CHUNK = 64
"""Scores looked at together: mostly none of them is among the best, and one comparison says so."""


@compiled(fastmath={"nnan", "nsz", "reassoc"})
def keep_best(scores, first_query, query, code, group, floor, best, best_item, filled):
    """Put the scores (rows, columns) of the queries `query[first_query + row]` and the items `code[column]` (ascending,
    the next ones after those of the call before) into `best` and `best_item` (queries, k), best first, equal ones in
    the order they came; `filled` (queries,) says how many there are. Items of the query's own group, and scores that
    are not above `floor`, are left out.
    """
    rows, columns = scores.shape
    k = best.shape[1]
    for row in range(rows):
        me = first_query + row
        mine = group[query[me]]
        have = filled[me]
        limit = best[me, k - 1] if have == k else floor
        for begin in range(0, columns, CHUNK):
            end = min(columns, begin + CHUNK)
            highest = scores[row, begin]
            for column in range(begin + 1, end):
                highest = max(highest, scores[row, column])
            if not highest > limit:
                continue
            for column in range(begin, end):
                score = scores[row, column]
                if score > limit and group[code[column]] != mine:
                    place = min(have, k - 1)
                    while place > 0 and best[me, place - 1] < score:
                        best[me, place] = best[me, place - 1]
                        best_item[me, place] = best_item[me, place - 1]
                        place -= 1
                    best[me, place] = score
                    best_item[me, place] = code[column]
                    have = min(have + 1, k)
                    if have == k:
                        limit = best[me, k - 1]
        filled[me] = have
