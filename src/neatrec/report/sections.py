"""Sections about the models: leaderboard, list lengths, parts of the labels, label-free measures, examples, the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neatrec._version import __version__
from neatrec.evaluation.cart_completion import CartCompletion
from neatrec.evaluation.held_out_lift import HeldOutLift
from neatrec.evaluation.summary import LIST_LENGTH, LevelResult, ModelSummary, PairedTest
from neatrec.leaderboard.run import Leaderboard
from neatrec.report.figures import Dot, DotPlot
from neatrec.report.page import (
    Block,
    ExampleList,
    ExampleQuery,
    FactList,
    Paragraph,
    Section,
)
from neatrec.report.table import (
    ReportTable,
    TableColumn,
    best_cells,
    format_number,
    format_seconds,
    format_share,
    interval,
    number,
    share,
    text,
)

EXAMPLE_QUERIES, RECOMMENDATIONS = 10, 5
NO_LABELS = "There are no labels to compare models by: too few baskets, or no pair above chance."
COLUMNS_NOTE = (
    "In brackets: 95 % intervals. By query: mean over queries of each query's own mean, so that a query "
    "with many labels counts once. Coverage: share of the items sold in training that are recommended for "
    f"any query among the first {LIST_LENGTH}. Popularity: mean training purchases of the recommended items."
)


def model_sections(result: Leaderboard) -> list[Section]:
    """Everything about the models, best first within every table."""
    found = [comparison_section(result), lengths_section(result), slices_section(result)]
    found += [label_free_section(result), examples_section(result), run_section(result)]
    return [section for section in found if section.blocks]


def main_metric(result: LevelResult) -> str:
    """The metric that models are sorted by: HR@10, or the longest list that was computed."""
    longest = max((k for k in result.ceiling if k <= LIST_LENGTH), default=max(result.ceiling))
    return f"hr@{longest}"


def best_first(result: LevelResult) -> list[ModelSummary]:
    """The models of `result`, best first; equal ones by name."""
    metric = main_metric(result)
    return sorted(result.summary.models, key=lambda s: (-s.mean[metric], s.name))


def describe(result: Leaderboard, level: LevelResult) -> str:
    """Labels and candidates as text."""
    labels = result.task.labels
    kind = "p =" if labels.level_kind == "p" else "a false-discovery rate of"
    among = f"the {level.candidates.removeprefix('top')} items bought most with the query"
    if not level.candidates.startswith("top"):
        among = "the whole catalogue"
    return f"{labels.protocol} labels at {kind} {level.level:g}, candidates: {among}"


def key(level: LevelResult) -> str:
    """A part of the names of tables."""
    return f"{level.level:g}-{level.candidates}"


def comparison_section(result: Leaderboard) -> Section:
    """Which model is better: in words, drawn, and by table for every level and candidate set."""
    first = result.evaluation.results[0]
    blocks: list[Block] = [
        *map(Paragraph, conclusion(first)),
        Paragraph(
            "Each label is a pair that is bought together more often than by chance in baskets that no model "
            "was trained on. A model ranks the candidates of the query; a hit at K means that the label's item "
            "is among the first K. Tied items share their ranks. Labels and lift statistics are related: both "
            "reward pairs above chance. The measures below that need no labels show how far the ranking "
            "depends on that."
        ),
        Paragraph(COLUMNS_NOTE, "note"),
    ]
    covered = sorted({model.variance for model in first.summary.models})
    blocks += [Paragraph(f"The intervals cover {each}.", "note") for each in covered]
    if first.summary.labels:
        blocks.append(dot_plot(result, first))
    for level in result.evaluation.results:
        blocks.append(comparison_table(result, level))
        if level is first:
            blocks.append(tests_table(level))
    return Section("models", "Which model is better, and how certain", tuple(blocks))


def dot_plot(result: Leaderboard, level: LevelResult) -> DotPlot:
    metric, kinds = main_metric(level), {spec.name: spec.kind for spec in result.model_specs}
    dots = [Dot(s.name, kinds[s.name], *s.interval(metric)) for s in best_first(level)]
    caption = f"{metric.upper()} with 95 % intervals: {describe(result, level)}."
    return DotPlot("models", metric.upper(), caption, tuple(dots))


def comparison_table(result: Leaderboard, level: LevelResult) -> ReportTable:
    """One row per model: the main metrics with intervals, coverage, popularity, the time of a training."""
    metric = main_metric(level)
    measured = (metric, metric.replace("hr@", "ndcg@"), "mrr")
    kinds = {spec.name: spec.kind for spec in result.model_specs}
    columns = (
        text("model"),
        text("kind"),
        *(interval(name, name.upper()) for name in measured),
        number(f"{metric}_by_query", f"{metric.upper()} by query", 3),
        share("coverage"),
        number("popularity"),
        TableColumn("train_seconds", "Training", "seconds"),
    )
    rows = [
        (
            model.name,
            kinds[model.name],
            *(model.interval(name) for name in measured),
            model.macro[metric],
            level.recommended[model.name].coverage,
            level.recommended[model.name].popularity,
            result.cost(model.name)[0],
        )
        for model in best_first(level)
    ]
    caption = (
        f"{level.summary.labels:,} labels of {level.summary.queries:,} queries: "
        f"{describe(result, level)}"
    )
    best = best_cells(columns, rows, [*measured, f"{metric}_by_query"])
    return ReportTable(f"models-{key(level)}", caption, columns, tuple(rows), (), best)


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
        (t.better, t.worse, t.metric.upper(), (t.difference, t.low, t.high), t.p, t.p_holm)
        for t in tests
    ]
    note = (
        "Difference of the means with its 95 % interval; Holm's p holds for all pairs on a metric."
    )
    caption = "All pairs of models, paired label by label"
    return ReportTable(f"tests-{key(level)}", caption, columns, tuple(rows), (note,))


def conclusion(level: LevelResult) -> list[str]:
    """The best model and those it ties with, then the next one."""
    ranked, metric = best_first(level), main_metric(level)
    if not ranked or not level.summary.labels:
        return [NO_LABELS]
    first, k = ranked[0], int(metric.removeprefix("hr@"))
    ties = [model.name for model in ranked[1:] if is_tie(level, first.name, model.name)]
    verdict = f"ties with {', '.join(ties)}" if ties else "ranks best"
    sentences = [
        f"{first.name} {verdict}: {_interval(first, metric)} of {level.summary.labels:,} held-out labels are "
        f"among its first {k} recommendations; the best possible is {format_share(level.ceiling[k], 1)}."
    ]
    if len(ranked) > 1:
        second = ranked[1]
        sentences.append(
            f"Next is {second.name} with {_interval(second, metric)}. {compared(level, first, second)}"
        )
    return sentences


def _interval(model: ModelSummary, metric: str) -> str:
    mean, low, high = (format_number(100 * value, 1) for value in model.interval(metric))
    return f"{mean} % (95 % interval {low} to {high} %)"


def compared(level: LevelResult, one: ModelSummary, other: ModelSummary) -> str:
    """Which of two models is better on the same labels, or that neither is; empty where they were not tested."""
    test = _test_of(level, one.name, other.name)
    if test is None:
        return ""
    points, low, high = (
        format_number(100 * value, 1) for value in (test.difference, test.low, test.high)
    )
    spread = f"{points} points, paired 95 % interval {low} to {high}"
    if not test.low > 0:
        return f"{one.name} ties with {other.name} (difference {spread})."
    return f"{test.better} is better than {test.worse} by {spread}."


def is_tie(level: LevelResult, one: str, other: str) -> bool:
    """Whether the paired interval of the difference between two models holds 0."""
    test = _test_of(level, one, other)
    return test is not None and not test.low > 0


def _test_of(level: LevelResult, one: str, other: str) -> PairedTest | None:
    metric = main_metric(level)
    tests = (t for t in level.summary.tests if t.metric == metric)
    return next((t for t in tests if {t.better, t.worse} == {one, other}), None)


def lengths_section(result: Leaderboard) -> Section:
    """HR and NDCG at every list length, for the first level on every candidate set."""
    results = result.evaluation.results
    blocks = [lengths_table(result, level) for level in results if level.level == results[0].level]
    return Section("list-length", "Metric by list length", tuple(blocks))


def lengths_table(result: Leaderboard, level: LevelResult) -> ReportTable:
    ks = sorted(level.ceiling)
    names = [f"{metric}@{k}" for k in ks for metric in ("hr", "ndcg")]
    columns = (text("model"), *(number(name, name.upper(), 4) for name in names))
    rows: list[tuple[object, ...]] = [
        (model.name, *(model.mean[name] for name in names)) for model in best_first(level)
    ]
    best = best_cells(columns, rows, names)
    ceiling = {f"hr@{k}": value for k, value in level.ceiling.items()}
    rows.append(("best possible", *(ceiling.get(name) for name in names)))
    caption = describe(result, level)
    return ReportTable(f"lengths-{key(level)}", caption, columns, tuple(rows), (), best)


def slices_section(result: Leaderboard) -> Section:
    """HR@10 on parts of the labels of the first result, one table per way of slicing."""
    first = result.evaluation.results[0]
    slices = result.evaluation.slices.get(first.candidates, ())
    models = [model.name for model in best_first(first)]
    metric = f"hr@{LIST_LENGTH}"
    blocks: list[Block] = []
    for by in dict.fromkeys(part.by for part in slices):
        columns = (
            text("part", by.capitalize()),
            number("labels"),
            number("queries"),
            *(interval(name, name) for name in models),
        )
        rows = [
            (
                part.name,
                part.summary.labels,
                part.summary.queries,
                *(part.summary.by_name(name).interval(metric) for name in models),
            )
            for part in slices
            if part.by == by
        ]
        name = f"slices-{by.replace(' ', '-')}"
        blocks.append(ReportTable(name, f"{metric.upper()} by {by}", columns, tuple(rows)))
    return Section("slices", "Where each model is good", tuple(blocks))


def label_free_section(result: Leaderboard) -> Section:
    """Held-out lift and cart completion, where they were measured."""
    evaluation, blocks = result.evaluation, list[Block]()
    if evaluation.held_out:
        words = (
            "How much more often than by chance the recommended pairs are bought together in the test "
            "baskets: observed over expected counts, pooled over all recommendations for the best sellers."
        )
        blocks += [Paragraph(words), held_out_table(evaluation.held_out)]
    if evaluation.completion:
        words = (
            "An item of a test basket is hidden, and a model recommends for the rest. This rewards popular "
            "items, so the held-out lift of the answers stands beside it."
        )
        blocks += [Paragraph(words), completion_table(evaluation.completion)]
    return Section("label-free", "Measures that need no labels", tuple(blocks))


def held_out_table(found: Mapping[str, HeldOutLift]) -> ReportTable:
    """One row per model, best first: lift by list length, sales covered."""
    ks = sorted(next(iter(found.values())).lift)
    columns = (
        text("model"),
        *(interval(f"lift@{k}", f"Lift@{k}", 2) for k in ks),
        number("queries", "Queries answered"),
        share("sales_covered"),
    )
    order = sorted(found, key=lambda name: (-found[name].lift[ks[-1]][0], name))
    rows = [
        (n, *(found[n].lift[k] for k in ks), found[n].queries, found[n].sales_covered)
        for n in order
    ]
    note = (
        "Sales covered: share of the test lines whose item has recommendations. Intervals resample queries.",
    )
    best = best_cells(columns, rows, [f"lift@{k}" for k in ks])
    caption = "Lift of recommended pairs in the test baskets"
    return ReportTable("held-out-lift", caption, columns, tuple(rows), note, best)


def completion_table(found: Mapping[str, CartCompletion]) -> ReportTable:
    """One row per model, best first: hit rate and NDCG of the hidden item, lift of the answers."""
    ks = sorted(next(iter(found.values())).hr)
    last = ks[-1:]
    columns = (
        text("model"),
        *(interval(f"hr@{k}", f"HR@{k}") for k in ks),
        *(interval(f"ndcg@{k}", f"NDCG@{k}") for k in last),
        *(interval(f"lift@{k}", f"Lift@{k}", 2) for k in last),
    )
    order = sorted(found, key=lambda name: (*(-found[name].hr[k][0] for k in last), name))
    rows = [
        (
            n,
            *(found[n].hr[k] for k in ks),
            *(each[k] for each in (found[n].ndcg, found[n].lift) for k in last),
        )
        for n in order
    ]
    carts = max(each.carts for each in found.values())
    caption = f"Hidden items that are recommended, in {carts:,} carts of the test baskets"
    best = best_cells(columns, rows, [column.key for column in columns[1:]])
    return ReportTable(
        "basket-completion", caption, columns, tuple(rows), ("Intervals resample carts.",), best
    )


def examples_section(result: Leaderboard) -> Section:
    """Some queries from rare to popular, with the first recommendations of each model."""
    task, first = result.task, result.evaluation.results[0]
    queries, catalog = task.label_queries, task.labels.catalog
    best = {
        model.name: result.trainings[model.name][0].ranks.label_ranks[first.candidates].best
        for model in best_first(first)
    }
    sizes = np.diff(queries.offsets)
    rows = np.flatnonzero(sizes >= 2)
    if len(rows) < EXAMPLE_QUERIES:
        rows = np.arange(len(sizes))
    ordered = rows[np.argsort(-task.purchases[queries.queries[rows]], kind="stable")]
    spaced = np.linspace(0, max(len(ordered) - 1, 0), min(EXAMPLE_QUERIES, len(ordered)))
    examples = []
    for row in ordered[np.unique(spaced.round().astype(int))].tolist():
        code = int(queries.queries[row])
        labels = set(queries.item[queries.offsets[row] : queries.offsets[row + 1]].tolist())
        answers = tuple(
            (
                name,
                tuple(
                    (catalog.name(item), item in labels)
                    for item in codes[row, :RECOMMENDATIONS].tolist()
                    if item >= 0
                ),
            )
            for name, codes in best.items()
        )
        category = " / ".join(catalog.category_path(code))
        examples.append(ExampleQuery(catalog.name(code), category, len(labels), answers))
    words = Paragraph(
        f"{len(examples)} queries with labels, from the most popular to the rarest, and the first "
        f"{RECOMMENDATIONS} recommendations of each model. A tick marks a recommendation that is a label. One "
        "without a tick may still be right: the pair may be too rare to be tested."
    )
    return Section("examples", "What the models recommend", (words, ExampleList(tuple(examples))))


def run_section(result: Leaderboard) -> Section:
    """What is needed to run this again."""
    task = result.task
    hashes = {"training baskets": task.train_hash, "test baskets": task.test_hash}
    hashes |= {"labels": task.labels.hash}
    facts = [(f"SHA-256 of the {name}", value) for name, value in hashes.items()]
    options = {**result.options.to_json(), "split": dict(result.split)}
    facts += [(name.capitalize(), _words(value)) for name, value in options.items()]
    facts += [(f"Time for {name}", format_seconds(value)) for name, value in result.seconds.items()]
    facts.append(("Version of neatrec", __version__))
    return Section("run", "How this was made", (FactList(tuple(facts)),))


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(each)}" for name, each in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_words, value)) or "none"
    return "none" if value is None else str(value)
