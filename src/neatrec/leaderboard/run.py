"""`run_leaderboard`: every model trained on the same baskets and evaluated by the same task."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from neatrec._version import __version__
from neatrec.cooccurrence import Engine
from neatrec.cooccurrence.strata import parse_strata, usable_strata
from neatrec.data.baskets import Baskets
from neatrec.data.splits import refuse_overlap
from neatrec.data.table_result import TableResult
from neatrec.errors import MissingDependencyError, ResourceError, require_whole
from neatrec.evaluation.cart_completion import CARTS
from neatrec.evaluation.held_out_lift import QUERIES
from neatrec.evaluation.summary import EvaluationResult, SummaryOptions, same_ranks, summarize
from neatrec.evaluation.task import (
    EvaluationTask,
    ModelRanks,
    add_label_free,
    build_task,
    evaluate_model,
)
from neatrec.labels import LabelOptions, Labels, make_labels
from neatrec.labels.config import LabelConfig, checked_levels
from neatrec.labels.make import smaller_baskets
from neatrec.leaderboard.model_specs import Models, ModelSpec, model_specs
from neatrec.leaderboard.table import results_table
from neatrec.models import Run
from neatrec.models.parallel import thread_limit
from neatrec.text import plural, printable
from neatrec.training.measure import measured

log = logging.getLogger(__name__)

LEVELS = (0.05, 0.01, 0.001)
FORMAT = 1


@dataclass(frozen=True)
class LeaderboardOptions(SummaryOptions):
    """Options of the labels, the trainings and the results."""

    protocol: str = "calibrated"
    """Protocol of the labels."""
    levels: tuple[float, ...] = LEVELS
    min_basket: int = LabelOptions.min_basket
    """Smallest basket that labels come from."""
    candidates: int = 200
    """Size of the candidate set: the items bought most often with the query."""
    seeds: int = 1
    """Trainings of each model; `seed` is that of the first one and of label-free intervals."""
    queries: int = QUERIES
    """Number of best sellers for the held-out lift; 0: no held-out lift."""
    carts: int = CARTS
    """Number of test baskets for cart completion; 0: no cart completion."""
    device: str = "auto"
    """Device of trainings and ranks: auto, cpu or gpu."""
    strata: tuple[str, ...] | None = None
    """Strata of calibrated labels, and of models that compare counts with chance. None: those of
    `train` by default; no strata with the paper's protocol."""
    threads: int | None = None
    """Number of threads; None: all cores."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "levels", checked_levels(self.levels))
        object.__setattr__(self, "strata", parse_strata(self.strata))
        minimum = {
            "min_basket": 2,
            "candidates": 1,
            "seeds": 1,
            "seed": 0,
            "queries": 0,
            "carts": 0,
            "rounds": 100,
        }
        for name, least in minimum.items():
            require_whole(name, getattr(self, name), least)

    @property
    def task_options(self) -> dict[str, int]:
        """What decides the task in addition to baskets and labels."""
        return {
            "candidates": self.candidates,
            "queries": self.queries,
            "carts": self.carts,
            "seed": self.seed,
        }

    def to_json(self) -> dict[str, Any]:
        """All options except device and threads."""
        record = {
            name: value for name, value in asdict(self).items() if name not in ("device", "threads")
        }
        strata = None if self.strata is None else list(self.strata)
        return {**record, "levels": list(self.levels), "ks": list(self.ks), "strata": strata}


DEFAULT_OPTIONS = LeaderboardOptions()


@dataclass(frozen=True)
class TrainingResult:
    """The ranks of one training of one model with one seed, and its cost."""

    ranks: ModelRanks
    train_seconds: float
    peak_mb: float | None
    rank_seconds: float
    """Seconds for the ranks of the labels."""
    label_free_seconds: float
    """Seconds for the measures that need no labels."""


@dataclass(frozen=True, repr=False)
class Leaderboard(TableResult):
    """The results, and the data that they were computed from."""

    options: LeaderboardOptions
    split: Mapping[str, Any]
    model_specs: tuple[ModelSpec, ...]
    skipped: Mapping[str, str]
    """Reason by name of a skipped model."""
    task: EvaluationTask
    trainings: Mapping[str, Sequence[TrainingResult]]
    evaluation: EvaluationResult
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step."""
    advice: str = ""
    """A sentence that suggests how to get more labels, where there are few."""

    def to_arrow(self) -> pa.Table:
        """One row per level, candidate set and model, best first.

        Console and JSON are views of this table.
        """
        about = {}
        for spec in self.model_specs:
            seconds, peak_mb = self.cost(spec.name)
            about[spec.name] = {"kind": spec.kind, "train_seconds": seconds, "peak_mb": peak_mb}
        return results_table(self.evaluation, about)

    def to_json(self) -> dict[str, Any]:
        """The rows of the table, with options, split and hashes."""
        labels = self.task.labels
        return {
            "format": FORMAT,
            "version": __version__,
            "split": dict(self.split),
            "protocol": labels.protocol,
            "level_kind": labels.level_kind,
            "results": self.to_arrow().to_pylist(),
            "skipped": dict(self.skipped),
            "advice": self.advice,
            "seconds": dict(self.seconds),
            "hashes": {
                "train": self.task.train_hash,
                "test": self.task.test_hash,
                "labels": labels.hash,
            },
            "options": self.options.to_json(),
        }

    def cost(self, model: str) -> tuple[float, float | None]:
        """Mean seconds of the trainings of a model, and their largest memory in MB where known."""
        runs = self.trainings[model]
        peaks = [run.peak_mb for run in runs if run.peak_mb is not None]
        return sum(run.train_seconds for run in runs) / len(runs), max(peaks, default=None)

    def _caption(self) -> str:
        return f"Leaderboard, protocol {self.options.protocol}"

    def _head(self) -> tuple[pa.Table, int]:
        """The first result, with the measures of lists of ten."""
        rows = self.to_arrow()
        k = 10 if 10 in self.options.ks else self.options.ks[-1]
        shown = ["model", f"hr@{k}", f"hr@{k}_low", f"hr@{k}_high", f"ndcg@{k}", "train_seconds"]
        first = rows.slice(0, len(self.model_specs))
        return first.select([*shown, "level", "candidates", "labels"]), first.num_rows


