"""Compiled loops of the evaluation: scores in; ranks of the labels and lists of the best out.

Each row is one query. `out_nan` receives the first NaN found as (row, item), and the row is left unfinished: the caller
turns it into an error that names the model.
"""

from __future__ import annotations

import numpy as np

from neatrec.compiled import compiled


@compiled
def keep_best(score, item, best_score, best_item, filled):
    """Put `item` into the sorted list of the best, equal scores by ascending item; the new length of the list.

    best_score, best_item: (k,), of which `filled` are in use.
    """
    k = len(best_item)
    if filled == k:
        last = best_score[k - 1]
        if score < last or (score == last and item > best_item[k - 1]):
            return filled
        place = k - 1
    else:
        place = filled
        filled += 1
    while place > 0 and (
        best_score[place - 1] < score or (best_score[place - 1] == score and best_item[place - 1] > item)
    ):
        best_score[place] = best_score[place - 1]
        best_item[place] = best_item[place - 1]
        place -= 1
    best_score[place] = score
    best_item[place] = item
    return filled


@compiled
def standing(scores, own):
    """How many of `scores` are higher than `own`, and how many are equal to it."""
    above = 0
    same = 0
    for score in scores:
        above += score > own
        same += score == own
    return above, same


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
                filled = keep_best(scores[c], items[c], best_score[r], best_item[r], filled)
        for label in range(label_offsets[r], label_offsets[r + 1]):
            own = -1
            for c in range(start, end):
                if items[c] == label_items[label]:
                    own = c
            if own < 0:
                continue
            higher[label], equal[label] = standing(scores[start:end], scores[own])


@compiled
def compete(scores, cart, sold, category, banned, stamp, out_scores, out_items):
    """How many items compete for a cart; their scores and codes go to the front of out_scores and out_items, (items,).

    All that is sold, except the cart and what shares a category with an item of it. scores: (items,); banned:
    (categories,), equal to `stamp` where a category is the cart's; category: negative where unknown.
    """
    for q in cart:
        if category[q] >= 0:
            banned[category[q]] = stamp
    count = 0
    for v in range(len(scores)):
        if sold[v] and (category[v] < 0 or banned[category[v]] != stamp):
            inside = False
            if category[v] < 0:
                for q in cart:
                    inside |= q == v
            if not inside:
                out_scores[count] = scores[v]
                out_items[count] = v
                count += 1
    return count


@compiled
def rank_rows(
    scores,
    cart_offsets,
    cart_items,
    sold,
    category,
    categories,
    label_offsets,
    label_items,
    higher,
    equal,
    best_item,
    best_score,
    out_nan,
):
    """Ranks among all items that are sold, except the cart (for one query: a cart of one) and its categories.

    scores: (rows, items); cart_items: (lines,), by cart_offsets; sold: (items,) bool; category: (items,), codes below
    `categories`, negative where unknown; label_items, higher, equal: (labels,), by label_offsets; best_*: (rows, k).
    """
    rows, items = scores.shape
    banned = np.full(categories, -1, dtype=np.int64)
    rival = np.empty(items, dtype=scores.dtype)
    rival_item = np.empty(items, dtype=np.int32)
    for r in range(rows):
        cart = cart_items[cart_offsets[r] : cart_offsets[r + 1]]
        count = compete(scores[r], cart, sold, category, banned, r, rival, rival_item)
        filled = 0
        for c in range(count):
            if rival[c] != rival[c]:
                out_nan[0] = r
                out_nan[1] = rival_item[c]
                return
            if best_item.shape[1]:
                filled = keep_best(rival[c], rival_item[c], best_score[r], best_item[r], filled)
        for label in range(label_offsets[r], label_offsets[r + 1]):
            item = label_items[label]
            place = np.searchsorted(rival_item[:count], item)
            if place == count or rival_item[place] != item:
                continue
            higher[label], equal[label] = standing(rival[:count], rival[place])
