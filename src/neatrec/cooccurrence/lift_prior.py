"""The prior of the lifts of all pairs over all baskets: one for labels and served evidence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.count_kernels import find_pairs
from neatrec.cooccurrence.counting import count
from neatrec.cooccurrence.counts import CountOptions, Int32, Int64, Margins, Mask, PairBlock
from neatrec.cooccurrence.expected_counts import Factors, fit_expected
from neatrec.cooccurrence.pair_filter import FilteredPairs, PairFilter
from neatrec.cooccurrence.recency import as_of_newest, pair_hash
from neatrec.cooccurrence.spark.lines import SparkLines
from neatrec.data.baskets import Baskets, BasketStream, MaskedShards, as_shards
from neatrec.data.splits import uniform_of_ids
from neatrec.statistics import HalfCounts, LiftPrior, PairSample, fit_lift_prior, sample_possible_pairs, with_halves

Floats = npt.NDArray[np.float64]
LEAST_COUNT = 2
"""The prior is fitted to the pairs counted at least so often, and to the number of the others."""
MOST_PAIRS = 10_000_000
"""Where more pairs were seen, those whose hash is small enough stand for all."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class RepeatedPairs:
    """The pairs of a count that were counted at least LEAST_COUNT times, sorted by query, then item."""

    query: Int32
    item: Int32
    count: Int64
    counting: CountOptions
    """How `count` and `margins` were counted."""
    margins: Margins
    """Of the whole count, with the number of all pairs that were seen."""
    kind: str = "quasi"
    """What E is made of, see `fit_expected`."""

    @classmethod
    def of(
        cls, baskets: BasketStream | SparkLines, counting: CountOptions, pairs: int, kind: str, **engine: Any
    ) -> RepeatedPairs:
        """Counted, of `pairs` that are known to be there; `engine`: engine, memory_limit, threads of `count`."""
        keep = FilteredPairs(
            lambda _: PairFilter(min_count=LEAST_COUNT),
            lambda block, _: _wanted(block.query, block.item, block.count, pairs),
        )
        found = count(baskets, counting, keep=keep, **engine)
        return cls(found.query, found.item, found.count, counting, found.margins, kind)

    @classmethod
    def among(
        cls, parts: Iterable[tuple[Int32, Int32, Int64]], counting: CountOptions, margins: Margins
    ) -> RepeatedPairs:
        """Those of pairs that were counted, among them all that were counted so often: parts (query, item, count)."""
        none = np.zeros(0, dtype=np.int32)
        found = [(none, none, np.zeros(0, dtype=np.int64))]
        for query, item, times in parts:
            chosen = _wanted(query, item, times, margins.pairs)
            found.append((query[chosen], item[chosen], times[chosen].astype(np.int64)))
        query, item, times = (np.concatenate(column) for column in zip(*found, strict=True))
        return cls(query, item, times, counting, margins)

    def lift_prior(self, baskets: BasketStream | SparkLines, **engine: Any) -> LiftPrior | None:
        """The prior of the lift over all baskets, with what their halves say about it; None with too few pairs.

        `engine`: engine, memory_limit, threads of `count`. Lines that Spark reads have no times.
        """
        totals, directed = self.margins, self.counting.directed
        query, item, weight = sample_possible_pairs(totals.first, totals.second, totals.category, directed=directed)
        expected = self._expected(totals)
        pairs = PairSample(
            self.count.astype(np.float64),
            expected.of(self.query, self.item),
            expected.of(query.astype(np.int32), item.astype(np.int32)),
            weight * min(1.0, MOST_PAIRS / max(totals.pairs, 1)),
            np.repeat([-np.inf, np.inf], [LEAST_COUNT, 1]),
        )
        prior = fit_lift_prior(pairs)
        if prior is None:
            return None
        if not isinstance(baskets, SparkLines):  # parts weigh as they do in the whole
            self = replace(self, counting=as_of_newest(self.counting, baskets))
        halves = self._parted(pairs, _half_of(baskets), None, **engine)
        periods = None
        if not isinstance(baskets, SparkLines) and (middle := _mean_time(baskets)) is not None:
            early = _part(baskets, lambda shard: np.asarray(shard.times) < middle)
            # a customer may count once in each period
            late = _part(baskets, lambda shard: np.asarray(shard.times) >= middle)
            periods = self._parted(pairs, early, late if self.counting.once_per_customer else None, **engine)
        prior = with_halves(prior, pairs, halves, periods)
        if not prior.describes_the_data:
            log.warning("%s", coverage_words(prior.coverage))
        return prior

    def _parted(
        self, pairs: PairSample, first: BasketStream | SparkLines, second: BasketStream | None, **engine: Any
    ) -> HalfCounts:
        """The counts in two parts of the baskets; the second is what the first leaves where it is None."""
        times, one = self._counts_in(first, **engine)
        if second is not None:
            others, other = self._counts_in(second, **engine)
        else:
            others, whole = pairs.count - times, self.margins
            other = replace(
                whole,
                first=whole.first - one.first,
                second=whole.second - one.second,
                records=whole.records - one.records,
            )
        e, rest_e = (self._expected(margins).of(self.query, self.item) for margins in (one, other))
        share = np.divide(e, e + rest_e, out=np.zeros(len(e)), where=e + rest_e > 0)
        together = (one.records + other.records) / max(self.margins.records, 1)
        return HalfCounts(times, others, pairs.expected * together, share)

    def _expected(self, margins: Margins) -> Factors:
        return fit_expected(margins, self.kind, directed=self.counting.directed)

    def _counts_in(self, baskets: BasketStream | SparkLines, **engine: Any) -> tuple[Floats, Margins]:
        """How often other baskets hold the pairs, and the margins there."""
        found = count(baskets, self.counting, keep=self._among, **engine)
        place = find_pairs(found.indptr, found.item, self.query, self.item)
        times = np.where(place < 0, 0, found.count[np.maximum(place, 0)] if len(found) else 0)
        return times.astype(np.float64), found.margins

    def _among(self, block: PairBlock, _: Margins) -> Mask:
        found: Mask = find_pairs(self._starts, self.item, block.query, block.item) >= 0
        return found

    @cached_property
    def _starts(self) -> Int64:
        """Where each query's pairs start, shape (items + 1,)."""
        return np.searchsorted(self.query, np.arange(len(self.margins.first) + 1))


