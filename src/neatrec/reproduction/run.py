"""`neatrec reproduce instacart`: the tables and figures of the paper, with the published numbers and ours."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
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
from neatrec.labels.record import Labels
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
from neatrec.leaderboard.result_cache import FitContext
from neatrec.leaderboard.run import LeaderboardOptions, LeaderboardResult, run_leaderboard
from neatrec.models import MODEL_NAMES, Model, Run
from neatrec.models.registry import model_class
from neatrec.report.folder import write_folder
from neatrec.report.leaderboard_tables import all_tables, conclusion
from neatrec.report.page import Page
from neatrec.report.table import ReportTable
from neatrec.report.verify import run_section
from neatrec.reproduction.data import InstacartData, JourneyData, read_complete_journey, read_instacart
from neatrec.reproduction.model_tables import MarginStudy, PaperComparison
from neatrec.reproduction.published import count_marks, paper_numbers
from neatrec.reproduction.sections import ReproductionResults, label_sections, model_sections
from neatrec.reproduction.studies import case_of, concept_of, margin_cache, margin_study
from neatrec.text import printable

log = logging.getLogger(__name__)

SEEDS = 5
JOURNEY_SEEDS = 2
"""Complete Journey replaces another data set and is twice as large: two trainings show the spread."""
TOP_ITEMS = 20
JOURNEY = "journey"
IN_PLACE = "Complete Journey in place of the Walmart data"


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


@dataclass(frozen=True)
class _Trained:
    """One data set: the leaderboard and the margin study on it."""

    result: LeaderboardResult
    margins: tuple[MarginStudy, ...]


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
        context = _Context(cache, all_models() if models is None else models, options, report)
        audit, dependent = _audit(context, data.ins_e)
        instacart = _train(context, _DataSet("instacart", "Instacart", data.train, data.test, data.split))
        levels, threads = context.leaderboard.levels, context.leaderboard.threads
        journey = read_complete_journey(levels, threads) if options.journey else None
        journey_trained = None if journey is None else _train(context, _journey_data_set(journey))
        gaussian = trained_gaussian(instacart.result, cache / "instacart")
        computed = _Computed(data, audit, dependent, instacart, journey, journey_trained, gaussian)
        return _write(context, Path(out), computed, _results(context, computed))


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


@dataclass(frozen=True)
class _DataSet:
    """Baskets that models are trained and evaluated on."""

    name: str
    title: str
    train: Baskets
    test: Baskets
    split: Mapping[str, Any]
    labels: Labels | None = None


def _journey_data_set(data: JourneyData) -> _DataSet:
    split = {"method": "time", "cut": "weeks 1 to 42 train"}
    return _DataSet(JOURNEY, "Complete Journey", data.train, data.test, split, data.labels)


def _train(context: _Context, data: _DataSet) -> _Trained:
    """The leaderboard of one data set, and the margin study on the same task."""
    options, cache = context.leaderboard, context.cache / data.name
    if data.name == JOURNEY:
        options = replace(options, seeds=min(context.options.journey_seeds, options.seeds))
    how: dict[str, Any] = {"labels": data.labels, "split": data.split, "out": cache, "progress": context.report}
    result = run_leaderboard(data.train, data.test, context.models, options, **how)
    context.seconds.update({f"{step} on {data.title}": value for step, value in result.seconds.items()})
    if not context.options.margin_seeds:
        return _Trained(result, ())
    start = time.perf_counter()
    fit = FitContext(data.train, result.task, margin_cache(result.task, cache / "margins"), context.run)
    seeds = range(options.seed, options.seed + context.options.margin_seeds)
    study = margin_study(data.title, fit, paper_numbers(), seeds, context.report)
    context.seconds[f"the margin study on {data.title}"] = time.perf_counter() - start
    return _Trained(result, (study,))


@dataclass(frozen=True)
class _Computed:
    """Data, labels and trainings of a reproduction."""

    data: InstacartData
    audit: Audit
    dependent: DependentPairs
    instacart: _Trained
    journey: JourneyData | None
    journey_trained: _Trained | None
    gaussian: Model | None


def _results(context: _Context, computed: _Computed) -> ReproductionResults:
    """Everything that is compared with the paper."""
    paper, data, gaussian = paper_numbers(), computed.data, computed.gaussian
    journey, there = computed.journey, computed.journey_trained
    case = None if gaussian is None else case_of(gaussian, paper)
    concept = None if case is None else concept_of(data.train, paper, context.run)
    without = "neat was not trained" if gaussian is None else "the catalogue does not have the three products"
    reason = "same split, new training" if data.has_prior else "other split"
    return ReproductionResults(
        audit=computed.audit,
        dependent=computed.dependent,
        data_sets=data.data_sets(),
        top_items=top_items(data.train if data.has_prior else data.ins_e),
        has_prior=data.has_prior,
        leaderboard=leaderboard_tables(computed.instacart.result),
        comparison=PaperComparison("INS", data.has_prior, reason),
        journey=None if there is None else leaderboard_tables(there.result, JOURNEY),
        journey_comparison=None if there is None else PaperComparison("WMT", False, IN_PLACE),
        journey_sets={} if journey is None else journey.data_sets(),
        journey_labels=None if journey is None else journey.labels,
        margins=(*computed.instacart.margins, *(() if there is None else there.margins)),
        case=case,
        concept=concept,
        left_out={
            "ablation": "neat and neat-bpr were not both trained",
            "concept": without,
            "case study": without,
        },
    )


def top_items(baskets: Baskets) -> list[str]:
    """Names of the items bought most, most first."""
    order = np.argsort(-baskets.item_counts, kind="stable")[:TOP_ITEMS]
    return [baskets.catalog.name(code) for code in order if baskets.item_counts[code]]


def _write(context: _Context, out: Path, computed: _Computed, results: ReproductionResults) -> Reproduction:
    instacart, there = computed.instacart.result, computed.journey_trained
    leaderboards = [(results.leaderboard, instacart, results.comparison)]
    if there is not None and results.journey is not None and results.journey_comparison is not None:
        leaderboards.append((results.journey, there.result, results.journey_comparison))
    parquet: dict[str, pa.Table] = {}
    records = []
    for leaderboard, result, comparison in leaderboards:
        parquet |= {leaderboard.file("ranks"): result.ranks(), leaderboard.file("labels"): result.task.labels.table()}
        records.append({**leaderboard_record(leaderboard, result), "comparison": asdict(comparison)})
    run = {**run_record(computed.data.ins_e.source, records, context.seconds), "kind": "reproduction"}
    of_paper = [*label_sections(paper_numbers(), results), *model_sections(paper_numbers(), results)]
    marks = tuple(mark for table in Page("", (), tuple(of_paper)).tables() for mark in _marks(table))
    more, files_only = report_sections(
        results.leaderboard, instacart, results.audit, computed.gaussian, without=("Consistency",)
    )
    files_only += [table for leaderboard, _, _ in leaderboards[1:] for table in all_tables(leaderboard).values()]
    lead = (count_marks(marks), conclusion(results.leaderboard)[0])
    page = Page("The paper, reproduced", lead, (*of_paper, *more, run_section(run, VERIFY)))
    write_folder(page, out, run=run, parquet=parquet, more_tables=files_only)
    context.report(f"wrote {printable(out)}")
    return Reproduction(out, marks, instacart, None if there is None else there.result)


def _marks(table: ReportTable) -> list[str]:
    places = [place for place, column in enumerate(table.columns) if column.kind == "mark"]
    return [str(row[place]) for row in table.rows for place in places if row[place]]
