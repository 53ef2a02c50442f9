"""`PairScorer`: the scores of a fitted model in compiled code, of chosen pairs and of whole rows, by one kernel.

Scores are computed as logarithms in float32. The kernel first scores every item as if its pair had never been seen,
which needs logarithms that the processor takes eight at a time, and then adds what the counts of seen pairs contribute.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
from neatrec.models.bayes.ranker import MAX_LOG_ODDS, OddsRanker
from neatrec.models.bayes.similarity import Vectors
from neatrec.models.parallel import MIN_PAIRS_PER_THREAD, parallel_slices
from neatrec.models.vectors import all_products, dot_pairs

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

MIN_ROWS_PER_THREAD = 4
PriorWeights = namedtuple("PriorWeights", list(PRIOR_FEATURES))  # type: ignore[misc]
"""A float32 weight per feature, by name: what compiled code reads."""
RankerWeights = namedtuple("RankerWeights", list(RANKER_FEATURES))  # type: ignore[misc]
"""Float32 weights of each feature, one per ranker."""
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


class Tables(NamedTuple):
    """Sparse matrices over all items, and the category of each."""

    counts: Matrix
    near: Matrix
    similar: Matrix
    similar_to: Matrix
    """`similar`, transposed."""
    neighbours: Matrix
    category: Codes


class ItemColumns(NamedTuple):
    """What each item contributes, each of shape (items,), float32."""

    total: Vectors
    near_total: Vectors
    similar_total: Vectors
    prior: Vectors
    """Part of the log-prior: level and item popularity."""
    inverse_length: Vectors
    """Of its low-rank vector."""


class QueryColumns(NamedTuple):
    """What each query contributes, each of shape (queries,), float32; totals are divided by the records."""

    total: Vectors
    """The share of it that near pairs leave."""
    near_total: Vectors
    all_total: Vectors
    similar_total: Vectors
    neighbour_total: Vectors
    popularity: Vectors
    inverse_length: Vectors
    """Of its low-rank vector."""


class PairColumns(NamedTuple):
    """What each item of one query contributes, each of shape (pairs,), float32."""

    positive: Vectors
    """Products of the low-rank vectors over the factors above 0, and over those below 0: their difference is the
    low-rank feature, their sum over the lengths the cosine."""
    negative: Vectors
    words: Vectors
    """Weighted."""
    pooled: Vectors
    """Pooled counts of items with similar names."""
    around: Vectors
    """Counts of the query's neighbours without the query itself."""
    category_prior: Vectors
    category_order: Vectors
    times: Vectors
    blended: Vectors
    """The count, a share of it replaced by that of near pairs."""
    significance: Vectors


class Settings(NamedTuple):
    """The weights as the kernel reads them, float32."""

    k: Any
    near: Any
    near_scale: Any
    prior: Any
    """PriorWeights."""
    level: Vectors
    """Of the log-odds, one per ranker."""
    ranker: Any
    """RankerWeights."""


