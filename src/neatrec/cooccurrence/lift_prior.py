"""The prior of the lifts of all pairs over all baskets, for labels and served evidence."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.count_book import CountBook
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.cooccurrence.memory import pair_hash
from neatrec.data.counts import Counts, Margins
from neatrec.statistics import (
    Factors,
    HalfCounts,
    LiftPrior,
    PairSample,
    fit_lift_prior,
    sample_possible_pairs,
    with_halves,
)

Floats = npt.NDArray[np.float64]
LEAST_COUNT = 2
"""The prior is fitted to the pairs with at least this count, and to the number of the others."""
MOST_PAIRS = 10_000_000
"""With more pairs, a random sample of them (by hash) represents all."""

log = logging.getLogger(__name__)


def lift_prior(pairs: Counts, book: CountBook, kind: str = "quasi") -> LiftPrior | None:
    """Fit the prior of the lift, checked on halves of the baskets; None with too few pairs.

    `pairs` come from all baskets of `book` and include all pairs with a count of at least two;
    `kind` of expected counts: see `fit_expected`.
    """
    repeated = _Repeated(_sample(pairs), kind)
    totals, directed = pairs.margins, pairs.options.directed
    query, item, weight = sample_possible_pairs(
        totals.first, totals.second, totals.category, directed=directed
    )
    expected = repeated.expected(totals)
    sample = PairSample(
        repeated.pairs.count.astype(np.float64),
        expected.of(repeated.pairs.query, repeated.pairs.item),
        expected.of(query.astype(np.int32), item.astype(np.int32)),
        weight * min(1.0, MOST_PAIRS / max(totals.pairs, 1)),
        np.repeat([-np.inf, np.inf], [LEAST_COUNT, 1]),
    )
    prior = fit_lift_prior(sample)
    if prior is None:
        return None
    halves = repeated.parted(sample, book, "half A", "half B")
    periods = repeated.parted(sample, book, "early", "late") if book.has_periods else None
    prior = with_halves(prior, sample, halves, periods)
    if not prior.describes_the_data:
        log.warning("%s", coverage_words(prior.coverage))
    return prior


@dataclass(frozen=True, eq=False)
class _Repeated:
    """The pairs that the prior is fitted to."""

    pairs: Counts
    kind: str

    def expected(self, margins: Margins) -> Factors:
        return fit_expected(margins, self.kind)

    def parted(self, sample: PairSample, book: CountBook, first: str, second: str) -> HalfCounts:
        """The counts in two parts of the baskets."""
        times, one = self._counts_in(book, first)
        if second == "late" and self.pairs.options.once_per_customer:
            # a customer may count once in each period
            others, other = self._counts_in(book, second)
        else:
            others, other = sample.count - times, self.pairs.margins.without(one)
        query, item = self.pairs.query, self.pairs.item
        e, rest_e = (self.expected(margins).of(query, item) for margins in (one, other))
        share = np.divide(e, e + rest_e, out=np.zeros(len(e)), where=e + rest_e > 0)
        together = (one.records + other.records) / max(self.pairs.margins.records, 1)
        return HalfCounts(times, others, sample.expected * together, share)

    def _counts_in(self, book: CountBook, part: str) -> tuple[Floats, Margins]:
        """The counts of the pairs in a part of the baskets, and the margins there."""
        options = replace(self.pairs.options, min_count=1, share=1.0)
        counts = book.count(part, replace(options, only=self.pairs.arrays()))
        times = counts.values("count", self.pairs.query, self.pairs.item)
        return times.astype(np.float64), counts.margins


def coverage_words(coverage: float) -> str:
    """The sentence for a prior that does not describe the data.

    >>> coverage_words(0.84)[:60]
    'Lift intervals are widened: 84 % instead of 95 % of those fr'
    """
    return (
        f"Lift intervals are widened: {100 * coverage:.0f} % instead of 95 % of those from one "
        "half of the baskets hold in the other half."
    )


def _sample(pairs: Counts) -> Counts:
    """The pairs that the prior is fitted to; the same ones in every count of the same items."""
    kept = pairs.count >= LEAST_COUNT
    total = pairs.margins.pairs
    if total > MOST_PAIRS:
        kept &= pair_hash(pairs.query, pairs.item) < np.uint64(2**64 * (MOST_PAIRS / total))
    return pairs.where(kept)