def run_leaderboard(
    train: Baskets,
    test: Baskets,
    models: Models | None = None,
    options: LeaderboardOptions = DEFAULT_OPTIONS,
    *,
    labels: Labels | None = None,
    split: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Leaderboard:
    """Train every model on `train` and evaluate it on `test`, which must not share a basket.

    Parameters
    ----------
    train, test
        Baskets of the two sides.
    models
        Names, `name@preset`, addresses `pkg.mod:Class` or `Model` objects, or a mapping from the
        name of a row to one of these. None: all models of neatrec.
    options
        Labels, candidates, levels and trainings.
    labels
        Labels that come from `test`; None: made by the options.
    split
        Name and options of the split, for the record.
    progress
        Called with a line per step.

    Examples
    --------
    >>> from neatrec import split_baskets, supermarket
    >>> split = split_baskets(supermarket(2_000, 100).baskets)
    >>> options = LeaderboardOptions(levels=(0.05,), queries=0, carts=0)
    >>> board = run_leaderboard(split.train, split.test, ["popco", "llr"], options)
    >>> board.to_arrow()["model"].to_pylist()[0]
    'llr'
    """
    if labels is not None:
        shortest = labels.options["min_basket"]
        options = replace(
            options, protocol=labels.protocol, levels=tuple(labels.levels), min_basket=shortest
        )
    report = progress or log.info
    refuse_overlap(train, test)
    task, advice, seconds = _prepare(train, test, labels, options, report)
    if options.strata is None:
        strata = () if options.protocol == "paper" else usable_strata(train, None)
        options = replace(options, strata=strata)
    specs, skipped = model_specs(models, train, options.strata or ())
    with thread_limit(options.threads):
        trainings: dict[str, list[TrainingResult]] = {}
        for number, spec in enumerate(specs, start=1):
            try:
                trainings[spec.name] = _trainings(spec, train, task, options, report)
            except (MissingDependencyError, ResourceError) as error:
                if models is not None:
                    raise
                skipped[spec.name] = error.message
            steps = {"done": number, "total": len(specs)}
            log.info("model %d of %d done", number, len(specs), extra=steps)
        ranks = {name: [training.ranks for training in runs] for name, runs in trainings.items()}
        summary = measured(lambda: summarize(task, ranks, options))
    specs = tuple(spec for spec in specs if spec.name in trainings)
    done = [training for runs in trainings.values() for training in runs]
    seconds |= {
        "training": sum(training.train_seconds for training in done),
        "ranking": sum(training.rank_seconds for training in done),
        "label-free measures": sum(training.label_free_seconds for training in done),
        "summary": summary.seconds,
    }
    return Leaderboard(
        options, split or {}, specs, skipped, task, trainings, summary.result, seconds, advice
    )


def _prepare(
    train: Baskets,
    test: Baskets,
    labels: Labels | None,
    options: LeaderboardOptions,
    report: Callable[[str], None],
) -> tuple[EvaluationTask, str, dict[str, float]]:
    """The task, advice on how to get more labels, and the seconds of labels and task."""
    start, engine = time.perf_counter(), Engine(threads=options.threads)
    if labels is None:
        strata = options.strata if options.protocol == "calibrated" else None
        how = LabelOptions(
            options.protocol, options.levels, strata=strata, min_basket=options.min_basket
        )
        labels = make_labels(test, how, engine=engine)
    advice = smaller_baskets(test, len(labels), LabelConfig.of(labels), engine)
    labelled = time.perf_counter()
    report(
        f"{plural(len(labels), 'label')} from {plural(len(test), 'test basket')} "
        f"({options.protocol} protocol)"
    )
    task = build_task(train, test, labels, **options.task_options)
    return task, advice, {"labels": labelled - start, "task": time.perf_counter() - labelled}


def _trainings(
    spec: ModelSpec,
    train: Baskets,
    task: EvaluationTask,
    options: LeaderboardOptions,
    report: Callable[[str], None],
) -> list[TrainingResult]:
    """One training per seed; two are enough where the second gives the same ranks."""
    done: list[TrainingResult] = []
    device = _device_of(spec, options.device, report)
    for number in range(options.seeds):
        report(f"{printable(spec.name)}: seed {options.seed + number}")
        run = Run(rng=options.seed + number, device=device, threads=options.threads)
        done.append(_training(spec, train, task, run, label_free=number == 0))
        if number == 1 and _same_ranks(done[0], done[1]):
            break
    return done


def _device_of(spec: ModelSpec, device: str, report: Callable[[str], None]) -> str:
    """The device of the options, or `auto` for a model that cannot be trained there."""
    if device in ("auto", *spec.devices):
        return device
    report(f"{printable(spec.name)} does not learn on device {device}: auto")
    return "auto"


def _training(
    spec: ModelSpec, train: Baskets, task: EvaluationTask, run: Run, *, label_free: bool
) -> TrainingResult:
    model = spec.make()
    fitted = measured(lambda: model.fit(train, run))
    ranked = measured(lambda: evaluate_model(model, task, label_free=False))
    if not label_free:
        return TrainingResult(ranked.result, fitted.seconds, fitted.peak_mb, ranked.seconds, 0.0)
    free = measured(lambda: add_label_free(model, task, ranked.result))
    return TrainingResult(free.result, fitted.seconds, fitted.peak_mb, ranked.seconds, free.seconds)


def _same_ranks(one: TrainingResult, other: TrainingResult) -> bool:
    both = one.ranks.label_ranks, other.ranks.label_ranks
    return all(same_ranks(both[0][name], both[1][name]) for name in both[0])
