"""From ranks to results: means with intervals, paired tests, slices and label-free measures.

Means, intervals and tests depend on ranks and label records only: saved ranks reproduce them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.errors import ParameterError
from neatrec.evaluation.cart_completion import CartCompletion, completion
from neatrec.evaluation.held_out_lift import HeldOutLift, held_out_lifts
from neatrec.evaluation.intervals import ROUNDS, Dyads, Influence, holm, paired_p
from neatrec.evaluation.metrics import KS, ceiling, check_ks, metric_names, metric_values
from neatrec.evaluation.ranks import LabelQueries, LabelRanks, RanksByModel
from neatrec.evaluation.slices import SliceSpec, slicings
from neatrec.evaluation.task import TOP, EvaluationTask, ModelRanks
from neatrec.models.parallel import parallel_slices
from neatrec.statistics.blas import one_blas_thread

Floats = npt.NDArray[np.float64]
LabelMask = npt.NDArray[np.bool_]

TESTED = ("hr@10", "ndcg@10")
"""The metrics of the paired tests, if they are computed."""
LIST_LENGTH = 10
"""Number of answers in coverage and popularity, and the k of the slices."""
ONE_SEED = "the choice of items only: one training seed, so the spread between trainings is missing"
SAME_FOR_ALL_SEEDS = "the choice of items; training does not depend on the seed"
ITEMS_AND_SEEDS = "the choice of items and training seeds"


@dataclass(frozen=True)
class SummaryOptions:
    """List lengths of the metrics, and options of the resampling."""

    ks: tuple[int, ...] = KS
    rounds: int = ROUNDS
    """Number of resamplings of the label-free measures."""
    seed: int = 0
    """Seed of these resamplings."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ks", check_ks(self.ks))


DEFAULT_OPTIONS = SummaryOptions()


@dataclass(frozen=True)
class ModelSummary:
    """The results of one model by name of the metric ("hr@10", "ndcg@10", "mrr", ...)."""

    name: str
    mean: dict[str, float]
    """Means over label records; NaN without labels."""
    low: dict[str, float]
    high: dict[str, float]
    macro: dict[str, float]
    """Means over queries of the mean of each query: a query with many labels counts once."""
    seeds: int
    """Number of trainings."""
    seed_sd: dict[str, float] | None
    """Standard deviation between trainings; None for a single training."""
    variance: str
    """The sources of variation that the intervals cover."""

    def interval(self, metric: str) -> tuple[float, float, float]:
        """The mean and the ends of its interval."""
        return self.mean[metric], self.low[metric], self.high[metric]


@dataclass(frozen=True)
class PairedTest:
    """The difference of two models on the same label records."""

    better: str
    worse: str
    metric: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    """Corrected for all pairs of models on this metric."""


@dataclass(frozen=True)
class Summary:
    """All models on the labels of one level and one candidate set."""

    labels: int
    queries: int
    models: tuple[ModelSummary, ...]
    """In the given order."""
    tests: tuple[PairedTest, ...]

    def by_name(self, name: str) -> ModelSummary:
        """The results of a model."""
        return next(model for model in self.models if model.name == name)


@dataclass(frozen=True)
class _Means:
    """The means of one model over the selected label records."""

    by_training: Floats  # (trainings, metrics)
    macro: Floats  # (metrics,)
    influence: Influence  # of the mean over trainings

    @property
    def mean(self) -> Floats:  # (metrics,)
        mean: Floats = self.by_training.mean(axis=0)
        return mean

    @property
    def training_variance(self) -> Floats:  # (metrics,)
        """The variance of the mean between trainings; 0 for a single training."""
        trainings = len(self.by_training)
        if trainings == 1:
            return np.zeros(len(self.macro))
        return np.asarray(self.by_training.var(axis=0, ddof=1) / trainings)


def summarize_ranks(
    label_ranks: RanksByModel,
    label_queries: LabelQueries,
    selected: LabelMask | None = None,
    options: SummaryOptions = DEFAULT_OPTIONS,
    *,
    tested: Sequence[str] = TESTED,
    values: Mapping[str, Sequence[Floats]] | None = None,
) -> Summary:
    """Means, intervals and tests of all models over the `selected` label records (default: all).

    `values`: the result of `all_values` for `label_ranks`, where known. The results of a model
    depend on its own ranks only.
    """
    selected = np.ones(len(label_queries.query), dtype=bool) if selected is None else selected
    names = metric_names(options.ks)
    query = label_queries.query[selected]
    start = np.flatnonzero(np.diff(query, prepend=-1))
    dyads = Dyads.from_pairs(query, label_queries.item[selected])
    values = all_values(label_ranks, options.ks) if values is None else values
    means = {
        name: _means([run[selected] for run in runs], start, dyads) for name, runs in values.items()
    }
    models = tuple(
        _model_summary(name, means[name], dyads, names, label_ranks[name]) for name in label_ranks
    )
    metrics = [metric for metric in tested if metric in names] if len(start) else []
    return Summary(len(query), len(start), models, _tests(means, dyads, names, metrics))


