"""Tables of a leaderboard, and its conclusion in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neatrec.evaluation.summary import LIST_LENGTH, LevelResult, ModelSummary, PairedTest
from neatrec.report.folder import file_name
from neatrec.report.table import (
    ReportTable,
    TableColumn,
    best_cells,
    format_number,
    format_share,
    interval,
    number,
    share,
    text,
)

MAIN = f"hr@{LIST_LENGTH}"
"""The metric that models are sorted by."""


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a model that do not follow from its ranks."""

    kind: str
    train_seconds: float | None
    """Mean over its trainings."""
    peak_mb: float | None
    """Largest over its trainings."""


@dataclass(frozen=True)
class LeaderboardTables:
    """A leaderboard as a report shows it: results and facts about the models."""

    results: tuple[LevelResult, ...]
    facts: Mapping[str, ModelFacts]
    """By model."""
    level_text: Mapping[float, str]
    """Each level in words."""
    name: str = ""
    """Goes into the names of its files; "" for the only leaderboard of a report."""

    @property
    def first(self) -> LevelResult:
        """The first level on the candidate set, which the report opens with."""
        return self.results[0]

    def file(self, what: str, result: LevelResult | None = None) -> str:
        key = "" if result is None else f"{result.level:g}-{result.candidates}"
        return file_name(what, self.name, key)

    def describe(self, result: LevelResult) -> str:
        """Level and candidate set of `result` as text."""
        return f"{self.level_text[result.level]}, {candidates_text(result.candidates)}"


def candidates_text(candidates: str) -> str:
    """The name of a candidate set as people read it.

    >>> candidates_text("top200"), candidates_text("catalogue")
    ('the 200 items bought most with the query', 'the whole catalogue')
    """
    if candidates.startswith("top"):
        return f"the {candidates.removeprefix('top')} items bought most with the query"
    return "the whole catalogue"


def main_metric(result: LevelResult) -> str:
    """What the models of `result` are sorted by: HR@10, or the longest list that was computed."""
    names = result.summary.models[0].mean if result.summary.models else {MAIN: 0.0}
    return MAIN if MAIN in names else [name for name in names if name.startswith("hr@")][-1]


def best_first(result: LevelResult) -> list[ModelSummary]:
    """The models of `result`, best first; equal ones by name."""
    metric = main_metric(result)
    return sorted(result.summary.models, key=lambda s: (-s.mean[metric], s.name))


def leaderboard_table(leaderboard: LeaderboardTables, result: LevelResult) -> ReportTable:
    """One row per model, best first: the main metrics with intervals, coverage and popularity."""
    metric = main_metric(result)
    partner = metric.replace("hr@", "ndcg@")
    columns = (
        text("model"),
        text("kind"),
        *(interval(name, name.upper()) for name in (metric, partner, "mrr")),
        number(f"{metric}_by_query", f"{metric.upper()} by query", 3),
        share("coverage"),
        number("popularity"),
    )
    rows = [
        (
            model.name,
            leaderboard.facts[model.name].kind,
            *(model.interval(name) for name in (metric, partner, "mrr")),
            model.macro[metric],
            result.recommended[model.name].coverage,
            result.recommended[model.name].popularity,
        )
        for model in best_first(result)
    ]
    notes = ("In brackets: 95 % intervals. They cover " + _interval_sources(result.summary.models) + ".",)
    best = best_cells(columns, rows, [metric, partner, "mrr", f"{metric}_by_query"])
    caption = f"All models on {_how_many(leaderboard, result)}"
    return ReportTable(leaderboard.file("leaderboard", result), caption, columns, tuple(rows), notes, best)


COLUMNS_NOTE = (
    "By query: mean over queries of each query's own mean, so that a query with many labels counts once. Coverage: "
    f"share of the items sold in training that are recommended for any query among the first {LIST_LENGTH}. "
    "Popularity: mean training purchases of the recommended items."
)


def costs_table(leaderboard: LeaderboardTables) -> ReportTable:
    """Time and memory of the trainings."""
    columns = (
        text("model"),
        text("kind"),
        number("seeds", "Trainings"),
        TableColumn("train_seconds", "Seconds per training", "seconds"),
        number("peak_mb", "Peak memory, MB"),
    )
    models = [(s, leaderboard.facts[s.name]) for s in best_first(leaderboard.first)]
    rows = [(s.name, facts.kind, s.seeds, facts.train_seconds, facts.peak_mb) for s, facts in models]
    notes = (
        "Memory of the whole process, data included. Two trainings are enough where the second gives the same ranks.",
    )
    return ReportTable(leaderboard.file("costs"), "What training took", columns, tuple(rows), notes)


def _how_many(leaderboard: LeaderboardTables, result: LevelResult) -> str:
    count = f"{result.summary.labels:,} labels of {result.summary.queries:,} queries"
    return f"{count} ({leaderboard.level_text[result.level]}); candidates: {candidates_text(result.candidates)}"


def _interval_sources(models: Sequence[ModelSummary]) -> str:
    """What the intervals cover, by model where it differs."""
    found: dict[str, list[str]] = {}
    for model in models:
        found.setdefault(model.variance, []).append(model.name)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{variance} ({', '.join(names)})" for variance, names in found.items())


