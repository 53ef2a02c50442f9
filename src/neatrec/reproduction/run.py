"""`neatrec reproduce instacart`: the paper in one command, its numbers beside ours."""

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
from neatrec.labels.audit import Audit, audit_labels
from neatrec.labels.config import LabelConfig
from neatrec.labels.paper import DependentPairs, dependent_pairs
from neatrec.labels.record import Labels
from neatrec.leaderboard.model_specs import Models
from neatrec.leaderboard.report import (
    VERIFY,
    board_of,
    board_record,
    cache_folder,
    log_variances,
    run_record,
    trained_gaussian,
)
from neatrec.leaderboard.result_cache import FitContext
from neatrec.leaderboard.run import LeaderboardOptions, LeaderboardResult, run_leaderboard
from neatrec.models import MODEL_NAMES, Model, Run
from neatrec.models.registry import model_class
from neatrec.report.boards import LeaderboardTables, derived_tables
from neatrec.report.folder import write_folder
from neatrec.report.gallery import gallery_section
from neatrec.report.label_sections import audit_section
from neatrec.report.model_sections import (
    curves_section,
    label_free_section,
    leaderboard_section,
    loud_models,
    slices_section,
)
from neatrec.report.page import Page, Section
from neatrec.report.run_card import run_section
from neatrec.report.table import ReportTable
from neatrec.report.variance import variance_section
from neatrec.report.verdict import verdict
from neatrec.reproduction.data import InstacartData, JourneyData, read_complete_journey, read_instacart
from neatrec.reproduction.marks import tally
from neatrec.reproduction.model_tables import MarginStudy, PaperComparison
from neatrec.reproduction.published import paper_numbers
from neatrec.reproduction.sections import ReproductionResults, label_sections, model_sections
from neatrec.reproduction.studies import case_of, concept_of, margin_cache, margin_study
from neatrec.text import printable

log = logging.getLogger(__name__)

SEEDS = 5
JOURNEY_SEEDS = 2
"""Complete Journey stands in for another data set and is twice as large: two trainings show the spread."""
TOP_ITEMS = 20
JOURNEY = "journey"
IN_PLACE = "Complete Journey in place of the Walmart data"


