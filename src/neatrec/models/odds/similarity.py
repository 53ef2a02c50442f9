"""Which items are alike: by the letters of their names, and by low-rank vectors of their log-lifts.

Items like a rare one stand in for it: their scores are averaged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from neatrec.data.catalog import UNKNOWN
from neatrec.memory import one_blas_thread
from neatrec.models.counts import PairCounts, frequent_pairs

Codes = npt.NDArray[np.int32]
Vectors = npt.NDArray[np.float32]

NEIGHBOURS = 20
"""Similar items per item, itself included."""
MIN_NAME_COSINE, MIN_VECTOR_COSINE = 0.25, 0.2
PIECE, MAX_SHARED = 3, 500
"""Letters of a piece of a name; pieces that more items of a category share tell little."""
BLOCK_ROWS = 4_096
MAX_COMPARED = 4_000
"""Items of a category whose vectors are compared: the best sellers."""
LIFT_PSEUDO_COUNT = 3.0
MIN_LIFTED_COUNT = 2
"""Pairs seen fewer times are left out of the low-rank vectors."""
EXTRA_DIRECTIONS, ITERATIONS = 20, 3
RARE = 3
"""Items bought fewer times have stand-ins."""
STAND_INS = 10
OWN_WEIGHT = 1.0
"""Weight of an item's own scores, plus as much per purchase, beside stand-ins of at most 1."""
RELIABLE = 5.0
"""Purchases at which a stand-in has half of its weight."""


def name_pieces(name: str | None) -> set[str]:
    """Runs of three letters of a name's words, whose ends are marked: they find plurals and typos.

    >>> sorted(name_pieces("Rice 2"))
    ['<ri', 'ce>', 'ice', 'ric']
    """
    words = [f"<{word}>" for word in re.findall(r"[^\W\d_]{2,}", (name or "").casefold())]
    return {word[at : at + PIECE] for word in words for at in range(len(word) - PIECE + 1)}


def similar_names(names: Iterable[str | None], category: Codes) -> sparse.csr_matrix:
    """Squared cosine of the names' pieces, rare ones weighing more, shape (items, items).

    Items are compared within their category, those without one with each other; 1 for the item
    itself.
    """
    code: dict[str, int] = {}
    pieces = [
        sorted(code.setdefault(piece, len(code)) for piece in sorted(name_pieces(name)))
        for name in names
    ]
    items, row = len(pieces), np.repeat(np.arange(len(pieces)), list(map(len, pieces)))
    piece = np.array([each for some in pieces for each in some], dtype=np.int64)
    weight = np.log(items / np.maximum(np.bincount(piece), 1))[piece]
    # a piece of each category is a column of its own: products of rows stay within categories
    keys = piece * (int(category.max(initial=0)) + 2) + category[row] + 1
    _, column, shared = np.unique(keys, return_inverse=True, return_counts=True)
    table = sparse.csr_matrix((weight, (row, column)), shape=(items, len(shared)))
    length = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    rare = sparse.diags((shared <= MAX_SHARED).astype(np.float64))
    unit = sparse.csr_matrix(
        sparse.diags(1 / np.where(length > 0, length, 1)) @ table @ rare, dtype=np.float32
    )
    unit.eliminate_zeros()
    columns, blocks = unit.T.tocsr(), []
    for first in range(0, items, BLOCK_ROWS):
        product = (unit[first : first + BLOCK_ROWS] @ columns).tocoo()
        other = (product.data >= MIN_NAME_COSINE) & (product.row + first != product.col)
        cells = (product.data[other] ** 2, (product.row[other], product.col[other]))
        blocks.append(strongest(sparse.csr_matrix(cells, shape=product.shape), NEIGHBOURS - 1))
    out = sparse.csr_matrix(sparse.vstack(blocks) + sparse.identity(items), dtype=np.float32)
    out.sort_indices()
    return out


