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
from neatrec.report.boards import LeaderboardTables
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
from neatrec.reproduction.marks import MARKS_IN_WORDS, not_checkable
from neatrec.reproduction.model_tables import (
    CaseStudy,
    MarginStudy,
    PaperComparison,
    ablation_table,
    beside_table,
    case_study_table,
    concept_figures,
    margin_figures,
    margin_table,
    margin_words,
)

Paper = Mapping[str, Any]


@dataclass(frozen=True)
class Concept:
    """Three items in one dimension."""

    names: tuple[str, ...]
    means: npt.NDArray[np.float64]
    variances: npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReproductionResults:
    """Everything that was computed, to be set beside the paper."""

    audit: Audit
    """Of all orders that the paper evaluates on."""
    dependent: DependentPairs
    data_sets: Mapping[str, PaperDataSet]
    top_items: Sequence[str]
    has_prior: bool
    board: LeaderboardTables
    beside: PaperComparison
    journey: LeaderboardTables | None = None
    journey_beside: PaperComparison | None = None
    journey_sets: Mapping[str, PaperDataSet] = field(default_factory=dict)
    journey_labels: Labels | None = None
    margins: tuple[MarginStudy, ...] = ()
    case: CaseStudy | None = None
    concept: Concept | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Part of the paper -> why it was not run."""


def label_sections(paper: Paper, found: ReproductionResults) -> list[Section]:
    """Data sets, label counts, departments, histograms, example pairs, popular items, Pop."""
    drawn = tuple(figure for figure in audit_figures(found.audit) if figure.name.startswith("consistency"))
    return [
        Section(
            "paper-data",
            "Data and labels",
            (
                Paragraph(MARKS_IN_WORDS, "note"),
                TableBlock(dataset_table(paper, found.data_sets, found.journey_sets)),
                TableBlock(label_count_table(paper, found.audit.paper, found.journey_labels)),
            ),
        ),
        Section(
            "paper-quality",
            "Quality of the labels",
            (
                Heading("Coverage", "paper-coverage"),
                TableBlock(department_table(paper, found.audit)),
                TableBlock(department_sums_table(paper, found.audit)),
                Heading("Consistency", "paper-consistency"),
                Paragraph(
                    "The paper's Figure 2: shares of dependent pairs by chi-squared in bins of 100. Its bars carry "
                    "no numbers; the file tables/consistency.csv has ours."
                ),
                FigureRow(drawn),
                Heading("Accuracy", "paper-accuracy"),
                TableBlock(case_pairs_table(paper, "positive_pairs", found.dependent)),
                TableBlock(case_pairs_table(paper, "negative_pairs", found.dependent)),
                TableBlock(top_items_table(paper, found.top_items, has_prior=found.has_prior)),
                TableBlock(pop_table(paper, found.audit.paper)),
            ),
        ),
    ]


def model_sections(paper: Paper, found: ReproductionResults) -> list[Section]:
    """The models on both data sets, the ablation, the margin, three items in one dimension and in many."""
    return [
        Section("paper-models", "Models on Instacart", _instacart_blocks(paper, found)),
        Section("paper-walmart", "Models on the Walmart data, and on Complete Journey", _journey_blocks(paper, found)),
        Section("paper-ablation", "NEAT against NEAT+bpr", _ablation_blocks(paper, found)),
        Section("paper-margin", "The margin", _margin_blocks(found)),
        Section("paper-concept", "Three items in one dimension", _concept_blocks(found)),
        Section("paper-case", "Three items as distributions", _case_blocks(paper, found)),
    ]


def beside_tables(paper: Paper, board: LeaderboardTables, beside: PaperComparison) -> dict[str, ReportTable]:
    """The paper's lines and ours for each level on the candidate set, by name: they follow from the ranks."""
    tables = [
        beside_table(paper, board, result, beside)
        for result in board.results
        if result.candidates == board.first.candidates
    ]
    return {table.name: table for table in tables}


OWN_SPLIT = "The folder has the prior orders, so the split is the paper's own."
HALF_SPLIT = (
    "The folder does not have the prior orders that the paper trains on. Orders with an even number train, those "
    "with an odd number are labelled and tested on. The labels are others than the paper's, so what can be compared "
    "is the order of the models, not the digits."
)
SETTINGS = "Lines named @paper use the paper's settings as stated, the others what worked best on validation orders."


def _instacart_blocks(paper: Paper, found: ReproductionResults) -> tuple[Block, ...]:
    words = Paragraph(f"{OWN_SPLIT if found.has_prior else HALF_SPLIT} {SETTINGS}")
    return (words, *(TableBlock(table) for table in beside_tables(paper, found.board, found.beside).values()))


def _journey_blocks(paper: Paper, found: ReproductionResults) -> tuple[Block, ...]:
    words = Paragraph(
        "The Walmart data are not public, so the paper's lines are cited. In their place stand ours from Complete "
        "Journey: returning households, no cart order, simulated by its authors from real shopping patterns, and "
        "not meant for academic claims."
    )
    if found.journey is None or found.journey_beside is None:
        return (words, _not_run(found, "complete-journey"))
    return (words, *(TableBlock(t) for t in beside_tables(paper, found.journey, found.journey_beside).values()))


def _ablation_blocks(paper: Paper, found: ReproductionResults) -> tuple[Block, ...]:
    boards = [(found.board, found.beside)]
    if found.journey is not None and found.journey_beside is not None:
        boards.append((found.journey, found.journey_beside))
    table = ablation_table(paper, boards)
    if not table.rows:
        return (_not_run(found, "ablation"),)
    words = Paragraph(
        "On Instacart's train orders each shopper has one order, so that there is little to learn about shoppers; "
        "the verdict on users comes from data with returning households."
    )
    return words, TableBlock(table)


def _margin_blocks(found: ReproductionResults) -> tuple[Block, ...]:
    if not found.margins:
        return (_not_run(found, "margin"),)
    blocks: list[Block] = [
        Paragraph("The paper's Figures 3 and 4 carry no numbers; its finding is that larger margins are better.")
    ]
    for study in found.margins:
        blocks += [
            Heading(study.data, f"margin-{study.data.lower().replace(' ', '-')}"),
            Paragraph(margin_words(study)),
            FigureRow(margin_figures(study)),
            TableBlock(margin_table(study)),
        ]
    return tuple(blocks)


def _concept_blocks(found: ReproductionResults) -> tuple[Block, ...]:
    if found.concept is None:
        return (_not_run(found, "concept"),)
    words = Paragraph(
        "The paper's Figure 1 is a sketch. These are Gaussians of one dimension that were learned from the orders."
    )
    return words, FigureRow(concept_figures(found.concept.names, found.concept.means, found.concept.variances))


def _case_blocks(paper: Paper, found: ReproductionResults) -> tuple[Block, ...]:
    if found.case is None:
        return (_not_run(found, "case study"),)
    return (TableBlock(case_study_table(paper, found.case, has_prior=found.has_prior)),)


def _not_run(found: ReproductionResults, part: str) -> Paragraph:
    return Paragraph(not_checkable(found.left_out.get(part, "it was left out")).capitalize() + ".", "note")
