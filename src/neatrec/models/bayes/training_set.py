"""Training sets: candidate pairs of one part of the baskets, and which of them are positive in a held-out part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from neatrec import statistics
from neatrec.compiled import compiled
from neatrec.data.catalog import UNKNOWN
from neatrec.models.bayes.features import PairFeatures
from neatrec.models.bayes.prior import INITIAL_PRIOR, Prior
from neatrec.models.bayes.ranker import STATISTICS, statistic_models, statistic_scores
from neatrec.models.bayes.scoring import BLOCK_SCORES, PairScorer
from neatrec.models.counts import CountModel, PairCounts, frequent_pairs
from neatrec.models.tuned_lift import STRONG_COUNT, TOP, strong_pairs

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Pairs = tuple[Codes, Codes]

SIGNIFICANT = 1.96
"""Standard deviations by which a count must exceed that of the required lift."""
MAX_P_VALUE, CERTAIN_P_VALUE = 1e-5, 1e-8
"""A pair is dependent, or certain, when chance alone shows such a count less often than this."""
REPEATED = 2
"""A single count is no evidence of dependence."""
G2 = [ranking.name for ranking in STATISTICS].index("llr")
PRIOR_QUERIES, PRIOR_CANDIDATES = 500, 600
"""The most queries per fold that the prior is tuned on, and the candidates per query."""
RANKER_QUERIES = 3_000
"""The most queries per fold that rankings are fitted on and compared by."""
FIRST_BY_ODDS, FIRST_BY_STATISTIC = 150, 25
"""Their candidates: the first ones by posterior lift and by G^2, which odds are fitted on, and by each statistic."""


class HeldOut(NamedTuple):
    """Counts of the held-out part."""

    counts: PairCounts
    directed: sparse.csr_matrix | None
    """Where carts have an order."""
    once: HeldOut | None = None
    """The same with each pair once per customer, where customers return: a habit of one is no evidence."""

    def significant_pairs(self, min_lift: float) -> Pairs:
        """Significant high-lift pairs: at least STRONG_COUNT times, query first where carts have an order, and
        SIGNIFICANT standard deviations above `min_lift` times chance.
        """
        query, item, count, expected = self._frequent(STRONG_COUNT)
        # chance puts either item first half of the time; carts without order need half the lift, as paper labels do
        bar = min_lift * expected / 2
        kept = count > bar + SIGNIFICANT * np.sqrt(bar)
        return query[kept], item[kept]

    def dependent_pairs(self, max_p_value: float) -> Pairs:
        """Pairs bought together, query first where carts have an order, more often than chance explains."""
        if self.once is not None:
            return self.once.dependent_pairs(max_p_value)
        query, item, count, expected = self._frequent(REPEATED)
        expected *= 1.0 if self.directed is None else 0.5
        kept = (count > expected) & (special.pdtrc(count - 1, expected) <= max_p_value)
        return query[kept], item[kept]

    def repeated(self) -> HeldOut:
        """What `dependent_pairs` needs: without the very many pairs that were seen once."""

        def kept(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
            query, item, count = frequent_pairs(matrix, REPEATED)
            return sparse.csr_matrix((count, (query, item)), matrix.shape)

        directed = None if self.directed is None else kept(self.directed)
        return HeldOut(PairCounts(kept(self.counts.matrix), self.counts.total, REPEATED), directed)

    def root_g2(self, query: Codes, item: Codes) -> Floats:
        """The root of G^2 of pairs, 0 below expectation: what a strong pair weighs."""
        counts, total = self.counts, self.counts.total
        g2 = statistics.signed_llr(counts.of_pairs(query, item), total[query], total[item], counts.records)
        return np.sqrt(np.maximum(g2, 0.0))

    def _frequent(self, min_count: int) -> tuple[Codes, Codes, npt.NDArray[Any], Floats]:
        """Query, item and count of pairs, query first where carts have an order; how often chance makes them in all."""
        total = self.counts.total
        query, item, count = frequent_pairs(self.counts.matrix if self.directed is None else self.directed, min_count)
        return query, item, count, self.counts.expected(total[query], total[item])


class Fold(NamedTuple):
    """Features to rank by, and the counts they are tested on."""

    features: PairFeatures
    held_out: HeldOut


@dataclass(frozen=True)
class TrainingSet:
    """Candidate pairs, query after query, their features, and which of them are positive."""

    start: npt.NDArray[np.int64]
    """Where each query's pairs start, and the end of all."""
    features: npt.NDArray[Any]
    """(pairs, features)."""
    positive: npt.NDArray[np.bool_]

    @property
    def queries(self) -> int:
        return len(self.start) - 1

    def gains(self, score: npt.NDArray[Any], positive: npt.NDArray[np.bool_]) -> Floats:
        """1 + 1 / log2(1 + rank) of each positive pair that `score` ranks among the first ten, else 0."""
        higher = count_higher(score, self.start, np.flatnonzero(positive))
        return np.where(higher < TOP, 1.0 + 1.0 / np.log2(2.0 + higher), 0.0)

    def by_query(self, values: Floats, positive: npt.NDArray[np.bool_]) -> Floats:
        """Sums of `values` (positive pairs,) per query, shape (queries,)."""
        query = np.searchsorted(self.start, np.flatnonzero(positive), side="right") - 1
        return np.bincount(query, weights=values, minlength=self.queries).astype(np.float64)

    def _columns(self) -> list[str]:
        return [name for name in vars(self) if name != "start"]

    def of_queries(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """The part of some queries, a mask over them."""
        sizes = np.diff(self.start)
        kept = np.repeat(chosen, sizes)
        start = np.concatenate([[0], np.cumsum(sizes[chosen])]).astype(np.int64)
        return type(self)(start, **{name: getattr(self, name)[kept] for name in self._columns()})

    @classmethod
    def of_folds(cls, folds: Iterable[Fold], *how: Any) -> Self | None:
        """One set of those of the folds (`how`: what else `of` takes); None where no fold has a positive pair."""
        made: Any = cls
        found = [part for part in (made.of(fold, *how) for fold in folds) if part is not None]
        if not found:
            return None
        sizes = np.concatenate([np.diff(part.start) for part in found])
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(
            start, **{name: np.concatenate([getattr(part, name) for part in found]) for name in found[0]._columns()}
        )


@dataclass(frozen=True)
class RankerTrainingSet(TrainingSet):
    """The same with everything that rankings are fitted on and compared by; positive: significant high-lift pairs."""

    dependent: npt.NDArray[np.bool_]
    """The other kind of positive pairs."""
    first: npt.NDArray[np.bool_]
    """Which pairs are among the first by posterior lift, and by G^2, (pairs, 2): what either odds are fitted on."""
    weights: Floats
    """What a pair counts by either measure, (pairs, 2): strong pairs the root of their G^2, certain pairs 1."""
    statistics: Floats
    """Scores by STATISTICS, (pairs, statistics)."""

    def gains_by_query(self, score: npt.NDArray[Any]) -> Floats:
        """Sums of the weighted gains by both measures, shape (queries, 2)."""
        columns = []
        for weight in self.weights.T:
            counted = weight > 0
            columns.append(self.by_query(weight[counted] * self.gains(score, counted), counted))
        return np.stack(columns, axis=1)

    @classmethod
    def of(cls, fold: Fold, prior: Prior, pairs: PairSampler, min_lift: float) -> RankerTrainingSet | None:
        """The first candidates by the posterior lift and by each statistic; None without positive pairs.

        Positive pairs are not added: that would make a low rank look like a good sign.
        """
        (features, held_out), size = fold, len(fold.features.category)
        counts, total = features.counts, features.counts.total
        significant, dependent = held_out.significant_pairs(min_lift), held_out.dependent_pairs(MAX_P_VALUE)
        strong, certain = strong_pairs(held_out.counts, min_lift), held_out.dependent_pairs(CERTAIN_P_VALUE)
        asked = np.concatenate([significant[0], dependent[0], strong[0]])
        queries = pairs.sample(asked[total[asked] > 0], RANKER_QUERIES)
        if not len(queries):
            return None
        by_lift = np.zeros(0, dtype=np.int64)
        if prior.weights is not None:
            by_lift = _key(*pairs.best(PairScorer(features, prior), queries, FIRST_BY_ODDS), size)
        models = statistic_models(counts)
        by_g2, by_others = (_key(*found, size) for found in best_by_statistics(counts, models, queries))
        key = np.unique(np.concatenate([by_lift, by_g2, by_others]))
        query, item = _pairs_of(key, size)
        lift = np.ones(len(key)) if prior.weights is None else PairScorer(features, prior).pairs(query, item)[0]
        strong_weight = _among(query, item, strong, size) * held_out.root_g2(query, item)
        return cls(
            _starts(query),
            features.ranker_features(query, item, lift),
            _among(query, item, significant, size),
            _among(query, item, dependent, size),
            np.stack([np.isin(key, by_lift), np.isin(key, by_g2)], axis=1),
            np.stack([strong_weight, _among(query, item, certain, size)], axis=1),
            statistic_scores(models, counts.of_pairs(query, item), total[query], total[item]),
        )


@dataclass(frozen=True)
class PriorTrainingSet(TrainingSet):
    """A training set with the counts that a prior is combined with; its features are those of the prior."""

    weight: Floats
    """What a positive pair counts: the root of its G^2 in the held-out part."""
    count: npt.NDArray[np.float32]
    expected: npt.NDArray[np.float32]
    near_count: npt.NDArray[np.float32]
    near_expected: npt.NDArray[np.float32]

    def value(self, prior: Prior) -> float:
        """Weighted mean gain of the positive pairs under the posterior mean."""
        near = np.float32(prior.near)
        count = self.count + near * (self.near_count - self.count)
        expected = self.expected + near * (self.near_expected - self.expected)
        weight = self.weight[self.positive]
        gains = self.gains(prior.posterior_mean(count, expected, self.features), self.positive)
        return float((weight * gains).sum() / weight.sum())

    @classmethod
    def of(cls, fold: Fold, pairs: PairSampler, min_lift: float) -> PriorTrainingSet | None:
        """The first candidates by INITIAL_PRIOR, and all strong pairs of the held-out part; None without any."""
        features, held_out = fold
        total = features.counts.total
        query, item = strong_pairs(held_out.counts, min_lift)
        known = (total[query] > 0) & (total[item] > 0)
        positive = query[known], item[known]
        queries = pairs.sample(positive[0], PRIOR_QUERIES)
        if not len(queries):
            return None
        asked, found = pairs.best(PairScorer(features, INITIAL_PRIOR), queries, PRIOR_CANDIDATES)
        mine = np.isin(positive[0], queries)
        size = len(total)
        keys = np.union1d(_key(asked, found, size), _key(positive[0][mine], positive[1][mine], size))
        asked, found = _pairs_of(keys, size)
        numbers = [*features.count_and_expected(asked, found, 0.0), *features.count_and_expected(asked, found, 1.0)]
        return cls(
            _starts(asked),
            features.prior_features(asked, found),
            _among(asked, found, positive, size),
            held_out.root_g2(asked, found),
            *(column.astype(np.float32) for column in numbers),
        )


@dataclass(frozen=True)
class PairSampler:
    """Samples queries, and finds the candidates that may answer them."""

    category: Codes
    """Items of one category do not answer each other, shape (items,)."""
    rng: np.random.Generator

    def sample(self, queries: Codes, most: int) -> Codes:
        """At most `most` of the different queries, ascending."""
        different = np.unique(queries)
        return different if len(different) <= most else np.sort(self.rng.choice(different, most, replace=False))

    def best(self, scorer: PairScorer, queries: Codes, first: int) -> Pairs:
        """Query and item of the `first` best candidates of each query: bought, and of another category."""
        total = scorer.features.counts.total
        first, size = min(first, len(total)), max(1, BLOCK_SCORES // max(len(total), 1))
        asked, found = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)]
        for begin in range(0, len(queries), size):
            some = queries[begin : begin + size]
            mine = self.category[some][:, None]
            allowed = (total > 0) & ((mine != self.category) | (mine == UNKNOWN))
            allowed[np.arange(len(some)), some] = False
            scores = np.where(allowed, scorer.rows(some)[0], -np.inf)
            items = np.argpartition(-scores, first - 1, axis=1)[:, :first]
            real = np.isfinite(np.take_along_axis(scores, items, axis=1))
            asked.append(np.broadcast_to(some[:, None], items.shape)[real])
            found.append(items[real].astype(np.int32))
        return np.concatenate(asked), np.concatenate(found)


