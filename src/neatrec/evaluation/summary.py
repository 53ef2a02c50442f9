"""From ranks to rows of results: means with intervals, paired tests, slices, label-free measures.

Means, intervals and tests depend on ranks and label records only: saved ranks reproduce them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.evaluation.candidates import Candidates, Numbers
from neatrec.evaluation.intervals import ROUNDS, Dyads, Influence, holm, paired_p, with_ends
from neatrec.evaluation.label_free import cart_completion, held_out_lift
from neatrec.evaluation.metrics import METRICS, ceiling, metric_values
from neatrec.evaluation.ranks import LabelQueries, LabelRanks
from neatrec.evaluation.task import EvaluationTask, ModelRanks
from neatrec.memory import one_blas_thread

Floats = npt.NDArray[np.float64]
LabelMask = npt.NDArray[np.bool_]
Row = dict[str, Any]
RanksByModel = Mapping[str, Sequence[LabelRanks]]
"""The ranks of each training of each model."""

MAIN, TESTED = "hr@10", ("hr@10", "ndcg@10")
"""The metric that models are sorted by, and those of the paired tests."""
LIST_LENGTH = 10
"""Number of answers in coverage and popularity."""
DECILES = 10
SEEN = {"0": 0, "1": 1, "2-4": 2, "5+": 5}
"""Slices of the count of a pair in training: name and lowest count."""
ONE_SEED = "the choice of items only: one training seed, so the spread between trainings is missing"
SAME_FOR_ALL_SEEDS = "the choice of items; training does not depend on the seed"
ITEMS_AND_SEEDS = "the choice of items and training seeds"


@dataclass(frozen=True)
class Results:
    """All measures of all models."""

    models: list[Row]
    """One row per level, candidate set and model, best first."""
    tests: list[Row]
    """The difference of each pair of models by metric, level and candidate set."""
    slices: list[Row]
    """HR@10 of each model on parts of the labels of the first level and candidate set."""


class _Means(NamedTuple):
    """The means of one model over the selected label records."""

    by_training: Floats  # (trainings, metrics)
    macro: Floats  # (metrics,), means over queries: a query with many labels counts once
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


def summarize(
    task: EvaluationTask,
    ranks: Mapping[str, Sequence[ModelRanks]],
    *,
    statistics: Collection[str] = (),
    rounds: int = ROUNDS,
    seed: int = 0,
) -> Results:
    """Summarize all models; the first of the `ranks` of a model has the label-free measures.

    Models are compared with the best of the `statistics`; `rounds` and `seed` belong to the
    resampling of the label-free measures.
    """
    rows: list[Row] = []
    tests: list[Row] = []
    parts: list[Row] = []
    # threads of the matrix product would spin while our own threads work
    with one_blas_thread():
        for level in task.labels.levels:
            for candidates in task.candidate_sets:
                of_set = {
                    name: [run.label_ranks[candidates.name] for run in runs]
                    for name, runs in ranks.items()
                }
                models, compared = _level(task, of_set, level, candidates, statistics)
                parts = parts or list(_slices(task, of_set, level))
                rows += sorted(models, key=_order)
                tests += compared
        for row in rows[: len(ranks)]:
            row.update(_label_free(task, ranks[row["model"]][0], rounds, seed))
    return Results(rows, tests, parts)


def _level(
    task: EvaluationTask,
    label_ranks: RanksByModel,
    level: float,
    candidates: Candidates,
    statistics: Collection[str],
) -> tuple[list[Row], list[Row]]:
    """All models, and their tests, at one level on one candidate set."""
    selected, queries = task.labels.at(level), task.label_queries
    query_row = queries.row[selected]
    asked = np.unique(query_row)
    rows, tests = compare_models(label_ranks, queries, selected)
    # the item of a label is equal to itself, if it is a candidate
    is_candidate = next(iter(label_ranks.values()))[0].equal[selected] > 0
    best = {f"best_possible_hr@{k}": share for k, share in ceiling(query_row, is_candidate).items()}
    for row in rows:
        row.update(best | _recommended(label_ranks[row["model"]], asked, task.purchases))
    _add_best_statistic(rows, tests, statistics)
    about = {"level": level, "candidates": candidates.name}
    return [about | row for row in rows], [about | test for test in tests]


def compare_models(
    label_ranks: RanksByModel, label_queries: LabelQueries, selected: LabelMask | None = None
) -> tuple[list[Row], list[Row]]:
    """A row of means with intervals per model, and a paired test per pair of models and metric.

    Over the `selected` label records (default: all). A model's row depends on its own ranks only.
    """
    part = slice(None) if selected is None else selected
    query = label_queries.query[part]
    start = np.flatnonzero(np.diff(query, prepend=-1))
    dyads = Dyads.from_pairs(query, label_queries.item[part])
    means: dict[str, _Means] = {}
    rows: list[Row] = []
    for name, runs in label_ranks.items():
        values = [metric_values(run.higher[part], run.equal[part]) for run in runs]
        means[name] = own = _means(values, start, dyads)
        variance = own.influence.variance + own.training_variance
        row: Row = {"model": name, "labels": len(query), "queries": len(start)}
        row |= with_ends(METRICS, own.mean, *dyads.share_interval(own.mean, variance))
        row |= {
            f"{metric}_by_query": mean
            for metric, mean in zip(METRICS, own.macro.tolist(), strict=True)
        }
        rows.append(row | _seeds(runs, own.by_training))
    return rows, _tests(means, dyads) if len(start) else []


def _means(values: Sequence[Floats], start: Numbers, dyads: Dyads) -> _Means:
    """The means of `values`, (labels, metrics) by training; labels of a query begin at `start`."""
    of_labels = np.mean(values, axis=0)
    influence = dyads.influence(of_labels)
    if not len(start):
        nothing = np.full((len(values), len(METRICS)), np.nan)
        return _Means(nothing, nothing[0], influence)
    sizes = np.diff(start, append=len(of_labels))
    macro: Floats = (np.add.reduceat(of_labels, start) / sizes[:, None]).mean(axis=0)
    return _Means(np.stack([run.mean(axis=0) for run in values]), macro, influence)


def _seeds(runs: Sequence[LabelRanks], by_training: Floats) -> Row:
    """Spread and number of the trainings, and the sources of variation in the intervals."""
    sd, variance = [None] * len(METRICS), ONE_SEED
    if len(runs) > 1:
        sd = by_training.std(axis=0, ddof=1).tolist()
        same = all(same_ranks(runs[0], run) for run in runs[1:])
        variance = SAME_FOR_ALL_SEEDS if same else ITEMS_AND_SEEDS
    row: Row = {f"{metric}_sd": spread for metric, spread in zip(METRICS, sd, strict=True)}
    return {**row, "seeds": len(runs), "intervals_cover": variance}


def same_ranks(one: LabelRanks, other: LabelRanks) -> bool:
    """Whether two trainings ranked all labels in the same way."""
    return np.array_equal(one.higher, other.higher) and np.array_equal(one.equal, other.equal)


def _tests(means: Mapping[str, _Means], dyads: Dyads) -> list[Row]:
    """Paired tests of all models on each metric, with Holm's correction for all pairs."""
    out: list[Row] = []
    for metric in TESTED if len(means) > 1 else ():
        column = METRICS.index(metric)
        mean = {name: own.mean[column] for name, own in means.items()}
        moved = {name: own.influence.column(column) for name, own in means.items()}
        spread = {name: own.training_variance[column] for name, own in means.items()}
        pairs = [(a, b) if mean[a] >= mean[b] else (b, a) for a, b in combinations(means, 2)]
        difference = np.array([mean[a] - mean[b] for a, b in pairs])
        variance = [(moved[a] - moved[b]).variance + spread[a] + spread[b] for a, b in pairs]
        error = dyads.paired_error(np.array(variance))
        p = paired_p(difference, error)
        names = ("difference", "difference_low", "difference_high", "p", "p_holm")
        columns = difference, *dyads.paired_interval(difference, error), p, holm(p)
        for (better, worse), *numbers in zip(pairs, *columns, strict=True):
            row: Row = {"metric": metric, "better": better, "worse": worse}
            out.append(row | dict(zip(names, map(float, numbers), strict=True)))
    return out


