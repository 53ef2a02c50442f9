"""`CartRanking`: a model's own ranking of whole carts, by weights or by counts of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.compiled import compiled
from neatrec.cooccurrence.count_kernels import find_pairs
from neatrec.models.parallel import parallel_slices
from neatrec.models.recommendations import CartScores

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
FACTORS = 16
"""Factors multiplied before a logarithm is taken: more might overflow."""
SMALLEST = 1e-30
"""In place of 0 before a logarithm."""
SWEEPS = 20
"""Over the weights of a cart: they settle within a few."""
MIN_RATIO, MAX_RATIO = 0.3, 3.0
"""How much less or more often than usual a category may be expected."""


class CartRanking(NamedTuple):
    """How a model ranks for a cart of several items.

    By weights of pairs: an item's score is the sum of the weights that the items of the cart have for it. By counts C:
    score(v) = log(sum_q u_q C_qv) + offset_v + categories * log r_v + strength * sum_q log((C_qv + k) / (E_qv + k)),
    over the items q of the cart, with E_qv = F_q F_v / N, n how often an item was bought, and u >= 0 that solves
    (C + diag(1.5 n + ridge)) u = 1 among the cart's items: those bought together share their weight. The first term
    says how often the cart leads to v, the last how much more often than by chance; r_v, how many times as often as
    usual carts with these categories hold one of v's, is the sum of `ratio` over the categories of the cart. What no
    item of the cart is bought with more often than by chance (a weight above 0) is left out.
    """

    start: npt.NDArray[np.int64]
    item: Codes
    value: npt.NDArray[Any]
    """Pairs row by row, as in a CSR matrix (items, items): weights or counts."""
    bought: Floats
    """n, shape (items,)."""
    total: Floats
    """F, shape (items,)."""
    total_place: npt.NDArray[np.uint32]
    """The place of each item's F among `totals`."""
    offset: Floats
    """Shape (items,)."""
    category: npt.NDArray[np.uint32]
    """Shape (items,): rows and columns of `ratio`, one more where unknown."""
    table: npt.NDArray[np.float32] = np.zeros(0, dtype=np.float32)
    """strength * log(1 + C / k) of each count; empty for weights."""
    totals: Floats = np.zeros(1)
    """The distinct values of F: logarithms are taken of these only."""
    per_record: float = 0.0
    """1 / N."""
    ridge: float = 1.0
    k: float = 1.0
    strength: float = 0.0
    ratio: npt.NDArray[np.float32] = np.zeros((0, 0), dtype=np.float32)
    """Shape (categories, categories)."""
    categories: float = 0.0

    @classmethod
    def of_weights(cls, weights: sparse.csr_matrix) -> CartRanking:
        """By weights (items, items), indices sorted."""
        start, item = weights.indptr.astype(np.int64), weights.indices.astype(np.int32, copy=False)
        zeros = np.zeros(weights.shape[0])
        places = zeros.astype(np.uint32)
        return cls(start, item, weights.data, zeros, zeros, places, offset=zeros, category=places)

    def of_pairs(self, queries: Codes, items: Codes) -> npt.NDArray[Any]:
        """The weight or count of each pair, 0 where it has none, shape (pairs,)."""
        place = find_pairs(self.start, self.item, queries, items)
        out = np.zeros(len(place), dtype=self.value.dtype)
        out[place >= 0] = self.value[place[place >= 0]]
        return out

    def parts(self, cart: Codes, codes: Codes) -> Floats:
        """What each item of the cart contributes to each of `codes`, shape (codes, cart).

        The weight of the pair, or strength * log((C + k) / (E + k)): above 0 where the two go together.
        """
        value = self.of_pairs(np.tile(cart, len(codes)), np.repeat(codes, len(cart))).reshape(len(codes), len(cart))
        value = self.table[value] if len(self.table) else value
        expected = np.outer(self.total[codes], self.total[cart]) * self.per_record
        parts: Floats = value - self.strength * np.log1p(expected / self.k)
        return parts

    def score(self, cart: Codes, candidates: Codes) -> CartScores:
        """The scores of those `candidates` that an item of the cart goes with."""
        codes, total = whole_scores(self, cart, sum_pairs(self, cart, shares(self, cart)), candidates)
        return CartScores(codes, total, lambda chosen: self.parts(cart, chosen))

    def left_out_ranks(
        self, carts: Sequence[Codes], hidden: Codes, offset: Floats, category: Codes
    ) -> npt.NDArray[np.int64]:
        """By counts: how many items rank above the hidden one of each cart, which is a basket that was counted.

        Items that share a category with the cart are left out; category: codes, negative where unknown, (items,).
        The hidden item's pairs are counted as without that basket; offset: of each item without one of its baskets.
        -1: nothing in the cart goes with it.
        """
        start = np.concatenate([[0], np.cumsum([len(cart) for cart in carts])])
        item, out = np.concatenate(carts), np.empty(len(carts), dtype=np.int64)

        def work(part: slice) -> None:
            of_part = hidden[part], offset
            rank_left_out(self, (start[part.start : part.stop + 1], item), of_part, category, out[part])

        parallel_slices(len(carts), work)
        return out


@compiled
def count_of(ranking, query, item):  # type: ignore[no-untyped-def]
    """The value of a pair, 0 where it has none."""
    first, end = ranking.start[query], ranking.start[query + 1]
    last = end
    while first < last:
        middle = (first + last) // 2
        if ranking.item[middle] < item:
            first = middle + 1
        else:
            last = middle
    return np.float64(ranking.value[first]) if first < end and ranking.item[first] == item else 0.0


