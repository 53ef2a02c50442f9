"""`summarize`: the answers of all models to one task as means, intervals, tests, slices and label-free measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from neatrec.evaluation.cart_completion import CartCompletion, completion
from neatrec.evaluation.held_out_lift import HeldOutLift, held_out_lifts
from neatrec.evaluation.intervals import ROUNDS
from neatrec.evaluation.metrics import KS, ceiling, check_ks
from neatrec.evaluation.paired_tests import FLIPS
from neatrec.evaluation.ranks import LabelRanks
from neatrec.evaluation.slices import SliceResult, slicings, summarise_slices
from neatrec.evaluation.summary import Summary, summarize_ranks
from neatrec.evaluation.task import TOP, EvaluationTask, ModelRanks
from neatrec.models.parallel import one_blas_thread, parallel_slices

LIST_LENGTH = 10
"""How many recommendations coverage and popularity look at, and the k of the slices."""


@dataclass(frozen=True)
class ShownTable:
    """What a model recommends, whatever the labels say."""

    coverage: float
    """Share of the items sold in training that are recommended to anyone among the first LIST_LENGTH."""
    popularity: float
    """Mean training purchases of what is recommended."""


@dataclass(frozen=True)
class LevelResult:
    """All models at one level on one candidate set."""

    level: float
    candidates: str
    summary: Summary
    ceiling: dict[int, float]
    """The hit rate that a perfect ranking reaches, by k."""
    shown: dict[str, ShownTable]


@dataclass(frozen=True)
class EvaluationResult:
    """Everything that is said about the models."""

    results: tuple[LevelResult, ...]
    slices: dict[str, tuple[SliceResult, ...]]
    """By candidate set, at the first level."""
    held_out: dict[str, HeldOutLift]
    completion: dict[str, CartCompletion]

    def result(self, level: float, candidates: str) -> LevelResult:
        return next(r for r in self.results if r.level == level and r.candidates == candidates)


def summarize(
    task: EvaluationTask,
    answers: Mapping[str, Sequence[ModelRanks]],
    *,
    levels: Sequence[float] | None = None,
    ks: Sequence[int] = KS,
    rounds: int = ROUNDS,
    flips: int = FLIPS,
    seed: int = 0,
) -> EvaluationResult:
    """EvaluationResult of all models; `answers` holds those of each training, the first with the label-free ones."""
    ks = check_ks(ks)
    short = [k for k in ks if k <= TOP]
    levels = task.labels.levels if levels is None else tuple(levels)
    names = [candidates.name for candidates in task.candidates]
    results: dict[tuple[float, str], LevelResult] = {}
    slices: dict[str, tuple[SliceResult, ...]] = {}

    def work(part: slice) -> None:
        for name in names[part]:
            for level in levels:
                results[level, name] = _result(task, answers, level, name, ks, rounds, flips, seed)
            slices[name] = _slices(task, answers, levels[0], name, rounds, seed)

    # threads of the matrix product wait for work by spinning, beside our own
    with one_blas_thread():
        parallel_slices(len(names), work)
        return EvaluationResult(
            tuple(results[level, name] for level in levels for name in names),
            {name: slices[name] for name in names},
            _held_out(task, answers, short, rounds, seed),
            {
                name: completion(runs[0].completed, ks=short, rounds=rounds, rng=seed)
                for name, runs in answers.items()
                if runs[0].completed is not None
            },
        )


def _judged(answers: Mapping[str, Sequence[ModelRanks]], candidates: str) -> dict[str, list[LabelRanks]]:
    return {name: [run.label_ranks[candidates] for run in runs] for name, runs in answers.items()}


def _result(
    task: EvaluationTask,
    answers: Mapping[str, Sequence[ModelRanks]],
    level: float,
    candidates: str,
    ks: Sequence[int],
    rounds: int,
    flips: int,
    seed: int,
) -> LevelResult:
    chosen = task.mask(level)
    label_ranks = _judged(answers, candidates)
    found = next(c for c in task.candidates if c.name == candidates)
    inside = found.holds(task.asked.query[chosen], task.asked.item[chosen])
    rows = np.unique(task.asked.row[chosen])
    return LevelResult(
        level,
        candidates,
        summarize_ranks(label_ranks, task.asked, chosen, ks=ks, rounds=rounds, flips=flips, seed=seed),
        ceiling(task.asked.row[chosen], inside, ks),
        {name: _shown(runs, rows, task) for name, runs in label_ranks.items()},
    )


def _shown(runs: Sequence[LabelRanks], rows: np.ndarray, task: EvaluationTask) -> ShownTable:
    sold = max(int((task.purchases > 0).sum()), 1)
    coverage, popularity = [], []
    for run in runs:
        items = run.best[rows, :LIST_LENGTH]
        items = items[items >= 0]
        coverage.append(len(np.unique(items)) / sold)
        popularity.append(float(task.purchases[items].mean()) if len(items) else 0.0)
    return ShownTable(float(np.mean(coverage)), float(np.mean(popularity)))


def _slices(
    task: EvaluationTask,
    answers: Mapping[str, Sequence[ModelRanks]],
    level: float,
    candidates: str,
    rounds: int,
    seed: int,
) -> tuple[SliceResult, ...]:
    labels = task.labels
    masks = {each: labels.at(each) for each in labels.levels}
    cuts = slicings(task.asked, labels.catalog, task.purchases, task.pair_count, masks)
    label_ranks = _judged(answers, candidates)
    return summarise_slices(label_ranks, task.asked, cuts, task.mask(level), k=LIST_LENGTH, rounds=rounds, seed=seed)


def _held_out(
    task: EvaluationTask, answers: Mapping[str, Sequence[ModelRanks]], ks: Sequence[int], rounds: int, seed: int
) -> dict[str, HeldOutLift]:
    if task.held_out is None or not ks:
        return {}
    best = {name: runs[0].held_out for name, runs in answers.items() if runs[0].held_out is not None}
    return held_out_lifts(best, task.held_out, ks=ks, rounds=rounds, rng=seed)
