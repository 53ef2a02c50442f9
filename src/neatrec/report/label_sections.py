"""The section about the labels: how many, how many by chance, where they stand, how strong they are."""

from __future__ import annotations

from collections.abc import Sequence

from neatrec.labels.audit import Audit
from neatrec.labels.record import Labels
from neatrec.report.audit_report import audit_figures, audit_tables
from neatrec.report.page import Block, FigureRow, Heading, Paragraph, Section, TableBlock
from neatrec.report.table import ReportTable

PARTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "How many, and how many by chance",
        "The paper protocol tests each pair by chi-squared. The calibrated protocol counts what chance gives to "
        "each pair and controls the false-discovery rate of all labels together.",
        ("summary", "false_discoveries", "truth", "overlap", "negatives"),
    ),
    ("Coverage", "Labels should not come from a few categories only.", ("coverage",)),
    (
        "Consistency",
        "Shares of the pairs that pass the paper's test by their chi-squared: positive (more often together than "
        "the paper expects) and negative.",
        (),
    ),
    ("Accuracy", "The strongest pairs of both signs by name.", ("positive_pairs", "negative_pairs", "popular")),
)
"""Heading, words and tables of each part."""
FILES_ONLY = ("consistency",)
"""Tables too long for the page."""


def level_in_words(labels: Labels, level: float) -> str:
    """A level as people read it: what protocol, what kind of level."""
    kind = "p =" if labels.level_kind == "p" else "a false-discovery rate of"
    return f"{labels.protocol} labels at {kind} {level:g}"


def audit_section(audit: Audit, without: Sequence[str] = ()) -> tuple[Section, list[ReportTable]]:
    """The study of the labels by both protocols, and the tables that are too long for the page.

    `without` names parts that stand elsewhere on the page.
    """
    tables = {table.name: table for table in audit_tables(audit)}
    figures = tuple(audit_figures(audit))
    blocks: list[Block] = []
    for heading, words, names in (part for part in PARTS if part[0] not in without):
        blocks += [Heading(heading, f"labels-{heading.split(',')[0].lower().replace(' ', '-')}"), Paragraph(words)]
        drawn = tuple(figure for figure in figures if figure.name.startswith(heading.lower()))
        blocks += [FigureRow(drawn)] if drawn else []
        blocks += [TableBlock(tables[name]) for name in names if name in tables]
    files_only = [tables[name] for name in FILES_ONLY if name in tables]
    return Section("labels", "How far the labels can be trusted", tuple(blocks)), files_only
