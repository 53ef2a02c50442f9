"""Scores of whole carts, from counts of pairs or from weights of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.models.counts import PairCounts
from neatrec.models.ranking import CartScores

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

RIDGE, POWER, LIFT_WEIGHT, LIFT_PSEUDO, DISCOUNT = 100.0, 2.0, 0.1, 5.0, 0.2
"""Chosen once, on validation folds; see docs/studies/ranking.md."""
FACTORS = 16
"""Factors that are multiplied before a logarithm is taken: more might overflow."""


@dataclass(frozen=True, eq=False)
class CartRegression:
    """Carts completed by a ridge regression of every item on the items of the cart.

    W = (C_SS + diag(n_S) + RIDGE I)^-1 C_S. over the cart S, from counts of pairs alone; then
    score(v) = log(sum_q max(W_qv, 0)^POWER) / POWER - DISCOUNT log n_v + LIFT_WEIGHT times the sum
    over q of log((C_qv + 5) / (E_qv + 5)).
    The first term says how much more likely the cart makes v, each item knowing of the others; the
    last how much more often than by chance they go together. Items without any pair that is more
    frequent than by chance are left out.
    """

    counts: PairCounts
    bought: Floats
    """n: baskets with each item, shape (items,)."""

    def score(self, cart: Codes, candidates: Codes) -> CartScores:
        """The scores of the candidates that an item of the cart goes with."""
        counts = self.counts
        codes, together = dense_rows(counts.matrix, cart, candidates)
        inside = counts.matrix[cart][:, cart].toarray()
        gram = inside + np.diag(self.bought[cart] + RIDGE)
        weight = np.maximum(np.linalg.solve(gram, together), 0.0)
        expected = counts.total[cart][:, None] * (counts.total[codes] / max(counts.records, 1))
        goes = (together > expected).any(axis=0)
        chance = 1.0 + expected / LIFT_PSEUDO
        leads = np.maximum((weight * weight).sum(axis=0), 1e-30)  # by POWER
        lift = np.log1p(together / LIFT_PSEUDO).sum(axis=0)
        for first in range(0, len(cart), FACTORS):
            lift -= np.log(chance[first : first + FACTORS].prod(axis=0))
        popularity = np.log(np.maximum(self.bought[codes], 1.0))
        total = np.log(leads) / POWER - DISCOUNT * popularity + LIFT_WEIGHT * lift
        return CartScores(codes[goes], total[goes], lambda chosen: self.parts(cart, chosen))

    def parts(self, cart: Codes, codes: Codes) -> Floats:
        """log((C + 5) / (E + 5)) of each item of the cart with each code, shape (codes, cart)."""
        counts = self.counts
        query, item = np.tile(cart, len(codes)), np.repeat(codes, len(cart))
        expected = counts.expected(counts.total[query], counts.total[item])
        times = counts.of_pairs(query, item)
        lift: Floats = np.log((times + LIFT_PSEUDO) / (expected + LIFT_PSEUDO))
        return lift.reshape(len(codes), len(cart))


@dataclass(frozen=True, eq=False)
class CartWeights:
    """Carts completed by the sum of the weights that their items have for an item."""

    weights: sparse.csr_matrix

    def score(self, cart: Codes, candidates: Codes) -> CartScores:
        """The scores of the candidates that an item of the cart has a weight above 0 for."""
        codes, weight = dense_rows(self.weights, cart, candidates)
        goes = (weight > 0).any(axis=0)
        total = weight.sum(axis=0)[goes]
        return CartScores(codes[goes], total, lambda chosen: self.parts(cart, chosen))

    def parts(self, cart: Codes, codes: Codes) -> Floats:
        """The weight of each item of the cart for each code, shape (codes, cart)."""
        weight: Floats = self.weights[cart][:, codes].toarray().T
        return weight


def dense_rows(
    matrix: sparse.csr_matrix, rows: Codes, candidates: Codes
) -> tuple[Codes, npt.NDArray[Any]]:
    """The candidates that one of the rows has a value for, and the values, shape (rows, codes)."""
    found = matrix[rows]
    wanted = np.zeros(matrix.shape[1], dtype=np.bool_)
    wanted[found.indices] = True
    codes = candidates[wanted[candidates]]
    place = np.full(matrix.shape[1], -1)
    place[codes] = np.arange(len(codes))
    row = np.repeat(np.arange(len(rows)), np.diff(found.indptr))
    column = place[found.indices]
    inside = column >= 0
    out = np.zeros((len(rows), len(codes)))
    out[row[inside], column[inside]] = found.data[inside]
    return codes, out
