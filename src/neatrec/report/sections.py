"""The sections for statisticians: views of the table of results, examples, and the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from neatrec._version import __version__
from neatrec.evaluation.summary import LIST_LENGTH, LevelResult, PairedTest
from neatrec.leaderboard.run import Leaderboard
from neatrec.report.figures import Dot, DotPlot
from neatrec.report.page import (
    Block,
    ExampleList,
    ExampleQuery,
    FactList,
    ModelAnswers,
    Paragraph,
    Section,
)
from neatrec.report.table import (
    ReportTable,
    Row,
    TableColumn,
    format_number,
    format_seconds,
    format_share,
    interval,
    number,
    share,
    text,
)

EXAMPLE_QUERIES, EXAMPLE_ANSWERS = 10, 5
NO_LABELS = "There are no labels to compare models by: too few baskets, or no pair above chance."
ABOUT_LABELS = (
    "Each label is a pair that is bought together more often than by chance in baskets that no "
    "model was trained on. A model ranks the candidates of the query; a hit at K means that the "
    "item of the label is among the first K. Tied items share their ranks. Labels and lift "
    "statistics are related: both reward pairs above chance. The measures below that need no "
    "labels show how far the ranking depends on that."
)
ABOUT_COLUMNS = (
    "In brackets: 95 % intervals. By query: mean over queries of each query's own mean, so that a "
    "query with many labels counts once. Coverage: share of the items sold in training that are "
    f"recommended for any query among the first {LIST_LENGTH}. Popularity: mean training purchases "
    "of the recommended items."
)
ABOUT_LIFT = (
    "How much more often than by chance the recommended pairs are bought together in the test "
    "baskets: observed over expected counts, pooled over all recommendations for the best sellers."
)
ABOUT_CARTS = (
    "An item of a test basket is hidden, and a model recommends for the rest. This rewards popular "
    "items, so the held-out lift of the answers stands beside it."
)


def model_sections(result: Leaderboard) -> tuple[Section, ...]:
    """Everything about the models, best first within every table."""
    rows = result.to_arrow().to_pylist()
    sections = (
        Section("models", "Which model is better, and how certain", comparison(result, rows)),
        Section("list-length", "Metric by list length", tuple(length_tables(result, rows))),
        Section("slices", "Where each model is good", tuple(slice_tables(result, rows))),
        Section("label-free", "Measures that need no labels", tuple(label_free(result, rows))),
        Section("examples", "What the models recommend", examples(result, rows)),
        Section("run", "How this was made", (run_facts(result),)),
    )
    return tuple(section for section in sections if section.blocks)


def main_metric(level: LevelResult) -> str:
    """The metric that models are sorted by: HR@10, or that of the longest list up to 10."""
    longest = max((k for k in level.ceiling if k <= LIST_LENGTH), default=max(level.ceiling))
    return f"hr@{longest}"


def rows_of(rows: Sequence[Row], level: LevelResult) -> list[Row]:
    """The results at a level on a candidate set, best first."""
    wanted = level.level, level.candidates
    return [row for row in rows if (row["level"], row["candidates"]) == wanted]


def describe(result: Leaderboard, level: LevelResult) -> str:
    """Labels and candidates as text."""
    labels = result.task.labels
    kind = "p =" if labels.level_kind == "p" else "a false-discovery rate of"
    among = "the whole catalogue"
    if level.candidates.startswith("top"):
        among = f"the {level.candidates.removeprefix('top')} items bought most with the query"
    return f"{labels.protocol} labels at {kind} {level.level:g}, candidates: {among}"


def name_of(kind: str, level: LevelResult) -> str:
    """The name of a table."""
    return f"{kind}-{level.level:g}-{level.candidates}"


def comparison(result: Leaderboard, rows: Sequence[Row]) -> tuple[Block, ...]:
    """Which model is better: in words, drawn, and by table for every level and candidate set."""
    first, *others = result.evaluation.results
    best = rows_of(rows, first)
    covered = sorted({row["intervals_cover"] for row in best})
    blocks: list[Block] = [*map(Paragraph, conclusion(first, best)), Paragraph(ABOUT_LABELS)]
    blocks += [Paragraph(ABOUT_COLUMNS, "note")]
    blocks += [Paragraph(f"The intervals cover {each}.", "note") for each in covered]
    if first.summary.labels:
        blocks.append(dot_plot(result, first, best))
    blocks += [comparison_table(result, first, best), tests_table(first)]
    blocks += [comparison_table(result, level, rows_of(rows, level)) for level in others]
    return tuple(blocks)


def dot_plot(result: Leaderboard, level: LevelResult, rows: Sequence[Row]) -> DotPlot:
    """The main metric with its intervals."""
    metric = main_metric(level)
    keys = "model", "kind", metric, f"{metric}_low", f"{metric}_high"
    caption = f"{metric.upper()} with 95 % intervals: {describe(result, level)}."
    dots = tuple(Dot(*(row[key] for key in keys)) for row in rows)
    return DotPlot("models", metric.upper(), caption, dots)


def comparison_table(result: Leaderboard, level: LevelResult, rows: Sequence[Row]) -> ReportTable:
    """One row per model: the main metrics, coverage, popularity, the time of a training."""
    metric = main_metric(level)
    measured = metric, metric.replace("hr@", "ndcg@"), "mrr"
    columns = (
        text("model"),
        text("kind"),
        *(interval(name, name.upper()) for name in measured),
        number(f"{metric}_by_query", f"{metric.upper()} by query", 3),
        share("coverage"),
        number("popularity"),
        TableColumn("train_seconds", "Training", "seconds"),
    )
    counts = f"{level.summary.labels:,} labels of {level.summary.queries:,} queries"
    caption = f"{counts}: {describe(result, level)}"
    compared = *measured, f"{metric}_by_query"
    return ReportTable(name_of("models", level), caption, columns, rows, compared=compared)


def tests_table(level: LevelResult) -> ReportTable:
    """All pairs of models, tested label by label."""
    columns = (
        text("better"),
        text("worse"),
        text("metric"),
        interval("difference"),
        TableColumn("p", "p", "p"),
        TableColumn("p_holm", "p, Holm", "p"),
    )
    tests = sorted(level.summary.tests, key=lambda t: (t.metric, -t.difference, t.better, t.worse))
    rows = [
        {
            **vars(test),
            "metric": test.metric.upper(),
            "difference_low": test.low,
            "difference_high": test.high,
        }
        for test in tests
    ]
    caption = "All pairs of models, paired label by label"
    note = "Difference of the means with its 95 % interval; Holm's p covers all pairs on a metric."
    return ReportTable(name_of("tests", level), caption, columns, rows, note)


def conclusion(level: LevelResult, rows: Sequence[Row]) -> list[str]:
    """The best model and those it ties with, then the next one."""
    if not rows or not level.summary.labels:
        return [NO_LABELS]
    metric, (first, *others) = main_metric(level), rows
    name, k = first["model"], int(metric.removeprefix("hr@"))
    tests = {row["model"]: _test_of(level, name, row["model"]) for row in others}
    ties = [other for other, test in tests.items() if test is not None and not test.low > 0]
    verdict = f"ties with {', '.join(ties)}" if ties else "ranks best"
    sentences = [
        f"{name} {verdict}: {_percent(first, metric)} of {level.summary.labels:,} held-out labels "
        f"are among its first {k} answers; the best possible is "
        f"{format_share(level.ceiling[k])}."
    ]
    for row in others[:1]:
        following = f"Next is {row['model']} with {_percent(row, metric)}."
        sentences.append(f"{following} {_compared(tests[row['model']])}".rstrip())
    return sentences


def _percent(row: Row, metric: str) -> str:
    mean, low, high = (
        format_number(100 * row[key], 1) for key in (metric, f"{metric}_low", f"{metric}_high")
    )
    return f"{mean} % (95 % interval {low} to {high} %)"


def _compared(test: PairedTest | None) -> str:
    if test is None:
        return ""
    points, low, high = (
        format_number(100 * value, 1) for value in (test.difference, test.low, test.high)
    )
    spread = f"{points} points, paired 95 % interval {low} to {high}"
    if not test.low > 0:
        return f"The difference is {spread}."
    return f"{test.better} is better than {test.worse} by {spread}."


def _test_of(level: LevelResult, one: str, other: str) -> PairedTest | None:
    tests = (test for test in level.summary.tests if test.metric == main_metric(level))
    return next((test for test in tests if {test.better, test.worse} == {one, other}), None)


def length_tables(result: Leaderboard, rows: Sequence[Row]) -> Iterator[ReportTable]:
    """HR and NDCG at every list length, for the first level on every candidate set."""
    results = result.evaluation.results
    for level in results:
        if level.level != results[0].level:
            continue
        names = [f"{metric}@{k}" for k in sorted(level.ceiling) for metric in ("hr", "ndcg")]
        columns = text("model"), *(number(name, name.upper(), 4) for name in names)
        ceiling = {f"hr@{k}": value for k, value in level.ceiling.items()}
        ceiling_note = ", ".join(f"{k.upper()} {format_number(v, 4)}" for k, v in ceiling.items())
        yield ReportTable(
            name_of("lengths", level),
            describe(result, level),
            columns,
            rows_of(rows, level),
            note=f"Best possible: {ceiling_note}.",
            compared=names,
        )


def slice_tables(result: Leaderboard, rows: Sequence[Row]) -> Iterator[ReportTable]:
    """HR@10 on parts of the labels of the first result, one table per way of slicing."""
    first = result.evaluation.results[0]
    slices = result.evaluation.slices.get(first.candidates, ())
    metric = f"hr@{LIST_LENGTH}"
    columns = [interval(row["model"], row["model"]) for row in rows_of(rows, first)]
    for by in dict.fromkeys(part.by for part in slices):
        parts: list[dict[str, Any]] = []
        for part in slices:
            if part.by != by:
                continue
            cells = {"part": part.name, **vars(part.summary)}
            for model in part.summary.models:
                keys = model.name, f"{model.name}_low", f"{model.name}_high"
                cells |= dict(zip(keys, model.interval(metric), strict=True))
            parts.append(cells)
        about = text("part", by.capitalize()), number("labels"), number("queries")
        name, caption = f"slices-{by.replace(' ', '-')}", f"{metric.upper()} by {by}"
        yield ReportTable(name, caption, (*about, *columns), parts)


def label_free(result: Leaderboard, rows: Sequence[Row]) -> Iterator[Block]:
    """Held-out lift and cart completion, where they were measured."""
    evaluation = result.evaluation
    if evaluation.held_out:
        ks = sorted(next(iter(evaluation.held_out.values())).lift)
        lifts = [interval(f"held_out_lift@{k}", f"Lift@{k}", 2) for k in ks]
        columns = text("model"), *lifts, share("sales_covered")
        note = (
            "Sales covered: share of the test lines whose item has recommendations. "
            "The intervals resample queries."
        )
        caption = "Lift of recommended pairs in the test baskets"
        yield Paragraph(ABOUT_LIFT)
        yield _measured("held-out-lift", caption, columns, rows, note)
    if evaluation.completion:
        found = next(iter(evaluation.completion.values()))
        ks = sorted(found.hr)
        columns = (
            text("model"),
            *(interval(f"cart_hr@{k}", f"HR@{k}") for k in ks),
            interval(f"cart_ndcg@{ks[-1]}", f"NDCG@{ks[-1]}"),
            interval(f"cart_lift@{ks[-1]}", f"Lift@{ks[-1]}", 2),
        )
        caption = f"Hidden items that are recommended, in {found.carts:,} carts of the test baskets"
        yield Paragraph(ABOUT_CARTS)
        yield _measured(
            "basket-completion", caption, columns, rows, "The intervals resample carts."
        )


def _measured(
    name: str, caption: str, columns: Sequence[TableColumn], rows: Sequence[Row], note: str
) -> ReportTable:
    """A table of the measured models, sorted by the last hit rate or lift."""
    keys = [column.key for column in columns if column.kind == "interval"]
    by = [key for key in keys if key.startswith(("held_out_lift", "cart_hr"))][-1]
    known = [row for row in rows if row.get(by) is not None]
    ordered = sorted(known, key=lambda row: (-row[by], row["model"]))
    return ReportTable(name, caption, columns, ordered, note, keys)


def examples(result: Leaderboard, rows: Sequence[Row]) -> tuple[Block, ...]:
    """Some queries from popular to rare, with the first answers of each model."""
    task, first = result.task, result.evaluation.results[0]
    queries, catalog = task.label_queries, task.labels.catalog
    ranked = {
        row["model"]: result.trainings[row["model"]][0].ranks.label_ranks[first.candidates].best
        for row in rows_of(rows, first)
    }
    sizes = np.diff(queries.offsets)
    several = np.flatnonzero(sizes >= 2)
    places = several if len(several) >= EXAMPLE_QUERIES else np.arange(len(sizes))
    ordered = places[np.argsort(-task.purchases[queries.queries[places]], kind="stable")]
    spaced = np.linspace(0, max(len(ordered) - 1, 0), min(EXAMPLE_QUERIES, len(ordered)))
    shown = []
    for place in ordered[np.unique(spaced.round().astype(int))].tolist():
        code = int(queries.queries[place])
        labels = set(queries.item[queries.offsets[place] : queries.offsets[place + 1]].tolist())
        answers = []
        for model, codes in ranked.items():
            items = [item for item in codes[place, :EXAMPLE_ANSWERS].tolist() if item >= 0]
            named = tuple((catalog.name(item), item in labels) for item in items)
            answers.append(ModelAnswers(model, named))
        category = " / ".join(catalog.category_path(code))
        shown.append(ExampleQuery(catalog.name(code), category, len(labels), tuple(answers)))
    words = (
        f"{len(shown)} queries with labels, from the most popular to the rarest, and the first "
        f"{EXAMPLE_ANSWERS} answers of each model. A tick marks an answer that is a label. One "
        "without a tick may still be right: the pair may be too rare to be tested."
    )
    return Paragraph(words), ExampleList(tuple(shown))


def run_facts(result: Leaderboard) -> FactList:
    """Everything needed to repeat the run."""
    task = result.task
    hashes = {"training baskets": task.train_hash, "test baskets": task.test_hash}
    hashes |= {"labels": task.labels.hash}
    facts = [(f"SHA-256 of the {name}", value) for name, value in hashes.items()]
    options = {**result.options.to_json(), "split": dict(result.split)}
    facts += [(name.capitalize(), _words(value)) for name, value in options.items()]
    facts += [(f"Time for {name}", format_seconds(value)) for name, value in result.seconds.items()]
    return FactList((*facts, ("Version of neatrec", __version__)))


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(each)}" for name, each in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_words, value)) or "none"
    return "none" if value is None else str(value)
