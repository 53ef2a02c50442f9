"""From ranks to a table: means with intervals for each model, and tests between models.

Everything here is computed from the ranks alone, so whoever kept them (`neatrec.evaluation.tables`) can compute it
again.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.errors import ParameterError
from neatrec.evaluation.intervals import ROUNDS, interval, resampled_means
from neatrec.evaluation.metrics import KS, metric_names, metric_values
from neatrec.evaluation.paired_tests import FLIPS, holm, sign_flip_p
from neatrec.evaluation.ranks import LabelQueries, LabelRanks

Floats = npt.NDArray[np.float64]

TESTED = ("hr@10", "ndcg@10")
"""The metrics that models are tested on, where they are among those computed."""
ONE_SEED = "queries only: one training seed, so the spread between trainings is missing"
SAME_FOR_ALL_SEEDS = "queries; training does not depend on the seed"
QUERIES_AND_SEEDS = "queries and training seeds"


@dataclass(frozen=True)
class ModelSummary:
    """One model's line: `mean`, `low`, `high`, `macro`, `seed_sd` by metric name ("hr@10", "ndcg@10", "mrr", ...)."""

    name: str
    mean: dict[str, float]
    """Means over label records."""
    low: dict[str, float]
    high: dict[str, float]
    macro: dict[str, float]
    """Means over queries of each query's own mean: a query with many labels counts once."""
    seeds: int
    """Trainings that went into the means."""
    seed_sd: dict[str, float] | None
    """Standard deviation between trainings; None where there is one only."""
    variance: str
    """What the intervals cover."""


@dataclass(frozen=True)
class PairedTest:
    """Whether `better` beats `worse` on the same queries."""

    better: str
    worse: str
    metric: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    """Corrected for all pairs of models tested on this metric."""


@dataclass(frozen=True)
class Summary:
    """All models on one level's labels and one candidate set."""

    labels: int
    queries: int
    standings: tuple[ModelSummary, ...]
    """In the order in which the models were given."""
    tests: tuple[PairedTest, ...]

    def by_name(self, name: str) -> ModelSummary:
        return next(standing for standing in self.standings if standing.name == name)


@dataclass(frozen=True)
class _Totals:
    """Sums over the labels of each query."""

    by_seed: Floats  # (seeds, queries, metrics)
    sizes: Floats  # (queries,): labels

    @property
    def mean(self) -> Floats:  # (queries, metrics)
        mean: Floats = self.by_seed.mean(axis=0)
        return mean


def summarize_ranks(
    label_ranks: Mapping[str, Sequence[LabelRanks]],
    asked: LabelQueries,
    chosen: npt.NDArray[np.bool_] | None = None,
    *,
    ks: Sequence[int] = KS,
    tested: Sequence[str] = TESTED,
    rounds: int = ROUNDS,
    flips: int = FLIPS,
    seed: int = 0,
    values: Mapping[str, Sequence[Floats]] | None = None,
) -> Summary:
    """Means, intervals and tests of all models over the label records in `chosen` (default: all).

    `label_ranks` gives the ranks of each training of each model; `values`, where they are known already, what
    `all_values` makes of them. A model's line depends on `seed` and on its own ranks, not on which other models stand
    beside it.
    """
    chosen = np.ones(len(asked.query), dtype=bool) if chosen is None else chosen
    names = metric_names(ks)
    places = np.flatnonzero(chosen)
    _, start, sizes = np.unique(asked.query[places], return_index=True, return_counts=True)
    values = all_values(label_ranks, ks) if values is None else values
    totals = {name: _totals(runs, places, start, sizes) for name, runs in values.items()}
    resampled = _resampled(totals, rounds, seed)
    ends = _ends(resampled, list(label_ranks))
    standings = [_standing(name, totals[name], ends[name], names, label_ranks[name]) for name in label_ranks]
    wanted = [metric for metric in tested if metric in names]
    return Summary(
        labels=int(chosen.sum()),
        queries=len(start),
        standings=tuple(standings),
        tests=_tests(totals, resampled, names, wanted, flips, seed),
    )


def all_values(label_ranks: Mapping[str, Sequence[LabelRanks]], ks: Sequence[int]) -> dict[str, list[Floats]]:
    """Every metric of every label record, (labels, metrics), for each training of each model."""
    if not all(label_ranks.values()):
        raise ParameterError("each model must have been evaluated at least once")
    return {name: [metric_values(run.higher, run.equal, ks) for run in runs] for name, runs in label_ranks.items()}


