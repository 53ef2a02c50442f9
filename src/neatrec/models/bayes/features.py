"""`PairFeatures`: counts of some baskets, and what they and the catalogue say about a pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.cooccurrence import CountOptions
from neatrec.data.baskets import BasketStream
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.models.bayes.cold_start import StandIns
from neatrec.models.bayes.counting import counted, counted_near
from neatrec.models.bayes.lowrank import COMPANY, Factors, factors, like_company, log_lifts, unit_vectors
from neatrec.models.bayes.names import common_words, like_names, word_table
from neatrec.models.bayes.order import Order
from neatrec.models.counts import PairCounts

Rows = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

SIGNS = ("level", "low rank", "like names", "categories", "words", "item")
"""What the prior is made of, in this order; the level is the same for all pairs."""
NEAR = 5
"""Pairs at most this far apart in the cart are near."""
WORD_RANK = 32
LIKE_PSEUDO, CATEGORY_PSEUDO, WORD_PSEUDO, ITEM_PSEUDO = 3.0, 10.0, 20.0, 10.0
MOST_CATEGORIES = 3_000


@dataclass(frozen=True)
class Surroundings:
    """What the catalogue alone says: the same for every part of the baskets."""

    category: npt.NDArray[np.int32]
    """Codes used for category pairs, shape (items,); all UNKNOWN when there are none, or too many for a table."""
    words: sparse.csr_matrix | None
    like: sparse.csr_matrix | None

    @classmethod
    def of(cls, catalog: Catalog) -> Surroundings:
        """What `catalog` says, as far as it has names and categories."""
        category = catalog.category_of() if catalog.levels else np.full(len(catalog), UNKNOWN, dtype=np.int32)
        if category.max(initial=UNKNOWN) >= MOST_CATEGORIES:
            category = np.full(len(catalog), UNKNOWN, dtype=np.int32)
        table = word_table(catalog)
        like = None if table is None else like_names(table, category)
        if like is not None and like.nnz <= len(catalog):
            like = None
        return cls(category, None if table is None else common_words(table), like)

    def members(self) -> list[sparse.csr_matrix]:
        """Which item is of which category, and which has which word where there are words: ones, (items, groups)."""
        size = int(self.category.max(initial=UNKNOWN)) + 1
        known = np.flatnonzero(self.category != UNKNOWN)
        shape = (len(self.category), size)
        of_category = sparse.csr_matrix((np.ones(len(known)), (known, self.category[known])), shape=shape)
        return [of_category] if self.words is None else [of_category, holds_of(self.words)]


@dataclass(frozen=True)
class Block:
    """Numbers of some queries with every item, each of shape (queries, items)."""

    count: Rows
    expected: Rows
    near_count: Rows
    """Near pairs, scaled so that they add up to as many as all pairs; the count where order is not known."""
    near_expected: Rows
    signs: Rows
    """Logarithms of lift-like ratios in the order of `SIGNS`, 0 where a sign is missing, (queries, items, signs)."""


class PairFeatures:
    """C, F, E of all pairs and of near ones; low-rank factors; lifts of category pairs, word pairs and like names."""

    def __init__(
        self,
        counts: PairCounts,
        near: PairCounts | None,
        arrays: Mapping[str, npt.NDArray[Any]],
        category: npt.NDArray[np.int32],
        like: sparse.csr_matrix | None,
        company: sparse.csr_matrix,
        order: Order,
        directed: sparse.csr_matrix | None = None,
    ) -> None:
        self.counts, self.near, self.category, self.like = counts, near, category, like
        self.company, self.order, self.directed = company, order, directed
        self.vectors: Factors = arrays["vectors"]
        self.values: Factors = arrays["values"]
        self.word_vectors: Factors = arrays["word_vectors"]
        self.word_values: Factors = arrays["word_values"]
        self.category_lift: Factors = arrays["category_lift"]
        total = counts.total.astype(np.float64)
        self.like_total = None if like is None else like @ _pooled_total(counts)
        self.lends = None if like is None else sparse.csr_matrix(like.T)
        self.unit = unit_vectors(self.vectors, self.values)
        self.stand_ins = StandIns(self.vectors, counts.total, category)
        self.bought = self.stand_ins.totals_of(counts.total)
        """How often each item is bought with anything; of those never bought, what is usual in their category."""
        self.company_total = _company_total(counts, self.company)
        self.popularity = np.log((total + ITEM_PSEUDO) / (total.mean() + ITEM_PSEUDO)).astype(np.float32)

    @property
    def signs_there(self) -> npt.NDArray[np.bool_]:
        """Which of `SIGNS` say anything here."""
        there = (True, self.values, self.like is not None, self.category_lift, self.word_values, self.popularity)
        return np.array([bool(np.any(sign)) for sign in there])

    @classmethod
    def of(
        cls,
        baskets: BasketStream,
        counting: CountOptions,
        around: Surroundings,
        *,
        rank: int,
        min_pair_count: int,
        ordered: bool,
        rng: np.random.Generator,
        most: int | None = None,
        judges: bool = True,
        threads: int | None = None,
    ) -> PairFeatures:
        """The evidence of `baskets`: pairs seen fewer than `min_pair_count` times are left out of the low-rank part.

        Of more than `most` pairs the rarest are left out altogether (`counting.Gatherer`). What `judges` other
        evidence keeps the counts of each order.
        """
        members = around.members()
        found = counted(baskets, counting, ordered=ordered, most=most, members=members, ways=judges, threads=threads)
        counts = found.counts
        near = counted_near(baskets, _near(counting), counts, threads) if ordered else None
        vectors, values = factors(log_lifts(counts, min_pair_count), rank, rng)
        words = around.words, found.groups[1] if len(members) > 1 else np.zeros((0, 0))
        word_vectors, word_values = _word_factors(counts, *words, rng)
        arrays = {
            "vectors": vectors,
            "values": values,
            "word_vectors": word_vectors,
            "word_values": word_values,
            "category_lift": _category_lift(counts, members[0], found.groups[0]),
        }
        unit = unit_vectors(vectors, values)
        stand_ins = StandIns(vectors, counts.total, around.category)
        company = stand_ins.company(like_company(unit, around.category), unit, values, COMPANY)
        order = Order.unknown(len(counts.total), members[0].shape[1]) if found.ways is None else Order.of(*found.ways)
        return cls(counts, near, arrays, around.category, around.like, company, order, found.directed)

    def query_vectors(self, queries: npt.NDArray[np.integer[Any]]) -> Factors:
        """Low-rank vectors of queries, their category's for those never bought, shape (queries, rank)."""
        return self.stand_ins.vectors_of(self.vectors, queries)

    def query_unit(self, queries: npt.NDArray[np.integer[Any]]) -> Factors:
        """The same with length 1, for cosines."""
        out: Factors = self.unit[queries]
        cold = self.stand_ins.cold[queries]
        if cold.any():
            out[cold] = unit_vectors(self.query_vectors(queries[cold]), self.values)
        return out

    def rows(self, queries: npt.NDArray[np.integer[Any]]) -> Block:
        """What is known about `queries` with every item."""
        counts, total = self.counts, self.counts.total
        count = counts.matrix[queries].toarray().astype(np.float32)
        expected = counts.expected(total[queries][:, None], total[None]).astype(np.float32)
        near_count, near_expected = self._near_rows(queries, count, expected)
        signs = np.zeros((*count.shape, len(SIGNS)), dtype=np.float32)
        signs[..., 0] = 1.0
        signs[..., 1] = (self.query_vectors(queries) * self.values) @ self.vectors.T
        if self.like is not None and self.like_total is not None:
            together = ((self.like[queries] @ counts.matrix) @ self.like.T).toarray()
            chance = counts.expected(self.like_total[queries][:, None], self.like_total[None])
            signs[..., 2] = np.log((together + LIKE_PSEUDO) / (chance + LIKE_PSEUDO))
        # UNKNOWN is the last row and column of the table, where there are zeros
        signs[..., 3] = self.category_lift[self.category[queries]][:, self.category]
        signs[..., 4] = (self.word_vectors[queries] * self.word_values) @ self.word_vectors.T
        signs[..., 5] = self.popularity
        return Block(count, expected, near_count, near_expected, signs)

    def _near_rows(self, queries: npt.NDArray[np.integer[Any]], count: Rows, expected: Rows) -> tuple[Rows, Rows]:
        near = self.near
        if near is None or not near.records:
            return count, expected
        scale = self.counts.records / near.records
        near_count = near.matrix[queries].toarray() * np.float32(scale)
        near_expected = near.expected(near.total[queries][:, None] * scale, near.total[None])
        return near_count.astype(np.float32, copy=False), near_expected.astype(np.float32)


