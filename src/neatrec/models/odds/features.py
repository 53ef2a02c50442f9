"""Features of a pair (query, item): functions of its count, and of its items.

Items are alike by the letters of their names, and by low-rank vectors of their log-lifts. Items
like a rare one stand in for it: their scores are averaged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from neatrec.compiled import compiled
from neatrec.cooccurrence import CountBook, CountOptions
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.data.counts import PairArrays
from neatrec.memory import blocks, one_blas_thread, parallel_slices
from neatrec.models.counts import PairCounts, largest, strongest
from neatrec.models.vectors import MIN_PAIRS_PER_THREAD, pair_products

Codes = npt.NDArray[np.int32]
Vectors = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Values = npt.NDArray[Any]

NAMES_PSEUDO, NEIGHBOUR_PSEUDO, CATEGORY_PSEUDO = 3.0, 1.0, 10.0
ORDER_PSEUDO, CHANCE_PSEUDO = 20.0, 0.02
"""Added to both sides of a ratio, or to the expected count, before the logarithm."""
REPEATED = 2  # directed pairs seen fewer times are not counted: one occurrence shows no order
MAX_CATEGORIES = 3_000
NEIGHBOURS = 20  # similar items per item, itself included
MIN_NAME_COSINE, MIN_VECTOR_COSINE = 0.25, 0.2
PIECE = 3  # letters of a piece of a name
MAX_SHARED = 500  # pieces that more items of a category share tell little
BLOCK_ROWS = 4_096
MAX_COMPARED = 4_000  # items of a category whose vectors are compared: the best sellers
LIFT_PSEUDO_COUNT = 3.0
MIN_LIFTED_COUNT = 2  # pairs seen fewer times are left out of the low-rank vectors
EXTRA_DIRECTIONS, ITERATIONS, SHORT = 20, 3, 1e-15
RARE, STAND_INS = 3, 10  # items bought fewer times have at most 10 stand-ins
RELIABLE = 5.0  # purchases at which a stand-in has half of its weight


class CatalogFeatures(NamedTuple):
    """Names and categories of the items, as features independent of the baskets."""

    category: Codes
    """Codes, shape (items,); all UNKNOWN without categories, or with too many for a table."""
    names: sparse.csr_matrix
    """Similarity of names, (items, items), 1 for the item itself; empty without similar names."""

    @classmethod
    def of(cls, catalog: Catalog) -> CatalogFeatures:
        """Similarities within the categories, unless no two names are similar."""
        unknown = np.full(len(catalog), UNKNOWN, dtype=np.int32)
        category = catalog.category_of() if catalog.levels else unknown
        category = unknown if category.max(initial=UNKNOWN) >= MAX_CATEGORIES else category
        if catalog.names is not None:
            names = similar_names(catalog.names.to_pylist(), category)
            if names.nnz > len(catalog):
                return cls(category, names)
        return cls(category, sparse.csr_matrix((len(catalog),) * 2, dtype=np.float32))

    @property
    def categories(self) -> int:
        """The number of categories and UNKNOWN."""
        return int(self.category.max(initial=UNKNOWN)) + 2

    def by_category(self, matrix: sparse.csr_matrix) -> Floats:
        """The sums of a matrix (items, items) by category; the last row and column: UNKNOWN."""
        items, size = len(self.category), self.categories
        cells = np.ones(items), self.category % size, np.arange(items + 1)
        member = sparse.csr_matrix(cells, shape=(items, size))
        return np.asarray((member.T @ (matrix @ member)).toarray())


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
    threads: int | None = None

    @classmethod
    def of(
        cls,
        book: CountBook,
        counting: CountOptions,
        strata: tuple[str, ...],
        catalog: CatalogFeatures,
        rank: int,
        rng: np.random.Generator,
        threads: int | None = None,
    ) -> PairFeatures:
        """The features of the pairs of a book."""
        counts = PairCounts.of(book, counting, strata, keep=False)
        vectors, signs = low_rank_vectors(log_lifts(counts), rank, rng)
        neighbours = vector_neighbours(vectors, catalog.category, counts.total)
        order = np.zeros((catalog.categories,) * 2, np.float32)
        if book.baskets.ordered:
            directed = replace(counting, directed=True, min_count=REPEATED)
            before = catalog.by_category(book.count("all", directed, keep=False).matrix())
            order = of_categories(before, before.T, ORDER_PSEUDO)
        return cls(counts, catalog, vectors, signs, neighbours, order, threads)

    @cached_property
    def lengths(self) -> Vectors:
        """The lengths of the vectors, above 0."""
        return np.asarray(np.maximum(np.linalg.norm(self.vectors, axis=1), SHORT))

    @cached_property
    def category_lift(self) -> Vectors:
        """log((C + 10) / (E + 10)) of two categories."""
        together = self.catalog.by_category(self.counts.matrix)
        total = together.sum(axis=1)
        expected = np.outer(total, total) / max(total.sum(), 1)
        return of_categories(together, expected, CATEGORY_PSEUDO)

    def design(self, queries: Codes, items: Codes) -> tuple[Vectors, Floats, Floats]:
        """The features (pairs, WORDS), counts and expected counts; pairs of a query adjoin."""
        counts = self.counts
        times = counts.of_pairs(queries, items).astype(np.float64)
        expected = counts.expected(counts.total[queries], counts.total[items])
        seen, chance = np.log1p(times), np.log(expected + CHANCE_PSEUDO)
        curve = seen, chance, seen**2, seen * chance, chance**2
        columns = (feature(self, queries, items) for feature in FEATURES)
        return np.stack([*columns, *curve], axis=1, dtype=np.float32), times, expected

    def pooled(
        self, queries: Codes, items: Codes, left: sparse.csr_matrix, right: sparse.csr_matrix
    ) -> Vectors:
        """The values of left @ C @ right.T of the pairs."""
        out = np.empty(len(queries), dtype=np.float32)
        tables = [
            PairArrays(
                each.indptr.astype(np.int64), each.indices.astype(np.int32, copy=False), each.data
            )
            for each in (left, self.counts.matrix, right)
        ]

        def work(part: slice) -> None:
            pooled_counts(queries[part], items[part], *tables, out[part])

        parallel_slices(len(out), work, self.threads, min_rows=MIN_PAIRS_PER_THREAD)
        return out


def of_categories(one: Floats, other: Floats, pseudo: float) -> Vectors:
    """The log of the ratio of two tables of categories, 0 for UNKNOWN."""
    ratio = log_ratio(one, other, pseudo).astype(np.float32)
    ratio[UNKNOWN], ratio[:, UNKNOWN] = 0.0, 0.0
    return ratio


def low_rank(of: PairFeatures, query: Codes, item: Codes) -> Values:
    """The lift that the low-rank vectors of the two items predict."""
    codes, row = np.unique(query, return_inverse=True)
    signed = of.vectors[codes] * of.signs
    return pair_products(signed, of.vectors, row.astype(np.int32), item, of.threads)


def names(of: PairFeatures, query: Codes, item: Codes) -> Values:
    """Observed over expected purchases of items with similar names."""
    similar, kept = of.catalog.names, of.counts.kept_total
    total = similar @ kept.astype(np.float64)
    chance = total[query] * total[item] / max(kept.sum(), 1)
    return log_ratio(of.pooled(query, item, similar, similar), chance, NAMES_PSEUDO)


def neighbours(of: PairFeatures, query: Codes, item: Codes) -> Values:
    """Observed over expected purchases of the item with neighbours of the query."""
    kept = of.counts.kept_total
    each = sparse.identity(len(kept), dtype=np.float32, format="csr")
    chance = (of.neighbours @ kept)[query] * kept[item] / max(kept.sum(), 1)
    return log_ratio(of.pooled(query, item, of.neighbours, each), chance, NEIGHBOUR_PSEUDO)


def cosine(of: PairFeatures, query: Codes, item: Codes) -> Values:
    """The cosine of the vectors of the two items."""
    products = pair_products(of.vectors, of.vectors, query, item, of.threads)
    return products / (of.lengths[query] * of.lengths[item])


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
                    for p in range(counts.start[i], counts.start[i + 1]):
                        row[np.uint32(counts.item[p])] = 0
            before = queries[n]
            for k in range(left.start[before], left.start[before + 1]):
                i, share = left.item[k], left.times[k]
                for p in range(counts.start[i], counts.start[i + 1]):
                    row[np.uint32(counts.item[p])] += share * np.float32(counts.times[p])
        v, total = items[n], np.float32(0)
        for k in range(right.start[v], right.start[v + 1]):
            total += right.times[k] * row[np.uint32(right.item[k])]
        out[n] = total


def incidence(lists: Iterable[Iterable[str]]) -> tuple[sparse.csr_matrix, list[str]]:
    """1 where a list holds a string, shape (lists, strings), and the strings."""
    code: dict[str, int] = {}
    rows = [[code.setdefault(each, len(code)) for each in some] for some in lists]
    column = np.fromiter(chain.from_iterable(rows), np.int32)
    cells = np.ones(len(column), np.float32), column, np.cumsum([0, *map(len, rows)])
    matrix = sparse.csr_matrix(cells, shape=(len(rows), len(code)))
    matrix.sum_duplicates()
    return matrix, list(code)


def word_pieces(word: str) -> list[str]:
    """Runs of three letters of a word, whose ends are marked: they find plurals and typos.

    >>> word_pieces("rice")
    ['<ri', 'ric', 'ice', 'ce>']
    """
    return [f"<{word}>"[first : first + PIECE] for first in range(len(word) + 3 - PIECE)]


def similar_names(names: Iterable[str | None], category: Codes) -> sparse.csr_matrix:
    """Squared cosine of the names' pieces, rare ones weighing more, shape (items, items).

    Items are compared within their category, those without one with each other; an item has 1.
    """
    words = (re.findall(r"[^\W\d_]{2,}", (name or "").casefold()) for name in names)
    of_item, distinct = incidence(words)
    table = of_item @ incidence(map(word_pieces, distinct))[0]
    items = table.shape[0]
    in_items = np.bincount(table.indices, minlength=table.shape[1])
    table.data = np.log(items / in_items)[table.indices].astype(np.float32)
    length = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    table = sparse.csr_matrix(sparse.diags(1 / np.where(length > 0, length, 1)) @ table)
    cells = [(np.arange(items), np.arange(items), np.ones(items))]
    for group in items_by_category(category):
        columns = table[group].tocsc()
        columns = columns[:, np.diff(columns.indptr) <= MAX_SHARED]
        rows = columns.tocsr()
        for first in range(0, len(group), BLOCK_ROWS):
            near = (rows[first : first + BLOCK_ROWS] @ columns.T).tocoo()
            other = (near.data >= MIN_NAME_COSINE) & (near.row + first != near.col)
            some = near.data[other] ** 2, (near.row[other], near.col[other])
            near = strongest(sparse.csr_matrix(some, shape=near.shape), NEIGHBOURS - 1).tocoo()
            cells.append((group[near.row + first], group[near.col], near.data))
    row, column, value = (np.concatenate(each) for each in zip(*cells, strict=True))
    out = sparse.csr_matrix((value.astype(np.float32), (row, column)), shape=(items, items))
    out.sort_indices()
    return out


def items_by_category(category: Codes) -> list[npt.NDArray[np.intp]]:
    """The items of each category, ascending; UNKNOWN is one, too."""
    order = np.argsort(category, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(category[order])) + 1)


def log_lifts(counts: PairCounts) -> sparse.csr_matrix:
    """log((C + 3) / (E + 3)) of pairs seen twice and more often than expected, float32."""
    matrix, total = counts.matrix, counts.total
    query = np.repeat(np.arange(len(total), dtype=np.int32), np.diff(matrix.indptr))
    value = np.empty(matrix.nnz, np.float32)
    for block in blocks(matrix.nnz):
        times = matrix.data[block]
        expected = counts.expected(total[query[block]], total[matrix.indices[block]])
        lift = log_ratio(times, expected, LIFT_PSEUDO_COUNT)
        value[block] = np.where(times >= MIN_LIFTED_COUNT, np.maximum(lift, 0.0), 0.0)
    cells = value, matrix.indices.copy(), matrix.indptr.copy()
    out = sparse.csr_matrix(cells, shape=matrix.shape)
    out.eliminate_zeros()
    return out


def low_rank_vectors(
    matrix: sparse.csr_matrix, rank: int, rng: np.random.Generator
) -> tuple[Vectors, Vectors]:
    """U (items, rank) and signs s (rank,) such that U diag(s) U' approximates a symmetric matrix.

    Randomised subspace iteration, on one BLAS thread: the bits do not depend on the cores.
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
        kept = np.argsort(-np.abs(values), kind="stable")[:rank]
        scale = np.sqrt(np.abs(values[kept]))
        vectors[used, : len(kept)] = (basis @ rotation[:, kept]) * scale
    signs[: len(kept)] = np.sign(values[kept])
    return vectors, signs


