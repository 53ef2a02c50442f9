"""`shrunk-lift-tuned`: shrunk lift whose strength is tuned on validation baskets within the training baskets.

Where times are known the last fifth of the baskets validates the counts of the earlier ones; otherwise each half
validates the other. A *strong* pair of the validation baskets has a count of at least `STRONG_COUNT`, a lift of at
least `strong_lift` and G^2 above `STRONG_LLR` (chi-squared at p = 0.001). The strength with the highest HR@10 over
strong pairs is chosen. E is an expected count, so the strength applies to all baskets unscaled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec import statistics
from neatrec.data.baskets import Baskets
from neatrec.data.randomness import rng_for
from neatrec.data.splits import moment_of_share, uniform_of_ids, validation_mask
from neatrec.models.arrays import ArraySpec
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
MIN_HALF_SHARE = 0.25
"""The smallest share of the baskets in a half."""
MAX_QUERIES = 5_000
"""More queries are sampled down: they would slow the choice without improving it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TunedLiftParameters(StrataParameters):
    strong_lift: float = parameter(
        4.0, "The lift from which a validation pair counts as strong.", low=1.0
    )


class ShrunkLiftTuned(CountModel):
    """C / (E + k), with k tuned within the training baskets."""

    name: ClassVar[str] = "shrunk-lift-tuned"
    description: ClassVar[str] = (
        "Shrunk lift with k tuned on validation baskets within the training baskets."
    )
    Parameters: ClassVar[type[ModelParameters]] = TunedLiftParameters
    k: float
    hit_rates: Floats
    """Share of the strong pairs among the first ten, for each of `STRENGTHS`; empty when there were too few."""
    strong_pairs: int

    def fit_key(self) -> tuple[str, dict[str, Any]]:
        """It tunes k on top of the counts."""
        return self.name, self.parameters.to_dict()

    def _fit(self, baskets: Baskets, run: Run) -> None:
        super()._fit(baskets, run)
        found = tune_k(
            baskets,
            lambda part: self._count(part, run),
            self.parameters.strong_lift,
            run,
        )
        self.k, self.hit_rates, self.strong_pairs = found

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return statistics.shrunk_lift(count, self.counts.expected(query_total, item_total), self.k)

    def fit_info(self) -> dict[str, Any]:
        rates = dict(
            zip((f"{k:g}" for k in STRENGTHS), self.hit_rates.round(6).tolist(), strict=False)
        )
        return {"k": self.k, "strong_pairs": self.strong_pairs, "hit_rates": rates}

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        found = {
            "k": np.array([self.k]),
            "hit_rates": self.hit_rates,
            "strong_pairs": np.array([self.strong_pairs]),
        }
        return {**super()._arrays(), **found}

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        ones = {"k": ArraySpec("f", ("one",), 0), "strong_pairs": ArraySpec("i", ("one",), 0)}
        return {**super().array_specs(), **ones, "hit_rates": ArraySpec("f", ("steps",), 0)}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super()._restore(arrays)
        self.k = float(arrays["k"][0])
        self.hit_rates = arrays["hit_rates"]
        self.strong_pairs = int(arrays["strong_pairs"][0])


def tune_k(
    baskets: Baskets,
    count: Callable[[Baskets], PairCounts],
    strong_lift: float,
    run: Run,
) -> tuple[float, Floats, int]:
    """The strength with the highest hit rate, the hit rates of all STRENGTHS, and the number of strong pairs."""
    hits, pairs = np.zeros(len(STRENGTHS)), 0
    for counts, validation in _folds(baskets, count):
        query, item = strong_pairs(validation, strong_lift)
        query, item = _sample(query, item, rng_for("queries", run.rng))
        hits += hits_by_strength(counts, query, item)
        pairs += len(query)
    if pairs < MIN_STRONG_PAIRS:
        log.info("keeping k = 1: only %d strong pairs in the validation baskets", pairs)
        return 1.0, np.zeros(0), pairs
    # argmax takes the first of equals: the weakest shrinkage
    k = STRENGTHS[int(np.argmax(hits))]
    log.info("tuned k = %g on %d strong pairs", k, pairs)
    return k, hits / pairs, pairs


