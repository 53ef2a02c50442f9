"""`neatrec reproduce instacart`: the tables and figures of the paper, with the published numbers and ours."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from neatrec.data.baskets import Baskets
from neatrec.errors import require_extra
from neatrec.labels.audit import Audit, audit_labels
from neatrec.labels.config import LabelConfig
from neatrec.labels.paper import DependentPairs, dependent_pairs
from neatrec.leaderboard.model_specs import Models, default_rows
from neatrec.leaderboard.report import (
    VERIFY,
    cache_folder,
    leaderboard_record,
    leaderboard_tables,
    report_sections,
    run_record,
    trained_gaussian,
)
from neatrec.leaderboard.result_cache import FitContext, ResultCache, task_key
from neatrec.leaderboard.run import LeaderboardOptions, LeaderboardResult, run_leaderboard
from neatrec.models import MODEL_NAMES, Run
from neatrec.models.registry import model_class
from neatrec.report.folder import write_folder
from neatrec.report.leaderboard_tables import all_tables, conclusion
from neatrec.report.page import Page
from neatrec.report.table import ReportTable
from neatrec.report.verify import run_section
from neatrec.reproduction.data import InstacartData, JourneyData, read_complete_journey, read_instacart
from neatrec.reproduction.model_tables import MarginStudy, case_of, concept_of, margin_study
from neatrec.reproduction.published import count_marks, paper_numbers
from neatrec.reproduction.sections import DataSetResults, ReproductionResults, label_sections, model_sections
from neatrec.text import printable

log = logging.getLogger(__name__)

SEEDS = 5
JOURNEY_SEEDS = 2
"""Complete Journey replaces another data set and is twice as large: two trainings show the spread."""
TOP_ITEMS = 20


@dataclass(frozen=True)
class Reproduction:
    """The report of a reproduction and its results."""

    folder: Path
    marks: tuple[str, ...]
    """The mark of every row that has one."""
    instacart: LeaderboardResult
    journey: LeaderboardResult | None

    def to_json(self) -> dict[str, Any]:
        """Where the report is, how many rows are marked how, both leaderboards."""
        return {
            "report": str(self.folder),
            "marks": count_marks(self.marks),
            "differs": [mark for mark in self.marks if mark.startswith("differs")],
            "instacart": self.instacart.to_json(),
            "complete_journey": None if self.journey is None else self.journey.to_json(),
        }


@dataclass(frozen=True)
class ReproductionOptions:
    """What of the paper is reproduced, and with how many trainings."""

    leaderboard: LeaderboardOptions = field(default_factory=lambda: LeaderboardOptions(protocol="paper", seeds=SEEDS))
    journey: bool = True
    """Whether Complete Journey is evaluated in place of the Walmart data."""
    journey_seeds: int = JOURNEY_SEEDS
    """Trainings of each model there, at most those of `leaderboard`."""
    margin_seeds: int = 1
    """Trainings for each margin; 0 leaves the study out."""
    null_rounds: int = 3
    """Rounds of the shuffle null."""


DEFAULT_OPTIONS = ReproductionOptions()


@dataclass(frozen=True)
class _Context:
    """What all trainings share, and where they are cached."""

    cache: Path
    models: Models
    options: ReproductionOptions
    report: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def leaderboard(self) -> LeaderboardOptions:
        return self.options.leaderboard

    @property
    def run(self) -> Run:
        return Run(rng=self.leaderboard.seed, device=self.leaderboard.device, threads=self.leaderboard.threads)


def reproduce_instacart(
    folder: str | Path,
    out: str | Path,
    models: Models | None = None,
    options: ReproductionOptions = DEFAULT_OPTIONS,
    *,
    keep: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Reproduction:
    """The paper's tables and figures from the Instacart tables in `folder`, as a report in `out`.

    With `order_products__prior` the split is the paper's own; without it the train orders are halved. `models` default
    to all of ours, and to the paper's settings (`@paper`) of those that have some. `keep` is a folder where trainings
    are cached.
    """
    require_extra("report", "a report")
    report = progress or log.info
    data = read_instacart(folder)
    with cache_folder(keep) as cache:
        context = _Context(Path(cache), all_models() if models is None else models, options, report)
        audit, dependent = _audit(context, data.ins_e)
        instacart = _train(context, data)
        levels, threads = context.leaderboard.levels, context.leaderboard.threads
        journey = _train(context, read_complete_journey(levels, threads)) if options.journey else None
        gaussian = trained_gaussian(instacart.result, context.cache / "instacart")
        case = None if gaussian is None else case_of(gaussian, paper_numbers())
        results = ReproductionResults(
            audit=audit,
            dependent=dependent,
            top_items=top_items(data.train if data.has_prior else data.ins_e),
            has_prior=data.has_prior,
            instacart=instacart,
            journey=journey,
            gaussian=gaussian,
            case=case,
            concept=None if case is None else concept_of(data.train, paper_numbers(), context.run),
        )
        return _write(context, Path(out), data.ins_e.source, results)


def all_models() -> list[str]:
    """Every model and goal of ours, and the paper's settings of those that have some of their own."""
    presets = [f"{name}@paper" for name in MODEL_NAMES if model_class(name).Parameters.presets.get("paper")]
    return [*default_rows(), *presets]


