"""`shrunk-lift-tuned`: shrunk lift whose strength is tuned on validation baskets within the training baskets.

Where times are known the last fifth of the baskets validates the counts of the earlier ones; otherwise each half
validates the other. A *strong* pair of the validation baskets has a count of at least `STRONG_COUNT`, a lift of at
least `strong_lift` and G^2 above `STRONG_LLR` (chi-squared at p = 0.001). The strength with the highest HR@10 over
strong pairs is chosen. E is an expected count, so the strength applies to all baskets unscaled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec import statistics
from neatrec.data.baskets import Baskets, MaskedShards
from neatrec.data.randomness import as_generator
from neatrec.data.splits import moment_of_share, uniform_of_ids, validation_mask
from neatrec.models.counts import CountModel, Counts, Floats, PairCounts, StrataParameters, frequent_pairs
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
    strong_lift: float = parameter(4.0, "The lift from which a validation pair counts as strong.", low=1.0)


class ShrunkLiftTuned(CountModel):
    """C / (E + k), with k tuned within the training baskets."""

    name: ClassVar[str] = "shrunk-lift-tuned"
    description: ClassVar[str] = "Shrunk lift with k tuned on validation baskets within the training baskets."
    Parameters: ClassVar[type[ModelParameters]] = TunedLiftParameters
    k: float
    hit_rates: Floats
    """Share of the strong pairs among the first ten, for each of `STRENGTHS`; empty when there were too few."""
    strong_pairs: int

    def fit_key(self) -> tuple[str, dict[str, Any]]:
        """It tunes k on top of the counts."""
        return self.name, self.parameters.to_dict()

    def _fit(self, shards: Iterable[Baskets], run: Run) -> None:
        super()._fit(shards, run)
        found = tune_k(shards, lambda part: self._count(part, run), self.parameters.strong_lift, run)
        self.k, self.hit_rates, self.strong_pairs = found

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return statistics.shrunk_lift(count, self.counts.expected(query_total, item_total), self.k)

    def fit_info(self) -> dict[str, Any]:
        rates = dict(zip((f"{k:g}" for k in STRENGTHS), self.hit_rates.round(6).tolist(), strict=False))
        return {"k": self.k, "strong_pairs": self.strong_pairs, "hit_rates": rates}

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        found = {"k": np.array([self.k]), "hit_rates": self.hit_rates, "strong_pairs": np.array([self.strong_pairs])}
        return {**super()._arrays(), **found}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super()._restore(arrays)
        self.k = float(arrays["k"][0])
        self.hit_rates = arrays["hit_rates"]
        self.strong_pairs = int(arrays["strong_pairs"][0])


def tune_k(
    shards: Iterable[Baskets], count: Callable[[Iterable[Baskets]], PairCounts], strong_lift: float, run: Run
) -> tuple[float, Floats, int]:
    """The strength with the highest hit rate, the hit rates of all STRENGTHS, and the number of strong pairs."""
    hits, pairs = np.zeros(len(STRENGTHS)), 0
    for counts, validation in _folds(shards, count):
        query, item = strong_pairs(validation, strong_lift)
        query, item = _sample(query, item, as_generator(run.rng).spawn(1)[0])
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
    shards: Iterable[Baskets], count: Callable[[Iterable[Baskets]], PairCounts]
) -> Iterator[tuple[PairCounts, PairCounts]]:
    """(counts that rank, counts that validate)."""
    earlier = before_the_last_fifth(shards)
    first = _halves(shards) if earlier is None else earlier
    counts, validation = (count(MaskedShards(shards, [mask == part for mask in first])) for part in (True, False))
    yield counts, validation
    if earlier is None:
        yield validation, counts


def _halves(shards: Iterable[Baskets]) -> list[npt.NDArray[np.bool_]]:
    """Which baskets of each shard are in the first half: by the split's rule, or by a hash where that is unbalanced."""
    by_rule = [validation_mask(shard.ids) for shard in shards]
    share = sum(int(mask.sum()) for mask in by_rule) / max(sum(len(mask) for mask in by_rule), 1)
    if MIN_HALF_SHARE <= share <= 1 - MIN_HALF_SHARE:
        return by_rule
    # ids such as those of every fourth order all fall on one side
    return [uniform_of_ids(shard.ids, "shrunk-lift-tuned") < 0.5 for shard in shards]


def before_the_last_fifth(shards: Iterable[Baskets]) -> list[npt.NDArray[np.bool_]] | None:
    """Which baskets of each shard came before the last fifth of all; None where times are unknown or all the same."""
    times = [shard.times for shard in shards if shard.times is not None]
    if len(times) < sum(1 for _ in shards) or np.ptp(np.concatenate(times)) == 0:
        return None
    moment = moment_of_share(np.concatenate(times), 0.8)
    return [of_shard < moment for of_shard in times]


def strong_pairs(counts: PairCounts, strong_lift: float) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
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
    for q, start, size in zip(*np.unique(query, return_index=True, return_counts=True), strict=True):
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