class PairScorer:
    """Scores by a prior with weights and by a ranker; without ranker the score is the posterior lift."""

    def __init__(self, features: PairFeatures, prior: Prior, ranker: OddsRanker | None = None) -> None:
        self.features = features
        near = features.counts if features.near is None or not features.near_scale else features.near
        assert prior.weights is not None, "shrunk lift needs no scorer"
        self.settings = Settings(
            np.float32(prior.k),
            np.float32(prior.near),
            np.float32(features.near_scale or 1.0),
            PriorWeights(*prior.weights.astype(np.float32)),
            *_weights_of([ranker]),
        )
        self.near = near
        self.tables = Tables(
            Matrix.of(features.counts.matrix),
            Matrix.of(near.matrix),
            Matrix.of(features.similar),
            Matrix.of(None if features.similar is None else features.similar.T.tocsr()),
            Matrix.of(features.neighbours),
            features.category,
        )
        weights, length = self.settings.prior, np.linalg.norm(features.scaled, axis=1)
        self.items = ItemColumns(
            *_float32(
                features.counts.total,
                near.total,
                features.similar_total,
                weights.level + weights.item_popularity * features.popularity,
                1.0 / np.where(length > 0, length, 1.0),
            )
        )
        above, below = features.values > 0, features.values < 0
        self.parts = above, below
        self.sides = [np.ascontiguousarray(features.scaled[:, part]) for part in self.parts] + [features.word_vectors]

    def with_rankers(self, *rankers: OddsRanker | None) -> PairScorer:
        """The same features and prior, ranked by other rankers."""
        other = copy(self)
        level, weights = _weights_of(rankers)
        other.settings = self.settings._replace(level=level, ranker=weights)
        return other

    def rows(self, queries: Codes) -> Vectors:
        """Scores of each query with every item, the largest of the rankers', shape (queries, items)."""
        by_ranker = self.rows_by_ranker(queries)
        largest: Vectors = by_ranker[0] if len(by_ranker) == 1 else by_ranker.max(axis=0)
        return largest

    def rows_by_ranker(self, queries: Codes) -> Vectors:
        """Scores of each query with every item, shape (rankers, queries, items); features are computed once."""
        items = len(self.features.category)
        out = np.empty((len(self.settings.level), len(queries), items), dtype=np.float32)
        products = [all_products(*pair) for pair in zip(self._query_sides(queries), self.sides, strict=True)]

        def work(part: slice) -> None:
            some = queries[part]
            offsets = np.arange(len(some) + 1, dtype=np.int64) * items
            flat = [product[part].reshape(-1) for product in products]
            scores = np.empty((len(out), len(some) * items), dtype=np.float32)
            self._run(some, offsets, np.zeros(0, dtype=np.int32), flat, scores)
            np.exp(scores.reshape(len(out), len(some), items), out=out[:, part])

        parallel_slices(len(queries), work, min_rows=MIN_ROWS_PER_THREAD)
        return out

    def pairs(self, queries: Codes, items: Codes) -> Vectors:
        """Scores of pairs, the largest of the rankers', shape (pairs,)."""
        largest: Vectors = self.pairs_by_ranker(queries, items).max(axis=0)
        return largest

    def pairs_by_ranker(self, queries: Codes, items: Codes) -> Vectors:
        """Scores of pairs, shape (rankers, pairs); features are computed once."""
        order = np.argsort(queries, kind="stable")
        asked, chosen = queries[order], items[order]
        scores = np.empty((len(self.settings.level), len(queries)), dtype=np.float32)

        def work(part: slice) -> None:
            mine, found = asked[part], chosen[part]
            different, start = np.unique(mine, return_index=True)
            offsets = np.append(start, len(mine)).astype(np.int64)
            row, products = np.repeat(np.arange(len(different)), np.diff(offsets)), []
            for left, right in zip(self._query_sides(different), self.sides, strict=True):
                products.append(np.empty(len(mine), dtype=np.float32))
                dot_pairs(left, right, row, found, products[-1])
            score = np.empty((len(self.settings.level), len(mine)), dtype=np.float32)
            self._run(different, offsets, found, products, score)
            scores[:, order[part]] = np.exp(score)

        parallel_slices(len(queries), work, min_rows=MIN_PAIRS_PER_THREAD)
        return scores

    def _query_sides(self, queries: Codes) -> list[Vectors]:
        """The queries' factors of the products with `sides`."""
        features, scaled = self.features, self.features.query_vectors(queries)
        words = features.word_vectors[queries] * (features.word_values * self.settings.prior.words)
        return [*(np.ascontiguousarray(scaled[:, part]) for part in self.parts), words.astype(np.float32)]

    def _run(self, queries: Codes, offsets: Any, items: Codes, products: list[Vectors], out: Vectors) -> None:
        features, settings = self.features, self.settings
        mine = features.category[queries]
        categories = settings.prior.categories * features.category_lift[mine], features.category_order[mine]
        score_queries(
            queries,
            offsets,
            items,
            tuple(products),
            self._query_columns(queries),
            self.items,
            tuple(np.ascontiguousarray(table, dtype=np.float32) for table in categories),
            self._significance(queries),
            self.tables,
            settings,
            out,
        )

    def _query_columns(self, queries: Codes) -> QueryColumns:
        features, near, settings = self.features, self.near, self.settings
        records, near_records = max(features.counts.records, 1), max(near.records, 1)
        length = np.linalg.norm(features.query_vectors(queries), axis=1)
        return QueryColumns(
            *_float32(
                (1 - settings.near) * features.counts.total[queries] / records,
                settings.near * near.total[queries] * settings.near_scale / near_records,
                features.counts.total[queries] / records,
                features.similar_total[queries] / (records * NAMES_PSEUDO),
                features.neighbour_total[queries] / (records * NEIGHBOUR_PSEUDO),
                features.popularity[queries],
                1.0 / np.where(length > 0, length, 1.0),
            )
        )

    def _significance(self, queries: Codes) -> tuple[npt.NDArray[np.int64], Vectors]:
        """The significance of the seen pairs of `queries`, none if no ranker weighs it; where each query's start."""
        counts = self.features.counts
        start = self.tables.counts.start
        offsets = np.concatenate([[0], np.cumsum(start[queries + 1] - start[queries])]).astype(np.int64)
        weights = self.settings.ranker._asdict()
        if not any(weight.any() for name, weight in weights.items() if "significance" in name.split("_x_")):
            return offsets, np.zeros(0, dtype=np.float32)
        rows, total = counts.matrix[queries], counts.total
        query = np.repeat(queries, np.diff(offsets))
        g2 = statistics.signed_llr(rows.data, total[query], total[rows.indices], counts.records)
        return offsets, np.log1p(np.maximum(g2, 0.0)).astype(np.float32)