def all_values(label_ranks: RanksByModel, ks: Sequence[int]) -> dict[str, list[Floats]]:
    """All metrics of each label record, (labels, metrics), for each training of each model."""
    if not all(label_ranks.values()):
        raise ParameterError("each model must have been evaluated at least once")
    return {
        name: [metric_values(run.higher, run.equal, ks) for run in runs]
        for name, runs in label_ranks.items()
    }


def _means(values: Sequence[Floats], start: npt.NDArray[np.int64], dyads: Dyads) -> _Means:
    """The means of `values`, (labels, metrics) by training; labels of a query begin at `start`."""
    of_labels = np.mean(values, axis=0)
    influence = dyads.influence(of_labels)
    if not len(start):
        nothing = np.full(of_labels.shape[1], np.nan)
        return _Means(np.broadcast_to(nothing, (len(values), len(nothing))), nothing, influence)
    sizes = np.diff(start, append=len(of_labels))
    macro: Floats = (np.add.reduceat(of_labels, start) / sizes[:, None]).mean(axis=0)
    return _Means(np.stack([run.mean(axis=0) for run in values]), macro, influence)


def _model_summary(
    name: str, means: _Means, dyads: Dyads, names: Sequence[str], runs: Sequence[LabelRanks]
) -> ModelSummary:
    low, high = dyads.share_interval(means.mean, means.influence.variance + means.training_variance)
    seed_sd, variance = None, ONE_SEED
    if len(runs) > 1:
        spread = means.by_training.std(axis=0, ddof=1)
        seed_sd = dict(zip(names, spread.tolist(), strict=True))
        same = all(same_ranks(runs[0], run) for run in runs[1:])
        variance = SAME_FOR_ALL_SEEDS if same else ITEMS_AND_SEEDS
    mean, lowest, highest, macro = (
        dict(zip(names, values.tolist(), strict=True))
        for values in (means.mean, low, high, means.macro)
    )
    return ModelSummary(name, mean, lowest, highest, macro, len(runs), seed_sd, variance)


def same_ranks(one: LabelRanks, other: LabelRanks) -> bool:
    """Whether two trainings ranked all labels in the same way."""
    return np.array_equal(one.higher, other.higher) and np.array_equal(one.equal, other.equal)


def _tests(
    means: Mapping[str, _Means], dyads: Dyads, names: Sequence[str], metrics: Sequence[str]
) -> tuple[PairedTest, ...]:
    """Paired tests of all models on each metric."""
    pairs = list(combinations(means, 2))
    out: list[PairedTest] = []
    for metric in metrics if pairs else ():
        column = names.index(metric)
        mean = {name: own.mean[column] for name, own in means.items()}
        moved = {name: own.influence.column(column) for name, own in means.items()}
        spread = {name: own.training_variance[column] for name, own in means.items()}
        ordered = [(a, b) if mean[a] >= mean[b] else (b, a) for a, b in pairs]
        difference = np.array([mean[a] - mean[b] for a, b in ordered])
        variance = np.array(
            [(moved[a] - moved[b]).variance + spread[a] + spread[b] for a, b in ordered]
        )
        error = dyads.paired_error(variance)
        p = paired_p(difference, error)
        lines = zip(difference, *dyads.paired_interval(difference, error), p, holm(p), strict=True)
        out += [
            PairedTest(a, b, metric, *map(float, line))
            for (a, b), line in zip(ordered, lines, strict=True)
        ]
    return tuple(out)


@dataclass(frozen=True)
class RecommendationStats:
    """Statistics of the answers of a model, independent of labels."""

    coverage: float
    """Share of the items sold in training among the first LIST_LENGTH answers to any query."""
    popularity: float
    """Mean training purchases of the answers."""


@dataclass(frozen=True)
class LevelResult:
    """All models at one level on one candidate set."""

    level: float
    candidates: str
    summary: Summary
    ceiling: dict[int, float]
    """The hit rate of a perfect ranking, by k."""
    recommended: dict[str, RecommendationStats]
    """Statistics by model."""


@dataclass(frozen=True)
class SliceResult:
    """All models on one slice."""

    by: str
    name: str
    summary: Summary


@dataclass(frozen=True)
class EvaluationResult:
    """All measures of all models."""

    results: tuple[LevelResult, ...]
    slices: dict[str, tuple[SliceResult, ...]]
    """Slices by candidate set, at the first level."""
    held_out: dict[str, HeldOutLift]
    completion: dict[str, CartCompletion]

    def result(self, level: float, candidates: str) -> LevelResult:
        """The result at a level on a candidate set."""
        return next(r for r in self.results if r.level == level and r.candidates == candidates)


