"""Scores of carts, from counts of pairs or from weights of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.cooccurrence import CountOptions
from neatrec.cooccurrence.counting import CountBook
from neatrec.data.catalog import UNKNOWN
from neatrec.models.counts import PairCounts
from neatrec.models.ranking import CartScores

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

RIDGE, POWER, LIFT_WEIGHT, LIFT_PSEUDO, DISCOUNT = 100.0, 2.0, 0.15, 5.0, 0.2
"""Selected once, on validation folds; see docs/studies/ranking.md."""
FACTORS = 16
MAX_PAIRS = 25_000_000
"""The rarest pairs beyond are left out of C_SS."""


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
    same_category: sparse.csr_matrix
    """The pairs of one category, which `counts` leaves out: C_SS needs them."""
    bought: Floats
    """n: baskets with each item, shape (items,)."""

    def score(self, cart: Codes, candidates: Codes) -> CartScores:
        """The scores of the candidates that an item of the cart goes with."""
        counts = self.counts
        codes, together = dense_rows(counts.matrix, cart, candidates)
        inside = (counts.matrix[cart][:, cart] + self.same_category[cart][:, cart]).toarray()
        gram = inside + np.diag(self.bought[cart] + RIDGE)
        weight = np.maximum(np.linalg.inv(gram) @ together, 0.0)
        expected = counts.total[cart][:, None] * (counts.total[codes] / max(counts.records, 1))
        goes = (together > expected).any(axis=0)
        leads = np.log(np.maximum((weight**POWER).sum(axis=0), 1e-30)) / POWER
        ratio = (together + LIFT_PSEUDO) / (expected + LIFT_PSEUDO)
        # a logarithm for each 16 of them: more factors might overflow
        products = np.multiply.reduceat(ratio, np.arange(0, len(cart), FACTORS), axis=0)
        lift = np.log(products).sum(axis=0)
        popularity = np.log(np.maximum(self.bought[codes], 1.0))
        total = leads - DISCOUNT * popularity + LIFT_WEIGHT * lift
        return CartScores(codes[goes], total[goes], lambda some: self.parts(cart, some))

    def parts(self, cart: Codes, codes: Codes) -> Floats:
        """log((C + 5) / (E + 5)) of each item of the cart with each code, shape (codes, cart)."""
        counts = self.counts
        query, item = np.tile(cart, len(codes)), np.repeat(codes, len(cart))
        expected = counts.expected(counts.total[query], counts.total[item])
        times = counts.of_pairs(query, item)
        lift: Floats = np.log((times + LIFT_PSEUDO) / (expected + LIFT_PSEUDO))
        return lift.reshape(len(codes), len(cart))


def same_category_pairs(book: CountBook, category: Codes) -> sparse.csr_matrix:
    """The counts of the pairs of one category, (items, items).

    They are counted with the options of the evidence: one pass of a training serves both.
    """
    baskets = book.baskets
    if (category == UNKNOWN).all():
        return sparse.csr_matrix((len(category), len(category)), dtype=np.int32)
    options = CountOptions(
        directed=False, category_level=None, forward=baskets.ordered, max_pairs=MAX_PAIRS
    )
    pairs = book.count("all", options)
    same = (category[pairs.query] == category[pairs.item]) & (category[pairs.query] != UNKNOWN)
    upper = pairs.where(same).matrix().astype(np.int32)
    return upper + upper.T.tocsr()


@dataclass(frozen=True, eq=False)
class CartWeights:
    """Carts completed by the sum of the weights that their items have for an item."""

    weights: sparse.csr_matrix

    def score(self, cart: Codes, candidates: Codes) -> CartScores:
        """The scores of the candidates that an item of the cart has a weight above 0 for."""
        codes, weight = dense_rows(self.weights, cart, candidates)
        goes = (weight > 0).any(axis=0)
        total = weight.sum(axis=0)[goes]
        return CartScores(codes[goes], total, lambda some: self.parts(cart, some))

    def parts(self, cart: Codes, codes: Codes) -> Floats:
        """The weight of each item of the cart for each code, shape (codes, cart)."""
        weight: Floats = self.weights[cart][:, codes].toarray().T
        return weight


def dense_rows(
    matrix: sparse.csr_matrix, rows: Codes, candidates: Codes
) -> tuple[Codes, npt.NDArray[Any]]:
    """The candidates that one of the rows has a value for, and the values, shape (rows, codes)."""
    values = matrix[rows]
    has_value = np.zeros(matrix.shape[1], dtype=np.bool_)
    has_value[values.indices] = True
    codes = candidates[has_value[candidates]]
    column = np.full(matrix.shape[1], -1)
    column[codes] = np.arange(len(codes))
    row = np.repeat(np.arange(len(rows)), np.diff(values.indptr))
    inside = column[values.indices] >= 0
    out = np.zeros((len(rows), len(codes)))
    out[row[inside], column[values.indices[inside]]] = values.data[inside]
    return codes, out
