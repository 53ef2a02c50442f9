"""The sections of a reproduction, in the order of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.labels.audit import Audit
from neatrec.labels.paper import DependentPairs
from neatrec.labels.record import Labels
from neatrec.report.audit_report import audit_figures
from neatrec.report.leaderboard_tables import LeaderboardTables
from neatrec.report.page import Block, FigureRow, Heading, Paragraph, Section, TableBlock
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
class Concept:
    """Three items in one dimension."""

    names: tuple[str, ...]
    means: npt.NDArray[np.float64]
    variances: npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReproductionResults:
    """Everything that is compared with the paper."""

    audit: Audit
    """Of all orders that the paper evaluates on."""
    dependent: DependentPairs
    data_sets: Mapping[str, PaperDataSet]
    top_items: Sequence[str]
    has_prior: bool
    leaderboard: LeaderboardTables
    comparison: PaperComparison
    journey: LeaderboardTables | None = None
    journey_comparison: PaperComparison | None = None
    journey_sets: Mapping[str, PaperDataSet] = field(default_factory=dict)
    journey_labels: Labels | None = None
    margins: tuple[MarginStudy, ...] = ()
    case: CaseStudy | None = None
    concept: Concept | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Part of the paper -> why it was not run."""


def label_sections(paper: Paper, results: ReproductionResults) -> list[Section]:
    """Data sets, label counts, departments, histograms, example pairs, popular items, Pop."""
    drawn = tuple(figure for figure in audit_figures(results.audit) if figure.name.startswith("consistency"))
    return [
        Section(
            "paper-data",
            "Data and labels",
            (
                Paragraph(MARKS_NOTE, "note"),
                TableBlock(dataset_table(paper, results.data_sets, results.journey_sets)),
                TableBlock(label_count_table(paper, results.audit.paper, results.journey_labels)),
            ),
        ),
        Section(
            "paper-quality",
            "Quality of the labels",
            (
                Heading("Coverage", "paper-coverage"),
                TableBlock(department_table(paper, results.audit)),
                TableBlock(department_sums_table(paper, results.audit)),
                Heading("Consistency", "paper-consistency"),
                Paragraph(
                    "The paper's Figure 2: shares of dependent pairs by chi-squared in bins of 100. Its bars carry "
                    "no numbers; the file tables/consistency.csv has ours."
                ),
                FigureRow(drawn),
                Heading("Accuracy", "paper-accuracy"),
                TableBlock(case_pairs_table(paper, "positive_pairs", results.dependent)),
                TableBlock(case_pairs_table(paper, "negative_pairs", results.dependent)),
                TableBlock(top_items_table(paper, results.top_items, has_prior=results.has_prior)),
                TableBlock(pop_table(paper, results.audit.paper)),
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


def comparison_tables(
    paper: Paper, leaderboard: LeaderboardTables, comparison: PaperComparison
) -> dict[str, ReportTable]:
    """The paper's lines and ours for each level on the candidate set, by name: they follow from the ranks."""
    tables = [
        comparison_table(paper, leaderboard, result, comparison)
        for result in leaderboard.results
        if result.candidates == leaderboard.first.candidates
    ]
    return {table.name: table for table in tables}


OWN_SPLIT = "The folder has the prior orders, so the split is the paper's own."
HALF_SPLIT = (
    "The folder does not have the prior orders that the paper trains on. Orders with an even number train, those "
    "with an odd number are labelled and tested on. The labels are others than the paper's, so only "
    "the order of the models can be compared, not the digits."
)
SETTINGS = "Lines named @paper use the paper's settings as stated, the others what worked best on validation orders."


def _instacart_blocks(paper: Paper, results: ReproductionResults) -> tuple[Block, ...]:
    words = Paragraph(f"{OWN_SPLIT if results.has_prior else HALF_SPLIT} {SETTINGS}")
    return (
        words,
        *(TableBlock(table) for table in comparison_tables(paper, results.leaderboard, results.comparison).values()),
    )


def _journey_blocks(paper: Paper, results: ReproductionResults) -> tuple[Block, ...]:
    words = Paragraph(
        "The Walmart data are not public, so the paper's lines are cited. Ours come from Complete Journey instead: "
        "returning households, no cart order, simulated by its authors from real shopping patterns, and not meant for "
        "academic claims."
    )
    if results.journey is None or results.journey_comparison is None:
        return (words, _not_run(results, "complete-journey"))
    return (
        words,
        *(TableBlock(t) for t in comparison_tables(paper, results.journey, results.journey_comparison).values()),
    )


def _ablation_blocks(paper: Paper, results: ReproductionResults) -> tuple[Block, ...]:
    leaderboards = [(results.leaderboard, results.comparison)]
    if results.journey is not None and results.journey_comparison is not None:
        leaderboards.append((results.journey, results.journey_comparison))
    table = ablation_table(paper, leaderboards)
    if not table.rows:
        return (_not_run(results, "ablation"),)
    words = Paragraph(
        "On Instacart's train orders each shopper has one order, so there is little to learn about shoppers; "
        "whether users help shows on data with returning households."
    )
    return words, TableBlock(table)


def _margin_blocks(results: ReproductionResults) -> tuple[Block, ...]:
    if not results.margins:
        return (_not_run(results, "margin"),)
    blocks: list[Block] = [
        Paragraph("The paper's Figures 3 and 4 carry no numbers; its finding is that larger margins are better.")
    ]
    for study in results.margins:
        blocks += [
            Heading(study.data, f"margin-{study.data.lower().replace(' ', '-')}"),
            Paragraph(margin_text(study)),
            FigureRow(margin_figures(study)),
            TableBlock(margin_table(study)),
        ]
    return tuple(blocks)


def _concept_blocks(results: ReproductionResults) -> tuple[Block, ...]:
    if results.concept is None:
        return (_not_run(results, "concept"),)
    words = Paragraph(
        "The paper's Figure 1 is a sketch. These are Gaussians of one dimension that were learned from the orders."
    )
    return words, FigureRow(concept_figures(results.concept.names, results.concept.means, results.concept.variances))


def _case_blocks(paper: Paper, results: ReproductionResults) -> tuple[Block, ...]:
    if results.case is None:
        return (_not_run(results, "case study"),)
    return (TableBlock(case_study_table(paper, results.case, has_prior=results.has_prior)),)


def _not_run(results: ReproductionResults, part: str) -> Paragraph:
    return Paragraph(not_checkable(results.left_out.get(part, "it was left out")).capitalize() + ".", "note")
