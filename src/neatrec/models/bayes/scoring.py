"""`PairScorer`: the scores of a fitted model in compiled code, of chosen pairs and of whole rows, by one kernel.

Scores are computed as logarithms in float32. The kernel first scores the pairs of a query as if none had been seen,
which needs logarithms that the processor takes eight at a time, and then adds what the counts of seen pairs contribute.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from copy import copy
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.np.unsafe.ndarray import to_fixed_tuple

from neatrec import statistics
from neatrec.compiled import compiled, logarithm
from neatrec.models.bayes.features import (
    EXPECTED_PSEUDO,
    NAMES_PSEUDO,
    NEIGHBOUR_PSEUDO,
    PRIOR_FEATURES,
    RANKER_FEATURES,
    PairFeatures,
)
from neatrec.models.bayes.prior import MAX_LOG_PRIOR, Prior
from neatrec.models.bayes.ranker import BY_LIFT, MAX_LOG_ODDS, OddsRanker
from neatrec.models.bayes.similarity import Vectors
from neatrec.models.parallel import MIN_PAIRS_PER_THREAD, parallel_slices
from neatrec.models.vectors import all_products, dot_pairs

Codes = npt.NDArray[np.int32]

MIN_ROWS_PER_THREAD = 4
BLOCK_SCORES = 4_000_000
"""Scores of whole rows that are computed at a time."""
PriorWeights = namedtuple("PriorWeights", list(PRIOR_FEATURES))  # type: ignore[misc]
"""A float32 weight per feature, by name: what compiled code reads."""
RankerWeights = namedtuple("RankerWeights", list(RANKER_FEATURES))  # type: ignore[misc]
"""The same of one ranker."""
RANKER_SIZE = len(RANKER_FEATURES)
OF_SIGNIFICANCE = np.array(["significance" in name.split("_x_") for name in RANKER_FEATURES])
ONE, ZERO = np.float32(1.0), np.float32(0.0)


class Matrix(NamedTuple):
    """A sparse matrix by rows; without rows where there is none."""

    start: npt.NDArray[np.int64]
    item: Codes
    value: npt.NDArray[Any]

    @classmethod
    def of(cls, matrix: Any) -> Matrix:
        if matrix is None:
            return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))
        start, item = matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False)
        return cls(start, item, matrix.data)


class ItemColumns(NamedTuple):
    """What is known of each item, shape (items,)."""

    category: Codes
    total: Vectors
    near_total: Vectors
    similar_total: Vectors
    prior: Vectors
    """Part of the log-prior: level and item popularity."""
    inverse_length: Vectors
    """Of its low-rank vector."""


class ModelTables(NamedTuple):
    """What all queries share: matrices (items, items), and float32 weights."""

    counts: Matrix
    near: Matrix
    similar: Matrix
    similar_to: Matrix
    """`similar`, transposed."""
    neighbours: Matrix
    of_item: ItemColumns
    k: Any
    near_share: Any
    near_scale: Any
    of_prior: Any
    """PriorWeights."""
    level: Vectors
    """Of the log-odds, one per ranker."""
    of_ranker: Vectors
    """Their weights, (rankers, RANKER_FEATURES)."""


class QueryTables(NamedTuple):
    """What is known of each query, columns (queries,); totals are divided by the records."""

    significance_start: npt.NDArray[np.int64]
    total: Vectors
    """The share of it that near pairs leave."""
    near_total: Vectors
    all_total: Vectors
    similar_total: Vectors
    neighbour_total: Vectors
    popularity: Vectors
    inverse_length: Vectors
    """Of its low-rank vector."""
    category_prior: Vectors
    """By the item's category, (queries, categories)."""
    category_order: Vectors
    significance: Vectors
    """Of all seen pairs, query after query, (pairs,); empty where no ranker weighs it."""


class PairColumns(NamedTuple):
    """Features of the pairs of one query as if none had been seen, each at least as long as it has pairs."""

    log_prior: Vectors
    log_lift: Vectors
    log_expected: Vectors
    cosine: Vectors
    category_order: Vectors
    neighbours: Vectors


