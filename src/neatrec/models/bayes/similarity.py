"""Which items are alike: by the words of their names, and by low-rank factors of the log-lifts of their pairs."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.models.counts import PairCounts, frequent_pairs
from neatrec.models.parallel import one_blas_thread, parallel_slices

MAX_WORDS = 3_000
"""Only the most frequent words are used: word pairs make a table of this number squared."""
MIN_ITEMS_PER_WORD = 5
NEIGHBOURS = 20
"""Similar items per item, itself included."""
MIN_NAME_COSINE, MIN_VECTOR_COSINE = 0.25, 0.2
"""Two items are similar from this cosine on: of the words of their names, of their low-rank vectors."""
ROWS, MAX_COSINES = 512, 2**22
"""Items that one thread compares with their category at a time, and the most cosines of them."""
LIFT_PSEUDO_COUNT = 3.0
"""Added to C and E before the logarithm of the lift."""
EXTRA_DIRECTIONS, ITERATIONS = 20, 3
"""Of the subspace iteration: directions beyond the rank, and rounds."""
BLOCK_PAIRS = 4_000_000
"""Pairs whose log-lifts are computed together."""

Vectors = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
Found = tuple[Places, Places, Vectors]
"""Rows, columns and values of a sparse matrix."""


def words_of(name: str | None) -> list[str]:
    """The distinct words of a name in lower case, without the plural s.

    >>> words_of("Organic Taco Shells, 12 CT Shells")
    ['ct', 'organic', 'shell', 'taco']
    """
    found = re.findall(r"[^\W\d_]{2,}", (name or "").lower())
    return sorted({word[:-1] if len(word) > 3 and word[-1] == "s" != word[-2] else word for word in found})


def word_table(catalog: Catalog) -> sparse.csr_matrix | None:
    """Which item has which word, ones of shape (items, words); None without names."""
    if catalog.names is None:
        return None
    lists = [words_of(name) for name in catalog.names.to_pylist()]
    word_code = {word: code for code, word in enumerate(sorted({word for words in lists for word in words}))}
    if not word_code:
        return None
    codes = np.array([word_code[word] for words in lists for word in words], dtype=np.int32)
    starts = np.concatenate([[0], np.cumsum([len(words) for words in lists])])
    return sparse.csr_matrix((np.ones(len(codes), np.float32), codes, starts), shape=(len(catalog), len(word_code)))


def common_words(table: sparse.csr_matrix) -> sparse.csr_matrix | None:
    """The columns of the most frequent words, each row divided by its number of words; None when no word is common."""
    items = np.asarray(table.sum(axis=0)).ravel()
    order = np.argsort(-items, kind="stable")[:MAX_WORDS]
    kept = np.sort(order[items[order] >= MIN_ITEMS_PER_WORD])
    if not len(kept):
        return None
    part = table[:, kept]
    size = np.maximum(np.asarray(part.sum(axis=1)).ravel(), 1).astype(np.float32)
    return sparse.csr_matrix(sparse.diags(1 / size) @ part, dtype=np.float32)


def similar_names(table: sparse.csr_matrix, category: npt.NDArray[np.int32]) -> sparse.csr_matrix:
    """Squared cosine of the names' words, rare words weighing more, within categories, shape (items, items)."""
    items = np.asarray(table.sum(axis=0)).ravel()
    weighted = table @ sparse.diags(np.log(table.shape[0] / np.maximum(items, 1)))
    length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    unit = sparse.csr_matrix(sparse.diags(1 / np.where(length > 0, length, 1)) @ weighted, dtype=np.float32)

    def cosines(rows: Places, members: Places) -> Vectors:
        return np.asarray((unit[rows] @ unit[members].T).toarray(), dtype=np.float32)

    return _within_categories(category, cosines, MIN_NAME_COSINE)


def vector_neighbours(unit: Vectors, category: npt.NDArray[np.int32]) -> sparse.csr_matrix:
    """Squared cosine of the low-rank vectors of length 1, within categories, shape (items, items)."""
    with one_blas_thread():
        return _within_categories(category, lambda rows, members: unit[rows] @ unit[members].T, MIN_VECTOR_COSINE)


