"""`shrunk-lift-tuned`: shrunk lift whose strength is chosen on validation baskets split off the training baskets.

Where times are known the last fifth of the baskets judges what was counted in those before; otherwise one half judges
the other, both ways round. A *strong* pair of the judging baskets was bought together at least `STRONG_COUNT` times, at
least `strong_lift` times as often as by chance, and that is no accident (G^2 above `STRONG_LLR`, the chi-squared value
of p = .001). The strength that brings most strong pairs among the first ten of their query is taken. E is counted in
times together, so the strength means the same for a part of the baskets as for all of them and is not scaled.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec import statistics
from neatrec.data.baskets import Baskets
from neatrec.data.randomness import as_generator
from neatrec.data.splits import moment_of_share, uniform_of_ids, validation_mask
from neatrec.models.counts import CountModel, CountParameters, Counts, Floats, PairCounts, often_seen
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run

STRENGTHS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
STRONG_COUNT = 5
STRONG_LLR = 10.83
FIRST = 10
"""Ranks that count as a hit."""
MIN_ROWS_PER_THREAD = 100
"""With fewer strong pairs a choice would be noise: k stays 1."""
LEAST_SHARE = 0.25
"""A half with a smaller share of the baskets than this is no half."""
MOST_QUERIES = 5_000
"""More queries than this are sampled: the choice does not get better, only slower."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TunedLiftParameters(CountParameters):
    strong_lift: float = parameter(4.0, "A held-out pair judges when its lift is at least this.", low=1.0)


class ShrunkLiftTuned(CountModel):
    """C / (E + k), k chosen inside the training baskets."""

    name: ClassVar[str] = "shrunk-lift-tuned"
    kind: ClassVar[str] = "statistic"
    about: ClassVar[str] = "Shrunk lift with k chosen on validation baskets inside the training baskets."
    Parameters: ClassVar[type[ModelParameters]] = TunedLiftParameters
    k: float
    hit_rates: Floats
    """Share of the strong pairs among the first ten, for each of `STRENGTHS`; empty when there were too few."""
    strong_pairs: int

    def learns_by(self) -> tuple[str, dict[str, Any]]:
        """It learns k beside the counts."""
        return self.name, self.parameters.to_dict()

    def _learn(self, shards: Iterable[Baskets], run: Run) -> None:
        super()._learn(shards, run)
        hits, pairs = np.zeros(len(STRENGTHS)), 0
        for learned, judge in self._folds(shards, run):
            query, item = strong_pairs(judge, self.parameters.strong_lift)
            query, item = _sample(query, item, as_generator(run.rng).spawn(1)[0])
            hits += hits_by_strength(learned, query, item)
            pairs += len(query)
        self.strong_pairs = pairs
        self.hit_rates = hits / pairs if pairs >= MIN_ROWS_PER_THREAD else np.zeros(0)
        # argmax takes the first of equals: the weakest shrinkage
        self.k = STRENGTHS[int(np.argmax(self.hit_rates))] if len(self.hit_rates) else 1.0
        if len(self.hit_rates):
            log.info("k = %g, chosen by %d strong pairs of the validation baskets", self.k, pairs)
        else:
            log.warning("only %d strong pairs in the validation baskets: k stays 1", pairs)

    def _folds(self, shards: Iterable[Baskets], run: Run) -> Iterator[tuple[PairCounts, PairCounts]]:
        """Counts to rank by and counts to judge by."""
        earlier = _before_the_last_fifth(shards)
        first = _halves(shards) if earlier is None else earlier
        one, other = (
            [shard.select(mask == part) for shard, mask in zip(shards, first, strict=True)] for part in (True, False)
        )
        counting = self.parameters.counting()
        learned, judge = (PairCounts.of(part, counting, run.threads) for part in (one, other))
        yield learned, judge
        if earlier is None:
            yield judge, learned

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


def _halves(shards: Iterable[Baskets]) -> list[npt.NDArray[np.bool_]]:
    """Which baskets of each shard are of the first half: by the split's rule, or by a hash where that is lopsided."""
    by_rule = [validation_mask(shard.ids) for shard in shards]
    share = sum(int(mask.sum()) for mask in by_rule) / max(sum(len(mask) for mask in by_rule), 1)
    if LEAST_SHARE <= share <= 1 - LEAST_SHARE:
        return by_rule
    # ids such as those of every fourth order all fall on one side
    return [uniform_of_ids(shard.ids, "shrunk-lift-tuned") < 0.5 for shard in shards]


def _before_the_last_fifth(shards: Iterable[Baskets]) -> list[npt.NDArray[np.bool_]] | None:
    """Which baskets of each shard came before the last fifth of all; None where times are unknown or all the same."""
    times = [shard.times for shard in shards if shard.times is not None]
    if len(times) < sum(1 for _ in shards) or np.ptp(np.concatenate(times)) == 0:
        return None
    moment = moment_of_share(np.concatenate(times), 0.8)
    return [of_shard < moment for of_shard in times]


def strong_pairs(judge: PairCounts, strong_lift: float) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Query and item of the strong pairs of the judging counts, sorted by query, both directions."""
    query, item, count = often_seen(judge.matrix, STRONG_COUNT)
    query_total, item_total = judge.total[query], judge.total[item]
    strong = statistics.lift(count, judge.expected(query_total, item_total)) >= strong_lift
    strong &= statistics.signed_llr(count, query_total, item_total, judge.records) > STRONG_LLR
    return query[strong], item[strong]


def hits_by_strength(
    learned: PairCounts, query: npt.NDArray[np.int32], item: npt.NDArray[np.int32]
) -> npt.NDArray[np.float64]:
    """How many of the pairs (sorted by query) each strength has among the first ten, shape (strengths,).

    Equal scores share their ranks. A pair that `fit_info` has never seen is no hit.
    """
    matrix, total = learned.matrix, learned.total
    hits = np.zeros(len(STRENGTHS))
    for q, start, size in zip(*np.unique(query, return_index=True, return_counts=True), strict=True):
        row = slice(matrix.indptr[q], matrix.indptr[q + 1])
        count = matrix.data[row]
        expected = learned.expected(total[q], total[matrix.indices[row]])
        labelled = np.isin(matrix.indices[row], item[start : start + size])
        for number, k in enumerate(STRENGTHS):
            hits[number] += _hits(statistics.shrunk_lift(count, expected, k), labelled)
    return hits


def _hits(scores: Floats, labelled: npt.NDArray[np.bool_]) -> float:
    ranked, mine = np.sort(scores), scores[labelled]
    not_higher = np.searchsorted(ranked, mine, "right")
    higher = len(ranked) - not_higher
    equal = not_higher - np.searchsorted(ranked, mine, "left")
    return float(np.clip((FIRST - higher) / equal, 0.0, 1.0).sum())


def _sample(
    query: npt.NDArray[np.int32], item: npt.NDArray[np.int32], rng: np.random.Generator
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The pairs of at most `MOST_QUERIES` queries."""
    queries = np.unique(query)
    if len(queries) <= MOST_QUERIES:
        return query, item
    kept = np.isin(query, rng.choice(queries, MOST_QUERIES, replace=False))
    return query[kept], item[kept]