def metrics_table(leaderboard: LeaderboardTables, result: LevelResult) -> ReportTable:
    """HR and NDCG of every model at every list length, and the best possible."""
    names = [name for name in result.summary.models[0].mean if name != "mrr"] if result.summary.models else []
    ks = [name.removeprefix("hr@") for name in names if name.startswith("hr@")]
    ordered = [f"{metric}@{k}" for k in ks for metric in ("hr", "ndcg")]
    columns = (text("model"), *(number(name, name.upper(), 4) for name in ordered))
    rows: list[tuple[object, ...]] = [
        (model.name, *(model.mean[name] for name in ordered)) for model in best_first(result)
    ]
    best = best_cells(columns, rows, ordered)
    ceiling = {f"hr@{k}": value for k, value in result.ceiling.items()}
    rows.append(("best possible", *(ceiling.get(name) for name in ordered)))
    caption = f"Every list length on {_how_many(leaderboard, result)}"
    return ReportTable(leaderboard.file("metrics", result), caption, columns, tuple(rows), (), best)


TEST_COLUMNS = (
    text("better"),
    text("worse"),
    text("metric"),
    interval("difference"),
    TableColumn("p", "p", "p"),
    TableColumn("p_holm", "p, Holm", "p"),
)


def tests_table(leaderboard: LeaderboardTables, result: LevelResult, *, only_best: bool) -> ReportTable:
    """Paired tests between models: all pairs, or the best model against each other one on the main metric."""
    metric, first = main_metric(result), next((s.name for s in best_first(result)), "")
    tests = [t for t in result.summary.tests if not only_best or (t.better == first and t.metric == metric)]
    tests = sorted(tests, key=lambda t: (t.metric, -t.difference, t.better, t.worse))
    what = f"{first} against each other model" if only_best else "All pairs of models"
    caption = f"{what}, paired label by label: {_how_many(leaderboard, result)}"
    notes = (
        "Difference of the means with its 95 % interval, as of pairs that share items; p corrected by Holm "
        f"for all {len([t for t in result.summary.tests if t.metric == metric]):,} pairs of models on a metric.",
    )
    name = leaderboard.file("tests-best" if only_best else "tests", result)
    rows = [(t.better, t.worse, t.metric.upper(), (t.difference, t.low, t.high), t.p, t.p_holm) for t in tests]
    return ReportTable(name, caption, TEST_COLUMNS, tuple(rows), notes)


def all_tables(leaderboard: LeaderboardTables) -> dict[str, ReportTable]:
    tables = [costs_table(leaderboard)]
    for result in leaderboard.results:
        tables += [leaderboard_table(leaderboard, result), metrics_table(leaderboard, result)]
        tables += [tests_table(leaderboard, result, only_best=only_best) for only_best in (True, False)]
    return {table.name: table for table in tables}


NO_LABELS = "There are no labels to compare models by: too few baskets, or no pair above chance."


def conclusion(leaderboard: LeaderboardTables) -> tuple[str, ...]:
    """A few sentences: the best model and those it ties with, the next one, the best of the paper's models where that
    is another."""
    result, facts = leaderboard.first, leaderboard.facts
    ranked = best_first(result)
    if not ranked or not result.summary.labels:
        return (NO_LABELS,)
    first = ranked[0]
    sentences = [_leads(result, ranked)]
    if len(ranked) > 1:
        sentences.append(
            f"Next is {ranked[1].name} with {_share(result, ranked[1])}. {verdict(result, first, ranked[1])}"
        )
    papers = [model for model in ranked[2:] if facts[model.name].kind == "paper"]
    if papers and "paper" not in (facts[first.name].kind, facts[ranked[1].name].kind):
        best = f"Of the paper's own models the best here is {papers[0].name} with {_share(result, papers[0])}."
        sentences.append(f"{best} {verdict(result, first, papers[0])}")
    return tuple(sentences)


def _leads(result: LevelResult, ranked: Sequence[ModelSummary]) -> str:
    first, metric = ranked[0], main_metric(result)
    k = metric.removeprefix("hr@")
    ceiling = result.ceiling.get(int(k))
    possible = "" if ceiling is None else f"; the best possible is {format_share(ceiling, 1)}"
    ties = [other.name for other in ranked[1:] if is_tie(result, first.name, other.name)]
    place = f"ties with {', '.join(ties)}" if ties else "ranks best"
    return (
        f"{first.name} {place}: it puts {_share(result, first)} of {result.summary.labels:,} held-out labels "
        f"among its first {k} recommendations{possible}."
    )


def _share(result: LevelResult, model: ModelSummary) -> str:
    metric = main_metric(result)
    low, high = format_share(model.low[metric], 1), format_share(model.high[metric], 1)
    return f"{format_share(model.mean[metric], 1)} (95 % interval {low.removesuffix(' %')} to {high})"


def interval_text(model: ModelSummary, metric: str) -> str:
    """A hit rate with its interval, in per cent."""
    mean, low, high = (format_number(100 * value, 1) for value in model.interval(metric))
    return f"{mean} % [{low}, {high}]"


def verdict(result: LevelResult, one: ModelSummary, other: ModelSummary) -> str:
    """Which of two models is better on the same labels, or that neither is; "" where they were not compared."""
    test = _test_between(result, one.name, other.name)
    if test is None:
        return ""
    points, low, high = (format_number(100 * value, 1) for value in (test.difference, test.low, test.high))
    spread = f"{points} points, paired 95 % interval {low} to {high}"
    if not test.low > 0:
        return f"{one.name} ties with {other.name} (difference {spread})."
    return f"{test.better} is better than {test.worse} by {spread}."


def is_tie(result: LevelResult, one: str, other: str) -> bool:
    """Whether the paired interval of the difference between two models holds 0."""
    test = _test_between(result, one, other)
    return test is not None and not test.low > 0


def _test_between(result: LevelResult, one: str, other: str) -> PairedTest | None:
    metric = main_metric(result)
    return next((t for t in result.summary.tests if {t.better, t.worse} == {one, other} and t.metric == metric), None)
