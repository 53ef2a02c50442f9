"""The JSON of a leaderboard: `models` for the first level on the candidate set, `results` for everything."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neatrec._version import __version__
from neatrec.evaluation.cart_completion import CartCompletion
from neatrec.evaluation.summary import LIST_LENGTH, LevelResult, ModelSummary, PairedTest, SliceResult
from neatrec.labels.record import level_key
from neatrec.report.verify import plain_json

if TYPE_CHECKING:
    from neatrec.leaderboard.run import LeaderboardResult

FORMAT = 1
DIGITS = 6
MAIN = f"hr@{LIST_LENGTH}"


def leaderboard_json(leaderboard: LeaderboardResult) -> dict[str, Any]:
    """One object: split, protocol, models, results, slices, label-free measures, hashes, options."""
    results = [_result(leaderboard, result) for result in leaderboard.evaluation.results]
    labels, evaluation, options = leaderboard.task.labels, leaderboard.evaluation, leaderboard.options
    record = {
        "format": FORMAT,
        "split": leaderboard.split.get("method"),
        "split_options": {name: value for name, value in leaderboard.split.items() if name != "method"},
        "protocol": labels.protocol,
        "level_kind": labels.level_kind,
        "strata": list(options.strata or ()),
        **({} if options.half_life is None else {"half_life": options.half_life}),
        "models": results[0]["models"],
        "results": results,
        "slices": [_slice(candidates, each) for candidates, found in evaluation.slices.items() for each in found],
        "label_free": {
            "held_out_lift": {
                name: {**asdict(found), "lift": _means(found.lift), "ci": _ends(found.lift)}
                for name, found in evaluation.held_out.items()
            },
            "basket_completion": {name: _completion(found) for name, found in evaluation.completion.items()},
        },
        "skipped": leaderboard.skipped,
        "advice": leaderboard.advice,
        "seconds": leaderboard.seconds,
        "hashes": {"train": leaderboard.task.train_hash, "test": leaderboard.task.test_hash, "labels": labels.hash},
        "list_length": LIST_LENGTH,
        "options": options.to_json(),
        "seed": options.seed,
        "version": __version__,
    }
    rounded: dict[str, Any] = plain_json(record, DIGITS)
    for row, result in zip(rounded["results"], results, strict=True):
        row["level"] = result["level"]
    given = {name: record[name] for name in ("split_options", "half_life", "options") if name in record}
    rounded.update(plain_json(given))
    return rounded


def _result(leaderboard: LeaderboardResult, result: LevelResult) -> dict[str, Any]:
    summary, ks = result.summary, leaderboard.options.ks
    statistic = best_statistic(leaderboard, result)
    lines = [
        {**_model(leaderboard, result, model), "over_best_statistic": _over(result, model.name, statistic)}
        for model in summary.models
    ]
    best_k = str(max((k for k in ks if k <= LIST_LENGTH), default=ks[0]))

    def rank(line: Mapping[str, Any]) -> tuple[float, float, str]:
        return -np.nan_to_num(line["hr"][best_k]), -np.nan_to_num(line["ndcg"][best_k]), line["name"]

    return {
        "level": result.level,
        "level_key": level_key(result.level),
        "candidates": result.candidates,
        "labels": summary.labels,
        "queries": summary.queries,
        "ceiling": result.ceiling,
        "best_statistic": statistic,
        "models": sorted(lines, key=rank),
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
            return {"difference": sign * test.difference, "ci": ends, "p_holm": test.p_holm}
    return None


def _model(leaderboard: LeaderboardResult, result: LevelResult, model: ModelSummary) -> dict[str, Any]:
    spec = next(c for c in leaderboard.model_specs if c.name == model.name)
    seconds, peak_mb = leaderboard.cost(model.name)
    return {
        "name": model.name,
        "kind": spec.kind,
        **_measures(model),
        "macro": by_metric(model.macro),
        **asdict(result.recommended[model.name]),
        "train_seconds": seconds,
        "peak_mb": peak_mb,
        "seeds": model.seeds,
        "seed_sd": None if model.seed_sd is None else by_metric(model.seed_sd),
        "variance": model.variance,
    }


def _measures(model: ModelSummary) -> dict[str, Any]:
    return {**by_metric(model.mean), "ci": by_metric({name: (model.low[name], model.high[name]) for name in model.low})}


def by_metric(values: Mapping[str, Any]) -> dict[str, Any]:
    """{"hr@10": x, "ndcg@10": y, "mrr": z} as {"hr": {"10": x}, "ndcg": {"10": y}, "mrr": z}."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        metric, at, k = name.partition("@")
        if at:
            out.setdefault(metric, {})[k] = value
        else:
            out[metric] = value
    return out


def _test(test: PairedTest) -> dict[str, Any]:
    entries = asdict(test)
    ends = entries.pop("low"), entries.pop("high")
    return {**entries, "ci": ends}


def _slice(candidates: str, found: SliceResult) -> dict[str, Any]:
    summary = found.summary
    models = [{"name": model.name, **_measures(model)} for model in summary.models]
    counts = {"labels": summary.labels, "queries": summary.queries}
    return {"candidates": candidates, "by": found.by, "slice": found.name, **counts, "models": models}


def _completion(found: CartCompletion) -> dict[str, Any]:
    measures = {"hr": found.hr, "ndcg": found.ndcg, "lift": found.lift}
    means, ends = ({name: part(by_k) for name, by_k in measures.items()} for part in (_means, _ends))
    return {"carts": found.carts, **means, "ci": ends}


def _means(by_k: Mapping[int, tuple[float, float, float]]) -> dict[int, float]:
    return {k: mean for k, (mean, _, _) in by_k.items()}


def _ends(by_k: Mapping[int, tuple[float, float, float]]) -> dict[int, tuple[float, float]]:
    return {k: (low, high) for k, (_, low, high) in by_k.items()}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """`content` at `path`, whole or not at all."""
    temporary = path.with_name(f".{path.name}.writing")
    temporary.write_text(json.dumps(content, indent=2, ensure_ascii=True, allow_nan=False) + "\n")
    os.replace(temporary, path)
