"""The JSON of a leaderboard: `models` for the first level on the candidate set, `results` for everything."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neatrec._version import __version__
from neatrec.evaluation.cart_completion import CartCompletion
from neatrec.evaluation.held_out_lift import HeldOutLift
from neatrec.evaluation.summary import LIST_LENGTH, LevelResult, ModelSummary, PairedTest, SliceResult
from neatrec.labels.record import level_key

if TYPE_CHECKING:
    from neatrec.leaderboard.run import LeaderboardResult

FORMAT = 1
DIGITS = 6
MAIN = f"hr@{LIST_LENGTH}"


def leaderboard_json(leaderboard: LeaderboardResult) -> dict[str, Any]:
    """One object: split, protocol, models, results, slices, label-free measures, hashes, options."""
    results = [_result(leaderboard, result) for result in leaderboard.evaluation.results]
    labels = leaderboard.task.labels
    return {
        "format": FORMAT,
        "split": leaderboard.split.get("method"),
        "split_options": {name: value for name, value in leaderboard.split.items() if name != "method"},
        "protocol": labels.protocol,
        "level_kind": labels.level_kind,
        "strata": list(leaderboard.options.strata or ()),
        **({} if leaderboard.options.half_life is None else {"half_life": leaderboard.options.half_life}),
        "models": results[0]["models"],
        "results": results,
        "slices": [_slice(candidates, s) for candidates, found in leaderboard.evaluation.slices.items() for s in found],
        "label_free": {
            "held_out_lift": {name: _held_out(lift) for name, lift in leaderboard.evaluation.held_out.items()},
            "basket_completion": {name: _completion(each) for name, each in leaderboard.evaluation.completion.items()},
        },
        "skipped": dict(leaderboard.skipped),
        "advice": leaderboard.advice,
        "seconds": {name: round(value, 3) for name, value in leaderboard.seconds.items()},
        "hashes": {"train": leaderboard.task.train_hash, "test": leaderboard.task.test_hash, "labels": labels.hash},
        "list_length": LIST_LENGTH,
        "options": leaderboard.options.to_json(),
        "seed": leaderboard.options.seed,
        "version": __version__,
    }


def _result(leaderboard: LeaderboardResult, result: LevelResult) -> dict[str, Any]:
    summary = result.summary
    statistic = best_statistic(leaderboard, result)
    lines = [
        {**_model(leaderboard, result, model), "over_best_statistic": _over(result, model.name, statistic)}
        for model in summary.models
    ]
    best_k = str(max((k for k in leaderboard.options.ks if k <= LIST_LENGTH), default=leaderboard.options.ks[0]))
    return {
        "level": result.level,
        "level_key": level_key(result.level),
        "candidates": result.candidates,
        "labels": summary.labels,
        "queries": summary.queries,
        "ceiling": {str(k): rounded(value) for k, value in result.ceiling.items()},
        "best_statistic": statistic,
        "models": sorted(
            lines, key=lambda line: (*(-(line[metric][best_k] or 0.0) for metric in ("hr", "ndcg")), line["name"])
        ),
        "tests": [_test(test) for test in summary.tests],
    }


def best_statistic(leaderboard: LeaderboardResult, result: LevelResult) -> str | None:
    """The statistic with the highest HR@10; None without one, or without labels."""
    kinds = {spec.name: spec.kind for spec in leaderboard.model_specs}
    means = {m.name: m.mean.get(MAIN, math.nan) for m in result.summary.models if kinds[m.name] == "statistic"}
    return max(means, key=lambda name: means[name]) if means and result.summary.labels else None


def _over(result: LevelResult, name: str, statistic: str | None) -> dict[str, Any] | None:
    """By how much HR@10 of a model is above that of the best statistic, on the same labels."""
    for test in result.summary.tests:
        if test.metric == MAIN and {test.better, test.worse} == {name, statistic}:
            sign = 1 if test.better == name else -1
            ends = sorted([sign * test.low, sign * test.high])
            return {
                "difference": rounded(sign * test.difference),
                "ci": _rounded_all(ends),
                "p_holm": rounded(test.p_holm),
            }
    return None


def _model(leaderboard: LeaderboardResult, result: LevelResult, model: ModelSummary) -> dict[str, Any]:
    spec = next(c for c in leaderboard.model_specs if c.name == model.name)
    seconds, peak_mb = leaderboard.cost(model.name)
    recommended = result.recommended[model.name]
    return {
        "name": model.name,
        "kind": spec.kind,
        **by_metric(model.mean),
        "ci": intervals(model.low, model.high),
        "macro": by_metric(model.macro),
        "coverage": rounded(recommended.coverage),
        "popularity": rounded(recommended.popularity),
        "train_seconds": None if seconds is None else round(seconds, 3),
        "peak_mb": None if peak_mb is None else round(peak_mb, 1),
        "seeds": model.seeds,
        "seed_sd": None if model.seed_sd is None else by_metric(model.seed_sd),
        "variance": model.variance,
    }


def by_metric(values: Mapping[str, float]) -> dict[str, Any]:
    """{"hr@10": x, "ndcg@10": y, "mrr": z} as {"hr": {"10": x}, "ndcg": {"10": y}, "mrr": z}."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        metric, at, k = name.partition("@")
        if at:
            out.setdefault(metric, {})[k] = rounded(value)
        else:
            out[metric] = rounded(value)
    return out