@compiled
def shares(ranking, cart):  # type: ignore[no-untyped-def]
    """u of the items of a cart: Gauss-Seidel, none below 0."""
    size = len(cart)
    share = np.ones(size)
    if len(ranking.table) == 0:
        return share
    together = np.zeros((size, size))
    for i in range(size):
        share[i] = 1.0 / (1.5 * ranking.bought[cart[i]] + ranking.ridge)
        for j in range(i):
            together[i, j] = together[j, i] = count_of(ranking, cart[i], cart[j])
    for _ in range(SWEEPS):
        for i in range(size):
            rest = 1.0
            for j in range(size):
                rest -= together[i, j] * share[j]
            share[i] = max(rest, 0.0) / (1.5 * ranking.bought[cart[i]] + ranking.ridge)
    return share


@compiled
def category_scores(ranking, cart):  # type: ignore[no-untyped-def]
    """categories * log r of each category, shape (categories + 1,); 0 for an unknown one, or a cart that has none."""
    known = len(ranking.ratio)
    total, inside = np.zeros(known + 1), np.zeros(known + 1, dtype=np.bool_)
    for q in cart:
        c = ranking.category[q]
        if c < known and not inside[c]:
            inside[c] = True
            for d in range(known):
                total[d] += ranking.ratio[c, d]
    for d in range(known if inside.any() else 0):
        total[d] = ranking.categories * np.log(min(max(total[d], MIN_RATIO), MAX_RATIO))
    return total


@compiled
def sum_pairs(ranking, cart, share):  # type: ignore[no-untyped-def]
    """Of every item: whether an item of the cart goes with it, how often the cart leads to it, and the sum of the
    weights, or of the counts' logarithms; each of shape (items,)."""
    items, by_counts = len(ranking.total), len(ranking.table) > 0
    goes, leads, total = np.zeros(items, dtype=np.bool_), np.zeros(items if by_counts else 0), np.zeros(items)
    for i in range(len(cart)):
        by_chance = ranking.total[cart[i]] * ranking.per_record
        for place in range(ranking.start[cart[i]], ranking.start[cart[i] + 1]):
            v, value = np.uint32(ranking.item[place]), ranking.value[place]  # unsigned: no negative index to test for
            goes[v] |= value > by_chance * ranking.total[v]
            if by_counts:
                leads[v] += share[i] * value
                total[v] += ranking.table[np.uint32(value)]
            else:
                total[v] += value
    return goes, leads, total


@compiled
def chance_scores(ranking, cart):  # type: ignore[no-untyped-def]
    """strength * sum_q log(1 + E / k) of each of `totals`."""
    chance = np.zeros(len(ranking.totals))
    for first in range(0, len(cart), FACTORS):
        factors = ranking.total[cart[first : first + FACTORS]] * (ranking.per_record / ranking.k)
        for place in range(len(chance)):
            product = 1.0
            for factor in factors:
                product *= 1.0 + factor * ranking.totals[place]
            chance[place] += ranking.strength * np.log(product)
    return chance


@compiled
def whole_scores(ranking, cart, sums, candidates):  # type: ignore[no-untyped-def]
    """The candidates that an item of the cart goes with, and their scores; sums: by `sum_pairs`."""
    goes, leads, total = sums
    codes, found = np.empty(len(candidates), dtype=np.int32), 0
    for v in candidates:
        codes[found] = v  # the next one takes its place where it does not go with the cart
        found += goes[np.uint32(v)]
    codes = codes[:found]
    scores = total[codes]
    if len(ranking.table) > 0:
        chance, by_category = chance_scores(ranking, cart), category_scores(ranking, cart)
        for place in range(found):
            v = np.uint32(codes[place])
            scores[place] += np.log(max(leads[v], SMALLEST)) + ranking.offset[v] - chance[ranking.total_place[v]]
            scores[place] += by_category[ranking.category[v]]
    return codes, scores


@compiled
def rank_left_out(ranking, carts, left_out, category, out):  # type: ignore[no-untyped-def]
    """out[c]: how many items rank above hidden[c] for cart c, whose basket is not counted.

    carts: where each starts, and the items of all; left_out: the hidden items, and what each item scores without its
    basket whatever the cart.
    """
    (start, item), (hidden, offset) = carts, left_out
    items = np.arange(len(category), dtype=np.int32)
    banned = np.full(category.max() + 2, -1, dtype=np.int64)  # by category: the last cart that has it
    for c in range(len(out)):
        cart, h = item[start[c] : start[c + 1]], hidden[c]
        share = shares(ranking, cart)
        sums = sum_pairs(ranking, cart, share)
        goes = sums[0]
        leads, mine, known = 0.0, 0.0, False
        # within a window, or once per customer, the basket may have given the item fewer pairs than that
        item_total = max(ranking.total[h] - len(cart), 0.0)
        for i in range(len(cart)):
            times = max(count_of(ranking, cart[i], h) - 1.0, 0.0)
            expected = ranking.total[cart[i]] * item_total * ranking.per_record
            known |= times > expected
            leads += share[i] * times
            mine += ranking.table[int(times)] - ranking.strength * np.log1p(expected / ranking.k)
        mine += np.log(max(leads, SMALLEST)) + offset[h] + category_scores(ranking, cart)[ranking.category[h]]
        goes[h] = False
        for q in cart:
            goes[q] = False
            if category[q] >= 0:
                banned[category[q]] = c
        out[c] = 0 if known else -1
        if known:
            codes, scores = whole_scores(ranking, cart, sums, items)
            for place in range(len(codes)):
                out[c] += scores[place] > mine and banned[category[codes[place]]] != c
