"""The first screen, for the owner of the shop: pairs, their worth, their certainty, the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neatrec.cooccurrence import Engine
from neatrec.cooccurrence.count_book import CountBook
from neatrec.data.baskets import Baskets
from neatrec.report.page import Block, PairLine, PairLines, Paragraph, Section, SummaryCard, Tile
from neatrec.report.table import ReportTable, format_number, format_share, interval, number, text
from neatrec.serving import EvidenceTable
from neatrec.serving.evidence import CERTAIN, CERTAIN_Q, LIKELY, LIKELY_Q
from neatrec.text import plural

SHOWN = 10
"""Pairs on the first screen."""
LISTED = 500
"""Pairs in the CSV file."""
TITLE = "The pairs worth most"
COLUMNS = (
    text("item"),
    text("goes_with"),
    text("grade"),
    text("strength"),
    text("same_category"),
    number("together", "Bought together"),
    number("beyond_chance", digits=1),
    number("revenue_per_month"),
    interval("lift", digits=1),
    text("evidence"),
)


@dataclass(frozen=True)
class FoundPairs:
    """The pairs with evidence in all baskets of the report, training and test."""

    certain: int
    likely: int
    explained: int
    """Pairs that look certain but that a season, a store or the basket size explains."""
    items: int
    """Items with a certain or likely pair."""
    bought: int
    """Items that a basket holds."""
    sales: float
    """Share of the lines whose item has a certain or likely pair."""
    worth: float
    """Orders with both items beyond those by chance, at least: the sum of the lower bounds."""
    revenue: float
    """The same at the prices of both items, per month; NaN where prices are not known."""
    unit: str
    """What `worth` counts: customers, where they return, else orders."""
    best: ReportTable
    """The pairs, most orders beyond chance first."""
    strata: str
    """Strata within which the evidence was measured, as a sentence."""


def find_pairs(
    baskets: Baskets, strata: Sequence[str] | None = None, *, threads: int | None = None
) -> FoundPairs:
    """The pairs with evidence in all of `baskets`, counted as the serving table counts them."""
    book = CountBook(baskets, Engine(threads=threads))
    pairs = EvidenceTable.of(baskets, strata=strata, book=book)
    covered = np.zeros(len(baskets.catalog), dtype=np.bool_)
    covered[pairs.one[pairs.evident]] = covered[pairs.other[pairs.evident]] = True
    lines, grade = baskets.item_counts, pairs.columns["grade"]
    beyond = pairs.columns["beyond"][pairs.evident]
    best = pairs.evident[np.argsort(-beyond, kind="stable")[:LISTED]]
    rows = [_pair_row(baskets, pairs, row) for row in best.tolist()]
    return FoundPairs(
        certain=int((grade == CERTAIN).sum()),
        likely=int((grade == LIKELY).sum()),
        explained=len(pairs.explained),
        items=int(covered.sum()),
        bought=int((lines > 0).sum()),
        sales=float(lines[covered].sum() / max(lines.sum(), 1)),
        worth=float(beyond.sum()),
        revenue=_sum_of_known(pairs),
        unit="customers" if pairs.by_customer else "orders",
        best=ReportTable(
            "pairs",
            "Pairs with evidence, most beyond chance first",
            tuple(each for each in COLUMNS if each.key in rows[0]) if rows else COLUMNS,
            rows,
        ),
        strata=pairs.words(),
    )


def _sum_of_known(pairs: EvidenceTable) -> float:
    revenue = pairs.columns.get("revenue")
    return float("nan") if revenue is None else float(np.nansum(revenue[pairs.evident]))


def _pair_row(baskets: Baskets, pairs: EvidenceTable, row: int) -> dict[str, object]:
    evidence = pairs.evidence_at(row)
    return {
        "item": baskets.catalog.name(int(pairs.one[row])),
        "goes_with": baskets.catalog.name(int(pairs.other[row])),
        "grade": evidence.grade,
        "strength": evidence.strength,
        "same_category": "same category" if evidence.same_category == 1 else None,
        "together": evidence.count if evidence.customers < 0 else evidence.customers,
        "beyond_chance": evidence.beyond,
        **({"revenue_per_month": evidence.revenue} if "revenue" in pairs.columns else {}),
        "lift": evidence.lift,
        "lift_low": evidence.lift_low,
        "lift_high": evidence.lift_high,
        "evidence": evidence.words(),
    }


def _in_money(revenue: float) -> str:
    if not np.isfinite(revenue):
        return ""
    return f" At the prices of both items that is {format_number(revenue)} per month."


def summary_section(found: FoundPairs, advice: Sequence[str]) -> Section:
    """The numbers, one sentence on certainty, and the pairs that are worth most."""
    if not found.certain + found.likely:
        nothing = "No pair is bought together more often than by chance."
        return Section("summary", TITLE, (Paragraph(nothing),))
    kinds = f"{found.certain:,} certain, {found.likely:,} likely."
    if found.explained:
        explained = plural(found.explained, "more pair is", "more pairs are")
        kinds += f" {explained} left out: a season, a store or the basket size explains them."
    tiles = (
        Tile("Pairs found", f"{found.certain + found.likely:,}", kinds),
        Tile(
            "Sales covered",
            format_share(found.sales, 0),
            f"{found.items:,} of {plural(found.bought, 'item')} have such a pair.",
        ),
        Tile(
            "Bought together beyond chance",
            f"{format_number(found.worth)} {found.unit}",
            "At least this many more than if each item were bought independently of the others."
            + _in_money(found.revenue),
        ),
    )
    certainty = (
        f"At most {format_share(CERTAIN_Q)} of the certain pairs and {format_share(LIKELY_Q, 0)} "
        "of all pairs found are coincidence, and an association is no proof of extra sales: only "
        "an experiment shows these."
    )
    shown = []
    for row in found.best.rows[:SHOWN]:
        facts = ", ".join(filter(None, (row["grade"], row["strength"], row["same_category"])))
        shown.append(PairLine(row["item"], row["goes_with"], row["evidence"], facts))
    blocks: list[Block] = [SummaryCard(tiles, tuple(advice)), Paragraph(certainty)]
    blocks += [PairLines(tuple(shown), found.best), Paragraph(found.strata, "note")]
    return Section("summary", TITLE, tuple(blocks))
