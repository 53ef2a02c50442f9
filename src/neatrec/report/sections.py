"""The sections for statisticians: views of the table of results, and the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from neatrec._version import __version__
from neatrec.evaluation.metrics import KS
from neatrec.evaluation.summary import LIST_LENGTH, MAIN, TESTED, find_test
from neatrec.leaderboard import Leaderboard
from neatrec.report.figures import Dot, DotPlot
from neatrec.report.page import Block, Paragraph, Section
from neatrec.report.table import ReportTable, Row, TableColumn, format_number, format_share

NO_LABELS = "There are no labels to compare models by: too few baskets, or no pair above chance."
ABOUT_LABELS = (
    "Each label is a pair that is bought together more often than by chance in held-out "
    "baskets. A model ranks the candidates of the query; a hit at K means that the "
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
    "baskets: observed over expected counts, pooled over all answers to the best sellers."
)
ABOUT_CARTS = (
    "An item of a test basket is hidden, and a model recommends for the rest. This rewards popular "
    "items, so the held-out lift of the answers stands beside it."
)
MODEL = TableColumn("model")


def model_sections(result: Leaderboard) -> tuple[Section, ...]:
    """Everything about the models, best first within every table."""
    levels: dict[tuple[float, str], list[Row]] = {}
    for row in result.to_arrow().to_pylist():
        levels.setdefault((row["level"], row["candidates"]), []).append(row)
    first, *others = levels.values()
    models = comparison(result, first, others)
    sections = (
        Section("models", "Which model is better, and how certain", models),
        Section("slices", "Where each model is good", tuple(slice_tables(result, first))),
        Section("label-free", "Measures that need no labels", tuple(label_free(first))),
        Section("run", "How this was made", (run_table(result),)),
    )
    return tuple(section for section in sections if section.blocks)


def interval(key: str, title: str = "", digits: int = 3) -> TableColumn:
    """A column of means with their 95 % intervals."""
    return TableColumn(key, "interval", digits, title or key.upper())


def describe(result: Leaderboard, rows: Sequence[Row]) -> str:
    """Labels and candidates as text."""
    labels, level, candidates = result.task.labels, rows[0]["level"], rows[0]["candidates"]
    kind = "p =" if labels.level_kind == "p" else "a false-discovery rate of"
    among = "the catalogue"
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
    blocks: list[Block] = [Paragraph(conclusion(first, tests)), Paragraph(ABOUT_LABELS)]
    blocks += [Paragraph(ABOUT_COLUMNS, "note")]
    covered = sorted({row["intervals_cover"] for row in first})
    blocks += [Paragraph(f"The intervals cover {each}.", "note") for each in covered]
    if first[0]["labels"]:
        keys = "model", "kind", MAIN, f"{MAIN}_low", f"{MAIN}_high"
        caption = f"{MAIN.upper()} with 95 % intervals: {describe(result, first)}."
        dots = tuple(Dot(*(row[key] for key in keys)) for row in first)
        blocks.append(DotPlot("models", MAIN.upper(), caption, dots))
    blocks += [comparison_table(result, first), tests_table(first, tests)]
    return *blocks, *(comparison_table(result, rows) for rows in others)


def first_tests(result: Leaderboard, rows: Sequence[Row]) -> list[Row]:
    """The tests of the models in these rows."""
    level = rows[0]["level"], rows[0]["candidates"]
    return [test for test in result.tests if (test["level"], test["candidates"]) == level]


def conclusion(rows: Sequence[Row], tests: Sequence[Row]) -> str:
    """The best model, its metric, and the models whose difference to it is within noise."""
    first, *others = rows
    if not first["labels"]:
        return NO_LABELS
    compared = {row["model"]: find_test(tests, first["model"], row["model"]) for row in others}
    ties = [other for other, test in compared.items() if test and not test["difference_low"] > 0]
    verdict = f"ties with {', '.join(ties)}" if ties else "ranks best"
    mean, low, high = (
        format_number(100 * first[key], 1) for key in (MAIN, f"{MAIN}_low", f"{MAIN}_high")
    )
    return (
        f"{first['model']} {verdict}: {mean} % (95 % interval {low} to {high} %) of "
        f"{first['labels']:,} held-out labels are among its first {LIST_LENGTH} answers; the best "
        f"possible is {format_share(first[f'best_possible_{MAIN}'])}."
    )


def comparison_table(result: Leaderboard, rows: Sequence[Row]) -> ReportTable:
    """One row per model: the main metrics, coverage, popularity, the time of a training."""
    measured, by_query = (*TESTED, "mrr"), f"{MAIN}_by_query"
    columns = (
        MODEL,
        TableColumn("kind"),
        *(interval(name) for name in measured),
        TableColumn(by_query, "number", 3, f"{MAIN.upper()} by query"),
        TableColumn("coverage", "share", 1),
        TableColumn("popularity", "number"),
        TableColumn("train_seconds", "number", 2, "Training, s"),
    )
    counts = f"{rows[0]['labels']:,} labels of {rows[0]['queries']:,} queries"
    caption = f"{counts}: {describe(result, rows)}"
    compared = (*measured, by_query)
    return ReportTable(name_of("models", rows), caption, columns, rows, "", compared)


def tests_table(rows: Sequence[Row], tests: Sequence[Row]) -> ReportTable:
    """All pairs of models, tested label by label."""
    columns = (
        TableColumn("better"),
        TableColumn("worse"),
        TableColumn("metric"),
        interval("difference", "Difference"),
        TableColumn("p", "p", title="p"),
        TableColumn("p_holm", "p", title="p, Holm"),
    )
    ordered = sorted(tests, key=lambda t: (t["metric"], -t["difference"], t["better"], t["worse"]))
    shown = [{**test, "metric": test["metric"].upper()} for test in ordered]
    caption = "All pairs of models, paired label by label"
    note = "Difference of the means with its 95 % interval; Holm's p covers all pairs on a metric."
    return ReportTable(name_of("tests", rows), caption, columns, shown, note)


def slice_tables(result: Leaderboard, first: Sequence[Row]) -> Iterator[ReportTable]:
    """HR@10 on parts of the labels of the first result, one table per way of slicing."""
    models = [interval(row["model"], row["model"]) for row in first]
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for row in result.slices:
        cells = tables.setdefault(row["by"], {}).setdefault(row["part"], dict(row))
        for end in ("", "_low", "_high"):
            cells[row["model"] + end] = row[MAIN + end]
    for by, parts in tables.items():
        counts = TableColumn("labels", "number"), TableColumn("queries", "number")
        columns = TableColumn("part", title=by.capitalize()), *counts, *models
        name, caption = f"slices-{by.replace(' ', '-')}", f"{MAIN.upper()} by {by}"
        yield ReportTable(name, caption, columns, list(parts.values()))


def label_free(first: Sequence[Row]) -> Iterator[Block]:
    """Held-out lift and cart completion, where they were measured."""
    last = KS[-1]
    if any(row.get(f"held_out_lift@{last}") is not None for row in first):
        lifts = [interval(f"held_out_lift@{k}", f"Lift@{k}", 2) for k in KS]
        columns = MODEL, TableColumn("sales_covered", "share", 1), *lifts
        note = (
            "Sales covered: share of the test lines whose item has recommendations. "
            "The intervals resample queries."
        )
        caption = "Lift of recommended pairs in the test baskets"
        yield Paragraph(ABOUT_LIFT)
        yield _measured("held-out-lift", caption, columns, first, note)
    if carts := next((row["carts"] for row in first if row.get("carts")), 0):
        columns = (
            MODEL,
            interval(f"cart_lift@{last}", f"Lift@{last}", 2),
            interval(f"cart_ndcg@{last}", f"NDCG@{last}"),
            *(interval(f"cart_hr@{k}", f"HR@{k}") for k in KS),
        )
        caption = f"Hidden items that are recommended, in {carts:,} carts of the test baskets"
        note = "The intervals resample carts."
        yield Paragraph(ABOUT_CARTS)
        yield _measured("basket-completion", caption, columns, first, note)


def _measured(
    name: str, caption: str, columns: Sequence[TableColumn], rows: Sequence[Row], note: str
) -> ReportTable:
    """A table of the models that were measured, sorted by its last interval."""
    keys = [column.key for column in columns if column.kind == "interval"]
    measured = [row for row in rows if row.get(keys[-1]) is not None]
    ordered = sorted(measured, key=lambda row: (-row[keys[-1]], row["model"]))
    return ReportTable(name, caption, columns, ordered, note, keys)


def run_table(result: Leaderboard) -> ReportTable:
    """Everything needed to repeat the run."""
    task = result.task
    hashes = {"training baskets": task.train_hash, "test baskets": task.test_hash}
    hashes |= {"labels": task.labels.hash}
    facts = {f"SHA-256 of the {name}": value for name, value in hashes.items()}
    options = {**result.options.to_json(), "split": dict(result.split)}
    facts |= {name.capitalize(): _words(value) for name, value in options.items()}
    facts |= {f"Time for {name}": f"{value:,.1f} s" for name, value in result.seconds.items()}
    facts |= {"Version of neatrec": __version__}
    rows = [{"fact": name, "value": value} for name, value in facts.items()]
    columns = TableColumn("fact"), TableColumn("value")
    return ReportTable("run", "Data, options and times", columns, rows)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(each)}" for name, each in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_words, value)) or "none"
    return "none" if value is None else str(value)
