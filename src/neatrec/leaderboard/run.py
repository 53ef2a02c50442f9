"""`run_leaderboard`: every model trained on the same baskets and evaluated by the same task."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from neatrec._version import __version__
from neatrec.cooccurrence import Engine
from neatrec.cooccurrence.strata import parse_strata, usable_strata
from neatrec.data.baskets import Baskets
from neatrec.data.splits import refuse_overlap
from neatrec.data.table_result import TableResult
from neatrec.errors import MissingDependencyError, ResourceError, require_whole
from neatrec.evaluation.intervals import ROUNDS
from neatrec.evaluation.label_free import CARTS, QUERIES
from neatrec.evaluation.summary import Row, same_ranks, summarize
from neatrec.evaluation.task import EvaluationTask, ModelRanks, build_task, evaluate_model
from neatrec.labels import LabelOptions, Labels, make_labels
from neatrec.labels.config import LEVELS, LabelConfig, checked_levels
from neatrec.labels.make import smaller_baskets
from neatrec.leaderboard.model_specs import Models, ModelSpec, model_specs
from neatrec.memory import measured
from neatrec.models import Run
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

FORMAT = 1


@dataclass(frozen=True)
class LeaderboardOptions:
    """Options of the labels, the trainings and the results."""

    protocol: str = "calibrated"
    """Protocol of the labels."""
    levels: tuple[float, ...] = LEVELS
    min_basket: int = LabelOptions.min_basket
    """Smallest basket that labels come from."""
    candidates: int = 200
    """Size of the candidate set: the items bought most often with the query."""
    seeds: int = 1
    """Number of trainings of each model."""
    seed: int = 0
    """Seed of the first training, and of the resampling of the label-free measures."""
    rounds: int = ROUNDS
    """Number of resamplings of the label-free measures."""
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
        object.__setattr__(self, "levels", checked_levels(self.levels))
        object.__setattr__(self, "strata", parse_strata(self.strata))
        minimum = {"min_basket": 2, "candidates": 1, "seeds": 1, "seed": 0, "rounds": 100}
        minimum |= {"queries": 0, "carts": 0}
        for name, least in minimum.items():
            require_whole(name, getattr(self, name), least)

    def to_json(self) -> dict[str, Any]:
        """All options except device and threads."""
        record = asdict(self)
        del record["device"], record["threads"]
        strata = None if self.strata is None else list(self.strata)
        return {**record, "levels": list(self.levels), "strata": strata}


DEFAULT_OPTIONS = LeaderboardOptions()


@dataclass(frozen=True, repr=False)
class Leaderboard(TableResult):
    """The results, and the data that they were computed from."""

    options: LeaderboardOptions
    split: Mapping[str, Any]
    task: EvaluationTask
    table: pa.Table
    """One row per level, candidate set and model, best first."""
    tests: Sequence[Row]
    """The difference of each pair of models by level, candidate set and metric."""
    slices: Sequence[Row]
    """HR@10 of each model on parts of the labels of the first level and candidate set."""
    models: tuple[str, ...]
    """The models that were trained."""
    skipped: Mapping[str, str]
    """Reason by name of a skipped model."""
    seconds: Mapping[str, float]
    """Seconds of each step."""
    advice: str = ""
    """A sentence that suggests how to get more labels, where there are few."""

    def to_arrow(self) -> pa.Table:
        """One row per level, candidate set and model, best first."""
        return self.table

    def first_rows(self) -> list[Row]:
        """The rows of the first level and candidate set."""
        return list(self.table.slice(0, len(self.models)).to_pylist())

    def to_json(self) -> dict[str, Any]:
        """The rows of the table, with options, split and hashes."""
        task, labels = self.task, self.task.labels
        return {
            "format": FORMAT,
            "version": __version__,
            "split": dict(self.split),
            "protocol": labels.protocol,
            "level_kind": labels.level_kind,
            "results": self.table.to_pylist(),
            "skipped": dict(self.skipped),
            "advice": self.advice,
            "seconds": dict(self.seconds),
            "hashes": {"train": task.train_hash, "test": task.test_hash, "labels": labels.hash},
            "options": self.options.to_json(),
        }

    def _caption(self) -> str:
        return f"Leaderboard, protocol {self.options.protocol}"

    def _head(self) -> tuple[pa.Table, int]:
        """The first result, with the measures of lists of ten."""
        shown = ["model", "hr@10", "hr@10_low", "hr@10_high", "ndcg@10", "train_seconds"]
        rows = self.table.slice(0, len(self.models))
        return rows.select([*shown, "level", "candidates", "labels"]), rows.num_rows


def run_leaderboard(
    train: Baskets,
    test: Baskets,
    models: Models | None = None,
    options: LeaderboardOptions = DEFAULT_OPTIONS,
    *,
    labels: Labels | None = None,
    split: Mapping[str, Any] | None = None,
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

    Examples
    --------
    >>> from neatrec import split_baskets, supermarket
    >>> split = split_baskets(supermarket(2_000, 100).baskets)
    >>> options = LeaderboardOptions(levels=(0.05,), queries=0, carts=0)
    >>> board = run_leaderboard(split.train, split.test, ["popco", "llr"], options)
    >>> board.to_arrow()["model"].to_pylist()[0]
    'llr'
    """
    refuse_overlap(train, test)
    clock = [time.perf_counter()]
    if labels is None:
        labels = _make_labels(test, options)
    advice = smaller_baskets(
        test, len(labels), LabelConfig.of(labels), Engine(threads=options.threads)
    )
    options = _of_labels(options, labels, train)
    made = f"{plural(len(labels), 'label')} from {plural(len(test), 'test basket')}"
    log.info("%s (%s protocol)", made, options.protocol)
    sizes = {name: getattr(options, name) for name in ("candidates", "queries", "carts", "seed")}
    task = build_task(train, test, labels, **sizes)
    clock.append(time.perf_counter())
    specs, skipped = model_specs(models, train, options.strata or ())
    ranks: dict[str, list[ModelRanks]] = {}
    costs: dict[str, Row] = {}
    for number, spec in enumerate(specs, start=1):
        try:
            ranks[spec.name], costs[spec.name] = _train(spec, train, task, options)
        except (MissingDependencyError, ResourceError) as error:
            if models is not None:
                raise
            skipped[spec.name] = error.message
        steps = {"done": number, "total": len(specs)}
        log.info("model %d of %d done", number, len(specs), extra=steps)
    clock.append(time.perf_counter())
    statistics = [spec.name for spec in specs if spec.kind == "statistic"]
    results = summarize(
        task, ranks, statistics=statistics, rounds=options.rounds, seed=options.seed
    )
    clock.append(time.perf_counter())
    steps_taken = ("labels and candidates", "training and ranking", "summary")
    return Leaderboard(
        options=options,
        split=split or {},
        task=task,
        table=_table([row | costs[row["model"]] for row in results.models]),
        tests=results.tests,
        slices=results.slices,
        models=tuple(ranks),
        skipped=skipped,
        seconds=dict(zip(steps_taken, np.diff(clock).tolist(), strict=True)),
        advice=advice,
    )


