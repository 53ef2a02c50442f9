"""Features of a pair (query, item): functions of its count, its expected count and its items."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.compiled import compiled
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.models.counts import PairCounts
from neatrec.models.odds.similarity import (
    Codes,
    Vectors,
    log_lifts,
    low_rank_vectors,
    similar_names,
    unit_vectors,
    vector_neighbours,
)
from neatrec.models.parallel import MIN_PAIRS_PER_THREAD, parallel_slices
from neatrec.models.vectors import pair_products

Floats = npt.NDArray[np.float64]

FEATURES = {
    "low_rank": "low-rank lift",
    "names": "similar names",
    "neighbours": "neighbours of the query",
    "cosine": "similar partners",
    "categories": "categories",
}
"""Features of a pair besides its count and chance; 0 where the catalogue does not give one."""
CURVE = {
    "seen": "count",
    "chance": "chance",
    "seen_squared": "count squared",
    "seen_chance": "count x chance",
    "chance_squared": "chance squared",
}
"""log(1 + C), log(E + 0.02), their squares and their product."""
NAMES_PSEUDO, NEIGHBOUR_PSEUDO, CATEGORY_PSEUDO = 3.0, 1.0, 10.0
"""Counts added to both sides of a lift before its logarithm."""
CHANCE_PSEUDO = 0.02
MAX_CATEGORIES = 3_000


class Rows(NamedTuple):
    """A sparse matrix by rows, for compiled code."""

    start: npt.NDArray[np.int64]
    item: Codes
    value: npt.NDArray[Any]

    @classmethod
    def of(cls, matrix: sparse.csr_matrix) -> Rows:
        start = matrix.indptr.astype(np.int64, copy=False)
        return cls(start, matrix.indices.astype(np.int32, copy=False), matrix.data)


class CatalogFeatures(NamedTuple):
    """What the catalogue knows of its items, whatever the baskets."""

    category: Codes
    """Codes, shape (items,); all UNKNOWN without categories, or with too many for a table."""
    names: sparse.csr_matrix | None
    """Similarity of names, (items, items), 1 for the item itself; None without names."""

    @classmethod
    def of(cls, catalog: Catalog) -> CatalogFeatures:
        unknown = np.full(len(catalog), UNKNOWN, dtype=np.int32)
        category = catalog.category_of() if catalog.levels else unknown
        category = unknown if category.max(initial=UNKNOWN) >= MAX_CATEGORIES else category
        if catalog.names is None:
            return cls(category, None)
        names = similar_names(catalog.names.to_pylist(), category)
        return cls(category, names if names.nnz > len(catalog) else None)


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """Counts of some baskets, and what else the features are computed from."""

    counts: PairCounts
    catalog: CatalogFeatures
    vectors: Vectors
    """Low-rank vectors of the log-lifts, (items, rank), and the signs of their factors."""
    signs: Vectors
    neighbours: sparse.csr_matrix
    """Similarity of the vectors within a category, (items, items)."""

    @classmethod
    def of(
        cls, counts: PairCounts, catalog: CatalogFeatures, rank: int, rng: np.random.Generator
    ) -> PairFeatures:
        vectors, signs = low_rank_vectors(log_lifts(counts), rank, rng)
        neighbours = vector_neighbours(unit_vectors(vectors), catalog.category, counts.total)
        return cls(counts, catalog, vectors, signs, neighbours)

    @cached_property
    def unit(self) -> Vectors:
        return unit_vectors(self.vectors)

    @cached_property
    def signed(self) -> Vectors:
        return self.vectors * self.signs

    @cached_property
    def names_total(self) -> Vectors:
        """Pairs of the items with names like each item's."""
        names = self.catalog.names
        kept = self.counts.kept_total
        return np.asarray(kept if names is None else names @ kept)

    @cached_property
    def around_total(self) -> Vectors:
        """Pairs of the neighbours of each item, its own left out."""
        kept = self.counts.kept_total
        return np.asarray(self.neighbours @ kept - kept)

    @cached_property
    def category_lift(self) -> Vectors:
        """log((C + 10) / (E + 10)) of categories; the last row and column are for UNKNOWN."""
        category = self.catalog.category
        size = int(category.max(initial=UNKNOWN)) + 2
        counts, code = self.counts, category % size
        member = sparse.csr_matrix(
            (np.ones(len(code)), (np.arange(len(code)), code)), shape=(len(code), size)
        )
        together = (member.T @ counts.matrix @ member).toarray()
        total = together.sum(axis=1)
        expected = np.outer(total, total) / max(total.sum(), 1)
        lift = np.log((together + CATEGORY_PSEUDO) / (expected + CATEGORY_PSEUDO))
        lift[UNKNOWN], lift[:, UNKNOWN] = 0.0, 0.0
        return np.asarray(lift, dtype=np.float32)

    def columns(self, queries: Codes, items: Codes) -> tuple[Vectors, Floats, Floats]:
        """The features (pairs, FEATURES), the counts and the expected counts of pairs."""
        counts, kept = self.counts, self.counts.kept_total
        category, names = self.catalog
        count = counts.of_pairs(queries, items).astype(np.float64)
        expected = counts.expected(counts.total[queries], counts.total[items])
        records = max(kept.sum(), 1)
        out = np.zeros((len(queries), len(FEATURES)), dtype=np.float32)
        out[:, 0] = pair_products(self.signed, self.vectors, queries, items)
        if names is not None:
            total = self.names_total
            pooled = self._pooled(names, names, queries, items)
            chance = total[queries] * total[items] / records
            out[:, 1] = np.log((pooled + NAMES_PSEUDO) / (chance + NAMES_PSEUDO))
        each = sparse.identity(len(kept), dtype=np.float32, format="csr")
        around = np.maximum(self._pooled(self.neighbours, each, queries, items) - count, 0)
        chance = self.around_total[queries] * kept[items] / records
        out[:, 2] = np.log((around + NEIGHBOUR_PSEUDO) / (np.maximum(chance, 0) + NEIGHBOUR_PSEUDO))
        out[:, 3] = pair_products(self.unit, self.unit, queries, items)
        out[:, 4] = self.category_lift[category[queries], category[items]]
        return out, count, expected

    def _pooled(
        self, left: sparse.csr_matrix, right: sparse.csr_matrix, queries: Codes, items: Codes
    ) -> Vectors:
        out = np.empty(len(queries), dtype=np.float32)
        tables = Rows.of(left), Rows.of(self.counts.matrix), Rows.of(right)

        def work(part: slice) -> None:
            pooled_counts(queries[part], items[part], *tables, out[part])

        parallel_slices(len(queries), work, min_rows=MIN_PAIRS_PER_THREAD)
        return out


@compiled
def pooled_counts(queries, items, left, counts, right, out):  # type: ignore[no-untyped-def]
    """out[n] = sum_ij left[q, i] counts[i, j] right[v, j] of pair n; pairs of a query adjoin."""
    row = np.zeros(len(counts.start) - 1, np.float32)
    before = -1
    for n in range(len(queries)):
        if queries[n] != before:
            if before >= 0:
                for k in range(left.start[before], left.start[before + 1]):
                    i = left.item[k]
                    row[counts.item[counts.start[i] : counts.start[i + 1]]] = 0
            before = queries[n]
            for k in range(left.start[before], left.start[before + 1]):
                i, share = left.item[k], left.value[k]
                for p in range(counts.start[i], counts.start[i + 1]):
                    row[counts.item[p]] += share * np.float32(counts.value[p])
        v, total = items[n], np.float32(0)
        for k in range(right.start[v], right.start[v + 1]):
            total += right.value[k] * row[right.item[k]]
        out[n] = total
