"""Tables of a leaderboard: means with intervals, every list length, tests between models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neatrec.evaluation.grade import LIST_LENGTH, Result
from neatrec.evaluation.summary import PairedTest, Standing
from neatrec.report.table import Column, Table, best_cells

MAIN = f"hr@{LIST_LENGTH}"
"""The metric that models are sorted by."""
CANDIDATES_IN_WORDS: Mapping[str, str] = {"catalogue": "the whole catalogue"}


@dataclass(frozen=True)
class About:
    """What ranks do not tell about a model."""

    kind: str
    train_seconds: float | None
    """Mean over its trainings."""
    peak_mb: float | None
    """Largest over its trainings."""


def in_words(candidates: str) -> str:
    """The name of a candidate set as people read it.

    >>> in_words("recall200"), in_words("catalogue")
    ('the 200 items bought most with the query', 'the whole catalogue')
    """
    if candidates.startswith("recall"):
        return f"the {candidates.removeprefix('recall')} items bought most with the query"
    return CANDIDATES_IN_WORDS.get(candidates, candidates)


def place(result: Result) -> str:
    """Which result it is, for the names of files."""
    return f"{result.level:g}-{result.candidates}"


def main_metric(result: Result) -> str:
    """What the models of `result` are sorted by: HR@10, or the longest list that was computed."""
    names = result.summary.standings[0].mean if result.summary.standings else {MAIN: 0.0}
    return MAIN if MAIN in names else [name for name in names if name.startswith("hr@")][-1]


def best_first(result: Result) -> list[Standing]:
    """The models of `result`, best first; equal ones by name."""
    metric = main_metric(result)
    return sorted(result.summary.standings, key=lambda s: (-s.mean[metric], s.name))


def metric_title(metric: str) -> str:
    """
    >>> metric_title("hr@10"), metric_title("mrr")
    ('HR@10', 'MRR')
    """
    return metric.upper()


def leaderboard_table(result: Result, about: Mapping[str, About], where: str) -> Table:
    """One line a model, best first: the main metrics with intervals, what is recommended, what training took."""
    metric = main_metric(result)
    partner = metric.replace("hr@", "ndcg@")
    columns = (
        Column("model", "Model"),
        Column("kind", "Kind"),
        *(Column(name, metric_title(name), "interval", 3) for name in (metric, partner, "mrr")),
        Column(f"{metric}_by_query", f"{metric_title(metric)} by query", "number", 3),
        Column("coverage", "Coverage", "share", 1),
        Column("popularity", "Popularity", "number", 0),
        Column("seeds", "Seeds", "number", 0),
        Column("train_seconds", "Training", "seconds"),
        Column("peak_mb", "Peak memory, MB", "number", 0),
    )
    rows = [
        (
            standing.name,
            about[standing.name].kind,
            *(_interval(standing, name) for name in (metric, partner, "mrr")),
            standing.macro[metric],
            result.shown[standing.name].coverage,
            result.shown[standing.name].popularity,
            standing.seeds,
            about[standing.name].train_seconds,
            about[standing.name].peak_mb,
        )
        for standing in best_first(result)
    ]
    caption = f"All models on {_how_many(result)} ({where}); candidates: {in_words(result.candidates)}"
    notes = (
        "In brackets: 95 % intervals. They cover " + _variances(result.summary.standings) + ".",
        "By query: mean over queries of each query's own mean. Coverage: share of the items sold in training that "
        f"are recommended to anyone among the first {LIST_LENGTH}. Popularity: mean training purchases of what is "
        "recommended.",
    )
    best = best_cells(columns, rows, [metric, partner, "mrr", f"{metric}_by_query"])
    return Table(f"leaderboard-{place(result)}", caption, columns, tuple(rows), notes, best)


def _interval(standing: Standing, metric: str) -> tuple[float, float, float]:
    return standing.mean[metric], standing.low[metric], standing.high[metric]


def _how_many(result: Result) -> str:
    return f"{result.summary.labels:,} labels of {result.summary.queries:,} queries"


def _variances(standings: Sequence[Standing]) -> str:
    """What the intervals cover; which models, where not all are alike."""
    found: dict[str, list[str]] = {}
    for standing in standings:
        found.setdefault(standing.variance, []).append(standing.name)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{variance} ({', '.join(names)})" for variance, names in found.items())


def metrics_table(result: Result, where: str) -> Table:
    """HR and NDCG of every model at every list length, and the best possible."""
    names = [name for name in result.summary.standings[0].mean if name != "mrr"] if result.summary.standings else []
    ks = [name.removeprefix("hr@") for name in names if name.startswith("hr@")]
    ordered = [f"{metric}@{k}" for k in ks for metric in ("hr", "ndcg")]
    columns = (Column("model", "Model"), *(Column(name, metric_title(name), "number", 4) for name in ordered))
    rows: list[tuple[object, ...]] = [
        (standing.name, *(standing.mean[name] for name in ordered)) for standing in best_first(result)
    ]
    best = best_cells(columns, rows, ordered)
    ceiling = {f"hr@{k}": value for k, value in result.ceiling.items()}
    rows.append(("best possible", *(ceiling.get(name) for name in ordered)))
    caption = f"Every list length on {_how_many(result)} ({where}); candidates: {in_words(result.candidates)}"
    return Table(f"metrics-{place(result)}", caption, columns, tuple(rows), (), best)


TEST_COLUMNS = (
    Column("better", "Better"),
    Column("worse", "Worse"),
    Column("metric", "Metric"),
    Column("difference", "Difference", "interval", 3),
    Column("p", "p", "p"),
    Column("p_holm", "p, Holm", "p"),
)


def tests_table(result: Result, where: str, *, only_best: bool) -> Table:
    """Paired tests between models: all pairs, or the best model against each other one on the main metric."""
    metric, first = main_metric(result), next((s.name for s in best_first(result)), "")
    tests = [t for t in result.summary.tests if not only_best or (t.better == first and t.metric == metric)]
    tests = sorted(tests, key=lambda t: (t.metric, -t.difference, t.better, t.worse))
    what = f"{first} against each other model" if only_best else "All pairs of models"
    caption = f"{what}, paired on the same {result.summary.queries:,} queries ({where}; {in_words(result.candidates)})"
    notes = (
        "Difference of the means with its 95 % interval; p by flipping signs of whole queries, corrected by Holm "
        f"for all {len([t for t in result.summary.tests if t.metric == metric]):,} pairs of models on a metric.",
    )
    name = f"tests-{'best-' if only_best else ''}{place(result)}"
    return Table(name, caption, TEST_COLUMNS, tuple(_test_row(test) for test in tests), notes)


def _test_row(test: PairedTest) -> tuple[object, ...]:
    return (
        test.better,
        test.worse,
        metric_title(test.metric),
        (test.difference, test.low, test.high),
        test.p,
        test.p_holm,
    )


def derived_tables(result: Result, about: Mapping[str, About], where: str) -> tuple[Table, ...]:
    """The tables that follow from ranks and labels: `neatrec verify` makes them again."""
    return (
        leaderboard_table(result, about, where),
        metrics_table(result, where),
        tests_table(result, where, only_best=True),
        tests_table(result, where, only_best=False),
    )