def _recommended(runs: Sequence[LabelRanks], asked: Numbers, purchases: Numbers) -> Row:
    """Share of the sold items among the answers to the queries, and their mean purchases."""
    sold = max(int((purchases > 0).sum()), 1)
    coverage, popularity = [], []
    for run in runs:
        items = run.best[asked, :LIST_LENGTH]
        items = items[items >= 0]
        coverage.append(len(np.unique(items)) / sold)
        popularity.append(float(purchases[items].mean()) if len(items) else 0.0)
    return {"coverage": float(np.mean(coverage)), "popularity": float(np.mean(popularity))}


def _add_best_statistic(
    rows: Sequence[Row], tests: Sequence[Row], statistics: Collection[str]
) -> None:
    """Name the statistic with the highest HR@10, and the difference of each model to it."""
    means = {row["model"]: row[MAIN] for row in rows if row["model"] in statistics}
    best = max(means, key=lambda name: means[name]) if means and rows[0]["labels"] else None
    for row in rows:
        test = find_test(tests, row["model"], best)
        over: list[float | None] = [None] * 4
        if test is not None:
            sign = 1 if test["better"] == row["model"] else -1
            ends = sorted([sign * test["difference_low"], sign * test["difference_high"]])
            over = [sign * test["difference"], *ends, test["p_holm"]]
        names = (f"over_statistic{end}" for end in ("", "_low", "_high", "_p"))
        row.update({"best_statistic": best, **dict(zip(names, over, strict=True))})