def summarize(
    task: EvaluationTask,
    ranks: Mapping[str, Sequence[ModelRanks]],
    options: SummaryOptions = DEFAULT_OPTIONS,
) -> EvaluationResult:
    """Summarize all models; the first of the `ranks` of a model has the label-free measures."""
    levels = task.labels.levels
    names = [candidates.name for candidates in task.candidate_sets]
    results: dict[tuple[float, str], LevelResult] = {}
    slices: dict[str, tuple[SliceResult, ...]] = {}

    def work(part: slice) -> None:
        for name in names[part]:
            label_ranks = {
                model: [run.label_ranks[name] for run in runs] for model, runs in ranks.items()
            }
            for level in levels:
                results[level, name] = _level_result(task, label_ranks, level, name, options)
            slices[name] = _slices(task, label_ranks, levels[0])

    # threads of the matrix product would spin while our own threads work
    with one_blas_thread():
        parallel_slices(len(names), work)
        return EvaluationResult(
            tuple(results[level, name] for level in levels for name in names),
            {name: slices[name] for name in names},
            *_label_free(task, {model: runs[0] for model, runs in ranks.items()}, options),
        )


def _level_result(
    task: EvaluationTask,
    label_ranks: RanksByModel,
    level: float,
    candidates: str,
    options: SummaryOptions,
) -> LevelResult:
    selected = task.labels.at(level)
    queries = task.label_queries
    candidate_set = next(each for each in task.candidate_sets if each.name == candidates)
    is_candidate = candidate_set.holds(queries.query[selected], queries.item[selected])
    rows = np.unique(queries.row[selected])
    return LevelResult(
        level,
        candidates,
        summarize_ranks(label_ranks, queries, selected, options),
        ceiling(queries.row[selected], is_candidate, options.ks),
        {name: _recommendation_stats(runs, rows, task) for name, runs in label_ranks.items()},
    )


def _recommendation_stats(
    runs: Sequence[LabelRanks], rows: np.ndarray, task: EvaluationTask
) -> RecommendationStats:
    sold = max(int((task.purchases > 0).sum()), 1)
    coverage, popularity = [], []
    for run in runs:
        items = run.best[rows, :LIST_LENGTH]
        items = items[items >= 0]
        coverage.append(len(np.unique(items)) / sold)
        popularity.append(float(task.purchases[items].mean()) if len(items) else 0.0)
    return RecommendationStats(float(np.mean(coverage)), float(np.mean(popularity)))


def _slices(
    task: EvaluationTask, label_ranks: RanksByModel, level: float
) -> tuple[SliceResult, ...]:
    labels = task.labels
    masks = {each: labels.at(each) for each in labels.levels}
    cuts = slicings(task.label_queries, labels.catalog, task.purchases, task.pair_count, masks)
    return summarize_slices(label_ranks, task.label_queries, cuts, task.labels.at(level))


def summarize_slices(
    label_ranks: RanksByModel,
    label_queries: LabelQueries,
    cuts: Sequence[SliceSpec],
    selected: LabelMask,
) -> tuple[SliceResult, ...]:
    """Means and intervals at LIST_LENGTH of all models on each slice with label records."""
    own = SummaryOptions((LIST_LENGTH,))
    values = all_values(label_ranks, own.ks)
    out = []
    for cut in cuts:
        for code, name in enumerate(cut.names):
            part = selected & (cut.code == code)
            if part.any():
                summary = summarize_ranks(
                    label_ranks, label_queries, part, own, tested=(), values=values
                )
                out.append(SliceResult(cut.by, name, summary))
    return tuple(out)


def _label_free(
    task: EvaluationTask, ranks: Mapping[str, ModelRanks], options: SummaryOptions
) -> tuple[dict[str, HeldOutLift], dict[str, CartCompletion]]:
    """Held-out lift and cart completion by model, for list lengths up to TOP."""
    how: dict[str, Any] = {
        "ks": [k for k in options.ks if k <= TOP],
        "rounds": options.rounds,
        "rng": options.seed,
    }
    lifts: dict[str, HeldOutLift] = {}
    if task.held_out is not None and how["ks"]:
        best = {name: run.held_out for name, run in ranks.items() if run.held_out is not None}
        lifts = held_out_lifts(best, task.held_out, **how)
    hidden, completed = task.hidden_items, {name: run.cart_answers for name, run in ranks.items()}
    return lifts, {
        name: completion(answers, hidden, **how)
        for name, answers in completed.items()
        if answers is not None and hidden is not None
    }
