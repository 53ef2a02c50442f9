"""Models that score by counts alone: popularity, and statistics of the counts of pairs.

C: the count of a pair, F: an item's pairs, N: all pairs, E = F_q F_v / N.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec import statistics
from neatrec.data.baskets import Baskets
from neatrec.data.splits import moment_of_share, rng_for, uniform_of_ids
from neatrec.models.base import ArraySpec, Codes, Model, Scores
from neatrec.models.counts import (
    CountModel,
    Counts,
    Floats,
    PairCounts,
    StrataParameters,
    frequent_pairs,
)
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run

STRENGTHS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
STRONG_COUNT = 5
STRONG_LLR = 10.83
TOP = 10
"""Ranks that count as a hit."""
MIN_STRONG_PAIRS = 100
"""With fewer strong pairs a choice would be noise: k stays 1."""
MAX_QUERIES = 5_000
"""More queries are sampled down: they would slow the choice without improving it."""

log = logging.getLogger(__name__)


class Pop(Model):
    """An item's score is the number of training baskets that hold it."""

    name: ClassVar[str] = "pop"
    kind: ClassVar[str] = "paper"
    description: ClassVar[str] = "The most bought items, the same for every query."
    scores_unseen_items: ClassVar[bool] = True
    reason: ClassVar[str] = "popular"

    def _fit(self, baskets: Baskets, run: Run) -> None:
        """`item_count` is all that it needs, and `fit` has counted it."""

    def _score(self, queries: Codes, items: Codes) -> Scores:
        return self.item_count[items].astype(np.float64)

    def _score_all(self, queries: Codes) -> Scores:
        counts = self.item_count.astype(np.float64)
        return np.broadcast_to(counts, (len(queries), len(counts)))

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """`item_count` is restored already."""


class PopCo(CountModel):
    """C itself."""

    name: ClassVar[str] = "popco"
    kind: ClassVar[str] = "paper"
    description: ClassVar[str] = "How often two items were bought together."

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return count.astype(np.float64)


class Lift(CountModel):
    """C / E: how many times more often than by chance."""

    name: ClassVar[str] = "lift"
    description: ClassVar[str] = "Count of the pair over its expectation under independence."
    Parameters: ClassVar[type[ModelParameters]] = StrataParameters

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return statistics.lift(count, self.counts.expected(query_total, item_total))


@dataclass(frozen=True)
class ShrunkLiftParameters(StrataParameters):
    """Parameters of `shrunk-lift`."""

    k: float = parameter(1.0, "Strength of the shrinkage, in expected counts.", low=0.0)


class ShrunkLift(CountModel):
    """C / (E + k): the lift, shrunk towards 0 where little was expected."""

    name: ClassVar[str] = "shrunk-lift"
    description: ClassVar[str] = "Count of the pair over (its expectation under independence + k)."
    Parameters: ClassVar[type[ModelParameters]] = ShrunkLiftParameters

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return statistics.shrunk_lift(
            count, self.counts.expected(query_total, item_total), self.parameters.k
        )


class LLR(CountModel):
    """G^2 of the 2x2 table, negative where the pair was seen less often than expected."""

    name: ClassVar[str] = "llr"
    description: ClassVar[str] = (
        "Signed log-likelihood ratio of the 2x2 table: how significant the pair is."
    )
    Parameters: ClassVar[type[ModelParameters]] = StrataParameters

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return statistics.signed_llr(count, query_total, item_total, self.counts.records)

    def _unseen(self, query_total: Floats, item_total: Floats) -> Floats:
        """G^2 with C = 0: one logarithm per pair instead of four."""
        n = float(max(self.counts.records, 1))
        # F <= N / 2, as C is symmetric with an empty diagonal; two halves have odds of 1, which
        # must not meet log1p
        odds = (query_total / (n - query_total)) * (item_total / (n - item_total))
        g2 = np.log1p(-np.minimum(odds, 1.0 - 1e-15))
        g2 *= n - query_total - item_total
        g2 -= query_total * np.log1p(-item_total / n)
        g2 -= item_total * np.log1p(-query_total / n)
        return np.minimum(-2.0 * g2, 0.0)


class Jaccard(CountModel):
    """C / (F_q + F_v - C)."""

    name: ClassVar[str] = "jaccard"
    description: ClassVar[str] = "Count of the pair over the count of pairs with either item."

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return statistics.jaccard(count, query_total, item_total)


@dataclass(frozen=True)
class TunedLiftParameters(StrataParameters):
    """Parameters of `shrunk-lift-tuned`."""

    strong_lift: float = parameter(
        4.0, "The lift from which a validation pair counts as strong.", low=1.0
    )


