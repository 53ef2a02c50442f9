"""`run_leaderboard`: every model trained on the same baskets and evaluated by the same questions."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.data.baskets import Baskets
from neatrec.data.splits import refuse_overlap
from neatrec.errors import MissingDependencyError, must_be
from neatrec.evaluation.cart_completion import CARTS
from neatrec.evaluation.held_out_lift import QUERIES
from neatrec.evaluation.intervals import ROUNDS
from neatrec.evaluation.metrics import KS, check_ks
from neatrec.evaluation.paired_tests import FLIPS
from neatrec.evaluation.results import EvaluationResult, summarize
from neatrec.evaluation.summary import same_ranks
from neatrec.evaluation.tables import best_table, ranks_table
from neatrec.evaluation.task import EvaluationTask, build_task
from neatrec.labels import Labels, make_labels
from neatrec.leaderboard.model_specs import Models, ModelSpec, model_specs
from neatrec.leaderboard.result_cache import ResultCache, TrainingResult, fit_and_evaluate, task_key
from neatrec.leaderboard.results_json import leaderboard_json, write_json
from neatrec.models import Run
from neatrec.models.parallel import thread_limit
from neatrec.text import plural, printable
from neatrec.training.measure import measured

log = logging.getLogger(__name__)

LEVELS = (0.05, 0.01, 0.001)


@dataclass(frozen=True)
class LeaderboardOptions:
    """What was asked, as the JSON records it."""

    protocol: str = "calibrated"
    levels: tuple[float, ...] = LEVELS
    recall: int = 200
    ks: tuple[int, ...] = KS
    seeds: int = 1
    """Trainings of each model."""
    seed: int = 0
    """Seed of the first training, of the intervals and of the tests."""
    rounds: int = ROUNDS
    """Resamplings of an interval."""
    flips: int = FLIPS
    """Sign patterns of a test."""
    queries: int = QUERIES
    """Best sellers asked for the held-out lift; 0 leaves it out."""
    carts: int = CARTS
    """Test baskets to complete; 0 leaves it out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ks", check_ks(self.ks))
        object.__setattr__(self, "levels", tuple(float(level) for level in self.levels))
        for name, least in (("recall", 1), ("seeds", 1), ("seed", 0), ("flips", 1), ("queries", 0), ("carts", 0)):
            _whole(name, getattr(self, name), least)
        _whole("rounds", self.rounds, 100)

    @property
    def questions(self) -> dict[str, int]:
        """What decides the task beside baskets and labels."""
        return {"recall": self.recall, "queries": self.queries, "carts": self.carts, "seed": self.seed}


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise must_be(name, f"a whole number of at least {least}", value)


@dataclass(frozen=True)
class LeaderboardResult:
    """The table, and everything it was made from."""

    options: LeaderboardOptions
    split: Mapping[str, Any]
    model_specs: tuple[ModelSpec, ...]
    skipped: Mapping[str, str]
    """Models that were left out, with the reason."""
    task: EvaluationTask
    trainings: Mapping[str, Sequence[TrainingResult]]
    evaluation: EvaluationResult
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What labels, questions, training, judging, label-free measures and grading took; for what was found, then."""

    def to_json(self) -> dict[str, Any]:
        """The answer as `--json` prints it."""
        return leaderboard_json(self)

    def ranks(self) -> pa.Table:
        """What each training did with each label record, on every candidate set."""
        return self._tables(ranks_table)

    def recommended(self) -> pa.Table:
        """What each training recommends for each query of the labels, on every candidate set."""
        return self._tables(best_table)

    def _tables(self, make: Callable[..., pa.Table]) -> pa.Table:
        parts = []
        for candidates in self.task.candidates:
            label_ranks = {
                name: [t.answers.label_ranks[candidates.name] for t in runs] for name, runs in self.trainings.items()
            }
            parts.append(make(label_ranks, self.task.asked, self.task.labels.catalog, candidates.name))
        return pa.concat_tables(parts)

    def write(self, folder: str | Path) -> None:
        """`leaderboard.json`, `labels.parquet`, `ranks.parquet` and `recommended.parquet` in `folder`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tables = {"labels": self.task.labels.table(), "ranks": self.ranks(), "recommended": self.recommended()}
        for name, table in tables.items():
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        write_json(folder / "leaderboard.json", self.to_json())