def _pooled_total(counts: PairCounts) -> Floats:
    """Totals whose products over the records are what chance makes of the pairs that are kept, shape (items,)."""
    if counts.least == 1:
        return counts.total.astype(np.float64)
    kept = counts.kept_total
    return np.asarray(kept * np.sqrt(counts.records / max(int(kept.sum()), 1)))


def _company_total(counts: PairCounts, company: sparse.csr_matrix) -> Floats:
    """Totals of each item's company, shape (items,); of pairs that are kept, but for the item's own."""
    total = counts.total.astype(np.float64)
    if counts.least == 1:
        return np.asarray(company @ total)
    kept = counts.kept_total.astype(np.float64)
    return np.asarray(company @ kept - kept + total)


def _near(counting: CountOptions) -> CountOptions:
    window = NEAR if counting.window is None else min(NEAR, counting.window)
    return CountOptions(
        window=window,
        directed=False,
        min_basket=counting.min_basket,
        category_level=counting.category_level,
        once_per_customer=counting.once_per_customer,
    )


def _log_ratio(table: npt.NDArray[Any], total: npt.NDArray[Any], records: int, pseudo: float) -> Factors:
    """log((C + pseudo) / (E + pseudo)) of groups of items, shape (groups, groups)."""
    expected = np.outer(total, total)
    expected /= max(records, 1)
    expected += pseudo
    ratio = table + pseudo
    ratio /= expected
    return np.log(ratio, out=ratio).astype(np.float32)