def intervals(low: Mapping[str, float], high: Mapping[str, float]) -> dict[str, Any]:
    """As `by_metric`, with [low, high] for each value."""
    ends = by_metric(low), by_metric(high)
    return {
        metric: {k: [lower[k], ends[1][metric][k]] for k in lower}
        if isinstance(lower, dict)
        else [lower, ends[1][metric]]
        for metric, lower in ends[0].items()
    }


def _test(test: PairedTest) -> dict[str, Any]:
    return {
        "better": test.better,
        "worse": test.worse,
        "metric": test.metric,
        "difference": rounded(test.difference),
        "ci": _rounded_all([test.low, test.high]),
        "p": rounded(test.p),
        "p_holm": rounded(test.p_holm),
    }


def _slice(candidates: str, found: SliceResult) -> dict[str, Any]:
    summary = found.summary
    models = [{"name": s.name, **by_metric(s.mean), "ci": intervals(s.low, s.high)} for s in summary.models]
    counts = {"labels": summary.labels, "queries": summary.queries}
    return {"candidates": candidates, "by": found.by, "slice": found.name, **counts, "models": models}


def _held_out(lift: HeldOutLift) -> dict[str, Any]:
    return {
        "lift": {str(k): rounded(value) for k, (value, _, _) in lift.lift.items()},
        "ci": {str(k): _rounded_all(ends) for k, (_, *ends) in lift.lift.items()},
        "observed": {str(k): value for k, value in lift.observed.items()},
        "expected": {str(k): rounded(value) for k, value in lift.expected.items()},
        "queries": lift.queries,
        "sales_covered": rounded(lift.sales_covered),
    }


def _completion(found: CartCompletion) -> dict[str, Any]:
    parts: dict[str, Any] = {"carts": found.carts}
    for name, by_k in (("hr", found.hr), ("ndcg", found.ndcg), ("lift", found.lift)):
        parts[name] = {str(k): rounded(value) for k, (value, _, _) in by_k.items()}
    parts["ci"] = {
        name: {str(k): _rounded_all(ends) for k, (_, *ends) in by_k.items()}
        for name, by_k in (("hr", found.hr), ("ndcg", found.ndcg), ("lift", found.lift))
    }
    return parts


def rounded(value: float) -> float | None:
    """Six digits after the point; None for what is not a number.

    >>> rounded(0.12345678), rounded(float("nan"))
    (0.123457, None)
    """
    return round(float(value), DIGITS) if math.isfinite(value) else None


def _rounded_all(values: Iterable[float]) -> Sequence[float | None]:
    return [rounded(value) for value in values]


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """`content` at `path`, whole or not at all."""
    temporary = path.with_name(f".{path.name}.writing")
    temporary.write_text(json.dumps(content, indent=2, ensure_ascii=True, allow_nan=False) + "\n")
    os.replace(temporary, path)