def find_test(
    tests: Iterable[Mapping[str, Any]], one: str, other: str | None
) -> Mapping[str, Any] | None:
    """The test of two models on the main metric."""
    of_main = (test for test in tests if test["metric"] == MAIN)
    return next((test for test in of_main if {test["better"], test["worse"]} == {one, other}), None)


def _order(row: Row) -> tuple[float, float, str]:
    """Sort key: best first, equal models by name; without labels by name."""
    hr, ndcg = (0.0 if math.isnan(row[metric]) else row[metric] for metric in TESTED)
    return -hr, -ndcg, row["model"]


def _label_free(task: EvaluationTask, ranks: ModelRanks, rounds: int, seed: int) -> Row:
    """Held-out lift and cart completion of a model."""
    row: Row = {}
    if ranks.held_out is not None and task.held_out is not None:
        row |= held_out_lift(ranks.held_out, task.held_out, rounds=rounds, rng=seed)
    if ranks.cart_answers is not None and task.hidden_items is not None:
        row |= cart_completion(ranks.cart_answers, task.hidden_items, rounds=rounds, rng=seed)
    return row


# ---- slices


class Slice(NamedTuple):
    """A part of the label records."""

    by: str
    part: str
    selected: LabelMask


def _slices(task: EvaluationTask, label_ranks: RanksByModel, level: float) -> Iterator[Row]:
    """HR@10 of all models on each slice with label records."""
    selected = task.labels.at(level)
    for cut in slices(task):
        part = selected & cut.selected
        for row in compare_models(label_ranks, task.label_queries, part)[0] if part.any() else ():
            kept = ("model", "labels", "queries", MAIN, f"{MAIN}_low", f"{MAIN}_high")
            yield {"by": cut.by, "part": cut.part, **{name: row[name] for name in kept}}


def slices(task: EvaluationTask) -> Iterator[Slice]:
    """Label records by popularity, category, strength and count in training."""
    queries, labels = task.label_queries, task.labels
    yield from by_decile("query popularity", task.purchases[queries.query])
    yield from by_decile("item popularity", task.purchases[queries.item])
    yield from by_category(queries, labels.catalog)
    yield from by_strength({level: labels.at(level) for level in labels.levels})
    yield from by_pair_count(task.pair_count)


def by_decile(by: str, purchases: Numbers) -> Iterator[Slice]:
    """Ten slices with similar numbers of records, least bought first; fewer with many ties.

    >>> [part.part for part in by_decile("query popularity", np.array([5, 5, 5, 9]))]
    ['5', '9']
    """
    if not len(purchases):
        return
    shares = np.linspace(0, 1, DECILES + 1)[1:-1]
    edges = np.unique(np.quantile(purchases, shares, method="lower"))
    code = np.searchsorted(edges, purchases, side="left")
    for number in np.unique(code):
        selected = code == number
        low, high = int(purchases[selected].min()), int(purchases[selected].max())
        yield Slice(by, f"{low}-{high}" if low != high else str(low), selected)


def by_category(label_queries: LabelQueries, catalog: Catalog) -> Iterator[Slice]:
    """Slices by the query's category at the top level, as in the paper's department table."""
    if not catalog.levels:
        yield Slice("category", "all", np.ones(len(label_queries.query), dtype=bool))
        return
    category = catalog.category_of(catalog.levels[0])[label_queries.query]
    for code in np.unique(category):
        name = "unknown" if code == UNKNOWN else catalog.category_names[0][code]
        yield Slice("category", name, category == code)


def by_strength(levels: Mapping[float, LabelMask]) -> Iterator[Slice]:
    """Slices by the strictest level that a label passes, strongest first."""
    first, *others = sorted(levels)
    yield Slice("label strength", f"up to {first:g}", levels[first])
    for stricter, level in pairwise([first, *others]):
        part = levels[level] & ~levels[stricter]
        yield Slice("label strength", f"{stricter:g} to {level:g}", part)


def by_pair_count(pair_count: Numbers) -> Iterator[Slice]:
    """Slices by the count of the pair in training.

    >>> [int(part.selected.sum()) for part in by_pair_count(np.array([0, 3, 7, 9]))]
    [1, 0, 1, 2]
    """
    code = np.searchsorted(list(SEEN.values()), pair_count, side="right") - 1
    for number, name in enumerate(SEEN):
        yield Slice("times seen in training", name, code == number)