class PairScorer:
    """Scores by a prior and by rankings, each the largest odds of its rankers; by default the posterior lift."""

    def __init__(
        self, features: PairFeatures, prior: Prior, rankings: Sequence[Sequence[OddsRanker]] = ((BY_LIFT,),)
    ) -> None:
        self.features = features
        self.near = near = features.counts if features.near is None or not features.near_scale else features.near
        assert prior.weights is not None, "shrunk lift needs no scorer"
        weights: Any = PriorWeights(*prior.weights.astype(np.float32))
        length = np.linalg.norm(features.scaled, axis=1)
        columns = (
            *(features.counts.total, near.total, features.similar_total),
            weights.level + weights.item_popularity * features.popularity,
            1.0 / np.where(length > 0, length, 1.0),
        )
        self.tables = ModelTables(
            Matrix.of(features.counts.matrix),
            Matrix.of(near.matrix),
            Matrix.of(features.similar),
            Matrix.of(None if features.similar is None else features.similar.T.tocsr()),
            Matrix.of(features.neighbours),
            ItemColumns(
                np.array(features.category), *_float32(*columns)
            ),  # a copy: the kernel reads no read-only codes
            np.float32(prior.k),
            np.float32(prior.near),
            np.float32(features.near_scale or 1.0),
            weights,
            *_ranker_weights(rankings),
        )
        self.ends = [0, *accumulate(map(len, rankings))]
        self.parts = features.values > 0, features.values < 0
        self.sides = [np.ascontiguousarray(features.scaled[:, part]) for part in self.parts]

    def with_rankings(self, rankings: Sequence[Sequence[OddsRanker]]) -> PairScorer:
        """The same features and prior, ranked otherwise."""
        other = copy(self)
        level, weights = _ranker_weights(rankings)
        other.tables, other.ends = (
            self.tables._replace(level=level, of_ranker=weights),
            [0, *accumulate(map(len, rankings))],
        )
        return other

    def rows(self, queries: Codes) -> Vectors:
        """Scores of each query with every item, shape (rankings, queries, items)."""
        out = np.empty((len(self.ends) - 1, len(queries), len(self.features.category)), dtype=np.float32)
        size = max(1, BLOCK_SCORES // max(out.shape[2], 1))
        for first in range(0, len(queries), size):  # what is computed on the way takes several times as much memory
            self._fill_rows(queries[first : first + size], out[:, first : first + size])
        return out

    def _fill_rows(self, queries: Codes, out: Vectors) -> None:
        products = [all_products(*pair) for pair in zip(self._query_sides(queries), self.sides, strict=True)]

        def work(part: slice) -> None:
            some = queries[part]
            flat = [product[part].reshape(-1) for product in products]
            offsets = np.arange(len(some) + 1, dtype=np.int64) * out.shape[2]
            out[:, part] = self._scores(some, offsets, np.zeros(0, dtype=np.int32), flat).reshape(out[:, part].shape)

        parallel_slices(len(queries), work, min_rows=MIN_ROWS_PER_THREAD)

    def pairs(self, queries: Codes, items: Codes) -> Vectors:
        """Scores of pairs, shape (rankings, pairs)."""
        order = np.argsort(queries, kind="stable")
        asked, chosen = queries[order], items[order]
        out = np.empty((len(self.ends) - 1, len(queries)), dtype=np.float32)

        def work(part: slice) -> None:
            mine, found = asked[part], chosen[part]
            different, start = np.unique(mine, return_index=True)
            offsets = np.append(start, len(mine)).astype(np.int64)
            row, products = np.repeat(np.arange(len(different)), np.diff(offsets)), []
            for left, right in zip(self._query_sides(different), self.sides, strict=True):
                products.append(np.empty(len(mine), dtype=np.float32))
                dot_pairs(left, right, row, found, products[-1])
            out[:, order[part]] = self._scores(different, offsets, found, products)

        parallel_slices(len(queries), work, min_rows=MIN_PAIRS_PER_THREAD)
        return out

    def _query_sides(self, queries: Codes) -> list[Vectors]:
        """The queries' factors of the products with `sides`."""
        scaled = self.features.scaled[queries]
        return [np.ascontiguousarray(scaled[:, part]) for part in self.parts]

    def _scores(self, queries: Codes, offsets: Any, items: Codes, products: list[Vectors]) -> Vectors:
        """Of each query with its items, (rankings, pairs); see `score_queries`."""
        scores = np.empty((len(self.tables.level), offsets[-1]), dtype=np.float32)
        score_queries(queries, (offsets, items, tuple(products)), self._query_tables(queries), self.tables, scores)
        largest = np.stack([scores[first:end].max(axis=0) for first, end in pairwise(self.ends)])
        np.exp(np.clip(largest, -MAX_LOG_ODDS, MAX_LOG_ODDS, out=largest), out=largest)
        return largest

    def _query_tables(self, queries: Codes) -> QueryTables:
        features, counts, near, tables = self.features, self.features.counts, self.near, self.tables
        records, near_records = max(counts.records, 1), max(near.records, 1)
        category = features.category[queries]
        seen, start = np.zeros(0), tables.counts.start
        offsets = np.concatenate([[0], np.cumsum(start[queries + 1] - start[queries])]).astype(np.int64)
        if tables.of_ranker[:, OF_SIGNIFICANCE].any():
            rows, query = counts.matrix[queries], np.repeat(queries, np.diff(offsets))
            g2 = statistics.signed_llr(rows.data, counts.total[query], counts.total[rows.indices], counts.records)
            seen = np.log1p(np.maximum(g2, 0.0))
        return QueryTables(
            offsets,
            *_float32(
                (1 - tables.near_share) * counts.total[queries] / records,
                tables.near_share * near.total[queries] * tables.near_scale / near_records,
                counts.total[queries] / records,
                features.similar_total[queries] / (records * NAMES_PSEUDO),
                features.neighbour_total[queries] / (records * NEIGHBOUR_PSEUDO),
                features.popularity[queries],
                tables.of_item.inverse_length[queries],
                tables.of_prior.categories * features.category_lift[category],
                features.category_order[category],
                seen,
            ),
        )


def _ranker_weights(rankings: Sequence[Sequence[OddsRanker]]) -> tuple[Vectors, Vectors]:
    """The levels of all rankers, and their weights."""
    both = np.array([ranker.to_array() for ranker in chain.from_iterable(rankings)], dtype=np.float32)
    level, weights = _float32(both[:, 0], both[:, 1:])
    assert weights.shape[1] == RANKER_SIZE, "the kernel reads so many"
    return level, weights


def _float32(*columns: npt.NDArray[Any]) -> list[Vectors]:
    return [np.ascontiguousarray(column, dtype=np.float32) for column in columns]


@compiled
def add_pooled_counts(query, similar, counts, out):  # type: ignore[no-untyped-def]
    """Add to `out` (items,) the counts of the items similar to the query, by their similarity."""
    for near in range(similar.start[query], similar.start[query + 1]):
        other, share = similar.item[near], similar.value[near]
        for place in range(counts.start[other], counts.start[other + 1]):
            out[counts.item[place]] += share * np.float32(counts.value[place])


@compiled
def clear_pooled_counts(query, similar, counts, out):  # type: ignore[no-untyped-def]
    """Empty what `add_pooled_counts` filled."""
    for near in range(similar.start[query], similar.start[query + 1]):
        other = similar.item[near]
        for place in range(counts.start[other], counts.start[other + 1]):
            out[counts.item[place]] = ZERO


@compiled
def add_own_counts(r, query, of_query, tables, out):  # type: ignore[no-untyped-def]
    """The counts of the query's own pairs: off those of its neighbours, as they are, with near pairs, significance."""
    counts, near, share, (around, count, blended, certain) = tables.counts, tables.near, tables.near_share, out
    for place in range(counts.start[query], counts.start[query + 1]):
        v, times = counts.item[place], np.float32(counts.value[place])
        count[v], blended[v] = times, (ONE - share) * times
        around[v] -= times
        if len(of_query.significance):
            certain[v] = of_query.significance[of_query.significance_start[r] + place - counts.start[query]]
    for place in range(near.start[query], near.start[query + 1]):
        blended[near.item[place]] += share * tables.near_scale * np.float32(near.value[place])


@compiled
def gather_partners(alike, counts, stamp, start, out):  # type: ignore[no-untyped-def]
    """The partners of all items of each row of `alike`, each once; start: where those of each row begin.

    stamp: -1 for each item. An empty `out` is not filled: `start` says how long it must be.
    """
    n = 0
    for r in range(len(start) - 1):
        start[r] = n
        for other in alike.item[alike.start[r] : alike.start[r + 1]]:
            for v in counts.item[counts.start[other] : counts.start[other + 1]]:
                if stamp[v] != r:
                    stamp[v] = r
                    if len(out):
                        out[n] = v
                    n += 1
    start[len(start) - 1] = n


@compiled
def score_queries(queries, pairs, of_query, tables, out):  # type: ignore[no-untyped-def]
    """Log-scores of each query with its items, out: (rankers, pairs).

    pairs: where each query's pairs start, and the end of all; their items, or none where each query has all items, in
    order; products of their low-rank vectors over the factors above 0 and over those below 0: their difference is the
    low-rank feature, their sum over the lengths the cosine.
    """
    offsets, items, (positive, negative) = pairs
    counts, similar, size = tables.counts, tables.similar, len(tables.of_item.category)
    every = np.arange(0 if len(items) else size).astype(np.int32)
    # these take memory where they are used
    reached, around, count = np.zeros(size, np.float32), np.zeros(size, np.float32), np.zeros(size, np.float32)
    blended, certain = np.zeros(size, np.float32), np.zeros(size, np.float32)
    most = np.diff(offsets).max() if len(queries) else 0
    features = PairColumns(
        np.empty(most, np.float32),
        np.empty(most, np.float32),
        np.empty(most, np.float32),
        np.empty(most, np.float32),
        np.empty(most, np.float32),
        np.empty(most, np.float32),
    )
    for r in range(len(queries)):
        q, part = queries[r], slice(offsets[r], offsets[r + 1])
        v = items[part] if len(items) else every
        features.log_prior[:] = ZERO
        if len(similar.start):
            add_pooled_counts(q, similar, counts, reached)
            spread(reached, items[part], tables, features.log_prior)
            clear_pooled_counts(q, similar, counts, reached)
        add_pooled_counts(q, tables.neighbours, counts, around)
        add_own_counts(r, q, of_query, tables, (around, count, blended, certain))
        sums = positive[part], negative[part], around[v] if len(items) else around
        fill_unseen(r, chosen(v, tables.of_item) if len(items) else tables.of_item, sums, of_query, tables, features)
        rank(v, of_query.popularity[r], (count, blended, certain), features, tables, out[:, part])
        clear_pooled_counts(q, tables.neighbours, counts, around)
        for place in range(counts.start[q], counts.start[q + 1]):
            i = counts.item[place]
            count[i], blended[i], certain[i], around[i] = ZERO, ZERO, ZERO, ZERO


@compiled
def spread(reached, items, tables, out):  # type: ignore[no-untyped-def]
    """Add to `out` what is `reached`, by its similarity to each of the items; no `items`: all, in order."""
    similar, similar_to = tables.similar, tables.similar_to
    for n in range(len(items)):
        for place in range(similar.start[items[n]], similar.start[items[n] + 1]):
            out[n] += similar.value[place] * reached[similar.item[place]]
    for item in range(0 if len(items) else len(reached)):
        if reached[item] != ZERO:
            for place in range(similar_to.start[item], similar_to.start[item + 1]):
                out[similar_to.item[place]] += similar_to.value[place] * reached[item]


@compiled
def chosen(items, of_item):  # type: ignore[no-untyped-def]
    return ItemColumns(
        of_item.category[items],
        of_item.total[items],
        of_item.near_total[items],
        of_item.similar_total[items],
        of_item.prior[items],
        of_item.inverse_length[items],
    )


@compiled
def fill_unseen(r, of_item, sums, of_query, tables, out):  # type: ignore[no-untyped-def]
    """Fill the PairColumns `out` of a query and its items; in `log_prior` stand the pooled counts of similar names.

    sums: products of vectors and counts of neighbours, each of shape (pairs,).
    """
    (positive, negative, around), weights, k = sums, tables.of_prior, tables.k
    total, near_total, similar_total = of_query.total[r], of_query.near_total[r], of_query.similar_total[r]
    neighbour_total, inverse_length = of_query.neighbour_total[r], of_query.inverse_length[r]
    all_total, by_chance = of_query.all_total[r], np.float32(EXPECTED_PSEUDO)
    log_k, limit = np.float32(np.log(k)), np.float32(MAX_LOG_PRIOR)
    per_names, per_neighbours = np.float32(1.0 / NAMES_PSEUDO), np.float32(1.0 / NEIGHBOUR_PSEUDO)
    for v in range(len(around)):  # apart from the next loop, which is done eight at a time
        out.log_lift[v] = of_query.category_prior[r, of_item.category[v]]
        out.category_order[v] = of_query.category_order[r, of_item.category[v]]
    for v in range(len(around)):
        names = logarithm((out.log_prior[v] * per_names + ONE) / (similar_total * of_item.similar_total[v] + ONE))
        mean = of_item.prior[v] + out.log_lift[v] + weights.similar_names * names
        mean += weights.low_rank * (positive[v] - negative[v])
        mean = min(max(mean, -limit), limit)
        expected = total * of_item.total[v] + near_total * of_item.near_total[v]
        out.log_prior[v] = mean
        out.log_lift[v] = mean + log_k - logarithm(k + expected)
        out.log_expected[v] = logarithm(all_total * of_item.total[v] + by_chance)
        out.cosine[v] = inverse_length * of_item.inverse_length[v] * (positive[v] + negative[v])
        pooled = max(around[v], ZERO) * per_neighbours + ONE
        out.neighbours[v] = logarithm(pooled / (neighbour_total * of_item.total[v] + ONE))


@compiled
def log_odds(w, lift, count, significance, expected):  # type: ignore[no-untyped-def]
    """What the features of a pair's counts and their products contribute to its log-odds; w: RankerWeights."""
    score = lift * (w.log_lift + w.log_lift_x_log_lift * lift + w.log_lift_x_log_count * count)
    score += lift * (w.log_lift_x_significance * significance + w.log_lift_x_log_expected * expected)
    score += count * (w.log_count + w.log_count_x_log_count * count + w.log_count_x_significance * significance)
    score += count * w.log_count_x_log_expected * expected
    score += significance * (w.significance + w.significance_x_significance * significance)
    score += significance * w.significance_x_log_expected * expected
    return score + expected * (w.log_expected + w.log_expected_x_log_expected * expected)


@compiled
def rank(items, popularity, seen, features, tables, out):  # type: ignore[no-untyped-def]
    """Log-odds by each ranker, out: (rankers, pairs); popularity: that of the query.

    seen: counts, blended counts and significance, each (items,).
    """
    times, blended, significance = seen
    for ranker in range(len(out)):
        w: Any = RankerWeights(*to_fixed_tuple(tables.of_ranker[ranker], RANKER_SIZE))
        row = out[ranker]
        level = popularity * (w.query_popularity + w.query_popularity_x_query_popularity * popularity)
        level += tables.level[ranker]
        for n in range(len(row)):
            score = level + w.category_order * features.category_order[n] + w.cosine * features.cosine[n]
            score += w.neighbours * features.neighbours[n]
            row[n] = score + log_odds(w, features.log_lift[n], ZERO, ZERO, features.log_expected[n])
    for n in range(len(items)):
        v = items[n]
        if times[v] > ZERO:
            lift, expected, count = features.log_lift[n], features.log_expected[n], np.log1p(times[v])
            more = np.log1p(blended[v] / (tables.k * np.exp(features.log_prior[n])))
            for ranker in range(len(out)):
                w = RankerWeights(*to_fixed_tuple(tables.of_ranker[ranker], RANKER_SIZE))
                unseen = log_odds(w, lift, ZERO, ZERO, expected)
                out[ranker, n] += log_odds(w, lift + more, count, significance[v], expected) - unseen
