"""The log expected likelihood of two Gaussians: the log density of their difference at zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.models.parallel import MIN_PAIRS_PER_THREAD, parallel_slices
from neatrec.models.vectors import all_products

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
        out: Floats = all_products((self.means[queries], self.means))
        parallel_slices(len(queries), lambda part: self._finish(queries[part], out[part]), min_rows=MIN_ROWS_PER_THREAD)
        return out

    def _finish(self, queries: npt.NDArray[Any], products: Floats) -> None:
        logs = np.empty(products.shape[1])
        for row, query in enumerate(queries.tolist()):
            np.add(self.variance, self.variance[query], out=logs)
            logs *= 2 * np.pi
            np.log(logs, out=logs)
            likelihood_row(self.length, self.variance, logs, query, self.means.shape[1], products[row])


def likelihood_pairs(
    vectors: npt.NDArray[Any], log_variance: npt.NDArray[Any], queries: npt.NDArray[Any], items: npt.NDArray[Any]
) -> Floats:
    """Of each pair, shape (pairs,); log_variance: (items,)."""
    variance = np.exp(log_variance.astype(np.float64))
    out = np.empty(len(queries))

    def work(part: slice) -> None:
        pair_likelihoods(vectors, variance, queries[part], items[part], out[part])

    parallel_slices(len(queries), work, min_rows=MIN_PAIRS_PER_THREAD)
    return out


@compiled
def likelihood_row(length, variance, logs, query, dim, out):  # type: ignore[no-untyped-def]
    """Likelihoods of a query in place of the products of its mean with all others; logs: of 2 pi (both variances)."""
    for v in range(len(out)):
        # rounding may leave an item less than no distance from itself
        apart = max(-2.0 * out[v] + length[query] + length[v], 0.0)
        out[v] = -0.5 * (apart / (variance[query] + variance[v]) + dim * logs[v])


@compiled
def pair_likelihoods(vectors, variance, queries, items, out):  # type: ignore[no-untyped-def]
    """vectors: (items, dim); variance: (items,); the others: (pairs,)."""
    dim = vectors.shape[1]
    for pair in range(len(queries)):
        q, v = queries[pair], items[pair]
        both = variance[q] + variance[v]
        apart = 0.0
        for place in range(dim):
            z = np.float64(vectors[q, place]) - np.float64(vectors[v, place])
            apart += z * z / both
        out[pair] = -0.5 * (dim * np.log(2 * np.pi * both) + apart)
