"""`run_leaderboard`: every model trained on the same baskets and evaluated by the same task."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.cooccurrence.recency import parse_half_life
from neatrec.cooccurrence.strata import parse_strata, usable_strata
from neatrec.data.baskets import Baskets
from neatrec.data.splits import refuse_overlap
from neatrec.data.table_result import TableResult
from neatrec.errors import MissingDependencyError, ResourceError, require_whole
from neatrec.evaluation.cart_completion import CARTS
from neatrec.evaluation.held_out_lift import QUERIES
from neatrec.evaluation.ranks import best_table, ranks_table
from neatrec.evaluation.summary import EvaluationResult, SummaryOptions, same_ranks, summarize
from neatrec.evaluation.task import EvaluationTask, build_task
from neatrec.labels import LabelOptions, Labels, make_labels
from neatrec.labels.config import LabelConfig, checked_levels
from neatrec.labels.make import smaller_baskets
from neatrec.leaderboard.model_specs import Models, ModelSpec, model_specs
from neatrec.leaderboard.result_cache import FitContext, ResultCache, TrainingResult, fit_and_evaluate, task_key
from neatrec.leaderboard.results_json import leaderboard_json, write_json
from neatrec.models import Run
from neatrec.models.parallel import thread_limit
from neatrec.text import plural, printable
from neatrec.training.measure import measured

log = logging.getLogger(__name__)

LEVELS = (0.05, 0.01, 0.001)


@dataclass(frozen=True)
class LeaderboardOptions(SummaryOptions):
    """How labels are made, models trained and results computed."""

    protocol: str = "calibrated"
    """Of the labels."""
    levels: tuple[float, ...] = LEVELS
    min_basket: int = LabelOptions.min_basket
    """Labels come from baskets of at least so many items."""
    candidates: int = 200
    """Size of the candidate set: the items bought most often with the query."""
    seeds: int = 1
    """Trainings of each model; `seed` is that of the first training and of the label-free intervals."""
    queries: int = QUERIES
    """Best sellers that the held-out lift is computed for; 0 leaves it out."""
    carts: int = CARTS
    """Test baskets to complete; 0 leaves it out."""
    device: str = "auto"
    """Where models are trained and ranked: auto, cpu or gpu."""
    strata: tuple[str, ...] | None = None
    """Within what calibrated labels are made and models compare counts with chance. None: as `train` does by default;
    nothing by the paper's protocol."""
    half_life: str | float | None = None
    """Training baskets count half after so many days, or "90d", "12w"; test baskets, which stand for the future, all
    count the same. None: so do the training baskets."""
    threads: int | None = None
    """Default: all cores."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "levels", checked_levels(self.levels))
        object.__setattr__(self, "strata", parse_strata(self.strata))
        object.__setattr__(self, "half_life", parse_half_life(self.half_life))
        minimum = {"min_basket": 2, "candidates": 1, "seeds": 1, "seed": 0, "queries": 0, "carts": 0, "rounds": 100}
        for name, least in minimum.items():
            require_whole(name, getattr(self, name), least)

    @property
    def task_options(self) -> dict[str, int]:
        """What decides the task in addition to baskets and labels."""
        return {"candidates": self.candidates, "queries": self.queries, "carts": self.carts, "seed": self.seed}

    def to_json(self) -> dict[str, Any]:
        """All options but those of the machine."""
        record = {name: value for name, value in asdict(self).items() if name not in ("device", "threads")}
        if self.half_life is None:
            del record["half_life"]
        strata = None if self.strata is None else list(self.strata)
        return {**record, "levels": list(self.levels), "ks": list(self.ks), "strata": strata}


DEFAULT_OPTIONS = LeaderboardOptions()


@dataclass(frozen=True, repr=False)
class LeaderboardResult(TableResult):
    """The results, and everything they were computed from."""

    options: LeaderboardOptions
    split: Mapping[str, Any]
    model_specs: tuple[ModelSpec, ...]
    skipped: Mapping[str, str]
    """Models that were left out, with the reason."""
    task: EvaluationTask
    trainings: Mapping[str, Sequence[TrainingResult]]
    evaluation: EvaluationResult
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step; for trainings from the cache those of the run that made them."""
    advice: str = ""
    """A sentence on how to get more labels, where there are few."""

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `--json` prints."""
        return leaderboard_json(self)

    def to_arrow(self) -> pa.Table:
        """One row per model, level and candidate set, best first; of lists of ten, or of the longest."""
        rows, k = [], 10 if 10 in self.options.ks else self.options.ks[-1]
        for result in self.to_json()["results"]:
            for line in result["models"]:
                low, high = line["ci"]["hr"][str(k)]
                measures = {
                    f"hr@{k}": line["hr"][str(k)],
                    f"hr@{k}_low": low,
                    f"hr@{k}_high": high,
                    f"ndcg@{k}": line["ndcg"][str(k)],
                }
                where = {"level": result["level"], "candidates": result["candidates"], "labels": result["labels"]}
                rows.append({"model": line["name"], **measures, "seconds": line["train_seconds"], **where})
        return pa.Table.from_pylist(rows)

    def cost(self, model: str) -> tuple[float | None, float | None]:
        """The mean seconds of a model's trainings, and the largest memory in MB; None where neither is known."""
        runs = self.trainings.get(model, ())
        seconds = [run.train_seconds for run in runs if run.train_seconds is not None]
        peaks = [run.peak_mb for run in runs if run.peak_mb is not None]
        return sum(seconds) / len(seconds) if seconds else None, max(peaks) if peaks else None

    def _caption(self) -> str:
        return f"Leaderboard, protocol {self.options.protocol}"

    def ranks(self) -> pa.Table:
        """The ranks of all label records by each training, on every candidate set."""
        return self._tables(ranks_table)

    def recommended(self) -> pa.Table:
        """The recommendations of each training for each query of the labels, on every candidate set."""
        return self._tables(best_table)

    def _tables(self, make: Callable[..., pa.Table]) -> pa.Table:
        parts = []
        for candidates in self.task.candidate_sets:
            label_ranks = {
                name: [t.ranks.label_ranks[candidates.name] for t in runs] for name, runs in self.trainings.items()
            }
            parts.append(make(label_ranks, self.task.label_queries, self.task.labels.catalog, candidates.name))
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
    options: LeaderboardOptions = DEFAULT_OPTIONS,
    *,
    labels: Labels | None = None,
    scores: Mapping[str, str | Path] | None = None,
    split: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> LeaderboardResult:
    """Every model trained on `train` and evaluated on `test`, which must not share a basket.

    `models` are names, `name@preset`, addresses `pkg.mod:Class` or `Model` objects, in a mapping by the name of their
    row (default: all of ours); `scores`, by name, Parquet files with query, item, score. `labels` (default: made from
    `test` by the options) must come from `test`. With `out`, results, bundles and ranks are written there, and a later
    run reuses what has the same data, parameters and seed. `progress` is called with a line per step.
    """
    if labels is not None:
        shortest = labels.options["min_basket"]
        options = replace(options, protocol=labels.protocol, levels=tuple(labels.levels), min_basket=shortest)
    report = progress or log.info
    refuse_overlap(train, test)
    task, advice, seconds = _prepare(train, test, labels, options, report)
    if options.strata is None:
        strata = () if options.protocol == "paper" else usable_strata([train], None)[0]
        options = replace(options, strata=strata)
    chosen, skipped = model_specs(models, scores or {}, train, options.strata or (), options.half_life)
    times = Counter(spec.learning for spec in chosen if spec.ours)
    shared = frozenset(learning for learning, count in times.items() if count > 1)
    cache = ResultCache(None if out is None else Path(out), task_key(task, options.task_options), shared)
    run = LeaderboardRun(options, train, task, cache, report)
    with thread_limit(options.threads):
        trainings = run.run(chosen, skipped, skip=models is None)
        ranks = {name: [training.ranks for training in runs] for name, runs in trainings.items()}
        summary = measured(lambda: summarize(task, ranks, options))
    chosen = tuple(spec for spec in chosen if spec.name in trainings)
    done = [training for runs in trainings.values() for training in runs]
    seconds |= {
        "training": sum(training.own_seconds for training in done),
        "ranking": sum(training.rank_seconds for training in done),
        "label-free measures": sum(training.label_free_seconds for training in done),
        "summary": summary.seconds,
    }
    result = LeaderboardResult(options, split or {}, chosen, skipped, task, trainings, summary.result, seconds, advice)
    if out is not None:
        result.write(out)
    return result


