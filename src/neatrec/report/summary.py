"""The first screen, for whoever owns the shop: what was found, what it is worth, how certain it is, the best pairs."""

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
COLUMNS = (
    text("item"),
    text("goes_with"),
    text("grade"),
    text("strength"),
    number("together", "Bought together"),
    number("beyond_chance", digits=1),
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
    """Orders with both items beyond those by chance, at least: the sum over the pairs of the lower bound."""
    unit: str
    """What `worth` counts: customers, where they return, else orders."""
    best: ReportTable
    """The pairs, most orders beyond chance first."""
    strata: str
    """Within what the evidence was measured."""

    @property
    def pairs(self) -> int:
        return self.certain + self.likely


def find_pairs(
    baskets: Baskets, strata: Sequence[str] | None = None, *, threads: int | None = None
) -> FoundPairs:
    """The pairs with evidence in all of `baskets`, by the code of the serving table."""
    book = CountBook(baskets, Engine(threads=threads))
    pairs = EvidenceTable.of(baskets, strata=strata, book=book)
    covered = np.zeros(len(baskets.catalog), dtype=np.bool_)
    covered[pairs.one[pairs.evident]] = covered[pairs.other[pairs.evident]] = True
    lines, grade = baskets.item_counts, pairs.columns["grade"]
    beyond = pairs.columns["beyond"][pairs.evident]
    best = pairs.evident[np.argsort(-beyond, kind="stable")[:LISTED]]
    catalog = baskets.catalog
    rows = [
        (
            catalog.name(int(pairs.one[row])),
            catalog.name(int(pairs.other[row])),
            each.grade,
            each.strength,
            each.count if each.customers < 0 else each.customers,
            each.beyond,
            (each.lift, each.lift_low, each.lift_high),
            each.words(),
        )
        for row, each in ((row, pairs.evidence_at(row)) for row in best.tolist())
    ]
    return FoundPairs(
        certain=int((grade == CERTAIN).sum()),
        likely=int((grade == LIKELY).sum()),
        explained=len(pairs.explained),
        items=int(covered.sum()),
        bought=int((lines > 0).sum()),
        sales=float(lines[covered].sum() / max(lines.sum(), 1)),
        worth=float(beyond.sum()),
        unit="customers" if pairs.by_customer else "orders",
        best=ReportTable(
            "pairs", "Pairs with evidence, most beyond chance first", COLUMNS, tuple(rows)
        ),
        strata=pairs.words(),
    )


def summary_section(found: FoundPairs, advice: Sequence[str]) -> Section:
    """The card, one sentence on certainty, and the pairs that are worth most."""
    if not found.pairs:
        nothing = "No pair is bought together more often than by chance."
        return Section("summary", "The pairs worth most", (Paragraph(nothing),))
    explained = plural(found.explained, "more pair is", "more pairs are")
    kinds = f"{found.certain:,} certain, {found.likely:,} likely."
    if found.explained:
        kinds += f" {explained} left out: a season, a store or the basket size explains them."
    tiles = (
        Tile("Pairs found", f"{found.pairs:,}", kinds),
        Tile(
            "Sales covered",
            format_share(found.sales, 0),
            f"{found.items:,} of {plural(found.bought, 'item')} have such a pair.",
        ),
        Tile(
            "Bought together beyond chance",
            f"{format_number(found.worth, 0)} {found.unit}",
            "At least this many more than if items were put into carts independently of each other.",
        ),
    )
    certainty = (
        f"Of the certain pairs at most {format_share(CERTAIN_Q, 1)} are coincidence, of all pairs found at "
        f"most {format_share(LIKELY_Q, 0)}. {found.strata} An association is no proof of extra sales: only "
        "an experiment shows these."
    )
    shown = tuple(
        PairLine(row[0], row[1], row[-1], f"{row[2]}, {row[3]}") for row in found.best.rows[:SHOWN]
    )
    blocks: list[Block] = [SummaryCard(tiles, tuple(advice)), Paragraph(certainty)]
    blocks.append(PairLines(shown, found.best))
    return Section("summary", "The pairs worth most", tuple(blocks))