def run_leaderboard(
    train: Baskets,
    test: Baskets,
    models: Models | None = None,
    *,
    protocol: str = "calibrated",
    levels: Sequence[float] = LEVELS,
    recall: int = 200,
    ks: Sequence[int] = KS,
    seeds: int = 1,
    seed: int = 0,
    scores: Mapping[str, str | Path] | None = None,
    labels: Labels | None = None,
    split: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    threads: int | None = None,
    rounds: int = ROUNDS,
    flips: int = FLIPS,
    queries: int = QUERIES,
    carts: int = CARTS,
    progress: Callable[[str], None] | None = None,
) -> LeaderboardResult:
    """Every model trained on `train` and evaluated on `test`, which must not share a basket.

    `models` are names, `name@preset`, addresses `pkg.mod:Class` or `Model` objects, in a mapping by the name of their
    row (default: all of ours); `scores`, by name, Parquet files with query, item, score. `labels` (default: made from
    `test` by `protocol` at `levels`) must come from `test`. With `out`, results are written there, bundles and answers
    are kept there, and a second run takes up what fits: same data, parameters and seed. `progress` is told each step.
    """
    options = LeaderboardOptions(
        protocol=protocol if labels is None else labels.protocol,
        levels=tuple(levels if labels is None else labels.levels),
        recall=recall,
        ks=tuple(ks),
        seeds=seeds,
        seed=seed,
        rounds=rounds,
        flips=flips,
        queries=queries,
        carts=carts,
    )
    say = progress or log.info
    refuse_overlap(train, test)
    chosen, skipped = model_specs(models, scores or {}, train)
    task, seconds = _prepare(train, test, labels, options, threads, say)
    contest = LeaderboardRun(
        options, train, task, _shelf(out, task, options, chosen), Run(device=device, threads=threads), say
    )
    with thread_limit(threads):
        trainings = contest.hold(chosen, skipped, skip=models is None)
        graded = measured(lambda: contest.summarize(trainings))
    chosen = tuple(spec for spec in chosen if spec.name in trainings)
    done = [run for runs in trainings.values() for run in runs]
    seconds |= {
        "training": sum(run.own_seconds for run in done),
        "judging": sum(run.judge_seconds for run in done),
        "label-free measures": sum(run.label_free_seconds for run in done),
        "grading": graded.seconds,
    }
    result = LeaderboardResult(options, split or {}, chosen, skipped, task, trainings, graded.result, seconds)
    if out is not None:
        result.write(out)
    return result


def _prepare(
    train: Baskets,
    test: Baskets,
    labels: Labels | None,
    options: LeaderboardOptions,
    threads: int | None,
    say: Callable[[str], None],
) -> tuple[EvaluationTask, dict[str, float]]:
    """The task, and the seconds that labels and task took."""
    start = time.perf_counter()
    labels = make_labels(test, options.protocol, options.levels, threads=threads) if labels is None else labels
    labelled = time.perf_counter()
    say(f"{plural(len(labels), 'label')} from {plural(len(test), 'test basket')} ({options.protocol} protocol)")
    task = build_task(train, test, labels, **options.questions)
    return task, {"labels": labelled - start, "questions": time.perf_counter() - labelled}


def _shelf(
    out: str | Path | None, task: EvaluationTask, options: LeaderboardOptions, chosen: Sequence[ModelSpec]
) -> ResultCache:
    times = Counter(spec.learning for spec in chosen if spec.ours)
    shared = frozenset(learning for learning, count in times.items() if count > 1)
    return ResultCache(None if out is None else Path(out), task_key(task, options.questions), shared)


@dataclass(frozen=True)
class LeaderboardRun:
    """What all model_specs have in common."""

    options: LeaderboardOptions
    train: Baskets
    task: EvaluationTask
    shelf: ResultCache
    run: Run
    say: Callable[[str], None]

    def hold(
        self, chosen: Sequence[ModelSpec], skipped: dict[str, str], *, skip: bool
    ) -> dict[str, list[TrainingResult]]:
        """The trainings of all model_specs; with `skip`, those whose library is missing are noted in `skipped`."""
        trainings: dict[str, list[TrainingResult]] = {}
        for number, spec in enumerate(chosen, start=1):
            try:
                trainings[spec.name] = self.trainings(spec)
            except MissingDependencyError as error:
                if not skip:
                    raise
                skipped[spec.name] = error.message
            self.shelf.keep_only({later.learning for later in chosen[number:]})
        return trainings

    def trainings(self, spec: ModelSpec) -> list[TrainingResult]:
        """One training for each seed; two are enough where the second changes nothing."""
        done: list[TrainingResult] = []
        for number in range(self.options.seeds if spec.learns else 1):
            seed = self.options.seed + number
            run = replace(self.run, rng=seed, device=self.device_of(spec))
            self.say(f"{printable(spec.name)}: seed {seed}")
            sat = fit_and_evaluate(spec, seed, self.train, self.task, self.shelf, run, label_free=number == 0)
            done.append(sat)
            if number == 1 and _alike(done[0], done[1]):
                break
        return done

    def device_of(self, spec: ModelSpec) -> str:
        """The device asked for, or `auto` for a model that cannot learn there: a table has models of both kinds."""
        if self.run.device in ("auto", *spec.devices):
            return self.run.device
        self.say(f"{printable(spec.name)} does not learn on device {self.run.device}: auto")
        return "auto"

    def summarize(self, trainings: Mapping[str, Sequence[TrainingResult]]) -> EvaluationResult:
        """The answers of all trainings, graded."""
        answers = {name: [training.answers for training in runs] for name, runs in trainings.items()}
        asked = self.options
        return summarize(self.task, answers, ks=asked.ks, rounds=asked.rounds, flips=asked.flips, seed=asked.seed)


def _alike(one: TrainingResult, other: TrainingResult) -> bool:
    label_ranks, rejudged = one.answers.label_ranks, other.answers.label_ranks
    return all(same_ranks(label_ranks[name], rejudged[name]) for name in label_ranks)
