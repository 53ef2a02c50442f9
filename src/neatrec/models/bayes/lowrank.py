"""A symmetric sparse matrix by few factors: what a pair should look like, judged by all other pairs of its items."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from threadpoolctl import threadpool_limits

from neatrec.models.counts import PairCounts

Factors = npt.NDArray[np.float32]

PSEUDO = 3.0
"""Times together added to what was seen and to what was expected, before the logarithm."""
SPARE = 20
"""Directions carried along beyond the rank, so that the last ones kept are exact enough."""
ROUNDS = 3


def log_lifts(counts: PairCounts, fewest: int) -> sparse.csr_matrix:
    """log((C + 3) / (E + 3)) of the pairs seen at least `fewest` times and more often than expected, float32."""
    pairs = counts.matrix.tocoo()
    often = pairs.data >= fewest
    query, item, count = pairs.row[often], pairs.col[often], pairs.data[often]
    value = np.log((count + PSEUDO) / (counts.expected(counts.total[query], counts.total[item]) + PSEUDO))
    more = value > 0
    parts = (value[more].astype(np.float32), (query[more], item[more]))
    return sparse.csr_matrix(parts, shape=counts.matrix.shape)


def factors(matrix: Any, rank: int, rng: np.random.Generator) -> tuple[Factors, Factors]:
    """U (items, rank) and w (rank,) such that U diag(w) U' is near the symmetric `matrix`: subspace iteration.

    Rows without values have zeros. One BLAS thread, so that the bits do not depend on how many there are.
    """
    used = np.flatnonzero(np.asarray(abs(matrix).sum(axis=1)).ravel())
    vectors = np.zeros((matrix.shape[0], rank), dtype=np.float32)
    values = np.zeros(rank, dtype=np.float32)
    if not len(used):
        return vectors, values
    inner = matrix[used][:, used]
    with threadpool_limits(limits=1, user_api="blas"):
        basis = rng.standard_normal((len(used), min(rank + SPARE, len(used)))).astype(np.float32)
        for _ in range(ROUNDS):
            basis = np.linalg.qr(inner @ basis)[0]
        small = basis.T @ (inner @ basis)
        found, turned = np.linalg.eigh((small + small.T) / 2)
        largest = np.argsort(-np.abs(found), kind="stable")[:rank]
        vectors[used, : len(largest)] = basis @ turned[:, largest]
    values[: len(largest)] = found[largest]
    return vectors, values
