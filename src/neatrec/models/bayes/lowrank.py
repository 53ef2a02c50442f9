"""A symmetric sparse matrix by few factors: what a pair should look like, judged by all other pairs of its items."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.models.bayes.names import Found, Places, nearest, within_categories
from neatrec.models.counts import PairCounts, frequent_pairs
from neatrec.models.parallel import one_blas_thread

Factors = npt.NDArray[np.float32]

PSEUDO = 3.0
"""Times together added to what was seen and to what was expected, before the logarithm."""
SPARE = 20
"""Directions carried along beyond the rank, so that the last ones kept are exact enough."""
ROUNDS = 3
STRETCH = 4_000_000
"""Pairs whose log-lifts are worked out together."""
COMPANY = 0.2
"""Cosine of their vectors below which two items do not keep like company."""


def log_lifts(counts: PairCounts, min_pair_count: int) -> sparse.csr_matrix:
    """log((C + 3) / (E + 3)) of pairs seen at least `min_pair_count` times and more often than expected, float32."""
    values, items, in_row = [], [], []
    for first, end in stretches(counts.matrix.indptr, STRETCH):
        query, item, count = frequent_pairs(counts.matrix[first:end], min_pair_count)
        chance = counts.expected(counts.total[first:end][query], counts.total[item])
        value = np.log((count + PSEUDO) / (chance + PSEUDO))
        more = value > 0
        values.append(value[more].astype(np.float32))
        items.append(item[more])
        in_row.append(np.bincount(query[more], minlength=end - first))
    start = np.concatenate([[0], np.cumsum(np.concatenate(in_row))])
    return sparse.csr_matrix((np.concatenate(values), np.concatenate(items), start), shape=counts.matrix.shape)


def stretches(start: npt.NDArray[Any], size: int) -> list[tuple[int, int]]:
    """First row and end of stretches of about `size` entries, one row at least; `start`: where rows begin."""
    ends = np.searchsorted(start, np.arange(size, int(start[-1]) + size, size), side="left")
    cuts = np.unique(np.concatenate([[0], np.minimum(ends, len(start) - 1), [len(start) - 1]]))
    return [(int(first), int(end)) for first, end in pairwise(cuts)]


def factors(matrix: Any, rank: int, rng: np.random.Generator) -> tuple[Factors, Factors]:
    """U (items, rank) and w (rank,) such that U diag(w) U' is near the symmetric `matrix`: subspace iteration.

    Rows without values have zeros. One BLAS thread, so that the bits do not depend on how many there are.
    """
    used = np.flatnonzero(np.diff(matrix.indptr) if sparse.issparse(matrix) else np.abs(matrix).sum(axis=1))
    vectors = np.zeros((matrix.shape[0], rank), dtype=np.float32)
    values = np.zeros(rank, dtype=np.float32)
    if not len(used):
        return vectors, values
    inner = _inner(matrix, used) if sparse.issparse(matrix) else matrix[used][:, used]
    basis = rng.standard_normal((len(used), min(rank + SPARE, len(used)))).astype(np.float32)
    with one_blas_thread():
        found, largest = subspace(inner, basis, rank)
    vectors[used, : len(largest)] = found
    values[: len(largest)] = largest
    return vectors, values


def subspace(matrix: Any, basis: Factors, rank: int) -> tuple[Factors, Factors]:
    """The vectors of the `rank` largest values, and these, by subspace iteration from `basis`."""
    for _ in range(ROUNDS):
        basis = np.linalg.qr(matrix @ basis)[0]
    small = basis.T @ (matrix @ basis)
    found, turned = np.linalg.eigh((small + small.T) / 2)
    # in the order that a stable sort gives, by which equals of either sign come as they stand
    largest = np.argsort(-np.abs(found), kind="stable")[:rank]
    return basis @ turned[:, largest], found[largest]


def _inner(matrix: sparse.csr_matrix, used: npt.NDArray[np.int64]) -> sparse.csr_matrix:
    """Rows and columns `used`; the others are empty, so that values need not be moved."""
    place = np.zeros(matrix.shape[0], dtype=np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    parts = (matrix.data, place[matrix.indices], np.append(matrix.indptr[used], matrix.nnz))
    return sparse.csr_matrix(parts, shape=(len(used), len(used)))


def unit_vectors(vectors: Factors, values: Factors) -> Factors:
    """Vectors of length 1 whose products are the cosines of the factors, zeros where there are none; (items, rank)."""
    scaled = vectors * np.sqrt(np.abs(values))
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(length > 0, length, 1), dtype=np.float32)


def like_company(unit: Factors, category: npt.NDArray[np.int32]) -> sparse.csr_matrix:
    """How much each item borrows from those of its category that keep like company, shape (items, items), float32.

    The squared cosine of their vectors; 1 for the item itself. An item without category borrows from none.
    """

    def near(rows: Places, members: Places) -> Found:
        return nearest(unit[rows] @ unit[members].T, rows, members, COMPANY)

    with one_blas_thread():
        return within_categories(category, near)