def _folds(
    baskets: Baskets, count: Callable[[Baskets], PairCounts]
) -> Iterator[tuple[PairCounts, PairCounts]]:
    """(counts that rank, counts that validate)."""
    earlier = before_the_last_fifth(baskets)
    first = _first_half(baskets) if earlier is None else earlier
    counts, validation = (count(baskets.select(part)) for part in (first, ~first))
    yield counts, validation
    if earlier is None:
        yield validation, counts


def _first_half(baskets: Baskets) -> npt.NDArray[np.bool_]:
    """Which baskets are in the first half: by the split's rule, or by a hash where that is unbalanced."""
    by_rule = validation_mask(baskets.ids)
    share = by_rule.mean() if len(by_rule) else 0.0
    if MIN_HALF_SHARE <= share <= 1 - MIN_HALF_SHARE:
        return by_rule
    # ids such as those of every fourth order all fall on one side
    return uniform_of_ids(baskets.ids, "shrunk-lift-tuned") < 0.5


def before_the_last_fifth(baskets: Baskets) -> npt.NDArray[np.bool_] | None:
    """Which baskets came before the last fifth of all; None where times are unknown or all the same."""
    if baskets.times is None or np.ptp(baskets.times) == 0:
        return None
    return baskets.times < moment_of_share(baskets.times, 0.8)


def strong_pairs(
    counts: PairCounts, strong_lift: float
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Query and item of the strong pairs, sorted by query, both directions."""
    query, item, count = frequent_pairs(counts.matrix, STRONG_COUNT)
    query_total, item_total = counts.total[query], counts.total[item]
    strong = statistics.lift(count, counts.expected(query_total, item_total)) >= strong_lift
    strong &= statistics.signed_llr(count, query_total, item_total, counts.records) > STRONG_LLR
    return query[strong], item[strong]


def hits_by_strength(
    counts: PairCounts, query: npt.NDArray[np.int32], item: npt.NDArray[np.int32]
) -> npt.NDArray[np.float64]:
    """The number of pairs (sorted by query) that each strength ranks in the top ten, shape (strengths,).

    Equal scores share their ranks. A pair with count 0 is no hit.
    """
    matrix, total = counts.matrix, counts.total
    hits = np.zeros(len(STRENGTHS))
    for q, start, size in zip(
        *np.unique(query, return_index=True, return_counts=True), strict=True
    ):
        row = slice(matrix.indptr[q], matrix.indptr[q + 1])
        count = matrix.data[row]
        expected = counts.expected(total[q], total[matrix.indices[row]])
        labelled = np.isin(matrix.indices[row], item[start : start + size])
        for number, k in enumerate(STRENGTHS):
            hits[number] += _hits(statistics.shrunk_lift(count, expected, k), labelled)
    return hits


def _hits(scores: Floats, labelled: npt.NDArray[np.bool_]) -> float:
    ranked, mine = np.sort(scores), scores[labelled]
    not_higher = np.searchsorted(ranked, mine, "right")
    higher = len(ranked) - not_higher
    equal = not_higher - np.searchsorted(ranked, mine, "left")
    return float(np.clip((TOP - higher) / equal, 0.0, 1.0).sum())


def _sample(
    query: npt.NDArray[np.int32], item: npt.NDArray[np.int32], rng: np.random.Generator
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The pairs of at most `MAX_QUERIES` queries."""
    queries = np.unique(query)
    if len(queries) <= MAX_QUERIES:
        return query, item
    kept = np.isin(query, rng.choice(queries, MAX_QUERIES, replace=False))
    return query[kept], item[kept]
