"""Sections about the models: leaderboard, list lengths, slices, label-free measures, variances, examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import Catalog
from neatrec.evaluation.cart_completion import CartCompletion
from neatrec.evaluation.held_out_lift import HeldOutLift
from neatrec.evaluation.ranks import LabelQueries
from neatrec.evaluation.summary import LIST_LENGTH, EvaluationResult, LevelResult, SliceResult
from neatrec.report.figures import Curve, Dot, dot_plot, line_chart, popularity_chart
from neatrec.report.leaderboard_tables import (
    COLUMNS_NOTE,
    LeaderboardTables,
    best_first,
    conclusion,
    costs_table,
    leaderboard_table,
    main_metric,
    metrics_table,
    tests_table,
)
from neatrec.report.page import Block, ExampleList, ExampleQuery, FigureRow, Heading, Paragraph, Section
from neatrec.report.svg import Figure
from neatrec.report.table import ReportTable, TableColumn, best_cells, interval, number, share, text

HIGHLIGHTED = 6
"""Lines of a chart that are drawn in colour and named."""
SLICED = 5
"""Models in the tables of slices."""
FROM_PAPER = ("neat", "item2vec", "popco")
"""Models that a reader of the paper looks for."""

SAME_KIND = (
    "Labels and lift statistics are related: both reward pairs that are bought together more often than by chance. The "
    "measures below that need no labels show how far the ranking depends on that."
)


def highlighted_models(leaderboard: LeaderboardTables, count: int = HIGHLIGHTED) -> list[str]:
    """The models worth naming: the best of each kind, those a reader looks for, then by rank; best first."""
    ranked = [model.name for model in best_first(leaderboard.first)]
    kinds: dict[str, str] = {}
    for name in ranked:
        kinds.setdefault(leaderboard.facts[name].kind, name)
    chosen = list(dict.fromkeys([*kinds.values(), *(name for name in FROM_PAPER if name in ranked), *ranked]))[:count]
    return [name for name in ranked if name in chosen]


def leaderboard_section(leaderboard: LeaderboardTables) -> Section:
    """Every level and candidate set: dots with intervals, the table, the best against each other model."""
    blocks: list[Block] = [
        *map(Paragraph, conclusion(leaderboard)),
        Paragraph(
            "Each label is a pair that is bought together more often than by chance in baskets that no model was "
            "trained on. A model ranks the candidates of the query; a hit at K means that the label's item is among "
            "the first K. Tied items share their ranks."
        ),
        Paragraph(SAME_KIND, "note"),
        Paragraph(COLUMNS_NOTE, "note"),
    ]
    for result in leaderboard.results:
        heading = leaderboard.describe(result)
        blocks.append(Heading(heading[0].upper() + heading[1:], leaderboard.file("leaderboard", result)))
        if result.level == leaderboard.first.level:
            blocks.append(FigureRow(dot_plots(leaderboard, result)))
        blocks.append(leaderboard_table(leaderboard, result))
        if result is leaderboard.first:
            blocks.append(tests_table(leaderboard, result, only_best=True))
    blocks += [Heading("Cost", leaderboard.file("cost")), costs_table(leaderboard)]
    return Section(leaderboard.file("leaderboard"), "Which model is better, and how certain", tuple(blocks))


def dot_plots(leaderboard: LeaderboardTables, result: LevelResult) -> tuple[Figure, ...]:
    """HR and NDCG of all models with intervals, one figure each, in one order."""
    metric = main_metric(result)
    out = []
    for name in (metric, metric.replace("hr@", "ndcg@")):
        ceiling = result.ceiling.get(int(metric.removeprefix("hr@"))) if name == metric else None
        caption = f"{name.upper()} with 95 % intervals: {leaderboard.describe(result)}."
        file = leaderboard.file(f"dots-{name.replace('@', '')}", result)
        out.append(dot_plot(file, dots_of(leaderboard, result, name), name.upper(), caption, ceiling=ceiling))
    return tuple(out)


def dots_of(leaderboard: LeaderboardTables, result: LevelResult, metric: str) -> list[Dot]:
    return [Dot(s.name, leaderboard.facts[s.name].kind, *s.interval(metric)) for s in best_first(result)]


def curves_section(leaderboard: LeaderboardTables) -> Section:
    """HR and NDCG against the list length, for the first level on every candidate set."""
    blocks: list[Block] = [
        Paragraph(
            f"At most {HIGHLIGHTED} models are in colour, the others in grey; the tables have the numbers of all. The "
            "tables of the other levels are files of the report."
        )
    ]
    for result in leaderboard.results:
        if result.level == leaderboard.first.level:
            blocks += [FigureRow(curve_charts(leaderboard, result)), metrics_table(leaderboard, result)]
    return Section(leaderboard.file("list-length"), "Metric against list length", tuple(blocks))


def curve_charts(leaderboard: LeaderboardTables, result: LevelResult) -> tuple[Figure, ...]:
    highlighted = highlighted_models(leaderboard)
    ks = sorted(result.ceiling)
    out = []
    for metric in ("hr", "ndcg"):
        curves = [
            Curve(s.name, [s.mean[f"{metric}@{k}"] for k in ks], highlighted=s.name in highlighted)
            for s in best_first(result)
        ]
        if metric == "hr":
            curves.append(Curve("best possible", [result.ceiling[k] for k in ks], dashed=True))
        caption = f"{metric.upper()} against the list length K: {leaderboard.describe(result)}."
        name = leaderboard.file(f"curves-{metric}", result)
        out.append(line_chart(name, ks, curves, "list length K", f"{metric.upper()}@K", caption))
    return tuple(out)


def slices_section(leaderboard: LeaderboardTables, slices: Sequence[SliceResult]) -> Section:
    """One table for each way of slicing the labels of the first result."""
    first = leaderboard.first
    blocks: list[Block] = [
        Paragraph(
            f"HR@{LIST_LENGTH} on parts of the labels ({leaderboard.describe(first)}). "
            "Popularity is counted in training baskets; its slices hold about equally many labels."
        )
    ]
    for by in dict.fromkeys(part.by for part in slices):
        parts = [part for part in slices if part.by == by]
        blocks.append(slice_table(leaderboard, by, parts, highlighted_models(leaderboard, SLICED)))
    return Section(leaderboard.file("slices"), "Where each model is good", tuple(blocks))


def slice_table(
    leaderboard: LeaderboardTables, by: str, parts: Sequence[SliceResult], models: Sequence[str]
) -> ReportTable:
    """One row per slice, one column per model."""
    metric = f"hr@{LIST_LENGTH}"
    columns = (
        text("slice", by[0].upper() + by[1:]),
        number("labels"),
        number("queries"),
        *(interval(name, name) for name in models),
    )
    rows = []
    for part in parts:
        cells = [part.summary.by_name(name).interval(metric) for name in models]
        rows.append((part.name, part.summary.labels, part.summary.queries, *cells))
    best = frozenset(cell for row in range(len(rows)) for cell in _best_of_row(row, columns, rows[row]))
    name = leaderboard.file(f"slices-{by.replace(' ', '-')}")
    return ReportTable(name, f"HR@{LIST_LENGTH} by {by}", columns, tuple(rows), (), best)


def _best_of_row(row: int, columns: Sequence[TableColumn], cells: Sequence[object]) -> set[tuple[int, int]]:
    """The best model of one slice: the highest cell of a row, as `best_cells` finds it down a column."""
    models = [place for place, column in enumerate(columns) if column.kind == "interval"]
    down = best_cells([interval("all")], [[cells[place]] for place in models], ["all"])
    return {(row, models[position]) for position, _ in down}


def label_free_section(evaluation: EvaluationResult) -> Section | None:
    """Held-out lift and cart completion; None where neither was measured."""
    blocks: list[Block] = []
    if evaluation.held_out:
        blocks += [
            Paragraph(
                "Held-out lift needs no labels: how much more often than by chance the recommended pairs are bought "
                "together in the test baskets. Observed over expected counts, pooled over all recommendations for "
                "the best sellers."
            ),
            held_out_table(evaluation.held_out),
        ]
    if evaluation.completion:
        blocks += [
            Paragraph(
                "Basket completion hides an item of a test basket and recommends for the rest. It rewards "
                "popular items, so the held-out lift of the answers stands beside it: how much more often than by "
                "chance cart items and answers are bought together in the other test baskets."
            ),
            completion_table(evaluation.completion),
        ]
    return Section("label-free", "Measures that need no labels", tuple(blocks)) if blocks else None


def held_out_table(found: Mapping[str, HeldOutLift]) -> ReportTable:
    """One row per model, best first at LIST_LENGTH: lift by list length, sales covered."""
    ks = sorted(next(iter(found.values())).lift)
    main = LIST_LENGTH if LIST_LENGTH in ks else ks[-1]
    columns = (
        text("model"),
        *(interval(f"lift@{k}", f"Lift@{k}", 2) for k in ks),
        number("queries", "Queries answered"),
        share("sales_covered"),
    )
    order = sorted(found, key=lambda name: (-found[name].lift[main][0], name))
    rows = [(n, *(found[n].lift[k] for k in ks), found[n].queries, found[n].sales_covered) for n in order]
    notes = ("Sales covered: share of the test lines whose item has recommendations. Intervals resample queries.",)
    best = best_cells(columns, rows, [f"lift@{k}" for k in ks])
    return ReportTable(
        "held-out-lift", "Lift of recommended pairs in the test baskets", columns, tuple(rows), notes, best
    )


def completion_table(found: Mapping[str, CartCompletion]) -> ReportTable:
    """One row per model, best first at LIST_LENGTH: HR and NDCG of the hidden item, lift of the answers."""
    carts = max(each.carts for each in found.values())
    ks = sorted(next(iter(found.values())).hr)
    main = LIST_LENGTH if LIST_LENGTH in ks else (ks or [0])[-1]
    columns = (
        text("model"),
        *(interval(f"hr@{k}", f"HR@{k}") for k in ks),
        *(interval(f"ndcg@{k}", f"NDCG@{k}") for k in ks if k == main),
        *(interval(f"lift@{k}", f"Lift@{k}", 2) for k in ks if k == main),
    )
    order = sorted(found, key=lambda name: (-found[name].hr[main][0], name)) if ks else []
    rows = [(n, *(found[n].hr[k] for k in ks), *(each[main] for each in (found[n].ndcg, found[n].lift))) for n in order]
    best = best_cells(columns, rows, [column.key for column in columns[1:]])
    caption = f"Hidden items that are recommended, in {carts:,} carts of the test baskets"
    return ReportTable("basket-completion", caption, columns, tuple(rows), ("Intervals resample carts.",), best)


CLEAR = 0.3
"""A correlation at least this far from 0 is called clear."""


def variance_section(purchases: npt.ArrayLike, log_variance: npt.ArrayLike, model: str) -> Section:
    """The figure and its correlation, over the items sold in training. Arrays of shape (items,)."""
    bought, spread = np.asarray(purchases, dtype=np.float64), np.asarray(log_variance, dtype=np.float64)
    sold = bought > 0
    correlation = log_correlation(bought[sold], spread[sold])
    caption = (
        f"Log-variance of {model} against purchases, {int(sold.sum()):,} items: median, middle half, middle 90 %, "
        f"and some items as dots. Correlation with the logarithm of purchases: {correlation:.2f}."
    )
    figure = popularity_chart("popularity-variance", bought[sold], spread[sold], correlation, caption)
    words = Paragraph(
        f"{model} learns a Gaussian for each item. {_correlation_text(correlation)} The variance does not measure how "
        "certain a recommendation is."
    )
    return Section("variance", "Popularity and variance", (words, FigureRow((figure,))))


def _correlation_text(correlation: float) -> str:
    """The correlation in words.

    >>> _correlation_text(0.82)
    'The paper finds wide ones for what is bought often, and so does this training: the two rise together.'
    """
    if correlation >= CLEAR:
        return "The paper finds wide ones for what is bought often, and so does this training: the two rise together."
    if correlation <= -CLEAR:
        return "The paper finds wide ones for what is bought often; this training finds narrow ones."
    return "The paper finds wide ones for what is bought often; this training shows no clear correlation."


def log_correlation(purchases: npt.NDArray[np.float64], log_variance: npt.NDArray[np.float64]) -> float:
    """Pearson's correlation of log-variance with the logarithm of purchases; NaN where one of them never varies.

    >>> log_correlation(np.array([1.0, 10.0, 100.0]), np.array([0.0, 1.0, 2.0]))
    1.0
    """
    logs = np.log(purchases)
    if len(logs) < 2 or np.ptp(logs) == 0 or np.ptp(log_variance) == 0:
        return float("nan")
    return round(float(np.corrcoef(logs, log_variance)[0, 1]), 12)


EXAMPLE_QUERIES = 10
RECOMMENDATIONS = 5


def examples_section(
    label_queries: LabelQueries,
    best: Mapping[str, npt.NDArray[np.int32]],
    catalog: Catalog,
    purchases: npt.NDArray[np.int64],
    *,
    queries: int = EXAMPLE_QUERIES,
    count: int = RECOMMENDATIONS,
) -> Section:
    """Some queries from rare to popular. `best` holds the recommendations of each model, shape (queries, k)."""
    rows = chosen_queries(label_queries, purchases, queries)
    lines = [_line(label_queries, row, best, catalog, count) for row in rows]
    words = Paragraph(
        f"{len(lines)} queries with labels, evenly spaced from the rarest to the most popular, and the first "
        f"{count} recommendations of each model. A tick marks a recommendation that is a label. One without a tick "
        "may still be right: the pair may be too rare to be tested."
    )
    return Section("examples", "What the models recommend", (words, ExampleList(tuple(lines))))


def chosen_queries(label_queries: LabelQueries, purchases: npt.NDArray[np.int64], count: int) -> list[int]:
    """Rows of `label_queries.queries`, evenly spaced by purchases, those with several labels first."""
    labels = np.diff(label_queries.offsets)
    rows = np.flatnonzero(labels >= 2)
    if len(rows) < count:
        rows = np.arange(len(labels))
    ordered = rows[np.argsort(purchases[label_queries.queries[rows]], kind="stable")]
    spaced = np.unique(np.linspace(0, len(ordered) - 1, min(count, len(ordered))).round().astype(int))
    return [int(row) for row in ordered[spaced][::-1]]


def _line(
    label_queries: LabelQueries, row: int, best: Mapping[str, npt.NDArray[np.int32]], catalog: Catalog, count: int
) -> ExampleQuery:
    code = int(label_queries.queries[row])
    labels = set(label_queries.item[label_queries.offsets[row] : label_queries.offsets[row + 1]].tolist())
    shown = tuple(
        (name, tuple((catalog.name(item), item in labels) for item in codes[row, :count].tolist() if item >= 0))
        for name, codes in best.items()
    )
    return ExampleQuery(catalog.name(code), " / ".join(catalog.category_path(code)), len(labels), shown)
