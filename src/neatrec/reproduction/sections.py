"""The sections of a reproduction, in the order of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neatrec.labels.audit import Audit
from neatrec.labels.paper import DependentPairs
from neatrec.labels.record import Labels
from neatrec.leaderboard.run import LeaderboardResult
from neatrec.models import Model
from neatrec.report.audit_report import audit_figures
from neatrec.report.leaderboard_tables import LeaderboardTables
from neatrec.report.page import Block, FigureRow, Heading, Paragraph, Section
from neatrec.report.table import ReportTable
from neatrec.reproduction.label_tables import (
    PaperDataSet,
    case_pairs_table,
    dataset_table,
    department_sums_table,
    department_table,
    label_count_table,
    pop_table,
    top_items_table,
)
from neatrec.reproduction.model_tables import (
    CaseStudy,
    Concept,
    MarginStudy,
    PaperComparison,
    ablation_table,
    case_study_table,
    comparison_table,
    concept_figures,
    margin_figures,
    margin_table,
    margin_text,
)
from neatrec.reproduction.published import MARKS_NOTE, not_checkable

Paper = Mapping[str, Any]


@dataclass(frozen=True)
class DataSetResults:
    """What was computed on one data set."""

    result: LeaderboardResult
    tables: LeaderboardTables
    comparison: PaperComparison
    sizes: Mapping[str, PaperDataSet]
    labels: Labels | None
    """Where they were not made by the leaderboard."""
    margins: tuple[MarginStudy, ...]


@dataclass(frozen=True)
class ReproductionResults:
    """Everything that is compared with the paper."""

    audit: Audit
    """Of all orders that the paper evaluates on."""
    dependent: DependentPairs
    top_items: Sequence[str]
    has_prior: bool
    instacart: DataSetResults
    journey: DataSetResults | None
    gaussian: Model | None
    """`neat`, where it was trained."""
    case: CaseStudy | None
    concept: Concept | None

    @property
    def parts(self) -> list[DataSetResults]:
        return [self.instacart, *([] if self.journey is None else [self.journey])]


def label_sections(paper: Paper, results: ReproductionResults) -> list[Section]:
    """Data sets, label counts, departments, histograms, example pairs, popular items, Pop."""
    journey = results.journey
    drawn = tuple(figure for figure in audit_figures(results.audit) if figure.name.startswith("consistency"))
    return [
        Section(
            "paper-data",
            "Data and labels",
            (
                Paragraph(MARKS_NOTE, "note"),
                dataset_table(paper, results.instacart.sizes, {} if journey is None else journey.sizes),
                label_count_table(paper, results.audit.paper, None if journey is None else journey.labels),
            ),
        ),
        Section(
            "paper-quality",
            "Quality of the labels",
            (
                Heading("Coverage", "paper-coverage"),
                department_table(paper, results.audit),
                department_sums_table(paper, results.audit),
                Heading("Consistency", "paper-consistency"),
                Paragraph(
                    "The paper's Figure 2: shares of dependent pairs by chi-squared in bins of 100. Its bars carry "
                    "no numbers; the file tables/consistency.csv has ours."
                ),
                FigureRow(drawn),
                Heading("Accuracy", "paper-accuracy"),
                case_pairs_table(paper, "positive_pairs", results.dependent),
                case_pairs_table(paper, "negative_pairs", results.dependent),
                top_items_table(paper, results.top_items, has_prior=results.has_prior),
                pop_table(paper, results.audit.paper),
            ),
        ),
    ]


def model_sections(paper: Paper, results: ReproductionResults) -> list[Section]:
    """The models on both data sets, the ablation, the margin, three items in one dimension and in many."""
    return [
        Section("paper-models", "Models on Instacart", _instacart_blocks(paper, results)),
        Section("paper-walmart", "Models on the Walmart data and on Complete Journey", _journey_blocks(paper, results)),
        Section("paper-ablation", "NEAT against NEAT+bpr", _ablation_blocks(paper, results)),
        Section("paper-margin", "The margin", _margin_blocks(results)),
        Section("paper-concept", "Three items in one dimension", _concept_blocks(results)),
        Section("paper-case", "Three items as distributions", _case_blocks(paper, results)),
    ]


def comparison_blocks(paper: Paper, part: DataSetResults) -> list[ReportTable]:
    """The paper's lines and ours for each level on the candidate set: they follow from the ranks."""
    return [
        comparison_table(paper, part.tables, result, part.comparison)
        for result in part.tables.results
        if result.candidates == part.tables.first.candidates
    ]


OWN_SPLIT = "The folder has the prior orders, so the split is the paper's own."
HALF_SPLIT = (
    "The folder does not have the prior orders that the paper trains on. Orders with an even number train, those "
    "with an odd number are labelled and tested on. The labels are others than the paper's, so only "
    "the order of the models can be compared, not the digits."
)
SETTINGS = "Lines named @paper use the paper's settings as stated, the others what worked best on validation orders."


def _instacart_blocks(paper: Paper, results: ReproductionResults) -> tuple[Block, ...]:
    words = Paragraph(f"{OWN_SPLIT if results.has_prior else HALF_SPLIT} {SETTINGS}")
    return (words, *comparison_blocks(paper, results.instacart))


def _journey_blocks(paper: Paper, results: ReproductionResults) -> tuple[Block, ...]:
    words = Paragraph(
        "The Walmart data are not public, so the paper's lines are cited. Ours come from Complete Journey instead: "
        "returning households, no cart order, simulated by its authors from real shopping patterns, and not meant for "
        "academic claims."
    )
    if results.journey is None:
        return (words, _not_run("it was left out"))
    return (words, *comparison_blocks(paper, results.journey))


def _ablation_blocks(paper: Paper, results: ReproductionResults) -> tuple[Block, ...]:
    table = ablation_table(paper, [(part.tables, part.comparison) for part in results.parts])
    if not table.rows:
        return (_not_run("neat and neat-bpr were not both trained"),)
    words = Paragraph(
        "On Instacart's train orders each shopper has one order, so there is little to learn about shoppers; "
        "whether users help shows on data with returning households."
    )
    return words, table


def _margin_blocks(results: ReproductionResults) -> tuple[Block, ...]:
    studies = [study for part in results.parts for study in part.margins]
    if not studies:
        return (_not_run("it was left out"),)
    blocks: list[Block] = [
        Paragraph("The paper's Figures 3 and 4 carry no numbers; its finding is that larger margins are better.")
    ]
    for study in studies:
        blocks += [
            Heading(study.data, f"margin-{study.data.lower().replace(' ', '-')}"),
            Paragraph(margin_text(study)),
            FigureRow(margin_figures(study)),
            margin_table(study),
        ]
    return tuple(blocks)


def _concept_blocks(results: ReproductionResults) -> tuple[Block, ...]:
    if results.concept is None:
        return (_not_run(_no_items(results)),)
    words = Paragraph(
        "The paper's Figure 1 is a sketch. These are Gaussians of one dimension that were learned from the orders."
    )
    return words, FigureRow(concept_figures(results.concept.names, results.concept.means, results.concept.variances))


def _case_blocks(paper: Paper, results: ReproductionResults) -> tuple[Block, ...]:
    if results.case is None:
        return (_not_run(_no_items(results)),)
    return (case_study_table(paper, results.case, has_prior=results.has_prior),)


def _no_items(results: ReproductionResults) -> str:
    """Why the three items of the case study are not there."""
    return "neat was not trained" if results.gaussian is None else "the catalogue does not have the three products"


def _not_run(why: str) -> Paragraph:
    return Paragraph(not_checkable(why).capitalize() + ".", "note")
