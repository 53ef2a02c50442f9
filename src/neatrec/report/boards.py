"""Tables of a leaderboard: means with intervals, every list length, tests between models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neatrec.evaluation.summary import LIST_LENGTH, LevelResult, ModelSummary, PairedTest
from neatrec.report.table import ReportTable, TableColumn, best_cells

MAIN = f"hr@{LIST_LENGTH}"
"""The metric that models are sorted by."""
CANDIDATES_IN_WORDS: Mapping[str, str] = {"catalogue": "the whole catalogue"}


@dataclass(frozen=True)
class ModelFacts:
    """What ranks do not tell about a model."""

    kind: str
    train_seconds: float | None
    """Mean over its trainings."""
    peak_mb: float | None
    """Largest over its trainings."""


@dataclass(frozen=True)
class LeaderboardTables:
    """A leaderboard as reports speak of it: results, and what ranks do not tell."""

    results: tuple[LevelResult, ...]
    about: Mapping[str, ModelFacts]
    """By model."""
    where: Mapping[float, str]
    """Each level in words."""
    name: str = ""
    """Goes into the names of its files; "" for the only board of a report."""

    @property
    def first(self) -> LevelResult:
        """What the report opens with: the first level on the candidate set."""
        return self.results[0]

    def file(self, what: str, result: LevelResult | None = None) -> str:
        """The name of a file of this board."""
        parts = [what, self.name, "" if result is None else place(result)]
        return "-".join(part for part in parts if part)


def in_words(candidates: str) -> str:
    """The name of a candidate set as people read it.

    >>> in_words("top200"), in_words("catalogue")
    ('the 200 items bought most with the query', 'the whole catalogue')
    """
    if candidates.startswith("top"):
        return f"the {candidates.removeprefix('top')} items bought most with the query"
    return CANDIDATES_IN_WORDS.get(candidates, candidates)


def place(result: LevelResult) -> str:
    """Which result it is, for the names of files."""
    return f"{result.level:g}-{result.candidates}"


def main_metric(result: LevelResult) -> str:
    """What the models of `result` are sorted by: HR@10, or the longest list that was computed."""
    names = result.summary.models[0].mean if result.summary.models else {MAIN: 0.0}
    return MAIN if MAIN in names else [name for name in names if name.startswith("hr@")][-1]


def best_first(result: LevelResult) -> list[ModelSummary]:
    """The models of `result`, best first; equal ones by name."""
    metric = main_metric(result)
    return sorted(result.summary.models, key=lambda s: (-s.mean[metric], s.name))


def metric_title(metric: str) -> str:
    """
    >>> metric_title("hr@10"), metric_title("mrr")
    ('HR@10', 'MRR')
    """
    return metric.upper()


def leaderboard_table(board: LeaderboardTables, result: LevelResult) -> ReportTable:
    """One line a model, best first: the main metrics with intervals, and what is recommended."""
    metric = main_metric(result)
    partner = metric.replace("hr@", "ndcg@")
    columns = (
        TableColumn("model", "Model"),
        TableColumn("kind", "Kind"),
        *(TableColumn(name, metric_title(name), "interval", 3) for name in (metric, partner, "mrr")),
        TableColumn(f"{metric}_by_query", f"{metric_title(metric)} by query", "number", 3),
        TableColumn("coverage", "Coverage", "share", 1),
        TableColumn("popularity", "Popularity", "number", 0),
    )
    rows = [
        (
            standing.name,
            board.about[standing.name].kind,
            *(_interval(standing, name) for name in (metric, partner, "mrr")),
            standing.macro[metric],
            result.recommended[standing.name].coverage,
            result.recommended[standing.name].popularity,
        )
        for standing in best_first(result)
    ]
    notes = ("In brackets: 95 % intervals. They cover " + _variances(result.summary.models) + ".",)
    best = best_cells(columns, rows, [metric, partner, "mrr", f"{metric}_by_query"])
    caption = f"All models on {_how_many(board, result)}"
    return ReportTable(board.file("leaderboard", result), caption, columns, tuple(rows), notes, best)


COLUMNS_IN_WORDS = (
    "By query: mean over queries of each query's own mean, so that a query with many labels counts once. Coverage: "
    f"share of the items sold in training that are recommended to anyone among the first {LIST_LENGTH}. Popularity: "
    "mean training purchases of what is recommended."
)


def costs_table(board: LeaderboardTables) -> ReportTable:
    """What training took."""
    columns = (
        TableColumn("model", "Model"),
        TableColumn("kind", "Kind"),
        TableColumn("seeds", "Trainings", "number"),
        TableColumn("train_seconds", "Seconds a training", "seconds"),
        TableColumn("peak_mb", "Peak memory, MB", "number"),
    )
    rows = [
        (s.name, board.about[s.name].kind, s.seeds, board.about[s.name].train_seconds, board.about[s.name].peak_mb)
        for s in best_first(board.first)
    ]
    notes = (
        "Memory of the whole process meanwhile, data included. Two trainings are enough where the second is the same.",
    )
    return ReportTable(board.file("costs"), "What training took", columns, tuple(rows), notes)


def _interval(standing: ModelSummary, metric: str) -> tuple[float, float, float]:
    return standing.mean[metric], standing.low[metric], standing.high[metric]


def _how_many(board: LeaderboardTables, result: LevelResult) -> str:
    count = f"{result.summary.labels:,} labels of {result.summary.queries:,} queries"
    return f"{count} ({board.where[result.level]}); candidates: {in_words(result.candidates)}"


def _variances(standings: Sequence[ModelSummary]) -> str:
    """What the intervals cover; which models, where not all are alike."""
    found: dict[str, list[str]] = {}
    for standing in standings:
        found.setdefault(standing.variance, []).append(standing.name)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{variance} ({', '.join(names)})" for variance, names in found.items())


def metrics_table(board: LeaderboardTables, result: LevelResult) -> ReportTable:
    """HR and NDCG of every model at every list length, and the best possible."""
    names = [name for name in result.summary.models[0].mean if name != "mrr"] if result.summary.models else []
    ks = [name.removeprefix("hr@") for name in names if name.startswith("hr@")]
    ordered = [f"{metric}@{k}" for k in ks for metric in ("hr", "ndcg")]
    columns = (TableColumn("model", "Model"), *(TableColumn(name, metric_title(name), "number", 4) for name in ordered))
    rows: list[tuple[object, ...]] = [
        (standing.name, *(standing.mean[name] for name in ordered)) for standing in best_first(result)
    ]
    best = best_cells(columns, rows, ordered)
    ceiling = {f"hr@{k}": value for k, value in result.ceiling.items()}
    rows.append(("best possible", *(ceiling.get(name) for name in ordered)))
    caption = f"Every list length on {_how_many(board, result)}"
    return ReportTable(board.file("metrics", result), caption, columns, tuple(rows), (), best)


TEST_COLUMNS = (
    TableColumn("better", "Better"),
    TableColumn("worse", "Worse"),
    TableColumn("metric", "Metric"),
    TableColumn("difference", "Difference", "interval", 3),
    TableColumn("p", "p", "p"),
    TableColumn("p_holm", "p, Holm", "p"),
)


def tests_table(board: LeaderboardTables, result: LevelResult, *, only_best: bool) -> ReportTable:
    """Paired tests between models: all pairs, or the best model against each other one on the main metric."""
    metric, first = main_metric(result), next((s.name for s in best_first(result)), "")
    tests = [t for t in result.summary.tests if not only_best or (t.better == first and t.metric == metric)]
    tests = sorted(tests, key=lambda t: (t.metric, -t.difference, t.better, t.worse))
    what = f"{first} against each other model" if only_best else "All pairs of models"
    caption = f"{what}, paired query by query: {_how_many(board, result)}"
    notes = (
        "Difference of the means with its 95 % interval; p by flipping signs of whole queries, corrected by Holm "
        f"for all {len([t for t in result.summary.tests if t.metric == metric]):,} pairs of models on a metric.",
    )
    name = board.file("tests-best" if only_best else "tests", result)
    return ReportTable(name, caption, TEST_COLUMNS, tuple(_test_row(test) for test in tests), notes)


def _test_row(test: PairedTest) -> tuple[object, ...]:
    return (
        test.better,
        test.worse,
        metric_title(test.metric),
        (test.difference, test.low, test.high),
        test.p,
        test.p_holm,
    )


def derived_tables(board: LeaderboardTables) -> dict[str, ReportTable]:
    """The tables that follow from ranks and labels, by name: `neatrec verify` makes them again."""
    tables = [costs_table(board)]
    for result in board.results:
        tables += [leaderboard_table(board, result), metrics_table(board, result)]
        tables += [tests_table(board, result, only_best=only_best) for only_best in (True, False)]
    return {table.name: table for table in tables}