def _prepare(
    train: Baskets, test: Baskets, labels: Labels | None, options: LeaderboardOptions, report: Callable[[str], None]
) -> tuple[EvaluationTask, str, dict[str, float]]:
    """The task, advice on how to get more labels, and the seconds that labels and task took."""
    start = time.perf_counter()
    if labels is None:
        strata = options.strata if options.protocol == "calibrated" else None
        how = LabelOptions(options.protocol, options.levels, strata=strata, min_basket=options.min_basket)
        labels = make_labels(test, how, threads=options.threads)
    advice = smaller_baskets(test, len(labels), LabelConfig.of(labels), threads=options.threads)
    labelled = time.perf_counter()
    report(f"{plural(len(labels), 'label')} from {plural(len(test), 'test basket')} ({options.protocol} protocol)")
    task = build_task(train, test, labels, **options.task_options)
    return task, advice, {"labels": labelled - start, "task": time.perf_counter() - labelled}


@dataclass(frozen=True)
class LeaderboardRun:
    """What all trainings of a leaderboard share."""

    options: LeaderboardOptions
    train: Baskets
    task: EvaluationTask
    cache: ResultCache
    report: Callable[[str], None]

    def run(
        self, chosen: Sequence[ModelSpec], skipped: dict[str, str], *, skip: bool
    ) -> dict[str, list[TrainingResult]]:
        """The trainings of all models; with `skip`, those whose library is missing, or that do not fit into memory, are
        added to `skipped`."""
        trainings: dict[str, list[TrainingResult]] = {}
        for number, spec in enumerate(chosen, start=1):
            try:
                trainings[spec.name] = self.trainings(spec)
            except (MissingDependencyError, ResourceError) as error:
                if not skip:
                    raise
                skipped[spec.name] = error.message
            self.cache.keep_only({later.learning for later in chosen[number:]})
            log.info("model %d of %d done", number, len(chosen), extra={"done": number, "total": len(chosen)})
        return trainings

    def trainings(self, spec: ModelSpec) -> list[TrainingResult]:
        """One training per seed; two are enough where the second gives the same ranks."""
        done: list[TrainingResult] = []
        for number in range(self.options.seeds if spec.learns else 1):
            seed = self.options.seed + number
            run = Run(rng=seed, device=self.device_of(spec), threads=self.options.threads)
            self.report(f"{printable(spec.name)}: seed {seed}")
            context = FitContext(self.train, self.task, self.cache, run)
            done.append(fit_and_evaluate(spec, seed, context, label_free=number == 0))
            if number == 1 and _same_ranks(done[0], done[1]):
                break
        return done

    def device_of(self, spec: ModelSpec) -> str:
        """The device of the options, or `auto` for a model that cannot be trained there."""
        device = self.options.device
        if device in ("auto", *spec.devices):
            return device
        self.report(f"{printable(spec.name)} does not learn on device {device}: auto")
        return "auto"


def _same_ranks(one: TrainingResult, other: TrainingResult) -> bool:
    both = one.ranks.label_ranks, other.ranks.label_ranks
    return all(same_ranks(both[0][name], both[1][name]) for name in both[0])