def _audit(context: _Context, ins_e: Baskets) -> tuple[Audit, DependentPairs]:
    """The labels of all orders that the paper evaluates on."""
    context.report("auditing the labels of the train orders")
    start = time.perf_counter()
    options, threads = context.leaderboard, context.leaderboard.threads
    rounds = context.options.null_rounds
    audit = audit_labels(ins_e, levels=options.levels, null_rounds=rounds, seed=options.seed, threads=threads)
    category = ins_e.catalog.category_of(ins_e.catalog.levels[0])
    dependent = dependent_pairs(
        ins_e, audit.paper.levels, LabelConfig.of(audit.paper).counting, category, {"threads": threads}
    )
    context.seconds["the audit of the labels"] = time.perf_counter() - start
    return audit, dependent


def _train(context: _Context, data: InstacartData | JourneyData) -> DataSetResults:
    """The leaderboard of one data set, and the margin study on the same task."""
    options, cache = context.leaderboard, context.cache / data.folder
    if isinstance(data, JourneyData):
        options = replace(options, seeds=min(context.options.journey_seeds, options.seeds))
    how: dict[str, Any] = {"labels": data.labels, "split": data.split, "out": cache, "progress": context.report}
    result = run_leaderboard(data.train, data.test, context.models, options, **how)
    context.seconds.update({f"{step} on {data.title}": value for step, value in result.seconds.items()})
    margins: tuple[MarginStudy, ...] = ()
    if context.options.margin_seeds:
        start = time.perf_counter()
        margin_cache = ResultCache(cache / "margins", task_key(result.task, {"study": "margin"}))
        fit = FitContext(data.train, result.task, margin_cache, context.run)
        seeds = range(options.seed, options.seed + context.options.margin_seeds)
        margins = (margin_study(data.title, fit, paper_numbers(), seeds, context.report),)
        context.seconds[f"the margin study on {data.title}"] = time.perf_counter() - start
    tables = leaderboard_tables(result, data.name)
    return DataSetResults(result, tables, data.comparison, data.data_sets(), data.labels, margins)


def top_items(baskets: Baskets) -> list[str]:
    """Names of the items bought most, most first."""
    order = np.argsort(-baskets.item_counts, kind="stable")[:TOP_ITEMS]
    return [baskets.catalog.name(code) for code in order if baskets.item_counts[code]]


def _write(context: _Context, out: Path, source: str, results: ReproductionResults) -> Reproduction:
    instacart, journey = results.instacart, results.journey
    parquet: dict[str, pa.Table] = {}
    records = []
    for part in results.parts:
        ranks, labels = part.result.ranks(), part.result.task.labels.table()
        parquet |= {part.tables.file("ranks"): ranks, part.tables.file("labels"): labels}
        records.append({**leaderboard_record(part.tables, part.result), "comparison": asdict(part.comparison)})
    run = {**run_record(source, records, context.seconds), "kind": "reproduction"}
    of_paper = [*label_sections(paper_numbers(), results), *model_sections(paper_numbers(), results)]
    marks = tuple(mark for table in Page("", (), tuple(of_paper)).tables() for mark in _marks(table))
    more, files_only = report_sections(
        instacart.tables, instacart.result, results.audit, results.gaussian, without=("Consistency",)
    )
    files_only += [] if journey is None else all_tables(journey.tables).values()
    lead = (count_marks(marks), conclusion(instacart.tables)[0])
    page = Page("The paper, reproduced", lead, (*of_paper, *more, run_section(run, VERIFY)))
    write_folder(page, out, run=run, parquet=parquet, more_tables=files_only)
    context.report(f"wrote {printable(out)}")
    return Reproduction(out, marks, instacart.result, None if journey is None else journey.result)


def _marks(table: ReportTable) -> list[str]:
    places = [place for place, column in enumerate(table.columns) if column.kind == "mark"]
    return [str(row[place]) for row in table.rows for place in places if row[place]]
