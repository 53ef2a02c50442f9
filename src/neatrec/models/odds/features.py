"""Features of a pair (query, item): functions of its count, and of its items.

The items have names, categories and partners.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.compiled import compiled
from neatrec.cooccurrence import CountOptions
from neatrec.cooccurrence.count_book import CountBook
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.data.counts import PairArrays
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
Values = npt.NDArray[Any]

NAMES_PSEUDO, NEIGHBOUR_PSEUDO, CATEGORY_PSEUDO = 3.0, 1.0, 10.0
ORDER_PSEUDO, CHANCE_PSEUDO = 20.0, 0.02
"""Added to both sides of a ratio, or to the expected count, before the logarithm."""
REPEATED = 2
"""Directed pairs seen fewer times are not counted: one occurrence shows neither order nor more."""
MAX_CATEGORIES = 3_000


class CatalogFeatures(NamedTuple):
    """Names and categories of the items, as features independent of the baskets."""

    category: Codes
    """Codes, shape (items,); all UNKNOWN without categories, or with too many for a table."""
    names: sparse.csr_matrix
    """Similarity of names, (items, items), 1 for the item itself; empty without similar names."""

    @classmethod
    def of(cls, catalog: Catalog) -> CatalogFeatures:
        """The features of a catalogue."""
        unknown = np.full(len(catalog), UNKNOWN, dtype=np.int32)
        category = catalog.category_of() if catalog.levels else unknown
        category = unknown if category.max(initial=UNKNOWN) >= MAX_CATEGORIES else category
        if catalog.names is not None:
            names = similar_names(catalog.names.to_pylist(), category)
            if names.nnz > len(catalog):
                return cls(category, names)
        return cls(category, sparse.csr_matrix((len(catalog),) * 2, dtype=np.float32))

    def by_category(self, matrix: sparse.csr_matrix) -> Floats:
        """The sums of a matrix (items, items) by category; the last row and column: UNKNOWN."""
        items, size = len(self.category), int(self.category.max(initial=UNKNOWN)) + 2
        cells = np.ones(items), self.category % size, np.arange(items + 1)
        member = sparse.csr_matrix(cells, shape=(items, size))
        return np.asarray((member.T @ matrix @ member).toarray())


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """Counts of some baskets, and what else the features are computed from."""

    counts: PairCounts
    catalog: CatalogFeatures
    vectors: Vectors
    """Low-rank vectors of the log-lifts, (items, rank), and the signs of their factors."""
    signs: Vectors
    neighbours: sparse.csr_matrix
    """Similarity of the vectors within a category, (items, items), 0 for the item itself."""
    category_order: Vectors
    """Log of times before over times after of two categories; 0 where carts have no order."""

    @classmethod
    def of(
        cls,
        book: CountBook,
        counting: CountOptions,
        strata: tuple[str, ...],
        catalog: CatalogFeatures,
        rank: int,
        rng: np.random.Generator,
    ) -> PairFeatures:
        """The features of the pairs of a book."""
        counts = PairCounts.of(book, counting, strata)
        vectors, signs = low_rank_vectors(log_lifts(counts), rank, rng)
        neighbours = vector_neighbours(unit_vectors(vectors), catalog.category, counts.total)
        before = np.zeros_like(catalog.by_category(counts.matrix))
        if book.baskets.ordered:
            directed = replace(counting, directed=True, min_count=REPEATED)
            before = catalog.by_category(book.count("all", directed).matrix())
        order = of_categories(before, before.T, ORDER_PSEUDO)
        return cls(counts, catalog, vectors, signs, neighbours, order)

    @cached_property
    def signed(self) -> Vectors:
        """The vectors times the signs of their factors."""
        return self.vectors * self.signs

    @cached_property
    def unit(self) -> Vectors:
        """The vectors at length 1."""
        return unit_vectors(self.vectors)

    @cached_property
    def category_lift(self) -> Vectors:
        """log((C + 10) / (E + 10)) of two categories."""
        together = self.catalog.by_category(self.counts.matrix)
        total = together.sum(axis=1)
        expected = np.outer(total, total) / max(total.sum(), 1)
        return of_categories(together, expected, CATEGORY_PSEUDO)

    def design(self, queries: Codes, items: Codes) -> tuple[Floats, Floats, Floats]:
        """The features (pairs, WORDS), the counts and the expected counts of pairs.

        Pairs of one query adjoin.
        """
        counts = self.counts
        times = counts.of_pairs(queries, items).astype(np.float64)
        expected = counts.expected(counts.total[queries], counts.total[items])
        seen, chance = np.log1p(times), np.log(expected + CHANCE_PSEUDO)
        curve = seen, chance, seen**2, seen * chance, chance**2
        columns = [feature(self, queries, items).astype(np.float32) for feature in FEATURES]
        return np.column_stack([*columns, *curve]), times, expected

    def pooled(
        self, queries: Codes, items: Codes, left: sparse.csr_matrix, right: sparse.csr_matrix
    ) -> Vectors:
        """The values of left @ C @ right.T of the pairs."""
        out = np.empty(len(queries), dtype=np.float32)
        tables = rows_of(left), rows_of(self.counts.matrix), rows_of(right)

        def work(part: slice) -> None:
            pooled_counts(queries[part], items[part], *tables, out[part])

        parallel_slices(len(out), work, min_rows=MIN_PAIRS_PER_THREAD)
        return out


def of_categories(one: Floats, other: Floats, pseudo: float) -> Vectors:
    """The log of the ratio of two tables of categories, 0 for UNKNOWN."""
    ratio = log_ratio(one, other, pseudo).astype(np.float32)
    ratio[UNKNOWN], ratio[:, UNKNOWN] = 0.0, 0.0
    return ratio


# ---- the features of the pairs (query, item)


def low_rank(of: PairFeatures, query: Codes, item: Codes) -> Values:
    """The lift that the low-rank vectors of the two items predict."""
    return pair_products(of.signed, of.vectors, query, item)


def names(of: PairFeatures, query: Codes, item: Codes) -> Values:
    """Observed over expected purchases of items with similar names."""
    similar = of.catalog.names
    if not similar.nnz:
        return np.zeros(len(query))
    total = similar @ of.counts.kept_total.astype(np.float64)
    chance = total[query] * total[item] / max(of.counts.kept_total.sum(), 1)
    return log_ratio(of.pooled(query, item, similar, similar), chance, NAMES_PSEUDO)


def neighbours(of: PairFeatures, query: Codes, item: Codes) -> Values:
    """Observed over expected purchases of the item with neighbours of the query."""
    kept = of.counts.kept_total
    each = sparse.identity(len(kept), dtype=np.float32, format="csr")
    chance = (of.neighbours @ kept)[query] * kept[item] / max(kept.sum(), 1)
    return log_ratio(of.pooled(query, item, of.neighbours, each), chance, NEIGHBOUR_PSEUDO)


def cosine(of: PairFeatures, query: Codes, item: Codes) -> Values:
    """The cosine of the vectors of the two items."""
    return pair_products(of.unit, of.unit, query, item)


def categories(of: PairFeatures, query: Codes, item: Codes) -> Values:
    """The lift of the two categories."""
    return of.category_lift[of.catalog.category[query], of.catalog.category[item]]


def order(of: PairFeatures, query: Codes, item: Codes) -> Values:
    """Log of the times that the query's category is added before the item's over those after."""
    return of.category_order[of.catalog.category[query], of.catalog.category[item]]


def log_ratio(one: Values, other: Values, pseudo: float) -> Values:
    """The logarithm of a ratio, drawn to 0 by a pseudo-count."""
    return np.log((one + pseudo) / (other + pseudo))


FEATURES: dict[Callable[[PairFeatures, Codes, Codes], Values], str] = {
    low_rank: "low-rank lift",
    names: "similar names",
    neighbours: "neighbours of the query",
    cosine: "similar partners",
    categories: "categories",
    order: "order of the categories",
}
"""Features of a pair besides its count and chance; 0 where the catalogue does not give one."""
WORDS = {feature.__name__: words for feature, words in FEATURES.items()} | {
    "seen": "count",
    "chance": "chance",
    "seen_squared": "count squared",
    "seen_chance": "count x chance",
    "chance_squared": "chance squared",
}
"""The names of all features: the last are log(1 + C), log(E + 0.02), their squares and product."""


def rows_of(matrix: sparse.csr_matrix) -> PairArrays:
    """The arrays of a sparse matrix."""
    start, item = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False)
    return PairArrays(start, item, matrix.data)


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
                i, share = left.item[k], left.times[k]
                for p in range(counts.start[i], counts.start[i + 1]):
                    row[counts.item[p]] += share * np.float32(counts.times[p])
        v, total = items[n], np.float32(0)
        for k in range(right.start[v], right.start[v + 1]):
            total += right.times[k] * row[right.item[k]]
        out[n] = total