def best_by_statistics(counts: PairCounts, models: list[CountModel], queries: Codes) -> tuple[Pairs, Pairs]:
    """Query and item of the first seen pairs of each query by G^2, and by any of STATISTICS."""
    found: tuple[list[Pairs], list[Pairs]] = [], []
    for query in queries.tolist():
        items, times = counts.row(query)
        scores = statistic_scores(models, times, counts.total[query], counts.total[items])
        order = np.argsort(-scores, axis=0, kind="stable")
        for best, places in zip(found, (order[:FIRST_BY_ODDS, G2], np.unique(order[:FIRST_BY_STATISTIC])), strict=True):
            best.append((np.full(len(places), query, dtype=np.int32), items[places].astype(np.int32)))
    by_g2, by_any = (tuple(np.concatenate(part) for part in zip(*best, strict=True)) for best in found)
    return by_g2, by_any  # type: ignore[return-value]


def _starts(queries: Codes) -> npt.NDArray[np.int64]:
    """Where the pairs of each query start, and the end of all."""
    return np.append(np.unique(queries, return_index=True)[1], len(queries)).astype(np.int64)


def _key(queries: Codes, items: Codes, size: int) -> npt.NDArray[np.int64]:
    return queries.astype(np.int64) * size + items


def _pairs_of(key: npt.NDArray[np.int64], size: int) -> Pairs:
    return (key // size).astype(np.int32), (key % size).astype(np.int32)


def _among(queries: Codes, items: Codes, pairs: Pairs, size: int) -> npt.NDArray[np.bool_]:
    return np.isin(_key(queries, items, size), _key(*pairs, size))


@compiled
def count_higher(score, start, places):  # type: ignore[no-untyped-def]
    """For each of the ascending `places`, how many pairs of its query score higher; of equal scores half, float64."""
    out = np.zeros(len(places))
    query = 0
    for number in range(len(places)):
        while start[query + 1] <= places[number]:
            query += 1
        mine = score[places[number]]
        higher, equal = 0, -1
        for place in range(start[query], start[query + 1]):
            higher += score[place] > mine
            equal += score[place] == mine
        out[number] = higher + 0.5 * equal
    return out
