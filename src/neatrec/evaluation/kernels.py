"""Compiled loops of the evaluation: from scores to ranks of the labels and lists of the best.

Each row is one query. The loops return row and item of the first NaN, else -1: the caller raises an
error that names the model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from neatrec.compiled import compiled


class LabelRows(NamedTuple):
    """Labels of each query, and their ranks as output; (labels,) each."""

    offsets: Any
    """Start of the labels of each query, (queries + 1,)."""
    items: Any
    higher: Any
    equal: Any


class BestRows(NamedTuple):
    """The best candidates of each query as output, (queries, k) each."""

    items: Any
    scores: Any


class CategorizedItems(NamedTuple):
    """Codes of items and their categories, (items,) each."""

    codes: Any
    categories: Any


@compiled
def count_above(scores, own):
    """The numbers of `scores` that are higher than `own`, and equal to it."""
    above, at_least = 0, 0
    # two plain loops, each of which is vectorized
    for i in range(len(scores)):
        above += scores[i] > own
    for i in range(len(scores)):
        at_least += scores[i] >= own
    return above, at_least - above


@compiled
def insert_best(best_scores, best_items, filled, score, item):
    """Insert (score, item) if it is among the best; return the length of their list, best first.

    best_scores, best_items: (k,), the first `filled` in use. The smaller of two items with equal
    scores comes first, so the order of the calls does not matter.
    """
    at, last = filled, min(filled, len(best_items) - 1)
    while at > 0 and (
        best_scores[at - 1] < score or (best_scores[at - 1] == score and best_items[at - 1] > item)
    ):
        at -= 1
    for n in range(last, at, -1):
        best_scores[n], best_items[n] = best_scores[n - 1], best_items[n - 1]
    if at < len(best_items):
        best_scores[at], best_items[at] = score, item
    return last + 1


@compiled
def rank_row(scores, items, labels, best, r):
    """Rank the labels of query r among candidates, and find the best; return where a NaN is, or -1.

    scores, items: (candidates,); labels: LabelRows; best: BestRows.
    """
    best_scores, best_items = best.scores[r], best.items[r]
    k, filled = len(best_items), 0
    for c in range(len(scores)):
        # most scores are below the worst of the best; NaN is not
        if k and filled == k and scores[c] < best_scores[k - 1]:
            continue
        if scores[c] != scores[c]:
            return c
        if k:
            filled = insert_best(best_scores, best_items, filled, scores[c], items[c])
    for label in range(labels.offsets[r], labels.offsets[r + 1]):
        own = -1
        for c in range(len(items)):
            if items[c] == labels.items[label]:
                own = c
        if own >= 0:
            labels.higher[label], labels.equal[label] = count_above(scores, scores[own])
    return -1


@compiled
def rank_lists(scores, offsets, items, labels, best):
    """Ranks within a list of candidates for each query.

    scores, items: (candidates of all queries,), those of query r from offsets[r] to offsets[r + 1].
    """
    for r in range(len(offsets) - 1):
        start, end = offsets[r], offsets[r + 1]
        nan = rank_row(scores[start:end], items[start:end], labels, best, r)
        if nan >= 0:
            return r, items[start + nan]
    return -1, -1


@compiled
def rank_rows(scores, queries, sold, labels, best):
    """Ranks among all sold items, except the query and its category.

    scores: (rows, items); queries: CategorizedItems, with a category that no item has if unknown;
    sold: CategorizedItems, ascending.
    """
    kept = np.empty(len(sold.codes), dtype=scores.dtype)
    candidates = np.empty(len(sold.codes), dtype=np.int32)
    for r in range(len(scores)):
        query, category = queries.codes[r], queries.categories[r]
        count = 0
        for i in range(len(sold.codes)):
            v = sold.codes[i]
            kept[count] = scores[r, v]
            candidates[count] = v
            count += (sold.categories[i] != category) & (v != query)
        nan = rank_row(kept[:count], candidates[:count], labels, best, r)
        if nan >= 0:
            return r, candidates[nan]
    return -1, -1