def _weights_of(rankers: Sequence[OddsRanker | None]) -> tuple[Vectors, Any]:
    """The levels of rankers, and their RankerWeights."""
    chosen = [OddsRanker.alone("log_lift") if ranker is None else ranker for ranker in rankers]
    weights = np.array([ranker.weights for ranker in chosen], dtype=np.float32).T
    return np.array([ranker.level for ranker in chosen], dtype=np.float32), RankerWeights(*weights)


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
def add_own_counts(r, query, tables, settings, significance, out):  # type: ignore[no-untyped-def]
    """The counts of the query's own pairs: off those of its neighbours, as they are, with near pairs, significance."""
    counts, near, (start, value), (around, count, blended, certain) = tables.counts, tables.near, significance, out
    for place in range(counts.start[query], counts.start[query + 1]):
        v, times = counts.item[place], np.float32(counts.value[place])
        count[v], blended[v] = times, (ONE - settings.near) * times
        around[v] -= times
        if len(value):
            certain[v] = value[start[r] + place - counts.start[query]]
    for place in range(near.start[query], near.start[query + 1]):
        blended[near.item[place]] += settings.near * settings.near_scale * np.float32(near.value[place])


@compiled
def clear_pooled_counts(query, similar, counts, out):  # type: ignore[no-untyped-def]
    """Empty what `add_pooled_counts` filled."""
    for near in range(similar.start[query], similar.start[query + 1]):
        other = similar.item[near]
        for place in range(counts.start[other], counts.start[other + 1]):
            out[counts.item[place]] = ZERO


@compiled
def pooled_of(items, similar, reached):  # type: ignore[no-untyped-def]
    """What `spread` gives some items, (items,): the same sums in the same order."""
    out = np.zeros(len(items), np.float32)
    if len(similar.start):
        for n in range(len(items)):
            for place in range(similar.start[items[n]], similar.start[items[n] + 1]):
                out[n] += similar.value[place] * reached[similar.item[place]]
    return out


