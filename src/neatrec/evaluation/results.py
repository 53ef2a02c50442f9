"""`grade`: the answers of all models to one exam as means, intervals, tests, slices and label-free measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from neatrec.evaluation.cart_completion import Completion, completion
from neatrec.evaluation.held_out_lift import HeldOutLift, held_out_lifts
from neatrec.evaluation.intervals import ROUNDS
from neatrec.evaluation.metrics import KS, ceiling, check_ks
from neatrec.evaluation.paired_tests import FLIPS
from neatrec.evaluation.ranks import Judged
from neatrec.evaluation.slices import SliceResult, slicings, summarise_slices
from neatrec.evaluation.summary import Summary, summarise
from neatrec.evaluation.task import TOP, Answers, Exam
from neatrec.models.blas import one_blas_thread
from neatrec.models.parallel import in_parts

LIST_LENGTH = 10
"""How many recommendations coverage and popularity look at, and the k of the slices."""


@dataclass(frozen=True)
class Shown:
    """What a model recommends, whatever the labels say."""

    coverage: float
    """Share of the items sold in training that are recommended to anyone among the first LIST_LENGTH."""
    popularity: float
    """Mean training purchases of what is recommended."""


@dataclass(frozen=True)
class Result:
    """All models at one level on one candidate set."""

    level: float
    candidates: str
    summary: Summary
    ceiling: dict[int, float]
    """The hit rate that a perfect ranking reaches, by k."""
    shown: dict[str, Shown]


@dataclass(frozen=True)
class Grades:
    """Everything that is said about the models."""

    results: tuple[Result, ...]
    slices: dict[str, tuple[SliceResult, ...]]
    """By candidate set, at the first level."""
    held_out: dict[str, HeldOutLift]
    completion: dict[str, Completion]

    def result(self, level: float, candidates: str) -> Result:
        return next(r for r in self.results if r.level == level and r.candidates == candidates)


def grade(
    exam: Exam,
    answers: Mapping[str, Sequence[Answers]],
    *,
    levels: Sequence[float] | None = None,
    ks: Sequence[int] = KS,
    rounds: int = ROUNDS,
    flips: int = FLIPS,
    seed: int = 0,
) -> Grades:
    """Grades of all models; `answers` holds those of each training, the first with the label-free ones."""
    ks = check_ks(ks)
    short = [k for k in ks if k <= TOP]
    levels = exam.labels.levels if levels is None else tuple(levels)
    names = [candidates.name for candidates in exam.candidates]
    results: dict[tuple[float, str], Result] = {}
    slices: dict[str, tuple[SliceResult, ...]] = {}

    def work(part: slice) -> None:
        for name in names[part]:
            for level in levels:
                results[level, name] = _result(exam, answers, level, name, ks, rounds, flips, seed)
            slices[name] = _slices(exam, answers, levels[0], name, rounds, seed)

    # threads of the matrix product wait for work by spinning, beside our own
    with one_blas_thread():
        in_parts(len(names), work)
        return Grades(
            tuple(results[level, name] for level in levels for name in names),
            {name: slices[name] for name in names},
            _held_out(exam, answers, short, rounds, seed),
            {
                name: completion(runs[0].completed, ks=short, rounds=rounds, rng=seed)
                for name, runs in answers.items()
                if runs[0].completed is not None
            },
        )


def _judged(answers: Mapping[str, Sequence[Answers]], candidates: str) -> dict[str, list[Judged]]:
    return {name: [run.judged[candidates] for run in runs] for name, runs in answers.items()}


def _result(
    exam: Exam,
    answers: Mapping[str, Sequence[Answers]],
    level: float,
    candidates: str,
    ks: Sequence[int],
    rounds: int,
    flips: int,
    seed: int,
) -> Result:
    chosen = exam.mask(level)
    judged = _judged(answers, candidates)
    found = next(c for c in exam.candidates if c.name == candidates)
    inside = found.holds(exam.asked.query[chosen], exam.asked.item[chosen])
    rows = np.unique(exam.asked.row[chosen])
    return Result(
        level,
        candidates,
        summarise(judged, exam.asked, chosen, ks=ks, rounds=rounds, flips=flips, seed=seed),
        ceiling(exam.asked.row[chosen], inside, ks),
        {name: _shown(runs, rows, exam) for name, runs in judged.items()},
    )


def _shown(runs: Sequence[Judged], rows: np.ndarray, exam: Exam) -> Shown:
    sold = max(int((exam.purchases > 0).sum()), 1)
    coverage, popularity = [], []
    for run in runs:
        items = run.best[rows, :LIST_LENGTH]
        items = items[items >= 0]
        coverage.append(len(np.unique(items)) / sold)
        popularity.append(float(exam.purchases[items].mean()) if len(items) else 0.0)
    return Shown(float(np.mean(coverage)), float(np.mean(popularity)))


def _slices(
    exam: Exam,
    answers: Mapping[str, Sequence[Answers]],
    level: float,
    candidates: str,
    rounds: int,
    seed: int,
) -> tuple[SliceResult, ...]:
    labels = exam.labels
    masks = {each: labels.at(each) for each in labels.levels}
    cuts = slicings(exam.asked, labels.catalog, exam.purchases, exam.pair_count, masks)
    judged = _judged(answers, candidates)
    return summarise_slices(judged, exam.asked, cuts, exam.mask(level), k=LIST_LENGTH, rounds=rounds, seed=seed)


def _held_out(
    exam: Exam, answers: Mapping[str, Sequence[Answers]], ks: Sequence[int], rounds: int, seed: int
) -> dict[str, HeldOutLift]:
    if exam.held_out is None or not ks:
        return {}
    best = {name: runs[0].held_out for name, runs in answers.items() if runs[0].held_out is not None}
    return held_out_lifts(best, exam.held_out, ks=ks, rounds=rounds, rng=seed)