def strongest(matrix: sparse.csr_matrix, size: int) -> sparse.csr_matrix:
    """The `size` largest values of each row; of equal ones those of the first columns."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((matrix.indices, -matrix.data, row))
    first = order[np.arange(len(order)) - matrix.indptr[row[order]] < size]
    cells = (matrix.data[first], (row[first], matrix.indices[first]))
    return sparse.csr_matrix(cells, shape=matrix.shape)


def log_lifts(counts: PairCounts) -> sparse.csr_matrix:
    """log((C + 3) / (E + 3)) of pairs seen twice and more often than expected, float32."""
    query, item, count = frequent_pairs(counts.matrix, MIN_LIFTED_COUNT)
    expected = counts.expected(counts.total[query], counts.total[item])
    value = np.log((count + LIFT_PSEUDO_COUNT) / (expected + LIFT_PSEUDO_COUNT))
    more = value > 0
    cells = (value[more].astype(np.float32), (query[more], item[more]))
    return sparse.csr_matrix(cells, shape=counts.matrix.shape)


def low_rank_vectors(
    matrix: sparse.csr_matrix, rank: int, rng: np.random.Generator
) -> tuple[Vectors, Vectors]:
    """U (items, rank) and signs s (rank,) such that U diag(s) U' approximates `matrix`.

    The matrix is symmetric. Randomised subspace iteration, on one BLAS thread so that the bits do
    not depend on the cores.
    """
    used = np.flatnonzero(np.diff(matrix.indptr))
    vectors = np.zeros((matrix.shape[0], rank), dtype=np.float32)
    signs = np.zeros(rank, dtype=np.float32)
    if not len(used):
        return vectors, signs
    inner = matrix[used][:, used]
    directions = min(rank + EXTRA_DIRECTIONS, len(used))
    basis = rng.standard_normal((len(used), directions)).astype(np.float32)
    with one_blas_thread():
        for _ in range(ITERATIONS):
            basis = linalg.qr(inner @ basis, mode="economic", check_finite=False)[0]
        small = basis.T @ (inner @ basis)
        values, rotation = np.linalg.eigh((small + small.T) / 2)
        largest = np.argsort(-np.abs(values), kind="stable")[:rank]
        scale = np.sqrt(np.abs(values[largest]))
        vectors[used, : len(largest)] = (basis @ rotation[:, largest]) * scale
    signs[: len(largest)] = np.sign(values[largest])
    return vectors, signs


def unit_vectors(vectors: Vectors) -> Vectors:
    """The vectors at length 1, zeros where there are none."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1), dtype=np.float32)


def vector_neighbours(
    unit: Vectors, category: Codes, popularity: npt.NDArray[np.int64]
) -> sparse.csr_matrix:
    """Squared cosine of the nearest other vectors within the category, shape (items, items)."""
    row, column, value = [category[:0]], [category[:0]], [unit[:0, 0]]
    order = np.lexsort((-popularity, category)).astype(np.int32)
    order = order[(category[order] != UNKNOWN) & (popularity[order] > 0)]
    groups = np.split(order, np.flatnonzero(np.diff(category[order])) + 1) if len(order) else []
    with one_blas_thread():
        for group in groups:
            members = group[:MAX_COMPARED]
            cosine = unit[members] @ unit[members].T
            np.fill_diagonal(cosine, -1)
            nearest = min(NEIGHBOURS - 1, len(members))
            best = np.argpartition(-cosine, nearest - 1, axis=1)[:, :nearest]
            cosine = np.take_along_axis(cosine, best, axis=1)
            near = cosine >= MIN_VECTOR_COSINE
            row.append(np.broadcast_to(members[:, None], best.shape)[near])
            column.append(members[best[near]])
            value.append(cosine[near] ** 2)
    cells = (np.concatenate(value), (np.concatenate(row), np.concatenate(column)))
    return sparse.csr_matrix(cells, shape=(len(category),) * 2)


def stand_ins(
    item_count: npt.NDArray[np.int64], category: Codes, names: sparse.csr_matrix
) -> sparse.csr_matrix:
    """Shares of the items whose scores are averaged for each query, (items, items); rows sum to 1.

    Its own, for most. A rare item shares with the bought items of the most similar names; what is
    left of an item that nobody bought goes to the ten best sellers of its category.
    """
    is_rare = item_count < RARE
    own = np.where(is_rare, OWN_WEIGHT * (1.0 + item_count), 1.0)
    reliable = sparse.diags(item_count / (item_count + RELIABLE))
    similar = names - sparse.diags(names.diagonal())
    shares = sparse.csr_matrix(sparse.diags(is_rare.astype(float)) @ similar @ reliable)
    shares.eliminate_zeros()
    shares = strongest(shares, STAND_INS)
    mass = own + np.asarray(shares.sum(axis=1)).ravel()
    left = sparse.diags(own / mass) @ itself_or_best_sellers(item_count, category)
    out = sparse.csr_matrix(sparse.diags(1 / mass) @ shares + left, dtype=np.float64)
    out.eliminate_zeros()
    return out


def itself_or_best_sellers(item_count: npt.NDArray[np.int64], category: Codes) -> sparse.csr_matrix:
    """Of each item itself; of one never bought its category's best sellers, by their sales."""
    known = np.flatnonzero(category != UNKNOWN)
    size, groups = len(category), int(category.max(initial=UNKNOWN)) + 1
    cells = item_count[known].astype(np.float64), (category[known], known)
    sales = sparse.csr_matrix(cells, shape=(groups, size))
    sales.eliminate_zeros()
    sales = strongest(sales, STAND_INS)
    total = np.asarray(sales.sum(axis=1)).ravel()
    never = known[(item_count[known] == 0) & (total[category[known]] > 0)]
    member = sparse.csr_matrix(
        (np.ones(len(never)), (never, category[never])), shape=(size, groups)
    )
    own = np.ones(size)
    own[never] = 0.0
    return member @ sparse.diags(1 / np.maximum(total, 1)) @ sales + sparse.diags(own)
