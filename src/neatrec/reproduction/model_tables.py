"""The paper's tables, figures and studies of models, with the published numbers and ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.evaluation.metrics import metric_names, metric_values
from neatrec.evaluation.ranks import LabelRanks
from neatrec.evaluation.summary import LevelResult, ModelSummary, PairedTest
from neatrec.leaderboard.model_specs import model_specs
from neatrec.leaderboard.result_cache import FitContext, fit_and_evaluate
from neatrec.models import Model, Run, make_model
from neatrec.report.figures import Curve, GaussianCurve, density_chart, line_chart
from neatrec.report.leaderboard_tables import LeaderboardTables, best_first
from neatrec.report.svg import Figure
from neatrec.report.table import ReportTable, TableColumn, best_cells, interval, number, text
from neatrec.reproduction.published import CITED, MARK, NO_PRIOR, WALMART, comparable, exact_or_differs, not_checkable

Paper = Mapping[str, Any]
Floats = npt.NDArray[np.float64]
GAUSSIAN = "neat"


@dataclass(frozen=True)
class PaperComparison:
    """How a leaderboard compares with the paper's tables."""

    data: str
    """INS or WMT."""
    same_split: bool
    why: str
    """What its rows are marked with where they are not exact."""


def comparison_table(
    paper: Paper, leaderboard: LeaderboardTables, result: LevelResult, comparison: PaperComparison
) -> ReportTable:
    """Tables IX to XIV: a line of the paper's and one of ours for each model; ours alone where the paper has none."""
    printed = paper["metrics"][comparison.data].get(f"{result.level:g}", {"table": "none", "models": {}})
    keys = [f"{metric}@{k}" for k in paper["settings"]["k"] for metric in ("hr", "ndcg")]
    models = {model.name: model for model in result.summary.models}
    rows: list[tuple[Any, ...]] = []
    for name, there in printed["models"].items():
        cited = [there[key.split("@")[0]][key.split("@")[1]] for key in keys]
        mark = CITED if {name, f"{name}@paper"} & models.keys() else not_checkable("it was not trained here")
        mark = WALMART if comparison.data == "WMT" else mark
        rows.append((name, "paper", *cited, mark))
        rows += [_ours(models[each], keys, cited, comparison) for each in (name, f"{name}@paper") if each in models]
    known = set(printed["models"]) | {f"{name}@paper" for name in printed["models"]}
    rows += [_ours(s, keys, None, comparison) for s in best_first(result) if s.name not in known]
    columns = (text("model"), text("whose"), *(number(key, key.upper(), 4) for key in keys), MARK)
    best = {cell for whose in ("paper", "here") for cell in _best_of(columns, rows, whose, keys)}
    caption = (
        f"HR and NDCG at p = {result.level:g} (the paper's Table {printed['table']}); here: "
        f"{result.summary.labels:,} labels of {result.summary.queries:,} queries, candidate set of 200"
    )
    notes = ("Bold: the best of the paper's lines, and the best of ours.",)
    return ReportTable(
        leaderboard.file(f"paper-metrics-{result.level:g}"), caption, columns, tuple(rows), notes, frozenset(best)
    )


def _ours(
    model: ModelSummary, keys: Sequence[str], cited: Sequence[float] | None, comparison: PaperComparison
) -> tuple[Any, ...]:
    values = [model.mean[key] for key in keys]
    mark = comparable(comparison.why) if cited is not None else "ours alone: the paper has no such row"
    if comparison.same_split and cited is not None and exact_or_differs(values, cited, digits=4) == "exact":
        mark = "exact"
    return (model.name, "here", *values, mark)


def _best_of(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Any]], whose: str, keys: Sequence[str]
) -> set[Any]:
    places = [place for place, row in enumerate(rows) if row[1] == whose]
    return {(places[row], column) for row, column in best_cells(columns, [rows[p] for p in places], keys)}