class ShrunkLiftTuned(CountModel):
    """C / (E + k), with k tuned within the training baskets.

    Where times are known the last fifth of the baskets validates the counts of the earlier ones;
    otherwise each of two random halves validates the other. A *strong* pair of the validation
    baskets has a count of at least `STRONG_COUNT`, a lift of at least `strong_lift` and G^2 above
    `STRONG_LLR` (chi-squared at p = 0.001). The strength with the highest HR@10 over strong pairs
    is selected. E is an expected count, so the strength applies to all baskets unscaled.
    """

    name: ClassVar[str] = "shrunk-lift-tuned"
    description: ClassVar[str] = (
        "Shrunk lift with k tuned on validation baskets within the training baskets."
    )
    Parameters: ClassVar[type[ModelParameters]] = TunedLiftParameters
    k: float
    hit_rates: Floats
    """Share of the strong pairs among the first ten, of each of `STRENGTHS`; empty with too few."""
    strong_pairs: int

    def _fit(self, baskets: Baskets, run: Run) -> None:
        super()._fit(baskets, run)
        counting, strata = self.parameters.counting(), self.parameters.strata_names
        times = baskets.times
        if in_time := times is not None and np.ptp(times) > 0:
            first = np.asarray(times < moment_of_share(times, 0.8))
        else:
            first = np.asarray(uniform_of_ids(baskets.ids, self.name) < 0.5)
        one, other = (
            PairCounts.of(run.book_of(baskets.select(part)), counting, strata)
            for part in (first, ~first)
        )
        hits, pairs = np.zeros(len(STRENGTHS)), 0
        for counts, validation in [(one, other)] if in_time else [(one, other), (other, one)]:
            query, item = strong_pairs(validation, self.parameters.strong_lift)
            if len(queries := np.unique(query)) > MAX_QUERIES:
                rng = rng_for("queries", run.rng)
                sampled = np.isin(query, rng.choice(queries, MAX_QUERIES, replace=False))
                query, item = query[sampled], item[sampled]
            hits += hits_by_strength(counts, query, item)
            pairs += len(query)
        self.strong_pairs = pairs
        if pairs < MIN_STRONG_PAIRS:
            log.info("keeping k = 1: only %d strong pairs in the validation baskets", pairs)
            self.k, self.hit_rates = 1.0, np.zeros(0)
        else:  # argmax takes the first of equals: the weakest shrinkage
            self.k, self.hit_rates = STRENGTHS[int(np.argmax(hits))], hits / pairs
            log.info("tuned k = %g on %d strong pairs", self.k, pairs)

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return statistics.shrunk_lift(count, self.counts.expected(query_total, item_total), self.k)

    @property
    def learned(self) -> dict[str, Any]:  # type: ignore[override]
        """The selected constant, and how it was selected."""
        rates = zip((f"{k:g}" for k in STRENGTHS), self.hit_rates.round(6).tolist(), strict=False)
        return {"k": self.k, "strong_pairs": self.strong_pairs, "hit_rates": dict(rates)}

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            **super()._arrays(),
            "k": np.array([self.k]),
            "hit_rates": self.hit_rates,
            "strong_pairs": np.array([self.strong_pairs]),
        }

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        """The arrays of a bundle."""
        ones = {"k": ArraySpec("f", ("one",), 0), "strong_pairs": ArraySpec("i", ("one",), 0)}
        return {**super().array_specs(), **ones, "hit_rates": ArraySpec("f", ("steps",), 0)}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super()._restore(arrays)
        self.k = float(arrays["k"][0])
        self.hit_rates = arrays["hit_rates"]
        self.strong_pairs = int(arrays["strong_pairs"][0])


def strong_pairs(counts: PairCounts, strong_lift: float) -> tuple[Codes, Codes]:
    """Query and item of the strong pairs, sorted by query, both directions."""
    query, item, count = frequent_pairs(counts.matrix, STRONG_COUNT)
    query_total, item_total = counts.total[query], counts.total[item]
    strong = statistics.lift(count, counts.expected(query_total, item_total)) >= strong_lift
    strong &= statistics.signed_llr(count, query_total, item_total, counts.records) > STRONG_LLR
    return query[strong], item[strong]


def hits_by_strength(counts: PairCounts, query: Codes, item: Codes) -> Floats:
    """The number of pairs (sorted by query) that each strength ranks in the top ten, (strengths,).

    Equal scores share their ranks. A pair with count 0 is no hit.
    """
    hits = np.zeros(len(STRENGTHS))
    for q, start, size in zip(
        *np.unique(query, return_index=True, return_counts=True), strict=True
    ):
        items, count = counts.row(q)
        expected = counts.expected(counts.total[q], counts.total[items])
        is_strong = np.isin(items, item[start : start + size])
        for number, k in enumerate(STRENGTHS):
            scores = statistics.shrunk_lift(count, expected, k)
            ranked, mine = np.sort(scores), scores[is_strong]
            not_higher = np.searchsorted(ranked, mine, "right")
            equal = not_higher - np.searchsorted(ranked, mine, "left")
            first = (TOP - len(ranked) + not_higher) / equal
            hits[number] += np.clip(first, 0.0, 1.0).sum()
    return hits
