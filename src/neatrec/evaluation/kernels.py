"""Compiled loops of the evaluation: scores in; ranks of the labels and lists of the best out.

Each row is one query. `out_nan` receives the first NaN found as (row, item), and the row is left unfinished: the caller
turns it into an error that names the model.
"""

from __future__ import annotations

import numpy as np

from neatrec.compiled import compiled, offer_best, sort_best


@compiled
def count_above(scores, own):
    """How many of `scores` are higher than `own`, and how many are equal to it."""
    above, at_least = 0, 0
    # two plain counts, each of which takes many scores at a time
    for i in range(len(scores)):
        above += scores[i] > own
    for i in range(len(scores)):
        at_least += scores[i] >= own
    return above, at_least - above


@compiled
def rank_lists(scores, offsets, items, label_offsets, label_items, higher, equal, best_item, best_score, out_nan):
    """Ranks within a list of candidates for each query.

    scores, items: (candidates of all queries,), those of query r from offsets[r] to offsets[r + 1]; label_items:
    (labels,), by label_offsets; higher, equal: (labels,); best_item, best_score: (queries, k).
    """
    for r in range(len(offsets) - 1):
        start, end = offsets[r], offsets[r + 1]
        filled = 0
        for c in range(start, end):
            if scores[c] != scores[c]:
                out_nan[0] = r
                out_nan[1] = items[c]
                return
            if best_item.shape[1]:
                filled = offer_best(best_score[r], best_item[r], filled, scores[c], items[c])
        sort_best(best_score[r], best_item[r], filled)
        for label in range(label_offsets[r], label_offsets[r + 1]):
            own = -1
            for c in range(start, end):
                if items[c] == label_items[label]:
                    own = c
            if own < 0:
                continue
            higher[label], equal[label] = count_above(scores[start:end], scores[own])


@compiled
def compete(scores, query, own, sold, category, out_scores, out_items):
    """How many items compete; their scores and codes go to the front of out_scores and out_items, (items,).

    All of `sold`, (items sold,) ascending, except the query and what has its category `own`, which no item has where it
    is unknown; category: of each of `sold`; scores: (items,).
    """
    count = 0
    for i in range(len(sold)):
        v = sold[i]
        out_scores[count] = scores[v]
        out_items[count] = v
        count += (category[i] != own) & (v != query)
    return count


@compiled
def best_rivals(rival, rival_item, best_item, best_score):
    """Put the best into best_item and best_score, (k,); the place of the first score that is no number, or -1."""
    k, filled = len(best_item), 0
    for c in range(len(rival)):
        # nearly all scores are below the worst of the best; NaN is not
        if k and filled == k and rival[c] <= best_score[0]:
            continue
        if rival[c] != rival[c]:
            return c
        if k:
            filled = offer_best(best_score, best_item, filled, rival[c], rival_item[c])
    sort_best(best_score, best_item, filled)
    return -1


@compiled
def rank_rows(
    scores, queries, own, sold, category, label_offsets, label_items, higher, equal, best_item, best_score, out_nan
):
    """Ranks among all items that are sold, except the query and its category.

    scores: (rows, items); queries, own: (rows,), the categories of the queries, ones that no item has where unknown;
    sold, category: (items sold,), ascending codes and their categories; label_items, higher, equal: (labels,), by
    label_offsets; best_*: (rows, k).
    """
    rival = np.empty(len(sold), dtype=scores.dtype)
    rival_item = np.empty(len(sold), dtype=np.uint32)
    for r in range(len(scores)):
        count = compete(scores[r], queries[r], own[r], sold, category, rival, rival_item)
        nan = best_rivals(rival[:count], rival_item[:count], best_item[r], best_score[r])
        if nan >= 0:
            out_nan[0] = r
            out_nan[1] = rival_item[nan]
            return
        for label in range(label_offsets[r], label_offsets[r + 1]):
            item = label_items[label]
            place = np.searchsorted(rival_item[:count], item)
            if place == count or rival_item[place] != item:
                continue
            higher[label], equal[label] = count_above(rival[:count], rival[place])
