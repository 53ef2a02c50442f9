"""Queries that no training basket holds: the mean of their category replaces what only baskets can show.

Only queries have such means: an item that nobody bought is never an answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.data.catalog import UNKNOWN
from neatrec.models.bayes.similarity import MIN_VECTOR_COSINE, Vectors, nearest, unit_vectors

Codes = npt.NDArray[np.integer[Any]]


class ColdStartMeans:
    """Mean vector of each category's items, weighted by purchases; zeros in the last row, for unknown categories."""

    def __init__(self, vectors: Vectors, total: npt.NDArray[np.int64], category: npt.NDArray[np.int32]) -> None:
        size = int(category.max(initial=UNKNOWN)) + 1
        known = np.flatnonzero(category != UNKNOWN)
        member = sparse.csr_matrix((np.ones(len(known)), (known, category[known])), shape=(len(category), size))
        bought = member.T @ total
        self.category, self.cold = category, total == 0
        self.vectors = np.zeros((size + 1, vectors.shape[1]), dtype=np.float32)
        self.vectors[:size] = (member.T @ (vectors * total[:, None])) / np.maximum(bought, 1)[:, None]

    def query_vectors(self, vectors: Vectors, queries: Codes) -> Vectors:
        """The rows of `vectors`; for queries that were never bought those of their categories."""
        out: Vectors = vectors[queries]
        cold = self.cold[queries]
        out[cold] = self.vectors[self.category[queries[cold]]]
        return out

    def add_neighbours(self, neighbours: sparse.csr_matrix, unit: Vectors) -> sparse.csr_matrix:
        """`neighbours`, with the bought items nearest to the category's mean in the rows of items never bought."""
        means, found = unit_vectors(self.vectors), [sparse.coo_matrix(neighbours)]
        cold = np.flatnonzero(self.cold & (self.category != UNKNOWN))
        for code in np.unique(self.category[cold]):
            members = np.flatnonzero((self.category == code) & ~self.cold)
            if len(members):
                rows = cold[self.category[cold] == code]
                # one mean for all of them
                _, near, values = nearest((means[code] @ unit[members].T)[None], rows[:1], members, MIN_VECTOR_COSINE)
                cells = np.repeat(rows, len(near)), np.tile(near, len(rows))
                found.append(sparse.coo_matrix((np.tile(values, len(rows)), cells), shape=neighbours.shape))
        return sparse.csr_matrix(sum(found[1:], start=found[0].tocsr()), dtype=np.float32)
