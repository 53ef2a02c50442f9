"""The table of a leaderboard: one row per level, candidate set and model, best first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from neatrec.evaluation.summary import (
    LIST_LENGTH,
    EvaluationResult,
    LevelResult,
    ModelSummary,
    PairedTest,
)

Row = dict[str, Any]
MAIN = f"hr@{LIST_LENGTH}"


def results_table(evaluation: EvaluationResult, about: Mapping[str, Row]) -> pa.Table:
    """Means with 95 % intervals, ceilings, differences to the best statistic, and `about`.

    The columns of an interval are called `hr@10`, `hr@10_low`, `hr@10_high`. The label-free
    measures are in the rows of the first result: they have no level.
    """
    rows: list[Row] = []
    for result in evaluation.results:
        first = result is evaluation.results[0]
        statistic = best_statistic(result, about)
        rows += sorted(
            (
                {
                    "model": model.name,
                    "level": result.level,
                    "candidates": result.candidates,
                    "labels": result.summary.labels,
                    "queries": result.summary.queries,
                    **_measures(model),
                    **{f"best_possible_hr@{k}": value for k, value in result.ceiling.items()},
                    "best_statistic": statistic,
                    **_over(result, model.name, statistic),
                    **vars(result.recommended[model.name]),
                    **(_label_free(evaluation, model.name) if first else {}),
                    **about[model.name],
                    "seeds": model.seeds,
                    "intervals_cover": model.variance,
                }
                for model in result.summary.models
            ),
            key=_order,
        )
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: [_known(row.get(name)) for row in rows] for name in names})


def best_statistic(result: LevelResult, about: Mapping[str, Row]) -> str | None:
    """The statistic with the highest HR@10; None without a statistic or without labels."""
    means = {
        model.name: model.mean.get(MAIN, math.nan)
        for model in result.summary.models
        if about[model.name]["kind"] == "statistic"
    }
    return max(means, key=lambda name: means[name]) if means and result.summary.labels else None


def _order(row: Row) -> tuple[float, float, str]:
    """Sort key: best first, by the longest list up to ten; equal models by name."""
    ks = [int(name[3:]) for name in row if name.startswith("hr@") and name[3:].isdigit()]
    k = max((k for k in ks if k <= LIST_LENGTH), default=min(ks))
    hr, ndcg = (
        0.0 if math.isnan(row[f"{name}@{k}"]) else row[f"{name}@{k}"] for name in ("hr", "ndcg")
    )
    return -hr, -ndcg, row["model"]


def _measures(model: ModelSummary) -> Row:
    row: Row = {}
    for name, mean in model.mean.items():
        row |= {name: mean, f"{name}_low": model.low[name], f"{name}_high": model.high[name]}
    sd = model.seed_sd or {}
    by_query = {f"{name}_by_query": value for name, value in model.macro.items()}
    return row | by_query | {f"{name}_sd": sd.get(name) for name in model.mean}


def _over(result: LevelResult, name: str, statistic: str | None) -> Row:
    """The difference of HR@10 to the best statistic, on the same labels."""
    columns = ("over_statistic", "over_statistic_low", "over_statistic_high", "over_statistic_p")
    test = _test_of(result, name, statistic)
    if test is None:
        return dict.fromkeys(columns)
    sign = 1 if test.better == name else -1
    low, high = sorted([sign * test.low, sign * test.high])
    return dict(zip(columns, (sign * test.difference, low, high, test.p_holm), strict=True))


def _test_of(result: LevelResult, name: str, statistic: str | None) -> PairedTest | None:
    tests = (test for test in result.summary.tests if test.metric == MAIN)
    return next((test for test in tests if {test.better, test.worse} == {name, statistic}), None)


def _label_free(evaluation: EvaluationResult, name: str) -> Row:
    """Held-out lift and cart completion of a model."""
    row: Row = {}
    if (held_out := evaluation.held_out.get(name)) is not None:
        row |= _with_ends("held_out_lift", held_out.lift)
        row["sales_covered"] = held_out.sales_covered
    if (carts := evaluation.completion.get(name)) is not None:
        measures = {"cart_hr": carts.hr, "cart_ndcg": carts.ndcg, "cart_lift": carts.lift}
        for measure, by_k in measures.items():
            row |= _with_ends(measure, by_k)
        row["carts"] = carts.carts
    return row


def _with_ends(measure: str, by_k: Mapping[int, tuple[float, float, float]]) -> Row:
    row: Row = {}
    for k, (mean, low, high) in by_k.items():
        name = f"{measure}@{k}"
        row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    return row


def _known(value: Any) -> Any:
    """The value; null for NaN and infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
