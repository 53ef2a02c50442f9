"""Training sets: candidate pairs of one part of the baskets, and which of them are positive in a held-out part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from neatrec import statistics
from neatrec.compiled import compiled
from neatrec.data.catalog import UNKNOWN
from neatrec.models.bayes.features import PairFeatures
from neatrec.models.bayes.scoring import PairScorer, ShrunkLiftScorer
from neatrec.models.counts import PairCounts, frequent_pairs
from neatrec.models.tuned_lift import STRONG_COUNT, TOP, strong_pairs

if TYPE_CHECKING:
    from neatrec.models.bayes.prior import Prior

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Pairs = tuple[Codes, Codes]

SIGNIFICANT = 1.96
"""Standard deviations by which a count must exceed that of the required lift."""
MAX_P_VALUE = 1e-5
"""A pair is dependent when chance alone shows such a count less often than this."""
BLOCK_SCORES = 4_000_000
"""Scores in memory at a time."""


class HeldOut(NamedTuple):
    """Counts of the held-out part."""

    counts: PairCounts
    directed: sparse.csr_matrix | None
    """Where carts have an order."""
    count_chosen: Callable[[Codes, Codes], npt.NDArray[np.int64]] | None = None
    """Counts of chosen pairs, also of pairs that were dropped for memory; None: none were."""

    def significant_pairs(self, min_lift: float) -> Pairs:
        """Significant high-lift pairs: at least STRONG_COUNT times, query first where carts have an order, and
        SIGNIFICANT standard deviations above `min_lift` times chance.
        """
        counts = self.counts
        query, item, count = frequent_pairs(counts.matrix if self.directed is None else self.directed, STRONG_COUNT)
        # chance puts either item first half of the time; carts without order need half the lift, as paper labels do
        bar = min_lift * counts.expected(counts.total[query], counts.total[item]) / 2
        kept = count > bar + SIGNIFICANT * np.sqrt(bar)
        return query[kept], item[kept]

    def dependent_pairs(self) -> Pairs:
        """Pairs bought together, query first where carts have an order, more often than chance explains."""
        counts = self.counts
        # a single count is no evidence, and there are very many of them
        query, item, count = frequent_pairs(counts.matrix if self.directed is None else self.directed, 2)
        expected = counts.expected(counts.total[query], counts.total[item]) * (1.0 if self.directed is None else 0.5)
        kept = (count > expected) & (special.pdtrc(count - 1, expected) <= MAX_P_VALUE)
        return query[kept], item[kept]


@dataclass(frozen=True)
class RankerTrainingSet:
    """Candidate pairs, query after query, their features, and which of them are positive."""

    start: npt.NDArray[np.int64]
    """Where each query's pairs start, and the end of all."""
    features: npt.NDArray[Any]
    """(pairs, features)."""
    positive: npt.NDArray[np.bool_]

    @property
    def queries(self) -> int:
        return len(self.start) - 1

    def gains(self, score: npt.NDArray[Any]) -> Floats:
        """1 + 1 / log2(1 + rank) of each positive pair that `score` ranks among the first ten, else 0."""
        higher = count_higher(score, self.start, np.flatnonzero(self.positive))
        return np.where(higher < TOP, 1.0 + 1.0 / np.log2(2.0 + higher), 0.0)

    def by_query(self, values: Floats) -> Floats:
        """Sums of `values` (positive pairs,) per query, shape (queries,)."""
        query = np.searchsorted(self.start, np.flatnonzero(self.positive), side="right") - 1
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
    def joined(cls, parts: Sequence[Self]) -> Self:
        sizes = np.concatenate([np.diff(part.start) for part in parts])
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        names = parts[0]._columns()
        return cls(start, **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


@dataclass(frozen=True)
class PriorTrainingSet(RankerTrainingSet):
    """The same with the counts that a prior is combined with; its features are those of the prior."""

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
        return float((weight * self.gains(prior.posterior_mean(count, expected, self.features))).sum() / weight.sum())

    @classmethod
    def of(
        cls, scorer: PairScorer, held_out: HeldOut, pairs: PairSampler, *, min_lift: float, max_queries: int, first: int
    ) -> PriorTrainingSet | None:
        """The first candidates by `scorer`, and all strong pairs of the held-out part; None when there are none."""
        features = scorer.features
        total = features.counts.total
        query, item = strong_pairs(held_out.counts, min_lift)
        known = (total[query] > 0) & (total[item] > 0)
        positive = query[known], item[known]
        queries = pairs.sample(positive[0], max_queries)
        if not len(queries):
            return None
        asked, found = pairs.best(scorer, queries, first)
        mine = np.isin(positive[0], queries)
        size = len(total)
        keys = np.union1d(_key(asked, found, size), _key(positive[0][mine], positive[1][mine], size))
        asked, found = (keys // size).astype(np.int32), (keys % size).astype(np.int32)
        held = held_out.counts
        g2 = statistics.signed_llr(held.of_pairs(asked, found), held.total[asked], held.total[found], held.records)
        numbers = [*features.count_and_expected(asked, found, 0.0), *features.count_and_expected(asked, found, 1.0)]
        return cls(
            _starts(asked),
            features.prior_features(asked, found),
            _among(asked, found, positive, size),
            np.sqrt(np.maximum(g2, 0.0)),
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

    def best(self, scorer: PairScorer | ShrunkLiftScorer, queries: Codes, first: int) -> Pairs:
        """Query and item of the `first` best candidates of each query: bought, and of another category."""
        total = scorer.features.counts.total
        first, size = min(first, len(total)), max(1, BLOCK_SCORES // max(len(total), 1))
        asked, found = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)]
        for begin in range(0, len(queries), size):
            some = queries[begin : begin + size]
            mine = self.category[some][:, None]
            allowed = (total > 0) & ((mine != self.category) | (mine == UNKNOWN))
            allowed[np.arange(len(some)), some] = False
            scores = np.where(allowed, scorer.rows(some), -np.inf)
            items = np.argpartition(-scores, first - 1, axis=1)[:, :first]
            real = np.isfinite(np.take_along_axis(scores, items, axis=1))
            asked.append(np.broadcast_to(some[:, None], items.shape)[real])
            found.append(items[real].astype(np.int32))
        return np.concatenate(asked), np.concatenate(found)


def ranker_training_set(scorer: PairScorer, pairs: Pairs, positive: Pairs) -> RankerTrainingSet:
    """The ranker's features of `pairs` (query after query); `scorer` ranks by the posterior lift."""
    features = scorer.features
    lift = scorer.pairs(*pairs)
    known = _among(*pairs, positive, len(features.category))
    return RankerTrainingSet(_starts(pairs[0]), features.ranker_features(*pairs, lift), known)


def most_significant(features: PairFeatures, queries: Codes, first: int) -> Pairs:
    """Query and item of the `first` pairs of each query with the largest G^2."""
    counts, asked, found = features.counts, [], []
    for query in queries.tolist():
        items, times = counts.row(query)
        g2 = statistics.signed_llr(times, counts.total[query], counts.total[items], counts.records)
        best = items[np.argsort(-g2, kind="stable")[:first]].astype(np.int32)
        asked.append(np.full(len(best), query, dtype=np.int32))
        found.append(best)
    return np.concatenate(asked), np.concatenate(found)


def _starts(queries: Codes) -> npt.NDArray[np.int64]:
    """Where the pairs of each query start, and the end of all."""
    return np.append(np.unique(queries, return_index=True)[1], len(queries)).astype(np.int64)


def _key(queries: Codes, items: Codes, size: int) -> npt.NDArray[np.int64]:
    return queries.astype(np.int64) * size + items


def _among(queries: Codes, items: Codes, pairs: Pairs, size: int) -> npt.NDArray[np.bool_]:
    return np.isin(_key(queries, items, size), _key(*pairs, size))


@compiled
def count_higher(score, start, places):  # type: ignore[no-untyped-def]
    """For each of the ascending `places`, how many pairs of its query score higher, int64."""
    out = np.zeros(len(places), dtype=np.int64)
    query = 0
    for number in range(len(places)):
        while start[query + 1] <= places[number]:
            query += 1
        mine = score[places[number]]
        for place in range(start[query], start[query + 1]):
            out[number] += score[place] > mine
    return out
