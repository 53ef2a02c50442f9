"""The log expected likelihood of two Gaussians: the log density of their difference at zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.models.parallel import parallel_slices
from neatrec.models.vectors import all_products, pair_products

Floats = npt.NDArray[np.float64]
MIN_ROWS_PER_THREAD = 4
"""Rows for which a thread is worth starting."""


class GaussianTable:
    """One Gaussian per item, with one variance for all dimensions, in float64."""

    def __init__(self, vectors: npt.NDArray[Any], log_variance: npt.NDArray[Any]) -> None:
        """vectors: (items, dim); log_variance: (items,)."""
        self.vectors, self.log_variance = vectors, log_variance
        self.means, self.variance = vectors.astype(np.float64), np.exp(log_variance.astype(np.float64))
        self.length = np.einsum("nd,nd->n", self.means, self.means)

    def rows(self, queries: npt.NDArray[Any]) -> Floats:
        """Log expected likelihoods of each query with every item, shape (queries, items)."""
        out: Floats = all_products(self.means[queries], self.means)

        def work(part: slice) -> None:
            for row, query in enumerate(queries[part].tolist(), part.start):
                out[row] = self._likelihoods(out[row], query, slice(None))

        parallel_slices(len(queries), work, min_rows=MIN_ROWS_PER_THREAD)
        return out

    def pairs(self, queries: npt.NDArray[Any], items: npt.NDArray[Any]) -> Floats:
        """Log expected likelihoods of pairs, shape (pairs,)."""
        return self._likelihoods(pair_products(self.means, self.means, queries, items), queries, items)

    def _likelihoods(self, products: Floats, queries: Any, items: Any) -> Floats:
        """From the products of the means."""
        # rounding may leave an item less than no distance from itself
        apart = np.maximum(self.length[queries] + self.length[items] - 2.0 * products, 0.0)
        both = self.variance[queries] + self.variance[items]
        likelihood: Floats = -0.5 * (apart / both + self.means.shape[1] * np.log(2 * np.pi * both))
        return likelihood
