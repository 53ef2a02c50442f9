"""The sections for statisticians: views of the table of results, examples, and the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from neatrec._version import __version__
from neatrec.evaluation.metrics import KS
from neatrec.evaluation.summary import LIST_LENGTH, MAIN, TESTED, find_test
from neatrec.leaderboard import Leaderboard
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
    levels: dict[tuple[float, str], list[Row]] = {}
    for row in result.to_arrow().to_pylist():
        levels.setdefault((row["level"], row["candidates"]), []).append(row)
    first, *others = levels.values()
    sections = (
        Section(
            "models", "Which model is better, and how certain", comparison(result, first, others)
        ),
        Section(
            "list-length", "Metric by list length", tuple(length_tables(result, levels.values()))
        ),
        Section("slices", "Where each model is good", tuple(slice_tables(result, first))),
        Section("label-free", "Measures that need no labels", tuple(label_free(first))),
        Section("examples", "What the models recommend", examples(result, first)),
        Section("run", "How this was made", (run_facts(result),)),
    )
    return tuple(section for section in sections if section.blocks)


def describe(result: Leaderboard, rows: Sequence[Row]) -> str:
    """Labels and candidates as text."""
    labels, level, candidates = result.task.labels, rows[0]["level"], rows[0]["candidates"]
    kind = "p =" if labels.level_kind == "p" else "a false-discovery rate of"
    among = "the whole catalogue"
    if candidates.startswith("top"):
        among = f"the {candidates.removeprefix('top')} items bought most with the query"
    return f"{labels.protocol} labels at {kind} {level:g}, candidates: {among}"


def name_of(kind: str, rows: Sequence[Row]) -> str:
    """The name of a table."""
    return f"{kind}-{rows[0]['level']:g}-{rows[0]['candidates']}"


def comparison(
    result: Leaderboard, first: Sequence[Row], others: Sequence[Sequence[Row]]
) -> tuple[Block, ...]:
    """Which model is better: in words, drawn, and by table for every level and candidate set."""
    tests = first_tests(result, first)
    blocks: list[Block] = [*map(Paragraph, conclusion(first, tests)), Paragraph(ABOUT_LABELS)]
    blocks += [Paragraph(ABOUT_COLUMNS, "note")]
    covered = sorted({row["intervals_cover"] for row in first})
    blocks += [Paragraph(f"The intervals cover {each}.", "note") for each in covered]
    if first[0]["labels"]:
        blocks.append(dot_plot(result, first))
    blocks += [comparison_table(result, first), tests_table(first, tests)]
    return *blocks, *(comparison_table(result, rows) for rows in others)


def first_tests(result: Leaderboard, rows: Sequence[Row]) -> list[Row]:
    """The tests of the models in these rows."""
    level = rows[0]["level"], rows[0]["candidates"]
    return [test for test in result.tests if (test["level"], test["candidates"]) == level]


def dot_plot(result: Leaderboard, rows: Sequence[Row]) -> DotPlot:
    """The main metric with its intervals."""
    keys = "model", "kind", MAIN, f"{MAIN}_low", f"{MAIN}_high"
    caption = f"{MAIN.upper()} with 95 % intervals: {describe(result, rows)}."
    dots = tuple(Dot(*(row[key] for key in keys)) for row in rows)
    return DotPlot("models", MAIN.upper(), caption, dots)


def comparison_table(result: Leaderboard, rows: Sequence[Row]) -> ReportTable:
    """One row per model: the main metrics, coverage, popularity, the time of a training."""
    measured, by_query = (*TESTED, "mrr"), f"{MAIN}_by_query"
    columns = (
        text("model"),
        text("kind"),
        *(interval(name, name.upper()) for name in measured),
        number(by_query, f"{MAIN.upper()} by query", 3),
        share("coverage"),
        number("popularity"),
        TableColumn("train_seconds", "Training", "seconds"),
    )
    counts = f"{rows[0]['labels']:,} labels of {rows[0]['queries']:,} queries"
    caption = f"{counts}: {describe(result, rows)}"
    return ReportTable(
        name_of("models", rows), caption, columns, rows, compared=(*measured, by_query)
    )


def tests_table(rows: Sequence[Row], tests: Sequence[Row]) -> ReportTable:
    """All pairs of models, tested label by label."""
    columns = (
        text("better"),
        text("worse"),
        text("metric"),
        interval("difference"),
        TableColumn("p", "p", "p"),
        TableColumn("p_holm", "p, Holm", "p"),
    )
    ordered = sorted(tests, key=lambda t: (t["metric"], -t["difference"], t["better"], t["worse"]))
    shown = [{**test, "metric": test["metric"].upper()} for test in ordered]
    caption = "All pairs of models, paired label by label"
    note = "Difference of the means with its 95 % interval; Holm's p covers all pairs on a metric."
    return ReportTable(name_of("tests", rows), caption, columns, shown, note)


def conclusion(rows: Sequence[Row], tests: Sequence[Row]) -> list[str]:
    """The best model and those it ties with, then the next one."""
    first, *others = rows
    if not first["labels"]:
        return [NO_LABELS]
    name = first["model"]
    compared = {row["model"]: find_test(tests, name, row["model"]) for row in others}
    ties = [other for other, test in compared.items() if test and not test["difference_low"] > 0]
    verdict = f"ties with {', '.join(ties)}" if ties else "ranks best"
    sentences = [
        f"{name} {verdict}: {_percent(first)} of {first['labels']:,} held-out labels are among its "
        f"first {LIST_LENGTH} answers; the best possible is "
        f"{format_share(first[f'best_possible_{MAIN}'])}."
    ]
    for row in others[:1]:
        following = f"Next is {row['model']} with {_percent(row)}."
        sentences.append(f"{following} {_compared(compared[row['model']])}".rstrip())
    return sentences


def _percent(row: Row) -> str:
    mean, low, high = (
        format_number(100 * row[key], 1) for key in (MAIN, f"{MAIN}_low", f"{MAIN}_high")
    )
    return f"{mean} % (95 % interval {low} to {high} %)"


def _compared(test: Row | None) -> str:
    if test is None:
        return ""
    points, low, high = (
        format_number(100 * test[key], 1)
        for key in ("difference", "difference_low", "difference_high")
    )
    spread = f"{points} points, paired 95 % interval {low} to {high}"
    if not test["difference_low"] > 0:
        return f"The difference is {spread}."
    return f"{test['better']} is better than {test['worse']} by {spread}."


def length_tables(result: Leaderboard, levels: Iterable[Sequence[Row]]) -> Iterator[ReportTable]:
    """HR and NDCG at every list length, for the first level on every candidate set."""
    names = [f"{metric}@{k}" for k in KS for metric in ("hr", "ndcg")]
    columns = text("model"), *(number(name, name.upper(), 4) for name in names)
    for rows in levels:
        if rows[0]["level"] == result.options.levels[0]:
            best = ((f"HR@{k}", rows[0][f"best_possible_hr@{k}"]) for k in KS)
            note = ", ".join(f"{name} {format_number(value, 4)}" for name, value in best)
            yield ReportTable(
                name_of("lengths", rows),
                describe(result, rows),
                columns,
                rows,
                note=f"Best possible: {note}.",
                compared=names,
            )


def slice_tables(result: Leaderboard, first: Sequence[Row]) -> Iterator[ReportTable]:
    """HR@10 on parts of the labels of the first result, one table per way of slicing."""
    columns = [interval(row["model"], row["model"]) for row in first]
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for row in result.slices:
        cells = tables.setdefault(row["by"], {}).setdefault(row["part"], dict(row))
        for end in ("", "_low", "_high"):
            cells[row["model"] + end] = row[MAIN + end]
    for by, parts in tables.items():
        about = text("part", by.capitalize()), number("labels"), number("queries")
        name, caption = f"slices-{by.replace(' ', '-')}", f"{MAIN.upper()} by {by}"
        yield ReportTable(name, caption, (*about, *columns), list(parts.values()))


def label_free(first: Sequence[Row]) -> Iterator[Block]:
    """Held-out lift and cart completion, where they were measured."""
    lift, hits, last = "held_out_lift", "cart_hr", KS[-1]
    if any(row.get(f"{lift}@{last}") is not None for row in first):
        lifts = [interval(f"{lift}@{k}", f"Lift@{k}", 2) for k in KS]
        columns = text("model"), *lifts, share("sales_covered")
        note = (
            "Sales covered: share of the test lines whose item has recommendations. "
            "The intervals resample queries."
        )
        caption = "Lift of recommended pairs in the test baskets"
        yield Paragraph(ABOUT_LIFT)
        yield _measured("held-out-lift", caption, columns, first, note)
    carts = next((row["carts"] for row in first if row.get("carts")), 0)
    if carts:
        columns = (
            text("model"),
            *(interval(f"{hits}@{k}", f"HR@{k}") for k in KS),
            interval(f"cart_ndcg@{last}", f"NDCG@{last}"),
            interval(f"cart_lift@{last}", f"Lift@{last}", 2),
        )
        caption = f"Hidden items that are recommended, in {carts:,} carts of the test baskets"
        note = "The intervals resample carts."
        yield Paragraph(ABOUT_CARTS)
        yield _measured("basket-completion", caption, columns, first, note)


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
    task = result.task
    queries, catalog = task.label_queries, task.labels.catalog
    ranked = {row["model"]: result.best[row["model"]] for row in rows}
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