def _category_lift(counts: PairCounts, members: sparse.csr_matrix, together: Floats) -> Factors:
    """Log-lift of category pairs, shape (categories + 1, categories + 1): the last row and column are unknown ones."""
    size = len(together)
    out = np.zeros((size + 1, size + 1), dtype=np.float32)
    out[:size, :size] = _log_ratio(together, members.T @ counts.total, counts.records, CATEGORY_PSEUDO)
    return out


def _word_factors(
    counts: PairCounts, words: sparse.csr_matrix | None, together: Floats, rng: np.random.Generator
) -> tuple[Factors, Factors]:
    """The mean log-lift over the word pairs of two names, by few factors: (items, WORD_RANK) and (WORD_RANK,)."""
    items = len(counts.total)
    if words is None:
        return np.zeros((items, WORD_RANK), dtype=np.float32), np.zeros(WORD_RANK, dtype=np.float32)
    lift = _log_ratio(together, holds_of(words).T @ counts.total, counts.records, WORD_PSEUDO)
    vectors, values = factors(lift, WORD_RANK, rng)
    return np.asarray(words @ vectors, dtype=np.float32), values


def holds_of(words: sparse.csr_matrix) -> sparse.csr_matrix:
    """Which item has which word: ones where `words` has a share, of its shape."""
    return sparse.csr_matrix((np.ones(words.nnz, np.float32), words.indices, words.indptr), shape=words.shape)