def vector_neighbours(
    vectors: Vectors, category: Codes, popularity: npt.NDArray[np.int64]
) -> sparse.csr_matrix:
    """Squared cosine of the nearest other vectors within the category, shape (items, items)."""
    parts: list[tuple[Values, Values, Values]] = [(category[:0], category[:0], vectors[:0, 0])]
    with one_blas_thread():
        for group in items_by_category(category):
            bought = group[popularity[group] > 0]
            if category[group[0]] == UNKNOWN or not len(bought):
                continue
            best = bought[np.argsort(-popularity[bought], kind="stable")[:MAX_COMPARED]]
            length = np.linalg.norm(vectors[best], axis=1, keepdims=True)
            unit = vectors[best] / np.maximum(length, SHORT)
            cosine = unit @ unit.T
            np.fill_diagonal(cosine, -1)
            rows = np.arange(len(best) + 1) * len(best)
            near = largest(rows, cosine.ravel(), NEIGHBOURS - 1).reshape(cosine.shape)
            near &= cosine >= MIN_VECTOR_COSINE
            one, other = np.nonzero(near)
            parts.append((best[one], best[other], cosine[near] ** 2))
    row, column, value = map(np.concatenate, zip(*parts, strict=True))
    return sparse.csr_matrix((value, (row, column)), shape=(len(category),) * 2)


def stand_ins(
    item_count: npt.NDArray[np.int64], category: Codes, names: sparse.csr_matrix
) -> sparse.csr_matrix:
    """Shares of the items whose scores are averaged for each query, (items, items); rows sum to 1.

    A rare item shares with the bought items of the most similar names; the own share of an item
    that nobody bought goes to the ten best sellers of its category.
    """
    is_rare = item_count < RARE
    # its own scores weigh 1, and 1 more per purchase, beside stand-ins of at most 1
    own = np.where(is_rare, 1.0 + item_count, 1.0)
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
    pairs = np.ones(len(never)), (never, category[never])
    member = sparse.csr_matrix(pairs, shape=(size, groups))
    own = np.ones(size)
    own[never] = 0.0
    return member @ sparse.diags(1 / np.maximum(total, 1)) @ sales + sparse.diags(own)
