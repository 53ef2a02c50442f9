"""The first screen, for the owner of the shop: pairs, their worth, their certainty, the best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neatrec.data.baskets import Baskets
from neatrec.report.page import BestPairs, Paragraph, Section, SummaryCard, Tile
from neatrec.report.table import ReportTable, TableColumn, format_number, format_share
from neatrec.serving import EvidenceTable
from neatrec.serving.evidence import CERTAIN, CERTAIN_Q, LIKELY_Q
from neatrec.text import plural

SHOWN = 10
"""Pairs on the first screen."""
LISTED = 500
"""Pairs in the CSV file."""
TITLE = "The pairs worth most"
COLUMNS = (
    TableColumn("item"),
    TableColumn("goes_with"),
    TableColumn("grade"),
    TableColumn("strength"),
    TableColumn("same_category"),
    TableColumn("together", "number"),
    TableColumn("beyond_chance", "number", 1),
    TableColumn("lift", "interval", 1),
    TableColumn("evidence"),
)
REVENUE = TableColumn("revenue_per_month", "number")
"""A column where prices are known."""


def summary_section(baskets: Baskets, pairs: EvidenceTable, advice: Sequence[str] = ()) -> Section:
    """The numbers, one sentence on certainty, and the pairs that are worth most."""
    if not len(pairs.evident):
        nothing = "No pair is bought together more often than by chance."
        return Section("summary", TITLE, (Paragraph(nothing),))
    certainty = (
        f"At most {format_share(CERTAIN_Q)} of the certain pairs and {format_share(LIKELY_Q, 0)} "
        "of all pairs found are coincidence, and an association is no proof of extra sales: only "
        "an experiment shows these."
    )
    blocks = (
        SummaryCard(_tiles(baskets, pairs), tuple(advice)),
        Paragraph(certainty),
        BestPairs(best_pairs(baskets, pairs), SHOWN),
        Paragraph(pairs.words(), "note"),
    )
    return Section("summary", TITLE, blocks)


def _tiles(baskets: Baskets, pairs: EvidenceTable) -> tuple[Tile, ...]:
    """The number of pairs, the share of sales they cover, and their worth."""
    number, certain = len(pairs.evident), int((pairs.columns["grade"] == CERTAIN).sum())
    kinds = f"{certain:,} certain, {number - certain:,} likely."
    if explained := len(pairs.explained):
        more = plural(explained, "more pair is", "more pairs are")
        kinds += f" {more} left out: a season, a store or the basket size explains them."
    covered = np.zeros(len(baskets.catalog), dtype=np.bool_)
    covered[pairs.one[pairs.evident]] = covered[pairs.other[pairs.evident]] = True
    lines = baskets.item_counts
    sales = float(lines[covered].sum() / max(lines.sum(), 1))
    bought = plural(int((lines > 0).sum()), "item")
    worth = "At least this many more than if each item were bought independently of the others."
    if "revenue" in pairs.columns:
        revenue = float(np.nansum(pairs.columns["revenue"][pairs.evident]))
        worth += f" At the prices of both items that is {format_number(revenue)} per month."
    beyond = format_number(float(pairs.columns["beyond"][pairs.evident].sum()))
    unit = "customers" if pairs.by_customer else "orders"
    return (
        Tile("Pairs found", f"{number:,}", kinds),
        Tile(
            "Sales covered",
            format_share(sales, 0),
            f"{int(covered.sum()):,} of {bought} have such a pair.",
        ),
        Tile("Bought together beyond chance", f"{beyond} {unit}", worth),
    )


def best_pairs(baskets: Baskets, pairs: EvidenceTable) -> ReportTable:
    """The pairs with most orders beyond chance, first."""
    name, has_prices = baskets.catalog.name, "revenue" in pairs.columns
    beyond = pairs.columns["beyond"][pairs.evident]
    rows = []
    for row in pairs.evident[np.argsort(-beyond, kind="stable")[:LISTED]].tolist():
        evidence = pairs.evidence_at(row)
        cells = {
            "item": name(int(pairs.one[row])),
            "goes_with": name(int(pairs.other[row])),
            "grade": evidence.grade,
            "strength": evidence.strength,
            "same_category": "same category" if evidence.same_category == 1 else None,
            "together": evidence.count if evidence.customers < 0 else evidence.customers,
            "beyond_chance": evidence.beyond,
            "lift": evidence.lift,
            "lift_low": evidence.lift_low,
            "lift_high": evidence.lift_high,
            "evidence": evidence.words(),
        }
        rows.append({**cells, "revenue_per_month": evidence.revenue} if has_prices else cells)
    columns = (*COLUMNS, REVENUE) if has_prices else COLUMNS
    return ReportTable("pairs", "Pairs with evidence, most beyond chance first", columns, rows)