@compiled
def spread(similar_to, reached, out):  # type: ignore[no-untyped-def]
    """Add to `out` (items,) what is `reached`, by its similarity to each item; `reached` is emptied."""
    for item in range(len(reached)):
        if reached[item] != ZERO:
            for place in range(similar_to.start[item], similar_to.start[item + 1]):
                out[similar_to.item[place]] += similar_to.value[place] * reached[item]
            reached[item] = ZERO


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
def score_queries(  # type: ignore[no-untyped-def]
    queries, offsets, items, products, of_query, of_item, categories, significance, tables, settings, out
):
    """Log-scores of each query with its items, from offsets[r] to offsets[r + 1]; no `items`: all, in order.

    out: a row per ranker.
    """
    positive, negative, words = products
    category_prior, category_order = categories
    counts, similar = tables.counts, tables.similar
    size = len(tables.category)
    reached, pooled, around = np.zeros(size, np.float32), np.zeros(size, np.float32), np.zeros(size, np.float32)
    count, blended, certain = np.zeros(size, np.float32), np.zeros(size, np.float32), np.zeros(size, np.float32)
    prior, order = np.empty(size, np.float32), np.empty(size, np.float32)  # zeros and these take memory when used
    for r in range(len(queries)):
        q, part = queries[r], slice(offsets[r], offsets[r + 1])
        if len(similar.start):
            add_pooled_counts(q, similar, counts, reached)
        add_pooled_counts(q, tables.neighbours, counts, around)
        add_own_counts(r, q, tables, settings, significance, (around, count, blended, certain))
        by_vectors = (positive[part], negative[part], words[part])
        if len(items):  # work and memory of the chosen items, not of all
            v = items[part]
            category = tables.category[v]
            of_pair = PairColumns(
                *by_vectors,
                pooled_of(v, similar, reached),
                around[v],
                category_prior[r][category],
                category_order[r][category],
                count[v],
                blended[v],
                certain[v],
            )
            chosen = ItemColumns(
                of_item.total[v],
                of_item.near_total[v],
                of_item.similar_total[v],
                of_item.prior[v],
                of_item.inverse_length[v],
            )
            add_unseen(r, of_pair, of_query, chosen, settings, out[:, part])
            add_seen(of_pair, settings, out[:, part])
            if len(similar.start):
                clear_pooled_counts(q, similar, counts, reached)
            clear_pooled_counts(q, tables.neighbours, counts, around)
        else:
            for v in range(size):
                prior[v], order[v] = category_prior[r, tables.category[v]], category_order[r, tables.category[v]]
            if len(similar.start):
                spread(tables.similar_to, reached, pooled)
            of_pair = PairColumns(*by_vectors, pooled, around, prior, order, count, blended, certain)
            add_unseen(r, of_pair, of_query, of_item, settings, out[:, part])
            add_seen(of_pair, settings, out[:, part])
            pooled[:] = ZERO
            around[:] = ZERO
        for place in range(counts.start[q], counts.start[q + 1]):
            v = counts.item[place]
            count[v], blended[v], certain[v], around[v] = ZERO, ZERO, ZERO, ZERO