def _within_categories(
    category: npt.NDArray[np.int32], cosines: Callable[[Places, Places], Vectors], min_cosine: float
) -> sparse.csr_matrix:
    """`nearest` of each item among those of its category; an item without category has itself alone."""
    tasks: list[tuple[Places, Places]] = []
    for code in np.unique(category[category != UNKNOWN]):
        members = np.flatnonzero(category == code)
        size = min(ROWS, max(1, MAX_COSINES // len(members)))
        tasks += [(members[start : start + size], members) for start in range(0, len(members), size)]
    alone = np.flatnonzero(category == UNKNOWN)
    found: list[Found] = [(alone, alone, np.ones(len(alone), dtype=np.float32))] * (len(tasks) + 1)

    def work(part: slice) -> None:
        for number in range(part.start, part.stop):
            found[number + 1] = nearest(cosines(*tasks[number]), *tasks[number], min_cosine)

    if tasks:
        parallel_slices(len(tasks), work)
    rows, columns, values = (np.concatenate(part) for part in zip(*found, strict=True))
    return sparse.csr_matrix((values, (rows, columns)), shape=(len(category), len(category)))


def nearest(cosine: Vectors, rows: Places, members: Places, min_cosine: float) -> Found:
    """The NEIGHBOURS members nearest to each row, from `min_cosine` on, and their squared cosines; 1 for itself.

    `cosine` has shape (rows, members) and is overwritten.
    """
    cosine[rows[:, None] == members] = 1.0
    bound = np.full(len(rows), min_cosine, dtype=np.float32)
    if len(members) > NEIGHBOURS:
        bound = np.maximum(bound, np.partition(cosine, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS])
    row, column = np.nonzero(cosine >= bound[:, None])
    return rows[row], members[column], cosine[row, column].astype(np.float32) ** 2


def log_lifts(counts: PairCounts, min_pair_count: int) -> sparse.csr_matrix:
    """log((C + 3) / (E + 3)) of pairs seen at least `min_pair_count` times and more often than expected, float32."""
    values, items, in_row = [], [], []
    for first, end in row_blocks(counts.matrix.indptr, BLOCK_PAIRS):
        query, item, count = frequent_pairs(counts.matrix[first:end], min_pair_count)
        expected = counts.expected(counts.total[first:end][query], counts.total[item])
        value = np.log((count + LIFT_PSEUDO_COUNT) / (expected + LIFT_PSEUDO_COUNT))
        more = value > 0
        values.append(value[more].astype(np.float32))
        items.append(item[more])
        in_row.append(np.bincount(query[more], minlength=end - first))
    start = np.concatenate([[0], np.cumsum(np.concatenate(in_row))])
    return sparse.csr_matrix((np.concatenate(values), np.concatenate(items), start), shape=counts.matrix.shape)


def row_blocks(start: npt.NDArray[Any], size: int) -> list[tuple[int, int]]:
    """First row and end of blocks of about `size` entries, at least one row each; `start`: where rows begin."""
    ends = np.searchsorted(start, np.arange(size, int(start[-1]) + size, size), side="left")
    cuts = np.unique(np.concatenate([[0], np.minimum(ends, len(start) - 1), [len(start) - 1]]))
    return [(int(first), int(end)) for first, end in pairwise(cuts)]


def low_rank_factors(matrix: Any, rank: int, rng: np.random.Generator) -> tuple[Vectors, Vectors]:
    """U (items, rank) and w (rank,) such that U diag(w) U' approximates the symmetric `matrix`.

    Randomised subspace iteration, on one BLAS thread so that the bits do not depend on the cores. Rows without values
    are zeros.
    """
    used = np.flatnonzero(np.diff(matrix.indptr) if sparse.issparse(matrix) else np.abs(matrix).sum(axis=1))
    vectors, values = np.zeros((matrix.shape[0], rank), dtype=np.float32), np.zeros(rank, dtype=np.float32)
    if not len(used):
        return vectors, values
    inner = matrix[used][:, used]
    basis = rng.standard_normal((len(used), min(rank + EXTRA_DIRECTIONS, len(used)))).astype(np.float32)
    with one_blas_thread():
        for _ in range(ITERATIONS):
            basis = np.linalg.qr(inner @ basis)[0]
        small = basis.T @ (inner @ basis)
        found, rotation = np.linalg.eigh((small + small.T) / 2)
        largest = np.argsort(-np.abs(found), kind="stable")[:rank]
        vectors[used, : len(largest)] = basis @ rotation[:, largest]
    values[: len(largest)] = found[largest]
    return vectors, values


def scaled_vectors(vectors: Vectors, values: Vectors) -> Vectors:
    """Vectors times the root of their factors' absolute values, (items, rank)."""
    return np.asarray(vectors * np.sqrt(np.abs(values)), dtype=np.float32)


def unit_vectors(scaled: Vectors) -> Vectors:
    """The vectors at length 1, zeros where there are none."""
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(length > 0, length, 1), dtype=np.float32)
