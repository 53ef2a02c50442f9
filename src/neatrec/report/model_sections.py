"""Sections about the models: the leaderboard, metrics against list length, slices, measures that need no labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from neatrec.evaluation.cart_completion import Completion
from neatrec.evaluation.held_out_lift import HeldOutLift
from neatrec.evaluation.results import LIST_LENGTH, Grades, Result
from neatrec.evaluation.slices import SliceResult
from neatrec.report.boards import (
    COLUMNS_IN_WORDS,
    Board,
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
from neatrec.report.page import Block, Figures, Heading, Section, Tabled, Words
from neatrec.report.svg import Figure
from neatrec.report.table import Column, Table, best_cells

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


def loud_models(board: Board, count: int = LOUD) -> list[str]:
    """The models worth naming: the best of each kind, those a reader looks for, then by rank; best first."""
    ranked = [standing.name for standing in best_first(board.first)]
    kinds: dict[str, str] = {}
    for name in ranked:
        kinds.setdefault(board.about[name].kind, name)
    chosen = list(dict.fromkeys([*kinds.values(), *(name for name in WANTED if name in ranked), *ranked]))[:count]
    return [name for name in ranked if name in chosen]


def leaderboard_section(board: Board) -> Section:
    """Every level and candidate set: dots with intervals, the table, the best against each other model."""
    blocks: list[Block] = [
        Words(
            "Each label is a pair that goes together in baskets that no model has seen. A model ranks the "
            "candidates of its query; a hit at K means that the label's item stands among the first K. Ties are "
            "never broken in anybody's favour."
        ),
        Words(SAME_KIND, "note"),
        Words(COLUMNS_IN_WORDS, "note"),
    ]
    for result in board.results:
        words = f"{board.where[result.level]}, {in_words(result.candidates)}"
        blocks.append(Heading(words[0].upper() + words[1:], board.file("board", result)))
        if result.level == board.first.level:
            blocks.append(Figures(dot_plots(board, result)))
        blocks.append(Tabled(leaderboard_table(board, result)))
        if result is board.first:
            blocks.append(Tabled(tests_table(board, result, only_best=True)))
    blocks += [Heading("Cost", board.file("cost")), Tabled(costs_table(board))]
    return Section(board.file("leaderboard"), "Which model is better, and how sure", tuple(blocks))


def dot_plots(board: Board, result: Result) -> tuple[Figure, ...]:
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


def curves_section(board: Board) -> Section:
    """HR and NDCG against the list length, for the first level on every candidate set."""
    blocks: list[Block] = [
        Words(
            f"At most {LOUD} models are in colour, the others in grey; the tables have the numbers of all. Those of "
            "the other levels are files of the report."
        )
    ]
    for result in board.results:
        if result.level == board.first.level:
            blocks += [Figures(curve_charts(board, result)), Tabled(metrics_table(board, result))]
    return Section(board.file("list-length"), "Metric against list length", tuple(blocks))


def curve_charts(board: Board, result: Result) -> tuple[Figure, ...]:
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


def slices_section(board: Board, slices: Sequence[SliceResult]) -> Section:
    """Where a model is good: one table for each way of cutting the labels of the first result."""
    first = board.first
    blocks: list[Block] = [
        Words(
            f"HR@{LIST_LENGTH} on parts of the labels ({board.where[first.level]}, {in_words(first.candidates)}). "
            "Popularity is counted in training baskets; its slices hold about equally many labels."
        )
    ]
    for by in dict.fromkeys(part.by for part in slices):
        parts = [part for part in slices if part.by == by]
        blocks.append(Tabled(slice_table(board, by, parts, loud_models(board, SLICED))))
    return Section(board.file("slices"), "Where each model is good", tuple(blocks))


def slice_table(board: Board, by: str, parts: Sequence[SliceResult], models: Sequence[str]) -> Table:
    """One line a slice, one column a model."""
    metric = f"hr@{LIST_LENGTH}"
    columns = (
        Column("slice", by[0].upper() + by[1:]),
        Column("labels", "Labels", "number"),
        Column("queries", "Queries", "number"),
        *(Column(name, name, "interval", 3) for name in models),
    )
    rows = []
    for part in parts:
        standings = {s.name: s for s in part.summary.standings}
        cells = [(s.mean[metric], s.low[metric], s.high[metric]) for s in (standings[name] for name in models)]
        rows.append((part.name, part.summary.labels, part.summary.queries, *cells))
    best = frozenset(cell for row in range(len(rows)) for cell in _best_of_row(row, columns, rows[row]))
    name = board.file(f"slices-{by.replace(' ', '-')}")
    return Table(name, f"HR@{LIST_LENGTH} by {by}", columns, tuple(rows), (), best)


def _best_of_row(row: int, columns: Sequence[Column], cells: Sequence[object]) -> set[tuple[int, int]]:
    """The best model of one slice: the highest cell of a row, as `best_cells` finds it down a column."""
    models = [place for place, column in enumerate(columns) if column.kind == "interval"]
    down = best_cells([Column("all", "all", "interval", 3)], [[cells[place]] for place in models], ["all"])
    return {(row, models[position]) for position, _ in down}


def label_free_section(grades: Grades) -> Section | None:
    """Held-out lift and basket completion; None where neither was measured."""
    blocks: list[Block] = []
    if grades.held_out:
        blocks += [
            Words(
                "Held-out lift asks no labels: how much more often than by chance are the recommended pairs bought "
                "together in the test baskets? Observed over expected, pooled over all answers of the items sold "
                "most."
            ),
            Tabled(held_out_table(grades.held_out)),
        ]
    if grades.completion:
        blocks += [
            Words(
                "Basket completion hides an item of a held-out basket and asks for the whole cart. It rewards "
                "popular items, which lift does not."
            ),
            Tabled(completion_table(grades.completion)),
        ]
    return Section("label-free", "Measures that need no labels", tuple(blocks)) if blocks else None


def held_out_table(found: Mapping[str, HeldOutLift]) -> Table:
    """One line a model, best first at ten answers: lift by list length, sales covered."""
    ks = sorted(next(iter(found.values())).lift)
    main = LIST_LENGTH if LIST_LENGTH in ks else ks[-1]
    columns = (
        Column("model", "Model"),
        *(Column(f"lift@{k}", f"Lift@{k}", "interval", 2) for k in ks),
        Column("queries", "Queries answered", "number"),
        Column("sales_covered", "Sales covered", "share", 1),
    )
    order = sorted(found, key=lambda name: (-found[name].lift[main][0], name))
    rows = [(n, *(found[n].lift[k] for k in ks), found[n].queries, found[n].sales_covered) for n in order]
    notes = ("Sales covered: share of the test lines whose item got an answer. Intervals resample queries.",)
    best = best_cells(columns, rows, [f"lift@{k}" for k in ks])
    return Table("held-out-lift", "Lift of recommended pairs in the test baskets", columns, tuple(rows), notes, best)


def completion_table(found: Mapping[str, Completion]) -> Table:
    """One line a model, best first at ten answers: HR and NDCG of the hidden item."""
    carts = max(each.carts for each in found.values())
    ks = sorted(next(iter(found.values())).hr)
    main = LIST_LENGTH if LIST_LENGTH in ks else (ks or [0])[-1]
    columns = (
        Column("model", "Model"),
        *(Column(f"hr@{k}", f"HR@{k}", "interval", 3) for k in ks),
        *(Column(f"ndcg@{k}", f"NDCG@{k}", "interval", 3) for k in ks if k == main),
    )
    order = sorted(found, key=lambda name: (-found[name].hr[main][0], name)) if ks else []
    rows = [(n, *(found[n].hr[k] for k in ks), *(found[n].ndcg[k] for k in ks if k == main)) for n in order]
    best = best_cells(columns, rows, [column.key for column in columns[1:]])
    caption = f"Hidden items that come back, in {carts:,} carts of the test baskets"
    return Table("basket-completion", caption, columns, tuple(rows), ("Intervals resample carts.",), best)
