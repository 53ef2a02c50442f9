"""The log expected likelihood of two Gaussians: log of the density of their difference at zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled

Floats = npt.NDArray[np.float64]


def likelihood_rows(vectors: npt.NDArray[Any], log_variance: npt.NDArray[Any], queries: npt.NDArray[Any]) -> Floats:
    """Of each query with every item, shape (queries, items); log_variance: (items,), one for all dimensions."""
    means, variance = vectors.astype(np.float64), np.exp(log_variance.astype(np.float64))
    length = np.einsum("nd,nd->n", means, means)
    apart: Floats = means[queries] @ means.T
    apart *= -2.0
    apart += length[queries][:, None]
    apart += length
    np.maximum(apart, 0.0, out=apart)  # an item with itself
    both = variance[queries][:, None] + variance  # (queries, items)
    apart /= both
    apart += means.shape[1] * np.log(2 * np.pi * both)
    apart *= -0.5
    return apart


def likelihood_pairs(
    vectors: npt.NDArray[Any], log_variance: npt.NDArray[Any], queries: npt.NDArray[Any], items: npt.NDArray[Any]
) -> Floats:
    """Of each pair, shape (pairs,); log_variance: (items,), or (items, dim)."""
    variance = np.exp(log_variance.astype(np.float64)).reshape(len(vectors), -1)
    out = np.empty(len(queries))
    pair_likelihoods(vectors, variance, queries, items, out)
    return out


@compiled
def pair_likelihoods(vectors, variance, queries, items, out):  # type: ignore[no-untyped-def]
    """vectors: (items, dim); variance: (items, dim or 1); the others: (pairs,)."""
    dim, own = vectors.shape[1], variance.shape[1]
    for pair in range(len(queries)):
        q, v = queries[pair], items[pair]
        both = variance[q, 0] + variance[v, 0]
        spread = dim * np.log(2 * np.pi * both) if own == 1 else 0.0
        apart = 0.0
        for place in range(dim):
            if own > 1:
                both = variance[q, place] + variance[v, place]
                spread += np.log(2 * np.pi * both)
            z = np.float64(vectors[q, place]) - np.float64(vectors[v, place])
            apart += z * z / both
        out[pair] = -0.5 * (spread + apart)
