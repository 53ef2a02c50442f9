"""The prior of the lifts of counted pairs, checked on two halves of their baskets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.count_kernels import find_pairs
from neatrec.cooccurrence.counting import count
from neatrec.cooccurrence.counts import CountOptions, Int32, Int64, Margins, Mask, PairBlock
from neatrec.data.baskets import Baskets, BasketStream, as_shards
from neatrec.data.splits import uniform_of_ids
from neatrec.statistics import (
    LiftPrior,
    PairSample,
    fit_lift_prior,
    quasi_independence,
    sample_possible_pairs,
    with_halves,
)

Floats = npt.NDArray[np.float64]
EVERY_SEEN: Floats = np.array([-np.inf, np.inf])
"""`largest_expected` where every pair that was seen is kept."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class TestedCounts:
    """The pairs of a count that were kept, sorted by query, then item, and what they are compared with."""

    query: Int32
    item: Int32
    count: Int64
    """What is compared with E: customers where they count once, baskets otherwise."""
    counting: CountOptions
    """How `count` and `margins` were counted."""
    margins: Margins
    expected: Callable[[Int32, Int32], Floats]
    """E of pairs (query, item)."""
    largest_expected: Floats
    """A pair is kept if its E is at most `largest_expected[count]`; the last number holds for larger counts."""

    def lift_prior(self, baskets: BasketStream | None, **engine: Any) -> LiftPrior | None:
        """The prior of the lift, with what two halves of the `baskets` say about it; None with too few pairs.

        `engine`: engine, memory_limit, threads of `count`. Without baskets the prior is not checked.
        """
        totals = self.margins
        query, item, weight = sample_possible_pairs(
            totals.first, totals.second, totals.category, directed=self.counting.directed
        )
        possible = self.expected(query.astype(np.int32), item.astype(np.int32))
        pairs = PairSample(
            self.count.astype(np.float64),
            self.expected(self.query, self.item),
            possible,
            weight,
            self.largest_expected,
        )
        prior = fit_lift_prior(pairs)
        if prior is None or baskets is None:
            return prior
        half = count(_HalfOfBaskets(baskets), self.counting, keep=self._among, **engine)
        place = find_pairs(half.indptr, half.item, self.query, self.item)
        in_half = np.where(place < 0, 0, half.count[np.maximum(place, 0)] if len(half) else 0)
        prior = with_halves(prior, pairs, in_half, self._share(half.margins))
        if not prior.describes_the_data:
            log.warning(
                "lift intervals are widened: %.0f %% instead of 95 %% of those from one half of the baskets hold in "
                "the other half",
                100 * prior.coverage,
            )
        return prior

    def _among(self, block: PairBlock, _: Margins) -> Mask:
        found: Mask = find_pairs(self._starts, self.item, block.query, block.item) >= 0
        return found

    @cached_property
    def _starts(self) -> Int64:
        """Where each query's pairs start, shape (items + 1,)."""
        return np.searchsorted(self.query, np.arange(len(self.margins.first) + 1))

    def _share(self, half: Margins) -> Floats:
        """The share of each pair's count that is expected in the half with these margins."""
        first, second = self.margins.first - half.first, self.margins.second - half.second
        one = quasi_independence(half.first, half.second, half.category).expected(self.query, self.item)
        other = quasi_independence(first, second, half.category).expected(self.query, self.item)
        return np.divide(one, one + other, out=np.zeros(len(one)), where=one + other > 0)


class _HalfOfBaskets:
    """The baskets of about half of the customers, or half of the baskets where customers are not known."""

    def __init__(self, baskets: BasketStream) -> None:
        self.baskets = baskets

    def __iter__(self) -> Iterator[Baskets]:
        for shard in as_shards(self.baskets):
            if shard.users is None or shard.user_ids is None:
                chosen = uniform_of_ids(shard.ids, "half") < 0.5
            else:
                chosen = (uniform_of_ids(shard.user_ids, "half") < 0.5)[shard.users]
            yield shard.select(chosen)