@compiled
def add_unseen(r, of_pair, of_query, of_item, settings, out):  # type: ignore[no-untyped-def]
    """Log-scores of a query as if no pair had been seen; `category_prior` becomes the whole log-prior.

    Columns that are no longer needed take the features: `positive` the cosine, `negative` the log of the expected
    count, `words` the log-lift, `around` the neighbours.
    """
    w_prior, w_rank, k = settings.prior, settings.ranker, settings.k
    total, near_total, similar_total = of_query.total[r], of_query.near_total[r], of_query.similar_total[r]
    neighbour_total, inverse_length = of_query.neighbour_total[r], of_query.inverse_length[r]
    all_total, by_chance = of_query.all_total[r], np.float32(EXPECTED_PSEUDO)
    popularity = of_query.popularity[r]
    log_k, limit = np.float32(np.log(k)), np.float32(MAX_LOG_PRIOR)
    per_names, per_neighbours = np.float32(1.0 / NAMES_PSEUDO), np.float32(1.0 / NEIGHBOUR_PSEUDO)
    for v in range(out.shape[1]):
        names = logarithm((of_pair.pooled[v] * per_names + ONE) / (similar_total * of_item.similar_total[v] + ONE))
        mean = of_item.prior[v] + of_pair.category_prior[v] + of_pair.words[v] + w_prior.similar_names * names
        mean += w_prior.low_rank * (of_pair.positive[v] - of_pair.negative[v])
        mean = min(max(mean, -limit), limit)
        of_pair.category_prior[v] = mean
        of_pair.positive[v] = inverse_length * of_item.inverse_length[v] * (of_pair.positive[v] + of_pair.negative[v])
        expected = total * of_item.total[v] + near_total * of_item.near_total[v]
        of_pair.words[v] = mean + log_k - logarithm(k + expected)
        of_pair.negative[v] = logarithm(all_total * of_item.total[v] + by_chance)
        around = max(of_pair.around[v], ZERO) * per_neighbours + ONE
        of_pair.around[v] = logarithm(around / (neighbour_total * of_item.total[v] + ONE))
    for ranker in range(len(out)):
        of_popular, of_popular_2 = w_rank.query_popularity[ranker], w_rank.query_popularity_x_query_popularity[ranker]
        level = settings.level[ranker] + popularity * (of_popular + of_popular_2 * popularity)
        cosine, neighbours, order = w_rank.cosine[ranker], w_rank.neighbours[ranker], w_rank.category_order[ranker]
        of_lift, of_expected = w_rank.log_lift[ranker], w_rank.log_expected[ranker]
        of_lift_2, of_both = w_rank.log_lift_x_log_lift[ranker], w_rank.log_lift_x_log_expected[ranker]
        of_expected_2 = w_rank.log_expected_x_log_expected[ranker]
        row = out[ranker]
        for v in range(len(row)):
            lift, expected = of_pair.words[v], of_pair.negative[v]
            score = level + order * of_pair.category_order[v] + cosine * of_pair.positive[v]
            score += lift * (of_lift + of_lift_2 * lift + of_both * expected)
            score += expected * (of_expected + of_expected_2 * expected)
            row[v] = score + neighbours * of_pair.around[v]


@compiled
def add_seen(of_pair, settings, out):  # type: ignore[no-untyped-def]
    """Add what the counts of seen pairs contribute, and clip the log-scores."""
    k, w, limit = settings.k, settings.ranker, np.float32(MAX_LOG_ODDS)
    for v in range(out.shape[1]):
        if of_pair.times[v] > ZERO:
            prior = k * np.exp(of_pair.category_prior[v])
            more = np.log1p(of_pair.blended[v] / prior)
            count, certain, expected = np.log1p(of_pair.times[v]), of_pair.significance[v], of_pair.negative[v]
            lift = of_pair.words[v] + more
            for n in range(len(out)):
                score = more * (w.log_lift[n] + w.log_lift_x_log_lift[n] * (lift + of_pair.words[v]))
                score += more * w.log_lift_x_log_expected[n] * expected
                score += count * (
                    w.log_count[n] + w.log_lift_x_log_count[n] * lift + w.log_count_x_log_count[n] * count
                )
                score += count * (w.log_count_x_significance[n] * certain + w.log_count_x_log_expected[n] * expected)
                score += certain * (w.significance[n] + w.log_lift_x_significance[n] * lift)
                score += certain * (w.significance_x_significance[n] * certain)
                out[n, v] += score + certain * w.significance_x_log_expected[n] * expected
    for ranker in range(len(out)):
        for v in range(out.shape[1]):
            out[ranker, v] = min(max(out[ranker, v], -limit), limit)