@dataclass(frozen=True)
class Reproduction:
    """What came out, and where it stands."""

    folder: Path
    marks: tuple[str, ...]
    """The mark of every row that has one."""
    instacart: LeaderboardResult
    journey: LeaderboardResult | None

    def to_json(self) -> dict[str, Any]:
        """Where the report is, how many rows are marked how, both leaderboards."""
        return {
            "report": str(self.folder),
            "marks": tally(self.marks),
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
    report = progress or log.info
    data = read_instacart(folder)
    with cache_folder(keep) as cache:
        context = _Context(cache, all_models() if models is None else models, options, report)
        audit, dependent = _audit(context, data.ins_e)
        instacart = _train(context, "instacart", "Instacart", data.train, data.test, data.split)
        levels, threads = context.leaderboard.levels, context.leaderboard.threads
        journey = read_complete_journey(levels, threads) if options.journey else None
        there = None if journey is None else _train_journey(context, journey)
        gaussian = trained_gaussian(instacart.result, cache / "instacart")
        found = _found(context, data, audit, dependent, instacart, journey, there, gaussian)
        return _write(context, Path(out), data, found, instacart, there, gaussian)


def all_models() -> list[str]:
    """Every model of ours, and the paper's settings of those that have some of their own."""
    presets = [f"{name}@paper" for name in MODEL_NAMES if model_class(name).Parameters.presets.get("paper")]
    return [*MODEL_NAMES, *presets]


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
    context.seconds["the study of the labels"] = time.perf_counter() - start
    return audit, dependent


def _train(
    context: _Context,
    name: str,
    title: str,
    train: Baskets,
    test: Baskets,
    split: Mapping[str, Any],
    labels: Labels | None = None,
) -> _Trained:
    """The leaderboard of one data set, and the margin study on the same task."""
    options, cache = context.leaderboard, context.cache / name
    if name == JOURNEY:
        options = replace(options, seeds=min(context.options.journey_seeds, options.seeds))
    result = run_leaderboard(
        train, test, context.models, options, labels=labels, split=split, out=cache, progress=context.report
    )
    context.seconds.update({f"{step} on {title}": value for step, value in result.seconds.items()})
    if not context.options.margin_seeds:
        return _Trained(result, ())
    start = time.perf_counter()
    fit = FitContext(train, result.task, margin_cache(result.task, cache / "margins"), context.run)
    seeds = range(options.seed, options.seed + context.options.margin_seeds)
    study = margin_study(title, fit, paper_numbers(), seeds, context.report)
    context.seconds[f"the margin study on {title}"] = time.perf_counter() - start
    return _Trained(result, (study,))


def _train_journey(context: _Context, data: JourneyData) -> _Trained:
    split = {"method": "time", "cut": "weeks 1 to 42 train"}
    return _train(context, JOURNEY, "Complete Journey", data.train, data.test, split, labels=data.labels)


def _found(
    context: _Context,
    data: InstacartData,
    audit: Audit,
    dependent: DependentPairs,
    instacart: _Trained,
    journey: JourneyData | None,
    there: _Trained | None,
    gaussian: Model | None,
) -> ReproductionResults:
    """Everything that is set beside the paper."""
    paper = paper_numbers()
    case = None if gaussian is None else case_of(gaussian, paper)
    concept = None if case is None else concept_of(data.train, paper, context.run)
    without = "neat was not trained" if gaussian is None else "the catalogue does not have the three products"
    return ReproductionResults(
        audit=audit,
        dependent=dependent,
        data_sets=data.data_sets(),
        top_items=top_items(data.train if data.has_prior else data.ins_e),
        has_prior=data.has_prior,
        board=board_of(instacart.result),
        beside=PaperComparison("INS", data.has_prior, "same split, trained anew" if data.has_prior else "other split"),
        journey=None if there is None else board_of(there.result, JOURNEY),
        journey_beside=None if there is None else PaperComparison("WMT", False, IN_PLACE),
        journey_sets={} if journey is None else journey.data_sets(),
        journey_labels=None if journey is None else journey.labels,
        margins=(*instacart.margins, *(() if there is None else there.margins)),
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


def _write(
    context: _Context,
    out: Path,
    data: InstacartData,
    found: ReproductionResults,
    instacart: _Trained,
    there: _Trained | None,
    gaussian: Model | None,
) -> Reproduction:
    boards = [(found.board, instacart.result, found.beside)]
    if there is not None and found.journey is not None and found.journey_beside is not None:
        boards.append((found.journey, there.result, found.journey_beside))
    parquet: dict[str, pa.Table] = {}
    records = []
    for board, result, beside in boards:
        parquet |= {board.file("ranks"): result.ranks(), board.file("labels"): result.task.labels.table()}
        records.append({**board_record(board, result), "beside": asdict(beside)})
    run = {**run_record(data.ins_e.source, records, context.seconds), "kind": "reproduction"}
    sections = [*label_sections(paper_numbers(), found), *model_sections(paper_numbers(), found)]
    more_sections, more_tables = _beyond(found, instacart.result, gaussian)
    marks = tuple(mark for table in Page("", (), tuple(sections)).tables() for mark in _marks(table))
    sections += [*more_sections, run_section(run, VERIFY)]
    lead = (tally(marks), *verdict(found.board))
    page = Page("The paper, reproduced", lead, tuple(sections))
    shown = {table.name for table in page.tables()}
    for board, _, _ in boards:
        more_tables += [table for name, table in derived_tables(board).items() if name not in shown]
    write_folder(page, out, run=run, parquet=parquet, more_tables=more_tables)
    context.report(f"wrote {printable(out)}")
    return Reproduction(out, marks, instacart.result, None if there is None else there.result)


def _marks(table: ReportTable) -> list[str]:
    places = [place for place, column in enumerate(table.columns) if column.kind == "mark"]
    return [str(row[place]) for row in table.rows for place in places if row[place]]


def _beyond(
    found: ReproductionResults, result: LeaderboardResult, gaussian: Model | None
) -> tuple[list[Section], list[ReportTable]]:
    """What the paper does not have: intervals, the whole catalogue, statistics, calibrated labels, answers by name."""
    board: LeaderboardTables = found.board
    sections = [leaderboard_section(board), curves_section(board)]
    sections.append(slices_section(board, result.evaluation.slices.get(board.first.candidates, ())))
    if (free := label_free_section(result.evaluation)) is not None:
        sections.append(free)
    study, more = audit_section(found.audit, without=("Consistency",))
    sections.append(study)
    if gaussian is not None and (spread := log_variances(gaussian)) is not None:
        sections.append(variance_section(result.task.purchases, spread, gaussian.name))
    best = {n: result.trainings[n][0].ranks.label_ranks[board.first.candidates].best for n in loud_models(board)}
    sections.append(gallery_section(result.task.label_queries, best, result.task.labels.catalog, result.task.purchases))
    return sections, more
