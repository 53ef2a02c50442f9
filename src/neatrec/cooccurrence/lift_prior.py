"""The prior of the lifts of all pairs over all baskets, for labels and served evidence."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from neatrec.cooccurrence.counting import CountBook
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.cooccurrence.memory import pair_hash
from neatrec.data.counts import Counts
from neatrec.statistics import (
    HalfCounts,
    LiftPrior,
    PairSample,
    fit_lift_prior,
    sample_possible_pairs,
    with_halves,
)

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
    totals, pairs = pairs.margins, _sample(pairs)
    query, item, weight = sample_possible_pairs(
        totals.first, totals.second, totals.category, directed=pairs.options.directed
    )
    expected = fit_expected(totals, kind)
    sample = PairSample(
        pairs.count.astype(np.float64),
        expected.of(pairs.query, pairs.item),
        expected.of(query.astype(np.int32), item.astype(np.int32)),
        weight * min(1.0, MOST_PAIRS / max(totals.pairs, 1)),
        np.repeat([-np.inf, np.inf], [LEAST_COUNT, 1]),
    )
    prior = fit_lift_prior(sample)
    if prior is None:
        return None
    options = replace(pairs.options, min_count=1, share=1.0, customers=False, only=pairs.arrays())
    halves, periods = _in_two_parts(pairs, sample, book.count("half A", options), kind), None
    if book.has_periods:
        # a customer may count once in each period
        late = book.count("late", options) if options.once_per_customer else None
        periods = _in_two_parts(pairs, sample, book.count("early", options), kind, late)
    prior = with_halves(prior, sample, halves, periods)
    if not prior.describes_the_data:
        log.warning("%s", coverage_words(prior.coverage))
    return prior


def _in_two_parts(
    pairs: Counts, sample: PairSample, first: Counts, kind: str, second: Counts | None = None
) -> HalfCounts:
    """The counts in two parts of the baskets; `second`: default all that are not in the first."""
    query, item, one = pairs.query, pairs.item, first.margins
    times = first.values("count", query, item).astype(np.float64)
    if second is None:
        others, other = sample.count - times, pairs.margins.without(one)
    else:
        others, other = second.values("count", query, item).astype(np.float64), second.margins
    e, rest_e = (fit_expected(margins, kind).of(query, item) for margins in (one, other))
    share = np.divide(e, e + rest_e, out=np.zeros(len(e)), where=e + rest_e > 0)
    together = (one.records + other.records) / max(pairs.margins.records, 1)
    return HalfCounts(times, others, sample.expected * together, share)


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