def ablation_table(paper: Paper, leaderboards: Sequence[tuple[LeaderboardTables, PaperComparison]]) -> ReportTable:
    """NEAT against NEAT+bpr on every leaderboard that has both."""
    rows = [
        _ablation_row(paper, result, test, comparison)
        for leaderboard, comparison in leaderboards
        for result in leaderboard.results
        if result.candidates == leaderboard.first.candidates
        for test in result.summary.tests
        if {test.better, test.worse} == {"neat", "neat-bpr"}
    ]
    columns = (
        text("data"),
        text("level"),
        text("metric"),
        number("neat_paper", "NEAT, paper", 4),
        number("neat_bpr_paper", "NEAT+bpr, paper", 4),
        number("neat", "NEAT, here", 4),
        number("neat_bpr", "NEAT+bpr, here", 4),
        interval("difference", "NEAT+bpr less NEAT", 4),
        TableColumn("p_holm", "p, Holm", "p"),
        MARK,
    )
    return ReportTable("paper-ablation", "NEAT against NEAT+bpr (the paper's ablation)", columns, tuple(rows))


def _ablation_row(paper: Paper, result: LevelResult, test: PairedTest, comparison: PaperComparison) -> tuple[Any, ...]:
    there = paper["metrics"][comparison.data].get(f"{result.level:g}", {"models": {}})["models"]
    metric, k = test.metric.split("@")
    models = ("neat", "neat-bpr")
    # the difference is that of NEAT+bpr less NEAT, whichever came out better
    sign = 1 if test.better == "neat-bpr" else -1
    low, high = sorted([sign * test.low, sign * test.high])
    return (
        "Instacart" if comparison.data == "INS" else "Complete Journey",
        f"p = {result.level:g}",
        test.metric.upper(),
        *(there[model][metric][k] if model in there else None for model in models),
        *(result.summary.by_name(model).mean[test.metric] for model in models),
        (sign * test.difference, low, high),
        test.p_holm,
        comparable(comparison.why),
    )


@dataclass(frozen=True)
class MarginStudy:
    """NEAT with several margins on one data set: `values[level][metric]` is aligned with `margins`."""

    data: str
    margins: tuple[float, ...]
    values: Mapping[float, Mapping[str, Sequence[float]]]
    seeds: int


def margin_figures(study: MarginStudy) -> tuple[Figure, ...]:
    """HR and NDCG at each level, one figure each."""
    out = []
    for level, metrics in study.values.items():
        for name in ("hr", "ndcg"):
            curves = [Curve(key.upper(), values) for key, values in metrics.items() if key.startswith(f"{name}@")]
            file = f"margin-{study.data.lower().replace(' ', '-')}-{name}-{level:g}"
            caption = f"{study.data}, {name.upper()} at p = {level:g} against the margin."
            out.append(line_chart(file, study.margins, curves, "margin", name.upper(), caption, height=210))
    return tuple(out)


def margin_table(study: MarginStudy) -> ReportTable:
    """All numbers of the study; the paper's figures carry none."""
    keys = list(next(iter(study.values.values())))
    columns = (text("level"), number("margin", digits=1), *(number(key, key.upper(), 4) for key in keys), MARK)
    rows = [
        (
            f"p = {level:g}",
            margin,
            *(metrics[key][place] for key in keys),
            comparable("the paper's figure carries no numbers"),
        )
        for level, metrics in study.values.items()
        for place, margin in enumerate(study.margins)
    ]
    name = f"paper-margin-{study.data.lower().replace(' ', '-')}"
    notes = (
        f"Mean of {study.seeds} trainings for each margin." if study.seeds > 1 else "One training for each margin.",
    )
    return ReportTable(name, f"NEAT with several margins, {study.data}", columns, tuple(rows), notes)


