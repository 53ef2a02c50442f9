"""Items that few training baskets hold, or none: bought items with similar names or vectors stand in for them, and for
those that nobody bought the best sellers of their category.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.data.catalog import UNKNOWN
from neatrec.models.bayes.similarity import Vectors, similar_vectors

Codes = npt.NDArray[np.integer[Any]]
Scores = npt.NDArray[np.floating[Any]]
ScoresOf = Callable[[npt.NDArray[np.int32], npt.NDArray[np.int32]], Scores]
"""From queries and items to the scores of these pairs by each ranking, (rankings, pairs)."""

STAND_INS = 10
"""Items that stand in for another one by their names, and as many by their vectors."""
RARE = 3
"""Items bought fewer times have stand-ins."""
OWN_WEIGHT = 1.0
"""Weight of an item's own scores, plus as much per purchase, beside those of its stand-ins, each below 1."""
NEW_DISCOUNT, CATEGORY_WEIGHT, TRUST_POWER = 10.0, 0.25, 8
"""Scores of new items as answers are divided by the first, and times the weight of their stand-ins, at most 1, or the
second, where only their category is known, to the power of the third: stand-ins that are hardly similar cost hits."""
MIXED_PAIRS = 100_000
"""Pairs that stand-ins are asked for at a time: each becomes up to twenty, or two hundred with a new answer."""
RELIABLE = 5.0
"""Purchases at which a stand-in has half of its weight."""