def coverage_words(coverage: float) -> str:
    """What is said where the prior does not describe the data.

    >>> coverage_words(0.84)
    'Lift intervals are widened: 84 % instead of 95 % of those from one half of the baskets hold in the other half.'
    """
    return (
        f"Lift intervals are widened: {100 * coverage:.0f} % instead of 95 % of those from one half of the baskets "
        "hold in the other half."
    )


def _wanted(query: Int32, item: Int32, times: Int64, pairs: int) -> Mask:
    """Which pairs the prior is fitted to, where `pairs` were seen; the same in every count of the same items."""
    often: Mask = times >= LEAST_COUNT
    if pairs <= MOST_PAIRS:
        return often
    return often & (pair_hash(query, item) < np.uint64(2**64 * (MOST_PAIRS / pairs)))


def _half_of(baskets: BasketStream | SparkLines) -> BasketStream | SparkLines:
    """The baskets of about half of the customers, or half of the baskets where customers are not known."""
    return baskets.where(_drawn) if isinstance(baskets, SparkLines) else _part(baskets, _of_drawn_customers)


def _of_drawn_customers(shard: Baskets) -> Mask:
    if shard.users is None or shard.user_ids is None:
        return _drawn(shard.ids)
    return _drawn(shard.user_ids)[shard.users]


def _drawn(ids: Any) -> Mask:
    return np.asarray(uniform_of_ids(ids, "half") < 0.5)


def _mean_time(baskets: BasketStream) -> float | None:
    """None where some baskets have no time."""
    total, number = 0.0, 0
    for shard in as_shards(baskets):
        if shard.times is None:
            return None
        total += float(shard.times.sum(dtype=np.float64))
        number += len(shard)
    return total / number if number else None


def _part(baskets: BasketStream, chosen: Callable[[Baskets], Mask]) -> MaskedShards:
    """Some of the baskets, chosen once: an engine may read them once per band."""
    shards = as_shards(baskets)
    return MaskedShards(shards, [chosen(shard) for shard in shards])