def margin_text(study: MarginStudy) -> str:
    """What the study finds, against the paper's finding that larger margins are better."""
    level, metrics = next(iter(study.values.items()))
    key = "hr@10" if "hr@10" in metrics else next(iter(metrics))
    best = study.margins[int(np.argmax(metrics[key]))]
    low, high = metrics[key][0], metrics[key][-1]
    holds = (
        "as in the paper, a larger margin is better"
        if high > low
        else "other than in the paper, a larger margin is not better"
    )
    return (
        f"{study.data}, {key.upper()} at p = {level:g}: {low:.4f} at margin {study.margins[0]:g}, {high:.4f} at "
        f"{study.margins[-1]:g}, highest at {best:g}; {holds} here."
    )


class CaseStudy(NamedTuple):
    """Three items of a trained Gaussian model, the query first."""

    names: tuple[str, ...]
    purchases: tuple[int, ...]
    """In the training baskets."""
    cosines: tuple[float, ...]
    """Of the query's mean with those of the others."""
    log_determinants: tuple[float, ...]
    model: str


def case_study(
    names: Sequence[str],
    codes: Sequence[int],
    purchases: npt.ArrayLike,
    means: Floats,
    log_variance: Floats,
    model: str,
) -> CaseStudy:
    """The study of three items: `means` (items, dim), `log_variance` (items,)."""
    rows = means[list(codes)].astype(np.float64)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    # the same variance in each dimension
    determinants = np.asarray(log_variance, dtype=np.float64)[list(codes)] * means.shape[1]
    cosines = unit[1:] @ unit[0]
    bought = np.asarray(purchases)[list(codes)].tolist()
    return CaseStudy(tuple(names), tuple(bought), tuple(cosines.tolist()), tuple(determinants.tolist()), model)


def case_study_table(paper: Paper, study: CaseStudy, *, has_prior: bool) -> ReportTable:
    """Cosines, purchases, log-determinants and their ratios, the paper's and ours."""
    printed = paper["case_study"]
    ratios = list(printed["determinant_ratio"].values())
    first, second, third = study.names
    why = comparable("new training" if has_prior else "other split")
    order = "as in the paper" if study.cosines[0] > study.cosines[1] else "other than in the paper"
    rows: list[tuple[Any, ...]] = [
        (f"cosine of {first} and {second}", "the larger", f"{study.cosines[0]:.3f}", comparable(order)),
        (f"cosine of {first} and {third}", "the smaller", f"{study.cosines[1]:.3f}", comparable(order)),
    ]
    for name, here, item in zip(study.names, study.purchases, printed["items"], strict=True):
        mark = exact_or_differs([here], [item["purchases"]]) if has_prior else NO_PRIOR
        rows.append((f"purchases of {name} in training", f"{item['purchases']:,}", f"{here:,}", mark))
    rows += [
        (f"log-determinant of {name}", None, f"{value:.2f}", why)
        for name, value in zip(study.names, study.log_determinants, strict=True)
    ]
    for other, name, there in zip((1, 2), (second, third), ratios, strict=True):
        power = study.log_determinants[0] - study.log_determinants[other]
        rows.append((f"determinant of {first} over that of {name}", f"{there} times", _times(power), why))
    columns = (text("what"), text("paper"), text("ours", "Here"), MARK)
    caption = f"Case study: {first}, {second} and {third} ({study.model})"
    return ReportTable("paper-case-study", caption, columns, tuple(rows))


def _times(power: float) -> str:
    """e to the `power`, as people read it.

    >>> _times(3.4), _times(30.0)
    ('30 times', '10 to the 13.0 times')
    """
    digits = power / np.log(10)
    return f"10 to the {digits:.1f} times" if abs(digits) > 6 else f"{np.exp(power):,.3g} times"


def concept_figures(names: Sequence[str], means: Floats, variances: Floats) -> tuple[Figure, Figure]:
    """One-dimensional densities of three items, and of the differences of the first with the others at zero."""
    curves = [GaussianCurve(name, float(m), float(v)) for name, m, v in zip(names, means, variances, strict=True)]
    items = density_chart("concept-items", curves, "one-dimensional embedding", "Gaussian embeddings of three items.")
    apart = [
        GaussianCurve(
            f"{names[0]} - {names[other]}", float(means[0] - means[other]), float(variances[0] + variances[other])
        )
        for other in (2, 1)
    ]
    caption = (
        f"Distributions of the differences; their densities at zero are the expected likelihoods of ({names[0]}, "
        f"{names[2]}) at A and of ({names[0]}, {names[1]}) at B."
    )
    return items, density_chart("concept-differences", apart, "difference of embeddings", caption, at_zero=True)