@dataclass(frozen=True, eq=False)
class StandIns:
    """Whose scores are averaged for items that were bought seldom or never."""

    weights: sparse.csr_matrix
    """Shares of the stand-ins, (items, items); what a row lacks to 1 is the item's own share."""
    item_count: npt.NDArray[np.int64]
    category: npt.NDArray[np.int32]
    new: npt.NDArray[np.bool_] = field(init=False, repr=False)
    """Items that nobody bought and that can be answers, shape (items,)."""
    mixed: npt.NDArray[np.bool_] = field(init=False, repr=False)
    """Items that others stand in for when they are asked for, shape (items,)."""
    of_query: sparse.csr_matrix = field(init=False, repr=False)
    """`weights` with the own shares, or those of its category's best sellers where nobody bought the item."""
    of_answer: sparse.csr_matrix = field(init=False, repr=False)
    """The same of answers: a new item has no scores of its own, but a part of those of its stand-ins, or of its
    category's best sellers where nothing is similar; all others have only their own."""

    def __post_init__(self) -> None:
        shares = np.asarray(self.weights.sum(axis=1)).ravel()
        never = self.item_count == 0
        similar = never & (shares > 0)
        mass = np.where(similar, shares / (1 - shares) * OWN_WEIGHT, CATEGORY_WEIGHT)
        trust = np.minimum(mass, 1) ** TRUST_POWER / NEW_DISCOUNT
        sellers = self._best_sellers()
        answers = sparse.diags(np.where(similar, trust / np.where(similar, shares, 1), 0)) @ self.weights
        answers += sparse.diags(np.where(never & ~similar, trust, 0)) @ sellers
        new = np.asarray(answers.sum(axis=1)).ravel() > 0
        own = sellers + sparse.diags((sellers.getnnz(axis=1) == 0).astype(np.float32))
        queries = self.weights + sparse.diags(1 - shares) @ own
        set_field = object.__setattr__
        set_field(self, "new", new)
        set_field(self, "of_query", sparse.csr_matrix(queries, dtype=np.float32))
        set_field(self, "of_answer", sparse.csr_matrix(answers + sparse.diags(1.0 - new), dtype=np.float32))
        self.of_query.eliminate_zeros()
        self.of_answer.eliminate_zeros()
        set_field(self, "mixed", self.of_query.diagonal() < 1)

    def _best_sellers(self) -> sparse.csr_matrix:
        """Shares of the STAND_INS best sellers of each never bought item's category in their sales, (items, items)."""
        known = np.flatnonzero((self.category != UNKNOWN) & (self.item_count > 0))
        order = known[np.lexsort((-self.item_count[known], self.category[known]))]
        category = self.category[order]
        first = np.arange(len(order)) - np.searchsorted(category, category) < STAND_INS
        order, category = order[first], category[first]
        groups, size = int(self.category.max(initial=UNKNOWN)) + 1, len(self.category)
        sales = np.bincount(category, self.item_count[order], minlength=groups)
        sellers = sparse.csr_matrix((self.item_count[order] / sales[category], (category, order)), shape=(groups, size))
        never = np.flatnonzero((self.category != UNKNOWN) & (self.item_count == 0))
        member = sparse.csr_matrix((np.ones(len(never)), (never, self.category[never])), shape=(size, groups))
        return member @ sellers

    @classmethod
    def of(
        cls,
        item_count: npt.NDArray[np.int64],
        category: npt.NDArray[np.int32],
        similar: sparse.csr_matrix | None = None,
        vectors: Vectors | None = None,
    ) -> StandIns:
        """The bought items most similar to each rare one: by their names (`similar`, squared cosines), by `vectors`
        (items, dim), or by the sum of both.
        """
        size, rare = len(item_count), np.flatnonzero(item_count < RARE)
        tables = [] if similar is None else [similar]
        if vectors is not None:
            tables.append(similar_vectors(vectors, category, rare, np.flatnonzero(item_count)))
        found = sum((table[rare] for table in tables), start=sparse.csr_matrix((len(rare), size), dtype=np.float32))
        found = (found @ sparse.diags(item_count / (item_count + RELIABLE))).tocoo()
        order = np.lexsort((found.col, -found.data, found.row))
        row, item, weight = rare[found.row[order]], found.col[order], found.data[order]
        other = (row != item) & (weight > 0)
        row, item, weight = row[other], item[other], weight[other]
        best = np.arange(len(row)) - np.searchsorted(row, row) < STAND_INS * len(tables)
        weights = sparse.csr_matrix((weight[best], (row[best], item[best])), shape=(size, size))
        mass = np.asarray(weights.sum(axis=1)).ravel() + OWN_WEIGHT * (1 + item_count)
        return cls(sparse.csr_matrix(sparse.diags(1 / mass) @ weights, dtype=np.float32), item_count, category)

    def most_similar(self, queries: npt.NDArray[np.int32]) -> sparse.csr_matrix:
        """`of_query` of some queries without best sellers, whose partners are very many, where anything is similar."""
        similar = self.weights[queries]
        chosen = (self.item_count[queries] == 0) & (similar.getnnz(axis=1) > 0)
        others = sparse.diags((~chosen).astype(np.float32)) @ self.of_query[queries]
        return sparse.csr_matrix(others + sparse.diags(chosen.astype(np.float32)) @ similar)

    def asked(self, queries: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The queries whose own scores `rows` needs: these and their stand-ins."""
        return np.unique(self.of_query[queries].indices).astype(np.int32) if self.mixed[queries].any() else queries

    def rows(self, scores: Scores, queries: npt.NDArray[np.int32]) -> Scores:
        """The scores of each query with every item, (queries, items), from those of the queries of `asked`."""
        mixture, each = self.of_query[queries], np.arange(len(queries))
        if self.mixed[queries].any():
            asked, place = np.unique(mixture.indices, return_inverse=True)
            scores[np.arange(len(asked)), asked] = 0  # an item does not go with itself
            scores = sparse.csr_matrix((mixture.data, place, mixture.indptr), (len(queries), len(asked))) @ scores
        if self.new.any():
            own = scores[each, queries]
            scores[each, queries] = 0
            scores[:, self.new] = (self.of_answer[self.new] @ scores.T).T
            bought = self.item_count[queries] > 0
            scores[each[bought], queries[bought]] = own[bought]
        return scores

    def pairs(self, scores_of: ScoresOf, queries: npt.NDArray[np.int32], items: npt.NDArray[np.int32]) -> Scores:
        """The scores of pairs by each ranking, (rankings, pairs), from a function that knows no stand-ins."""
        mixed = np.flatnonzero(self.mixed[queries] | self.new[items])
        if not len(mixed):
            return scores_of(queries, items)
        plain = np.delete(np.arange(len(queries)), mixed)  # spared the longer way
        own = scores_of(queries[plain], items[plain])
        scores = np.empty((len(own), len(queries)))
        scores[:, plain] = own
        for first in range(0, len(mixed), MIXED_PAIRS):
            part = mixed[first : first + MIXED_PAIRS]
            scores[:, part] = self._mixed_pairs(scores_of, queries[part], items[part])
        return scores

    def _mixed_pairs(self, scores_of: ScoresOf, queries: npt.NDArray[np.int32], items: npt.NDArray[np.int32]) -> Scores:
        pair, query, share = _expanded(self.of_query, queries)
        inner, item, item_share = _expanded(self.of_answer, items[pair])
        query, pair = query[inner], pair[inner]
        score = np.where(query == item, 0, scores_of(query, item)) * share[inner] * item_share
        return np.array([np.bincount(pair, weights=row, minlength=len(queries)) for row in score])


def _expanded(matrix: sparse.csr_matrix, rows: npt.NDArray[np.int32]) -> tuple[Codes, npt.NDArray[np.int32], Scores]:
    """All entries of the given rows of a matrix: which of the rows, column and value."""
    found = matrix[rows]
    return np.repeat(np.arange(len(rows)), np.diff(found.indptr)), found.indices.astype(np.int32), found.data