def _totals(
    values: Sequence[Floats],
    places: npt.NDArray[np.int64],
    start: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> _Totals:
    """Sums over the labels at `places`; those of a query begin at `start`, and there are `sizes` of them."""
    by_seed = np.zeros((len(values), len(start), values[0].shape[1]))
    for number, of_labels in enumerate(values if len(start) else ()):
        np.add.reduceat(of_labels[places], start, out=by_seed[number])
    return _Totals(by_seed, sizes.astype(np.float64))


def _resampled(totals: Mapping[str, _Totals], rounds: int, seed: int) -> dict[str, Floats]:
    """Means of each model under the same draws of queries, shape (rounds, metrics) each."""
    out: dict[str, Floats] = {}
    single = [name for name, total in totals.items() if len(total.by_seed) == 1]
    if single:
        # one product for all of them: columns side by side
        wide = np.concatenate([totals[name].by_seed for name in single], axis=2)
        means = resampled_means(wide, totals[single[0]].sizes, rounds=rounds, rng=seed)
        out.update(zip(single, np.split(means, len(single), axis=1), strict=True))
    for name in totals.keys() - set(single):
        own = np.random.default_rng([seed, zlib.crc32(name.encode())])
        total = totals[name]
        out[name] = resampled_means(total.by_seed, total.sizes, rounds=rounds, rng=seed, seed_rng=own)
    return out


def _ends(resampled: Mapping[str, Floats], names: Sequence[str]) -> dict[str, tuple[Floats, Floats]]:
    """The ends of the intervals of each model, all found at once."""
    if not names:
        return {}
    low, high = interval(np.concatenate([resampled[name] for name in names], axis=1))
    ends = zip(np.split(low, len(names)), np.split(high, len(names)), strict=True)
    return dict(zip(names, ends, strict=True))


def _standing(
    name: str, total: _Totals, ends: tuple[Floats, Floats], names: Sequence[str], runs: Sequence[LabelRanks]
) -> ModelSummary:
    low, high = ends
    labels = max(total.sizes.sum(), 1.0)
    by_training = total.by_seed.sum(axis=1) / labels  # (seeds, metrics)
    macro = (total.mean / total.sizes[:, None]).mean(axis=0) if len(total.sizes) else np.zeros(len(names))
    several = len(runs) > 1
    spread = by_training.std(axis=0, ddof=1) if several else None
    if not several:
        variance = ONE_SEED
    else:
        variance = SAME_FOR_ALL_SEEDS if all(same_ranks(runs[0], run) for run in runs[1:]) else QUERIES_AND_SEEDS

    def by_name(values: Floats) -> dict[str, float]:
        return dict(zip(names, values.tolist(), strict=True))

    return ModelSummary(
        name=name,
        mean=by_name(by_training.mean(axis=0)),
        low=by_name(low),
        high=by_name(high),
        macro=by_name(macro),
        seeds=len(runs),
        seed_sd=None if spread is None else by_name(spread),
        variance=variance,
    )


def same_ranks(one: LabelRanks, other: LabelRanks) -> bool:
    """Whether two trainings ranked all labels alike."""
    return np.array_equal(one.higher, other.higher) and np.array_equal(one.equal, other.equal)


def _tests(
    totals: Mapping[str, _Totals],
    resampled: Mapping[str, Floats],
    names: Sequence[str],
    metrics: Sequence[str],
    flips: int,
    seed: int,
) -> tuple[PairedTest, ...]:
    """All pairs of models on each metric, under the same sign patterns."""
    pairs = list(combinations(totals, 2))
    if not pairs or not metrics or not len(next(iter(totals.values())).sizes):
        return ()
    labels = next(iter(totals.values())).sizes.sum()
    means = {name: total.mean for name, total in totals.items()}  # (queries, metrics) each
    asked = []
    for metric in metrics:
        column = names.index(metric)
        level = {name: float(mean[:, column].sum()) for name, mean in means.items()}
        asked += [(metric, column, *((a, b) if level[a] >= level[b] else (b, a))) for a, b in pairs]
    per_query = np.stack([means[a][:, c] - means[b][:, c] for _, c, a, b in asked], axis=1)
    low, high = interval(np.stack([resampled[a][:, c] - resampled[b][:, c] for _, c, a, b in asked], axis=1))
    place = {asked_for: number for number, asked_for in enumerate(product(metrics, totals))}
    per_model = np.stack([means[name][:, names.index(metric)] for metric, name in place], axis=1)
    flipped = [(place[metric, a], place[metric, b]) for metric, _, a, b in asked]
    p = sign_flip_p(per_model, flipped, flips=flips, rng=seed)
    corrected = np.concatenate([holm(part) for part in np.split(p, len(metrics))])
    difference = per_query.sum(axis=0) / labels
    lines: list[Any] = [difference.tolist(), low.tolist(), high.tolist(), p.tolist(), corrected.tolist()]
    return tuple(PairedTest(a, b, metric, *line) for (metric, _, a, b), *line in zip(asked, *lines, strict=True))