def gaussians_of(model: Model) -> tuple[Floats, Floats]:
    """The means and log-variances of a trained model, shapes (items, dim) and (items,)."""
    arrays = model.arrays()
    return arrays["vectors"].astype(np.float64), arrays["log_variance"].astype(np.float64)


def _codes(catalog: Catalog, paper: Mapping[str, Any]) -> list[int] | None:
    """The paper's three items in a catalogue; None where it does not have them."""
    codes = [catalog.code_of.get(item["product_id"]) for item in paper["case_study"]["items"]]
    found = [code for code in codes if code is not None]
    return found if len(found) == len(codes) else None


class Concept(NamedTuple):
    """Three items in one dimension."""

    names: tuple[str, ...]
    means: Floats
    variances: Floats


def margin_study(
    data: str,
    context: FitContext,
    paper: Mapping[str, Any],
    seeds: Sequence[int],
    report: Callable[[str], None],
    **settings: Any,
) -> MarginStudy:
    """NEAT trained with each margin of the paper, evaluated on the candidate set at every level of the task's labels.

    `settings` are parameters of NEAT that stay the same.
    """
    study, task = paper["margin_study"], context.task
    by_margin = []
    for margin in study["margins"]:
        label_ranks = []
        model = make_model(GAUSSIAN, settings, margin=margin)
        [spec], _ = model_specs({f"margin-{margin:g}": model}, {}, context.train)
        for seed in seeds:
            report(f"margin {margin:g} on {data}: seed {seed}")
            own = replace(context, run=replace(context.run, rng=seed))
            training = fit_and_evaluate(spec, seed, own, label_free=False)
            label_ranks.append(training.ranks.label_ranks[task.candidate_set.name])
        by_margin.append(label_ranks)
    keys = [f"{metric}@{k}" for metric in ("hr", "ndcg") for k in study["k"]]
    values = {level: _metrics(by_margin, task.labels.at(level), study["k"], keys) for level in task.labels.levels}
    return MarginStudy(data, tuple(study["margins"]), values, len(seeds))


def _metrics(
    by_margin: Sequence[Sequence[LabelRanks]], chosen: npt.NDArray[np.bool_], ks: Sequence[int], keys: Sequence[str]
) -> dict[str, list[float]]:
    names = metric_names(ks)
    out: dict[str, list[float]] = {key: [] for key in keys}
    for runs in by_margin:
        tables = [metric_values(run.higher[chosen], run.equal[chosen], ks).mean(axis=0) for run in runs]
        means = np.mean(tables, axis=0)
        for key in keys:
            out[key].append(float(means[names.index(key)]))
    return out


def case_of(model: Model, paper: Mapping[str, Any]) -> CaseStudy | None:
    """The paper's three items in a trained model; None where the catalogue does not have them."""
    if (codes := _codes(model.catalog, paper)) is None:
        return None
    names = [item["name"] for item in paper["case_study"]["items"]]
    return case_study(names, codes, model.item_count, *gaussians_of(model), model.name)


def concept_of(train: Baskets, paper: Mapping[str, Any], run: Run, **settings: Any) -> Concept | None:
    """The paper's three items in a NEAT of one dimension, trained on `train`; None where they are not in it."""
    if (codes := _codes(train.catalog, paper)) is None:
        return None
    means, log_variance = gaussians_of(make_model(GAUSSIAN, settings, dim=1).fit(train, run))
    names = tuple(item["name"] for item in paper["case_study"]["items"])
    return Concept(names, means[codes, 0], np.exp(log_variance[codes]))
