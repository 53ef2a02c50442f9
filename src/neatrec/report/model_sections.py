"""Sections about the models: the leaderboard, metrics against list length, slices, measures that need no labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from neatrec.evaluation.cart_completion import CartCompletion
from neatrec.evaluation.held_out_lift import HeldOutLift
from neatrec.evaluation.summary import LIST_LENGTH, EvaluationResult, LevelResult, SliceResult
from neatrec.report.boards import (
    COLUMNS_IN_WORDS,
    LeaderboardTables,
    best_first,
    costs_table,
    in_words,
    leaderboard_table,
    main_metric,
    metric_title,
    metrics_table,
    tests_table,
)
from neatrec.report.figures import Curve, Dot, dot_plot, line_chart
from neatrec.report.page import Block, FigureRow, Heading, Paragraph, Section, TableBlock
from neatrec.report.svg import Figure
from neatrec.report.table import ReportTable, TableColumn, best_cells

LOUD = 6
"""Lines of a chart that are drawn in colour and named."""
SLICED = 5
"""Models in the tables of slices."""
WANTED = ("neat", "item2vec", "popco")
"""Models that a reader of the paper looks for."""

SAME_KIND = (
    "Labels and the statistics of lift are of one kind: both reward pairs that are bought together more often than "
    "chance would have it. The measures below that need no labels say how far that carries."
)


def loud_models(board: LeaderboardTables, count: int = LOUD) -> list[str]:
    """The models worth naming: the best of each kind, those a reader looks for, then by rank; best first."""
    ranked = [standing.name for standing in best_first(board.first)]
    kinds: dict[str, str] = {}
    for name in ranked:
        kinds.setdefault(board.about[name].kind, name)
    chosen = list(dict.fromkeys([*kinds.values(), *(name for name in WANTED if name in ranked), *ranked]))[:count]
    return [name for name in ranked if name in chosen]


def leaderboard_section(board: LeaderboardTables) -> Section:
    """Every level and candidate set: dots with intervals, the table, the best against each other model."""
    blocks: list[Block] = [
        Paragraph(
            "Each label is a pair that goes together in baskets that no model has seen. A model ranks the "
            "candidates of its query; a hit at K means that the label's item stands among the first K. Ties are "
            "never broken in anybody's favour."
        ),
        Paragraph(SAME_KIND, "note"),
        Paragraph(COLUMNS_IN_WORDS, "note"),
    ]
    for result in board.results:
        words = f"{board.where[result.level]}, {in_words(result.candidates)}"
        blocks.append(Heading(words[0].upper() + words[1:], board.file("board", result)))
        if result.level == board.first.level:
            blocks.append(FigureRow(dot_plots(board, result)))
        blocks.append(TableBlock(leaderboard_table(board, result)))
        if result is board.first:
            blocks.append(TableBlock(tests_table(board, result, only_best=True)))
    blocks += [Heading("Cost", board.file("cost")), TableBlock(costs_table(board))]
    return Section(board.file("leaderboard"), "Which model is better, and how sure", tuple(blocks))


def dot_plots(board: LeaderboardTables, result: LevelResult) -> tuple[Figure, ...]:
    """HR and NDCG of all models with intervals, one figure each, in one order."""
    metric = main_metric(result)
    out = []
    for name in (metric, metric.replace("hr@", "ndcg@")):
        dots = [
            Dot(s.name, board.about[s.name].kind, s.mean[name], s.low[name], s.high[name]) for s in best_first(result)
        ]
        ceiling = result.ceiling.get(int(metric.removeprefix("hr@"))) if name == metric else None
        caption = (
            f"{metric_title(name)} with 95 % intervals: {board.where[result.level]}, {in_words(result.candidates)}."
        )
        file = board.file(f"dots-{name.replace('@', '')}", result)
        out.append(dot_plot(file, dots, metric_title(name), caption, ceiling=ceiling))
    return tuple(out)


def curves_section(board: LeaderboardTables) -> Section:
    """HR and NDCG against the list length, for the first level on every candidate set."""
    blocks: list[Block] = [
        Paragraph(
            f"At most {LOUD} models are in colour, the others in grey; the tables have the numbers of all. Those of "
            "the other levels are files of the report."
        )
    ]
    for result in board.results:
        if result.level == board.first.level:
            blocks += [FigureRow(curve_charts(board, result)), TableBlock(metrics_table(board, result))]
    return Section(board.file("list-length"), "Metric against list length", tuple(blocks))


def curve_charts(board: LeaderboardTables, result: LevelResult) -> tuple[Figure, ...]:
    """One chart for HR, one for NDCG."""
    loud = loud_models(board)
    ks = sorted(result.ceiling)
    out = []
    for metric in ("hr", "ndcg"):
        curves = [Curve(s.name, [s.mean[f"{metric}@{k}"] for k in ks], loud=s.name in loud) for s in best_first(result)]
        if metric == "hr":
            curves.append(Curve("best possible", [result.ceiling[k] for k in ks], dashed=True))
        caption = (
            f"{metric.upper()} against the list length K: {board.where[result.level]}, {in_words(result.candidates)}."
        )
        name = board.file(f"curves-{metric}", result)
        out.append(line_chart(name, ks, curves, "list length K", f"{metric.upper()}@K", caption))
    return tuple(out)


def slices_section(board: LeaderboardTables, slices: Sequence[SliceResult]) -> Section:
    """Where a model is good: one table for each way of cutting the labels of the first result."""
    first = board.first
    blocks: list[Block] = [
        Paragraph(
            f"HR@{LIST_LENGTH} on parts of the labels ({board.where[first.level]}, {in_words(first.candidates)}). "
            "Popularity is counted in training baskets; its slices hold about equally many labels."
        )
    ]
    for by in dict.fromkeys(part.by for part in slices):
        parts = [part for part in slices if part.by == by]
        blocks.append(TableBlock(slice_table(board, by, parts, loud_models(board, SLICED))))
    return Section(board.file("slices"), "Where each model is good", tuple(blocks))


def slice_table(board: LeaderboardTables, by: str, parts: Sequence[SliceResult], models: Sequence[str]) -> ReportTable:
    """One line a slice, one column a model."""
    metric = f"hr@{LIST_LENGTH}"
    columns = (
        TableColumn("slice", by[0].upper() + by[1:]),
        TableColumn("labels", "Labels", "number"),
        TableColumn("queries", "Queries", "number"),
        *(TableColumn(name, name, "interval", 3) for name in models),
    )
    rows = []
    for part in parts:
        standings = {s.name: s for s in part.summary.models}
        cells = [(s.mean[metric], s.low[metric], s.high[metric]) for s in (standings[name] for name in models)]
        rows.append((part.name, part.summary.labels, part.summary.queries, *cells))
    best = frozenset(cell for row in range(len(rows)) for cell in _best_of_row(row, columns, rows[row]))
    name = board.file(f"slices-{by.replace(' ', '-')}")
    return ReportTable(name, f"HR@{LIST_LENGTH} by {by}", columns, tuple(rows), (), best)


def _best_of_row(row: int, columns: Sequence[TableColumn], cells: Sequence[object]) -> set[tuple[int, int]]:
    """The best model of one slice: the highest cell of a row, as `best_cells` finds it down a column."""
    models = [place for place, column in enumerate(columns) if column.kind == "interval"]
    down = best_cells([TableColumn("all", "all", "interval", 3)], [[cells[place]] for place in models], ["all"])
    return {(row, models[position]) for position, _ in down}


def label_free_section(evaluation: EvaluationResult) -> Section | None:
    """Held-out lift and basket completion; None where neither was measured."""
    blocks: list[Block] = []
    if evaluation.held_out:
        blocks += [
            Paragraph(
                "Held-out lift asks no labels: how much more often than by chance are the recommended pairs bought "
                "together in the test baskets? Observed over expected, pooled over all answers of the items sold "
                "most."
            ),
            TableBlock(held_out_table(evaluation.held_out)),
        ]
    if evaluation.completion:
        blocks += [
            Paragraph(
                "Basket completion hides an item of a held-out basket and asks for the whole cart. It rewards "
                "popular items, which lift does not."
            ),
            TableBlock(completion_table(evaluation.completion)),
        ]
    return Section("label-free", "Measures that need no labels", tuple(blocks)) if blocks else None


def held_out_table(found: Mapping[str, HeldOutLift]) -> ReportTable:
    """One line a model, best first at ten answers: lift by list length, sales covered."""
    ks = sorted(next(iter(found.values())).lift)
    main = LIST_LENGTH if LIST_LENGTH in ks else ks[-1]
    columns = (
        TableColumn("model", "Model"),
        *(TableColumn(f"lift@{k}", f"Lift@{k}", "interval", 2) for k in ks),
        TableColumn("queries", "Queries answered", "number"),
        TableColumn("sales_covered", "Sales covered", "share", 1),
    )
    order = sorted(found, key=lambda name: (-found[name].lift[main][0], name))
    rows = [(n, *(found[n].lift[k] for k in ks), found[n].queries, found[n].sales_covered) for n in order]
    notes = ("Sales covered: share of the test lines whose item got an answer. Intervals resample queries.",)
    best = best_cells(columns, rows, [f"lift@{k}" for k in ks])
    return ReportTable(
        "held-out-lift", "Lift of recommended pairs in the test baskets", columns, tuple(rows), notes, best
    )


def completion_table(found: Mapping[str, CartCompletion]) -> ReportTable:
    """One line a model, best first at ten answers: HR and NDCG of the hidden item."""
    carts = max(each.carts for each in found.values())
    ks = sorted(next(iter(found.values())).hr)
    main = LIST_LENGTH if LIST_LENGTH in ks else (ks or [0])[-1]
    columns = (
        TableColumn("model", "Model"),
        *(TableColumn(f"hr@{k}", f"HR@{k}", "interval", 3) for k in ks),
        *(TableColumn(f"ndcg@{k}", f"NDCG@{k}", "interval", 3) for k in ks if k == main),
    )
    order = sorted(found, key=lambda name: (-found[name].hr[main][0], name)) if ks else []
    rows = [(n, *(found[n].hr[k] for k in ks), *(found[n].ndcg[k] for k in ks if k == main)) for n in order]
    best = best_cells(columns, rows, [column.key for column in columns[1:]])
    caption = f"Hidden items that come back, in {carts:,} carts of the test baskets"
    return ReportTable("basket-completion", caption, columns, tuple(rows), ("Intervals resample carts.",), best)
