"""Queries that no basket holds: their category's mean stands in for what was never seen of them.

Names, words and categories speak for such an item as for any other. What only baskets can tell, its vector, its company
and how often it is bought, is taken from the items of its category that were bought. Its posterior is the prior: there
are no counts to narrow it. Only queries have stand-ins, as an item that nobody bought is never an answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.data.catalog import UNKNOWN
from neatrec.models.bayes.lowrank import unit_vectors
from neatrec.models.bayes.names import nearest

Vectors = npt.NDArray[np.float32]


class StandIns:
    """Means of each category's items, by purchases; the last row is for unknown categories and holds zeros."""

    def __init__(self, vectors: Vectors, total: npt.NDArray[np.int64], category: npt.NDArray[np.int32]) -> None:
        size = int(category.max(initial=UNKNOWN)) + 1
        known = np.flatnonzero(category != UNKNOWN)
        member = sparse.csr_matrix((np.ones(len(known)), (known, category[known])), shape=(len(category), size))
        bought = member.T @ total
        self.category, self.cold = category, total == 0
        self.vectors = np.zeros((size + 1, vectors.shape[1]), dtype=np.float32)
        self.vectors[:size] = (member.T @ (vectors * total[:, None])) / np.maximum(bought, 1)[:, None]
        self.totals = np.append(bought / np.maximum(member.T @ (total > 0), 1), 0.0)

    def vectors_of(self, vectors: Vectors, queries: npt.NDArray[np.integer[Any]]) -> Vectors:
        """The rows of `vectors` for queries that were bought, those of their categories for the others."""
        out: Vectors = vectors[queries]
        cold = self.cold[queries]
        out[cold] = self.vectors[self.category[queries[cold]]]
        return out

    def totals_of(self, total: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """How often each item is bought; for those never bought the mean of their category's bought items; (items,)."""
        return np.where(self.cold, self.totals[self.category], total)

    def company(
        self, company: sparse.csr_matrix, unit: Vectors, values: npt.NDArray[np.float32], likeness: float
    ) -> sparse.csr_matrix:
        """`company`, with the bought items nearest to the stand-in in the rows of items never bought, (items, items).

        `unit` holds the items' vectors of length 1, `values` those of the factors.
        """
        cold = np.flatnonzero(self.cold & (self.category != UNKNOWN))
        directions = unit_vectors(self.vectors, values)
        found: list[tuple[Any, Any, Any]] = []
        for code in np.unique(self.category[cold]):
            members = np.flatnonzero((self.category == code) & ~self.cold)
            if len(members):
                rows = cold[self.category[cold] == code]
                # one stand-in for all of them
                cosine = (directions[code] @ unit[members].T)[None]
                _, near, likenesses = nearest(cosine, rows[:1], members, likeness)
                found.append((np.repeat(rows, len(near)), np.tile(near, len(rows)), np.tile(likenesses, len(rows))))
        if not found:
            return company
        rows, columns, likenesses = (np.concatenate(part) for part in zip(*found, strict=True))
        more = sparse.csr_matrix((likenesses, (rows, columns)), shape=company.shape, dtype=np.float32)
        return sparse.csr_matrix(company + more, dtype=np.float32)