def _make_labels(test: Baskets, options: LeaderboardOptions) -> Labels:
    strata = options.strata if options.protocol == "calibrated" else None
    label_options = LabelOptions(
        options.protocol, options.levels, strata=strata, min_basket=options.min_basket
    )
    return make_labels(test, label_options, engine=Engine(threads=options.threads))


def _of_labels(options: LeaderboardOptions, labels: Labels, train: Baskets) -> LeaderboardOptions:
    """The options with those of the labels, and with the strata of the models."""
    strata = options.strata
    if strata is None:
        strata = () if labels.protocol == "paper" else usable_strata(train, None)
    return replace(
        options,
        protocol=labels.protocol,
        levels=tuple(labels.levels),
        min_basket=labels.options["min_basket"],
        strata=strata,
    )


def _train(
    spec: ModelSpec, train: Baskets, task: EvaluationTask, options: LeaderboardOptions
) -> tuple[list[ModelRanks], Row]:
    """The ranks of one training per seed, and their cost.

    Two trainings are enough where the second gives the same ranks.
    """
    device = options.device
    if device not in ("auto", *spec.devices):
        log.info("%s does not learn on device %s: auto", printable(spec.name), device)
        device = "auto"
    ranks: list[ModelRanks] = []
    fits = []
    for number in range(options.seeds):
        log.info("%s: seed %d", printable(spec.name), options.seed + number)
        run = Run(rng=options.seed + number, device=device, threads=options.threads)
        model = spec.make()
        fits.append(measured(partial(model.fit, train, run)))
        ranks.append(evaluate_model(model, task, label_free=number == 0))
        if number == 1 and _same_ranks(*ranks):
            break
    seconds = sum(fit.seconds for fit in fits) / len(fits)
    peak_mb = max(fit.peak_mb for fit in fits)
    return ranks, {"kind": spec.kind, "train_seconds": seconds, "peak_mb": peak_mb}


def _same_ranks(one: ModelRanks, other: ModelRanks) -> bool:
    return all(
        same_ranks(one.label_ranks[name], other.label_ranks[name]) for name in one.label_ranks
    )


def _table(rows: Sequence[Row]) -> pa.Table:
    """The rows as a table; NaN is null."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table(
        {name: pa.array([row.get(name) for row in rows], from_pandas=True) for name in names}
    )
