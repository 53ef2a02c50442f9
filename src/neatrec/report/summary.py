"""The first screen: a card with what was found, one chart, the strongest pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neatrec.report.figures import dot_plot
from neatrec.report.leaderboard_tables import (
    NO_LABELS,
    LeaderboardTables,
    best_first,
    interval_text,
    main_metric,
    verdict,
)
from neatrec.report.model_sections import dots_of, highlighted_models
from neatrec.report.page import FigureRow, Paragraph, Section, SummaryCard, Tile
from neatrec.report.table import ReportTable, format_number, format_share, interval, text
from neatrec.text import plural

PAIR_COLUMNS = (
    text("item"),
    text("goes_with"),
    text("sure", "How sure"),
    text("strong", "How strong"),
    text("together", "Bought together"),
    interval("lift", digits=1),
    text("evidence"),
)
Row = tuple[str, str, str, str | None, str, tuple[float, float, float], str]


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
    strongest: tuple[Row, ...]
    """Rows of the table."""
    strata: str
    """Within what the evidence was measured."""


def summary_section(
    leaderboard: LeaderboardTables, found: FoundPairs | None, goal: tuple[str, str] | None, warnings: Sequence[str]
) -> Section:
    """The card and the chart; `goal` is that of `recommended_goal`."""
    tiles = [] if found is None else _found_tiles(found)
    tiles.append(_hit_rate(leaderboard))
    tiles += [] if goal is None else [Tile("Recommended goal", *goal)]
    result = leaderboard.first
    blocks: list[SummaryCard | FigureRow] = [SummaryCard(tuple(tiles), tuple(warnings))]
    if result.summary.labels:
        metric, named = main_metric(result), highlighted_models(leaderboard)
        caption = f"{metric.upper()} with 95 % intervals: {leaderboard.describe(result)}."
        dots = [dot for dot in dots_of(leaderboard, result, metric) if dot.label in named]
        blocks.append(FigureRow((dot_plot("summary", dots, metric.upper(), caption),)))
    return Section("summary", "Summary", tuple(blocks))


def _found_tiles(found: FoundPairs) -> list[Tile]:
    explained = f"; {plural(found.explained, 'more is', 'more are')} explained by season, store or basket size"
    kinds = f"{found.certain:,} certain, {found.likely:,} likely{explained if found.explained else ''}"
    items = f"{found.items:,} of {plural(found.bought, 'item')} have such a pair."
    return [
        Tile("Pairs found", f"{found.certain + found.likely:,}", f"{kinds}."),
        Tile("Sales covered", format_share(found.sales, 0), items),
    ]


def _hit_rate(leaderboard: LeaderboardTables) -> Tile:
    """The best model that is no statistic, beside the best statistic."""
    result = leaderboard.first
    ranked, metric = best_first(result), main_metric(result)
    if not ranked or not result.summary.labels:
        return Tile("Hit rate", "–", NO_LABELS)
    statistics = [model for model in ranked if leaderboard.facts[model.name].kind == "statistic"]
    best = next((model for model in ranked if model not in statistics), ranked[0])
    k, labels = metric.removeprefix("hr@"), plural(result.summary.labels, "held-out pair")
    note = f"{best.name}: so many of {labels} are among its first {k} answers (95 % interval)."
    if statistics and statistics[0] is not best:
        words = verdict(result, best, statistics[0])
        note += f" The best statistic, {statistics[0].name}: {interval_text(statistics[0], metric)}. {words}"
    return Tile("Hit rate", interval_text(best, metric), note)


def recommended_goal(learned: Mapping[str, Any]) -> tuple[str, str]:
    """The goal whose weaker measure is best, and why: each gain over that of the best statistic, as the model found
    them on held-out training baskets. The default where they do not tell goals apart.

    >>> row = {"name": "bayes balanced", "lift_gain": 0.9, "evidence_gain": 0.8}
    >>> statistic = {"name": "llr", "lift_gain": 0.6, "evidence_gain": 0.8}
    >>> recommended_goal({"goals": {"balanced": {}}, "comparison": [row, statistic]})[0]
    'balanced'
    """
    goals, rows = list(learned["goals"]), learned["comparison"]
    of_goal = {goal: row for goal in goals for row in rows if row["name"] == f"bayes {goal}"}
    others = [row for row in rows if row not in of_goal.values()]
    measures = [m for m in ("lift_gain", "evidence_gain") if others and max(_number(row[m]) for row in others) > 0]
    if not of_goal or not measures:
        return goals[0], "The default: there are too few pairs in held-out training baskets to compare goals."
    best = {m: max(_number(row[m]) for row in others) for m in measures}
    weaker = {goal: min(_number(row[m]) / best[m] for m in measures) for goal, row in of_goal.items()}
    goal = max(weaker, key=weaker.__getitem__)
    gains = " and ".join(
        f"{format_number(_number(of_goal[goal][m]) / best[m], 2)}x by {'certain' if m[0] == 'e' else 'high-lift'} pairs"
        for m in measures
    )
    return goal, f"Gain over the best statistic in held-out training baskets: {gains}."


def _number(value: float | None) -> float:
    return 0.0 if value is None or math.isnan(value) else value


def pairs_section(found: FoundPairs) -> Section:
    title = "Strongest pairs"
    if not found.strongest:
        return Section("pairs", title, (Paragraph("No pair is bought together more often than by chance."),))
    caption = f"The {plural(len(found.strongest), 'strongest pair')} of {found.certain + found.likely:,}"
    notes = (found.strata,) if found.strata else ()
    return Section("pairs", title, (ReportTable("pairs", caption, PAIR_COLUMNS, found.strongest, notes, kind="pairs"),))
