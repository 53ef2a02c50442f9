"""Results with all their digits as JSON, and made again from ranks and labels."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from neatrec.data.catalog import string_array
from neatrec.evaluation.metrics import ceiling
from neatrec.evaluation.ranks import label_queries_from_table, label_ranks_from_table
from neatrec.evaluation.summary import (
    LevelResult,
    ModelSummary,
    PairedTest,
    RecommendationStats,
    Summary,
    SummaryOptions,
    summarize_ranks,
)

RUN_OF_RANKS = ("candidates", "model", "seed")
"""The columns that tell one training's ranks from another's."""
TOLERANCE = 1e-9
"""Sums in another order differ in their last bits; nothing else may."""


def result_json(result: LevelResult) -> dict[str, Any]:
    """Everything a result says, numbers that are none as null."""
    summary = result.summary
    out = {
        "level": result.level,
        "candidates": result.candidates,
        "labels": summary.labels,
        "queries": summary.queries,
        "ceiling": {str(k): value for k, value in result.ceiling.items()},
        "models": {standing.name: asdict(standing) for standing in summary.models},
        "tests": {f"{t.metric}: {t.better} > {t.worse}": asdict(t) for t in summary.tests},
        "shown": {name: asdict(shown) for name, shown in result.recommended.items()},
    }
    plain: dict[str, Any] = plain_json(out)
    return plain


def result_from_json(kept: Mapping[str, Any]) -> LevelResult:
    """What `result_json` wrote."""
    whole = _with_nan(kept)
    summary = Summary(
        whole["labels"],
        whole["queries"],
        tuple(ModelSummary(**standing) for standing in whole["models"].values()),
        tuple(PairedTest(**test) for test in whole["tests"].values()),
    )
    shown = {name: RecommendationStats(**each) for name, each in whole["shown"].items()}
    ceilings = {int(k): value for k, value in whole["ceiling"].items()}
    return LevelResult(whole["level"], whole["candidates"], summary, ceilings, shown)


def _with_nan(value: Any, key: str = "") -> Any:
    """null as the number that is none, but for `seed_sd`, which may be missing."""
    if isinstance(value, Mapping):
        return {name: _with_nan(each, name) for name, each in value.items()}
    return float("nan") if value is None and key != "seed_sd" else value


def plain_json(value: Any) -> Any:
    """`value` with keys as text, tuples as lists, NumPy scalars as numbers, and null for what is no number."""
    if isinstance(value, Mapping):
        return {str(key): plain_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def made_again(board: Mapping[str, Any], ranks: pa.Table, labels: pa.Table) -> tuple[LevelResult, ...]:
    """The results of `board` (as `run.json` keeps it), computed once more from ranks and labels.

    What was recommended (coverage, popularity) is not in the ranks and is taken from `board`; so is everything where
    there are neither labels nor ranks.
    """
    if not len(labels) and not len(ranks):
        return tuple(result_from_json(kept) for kept in board["results"])
    label_queries = label_queries_from_table(labels["query"], labels["item"])
    level_of = labels["level"].to_numpy()
    options = SummaryOptions(**{name: board["options"][name] for name in ("ks", "rounds", "flips", "seed")})
    out = []
    for kept in board["results"]:
        label_ranks = label_ranks_from_table(ranks, labels["query"], labels["item"], kept["candidates"])
        chosen = level_of <= kept["level"]
        inside = next(iter(label_ranks.values()))[0].equal[chosen] > 0
        out.append(
            LevelResult(
                kept["level"],
                kept["candidates"],
                summarize_ranks(label_ranks, label_queries, chosen, options),
                ceiling(label_queries.row[chosen], inside, options.ks),
                {name: RecommendationStats(**shown) for name, shown in kept["shown"].items()},
            )
        )
    return tuple(out)


def differences(one: Any, other: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Where two JSON values differ: path, this, that. Numbers may differ by `TOLERANCE`."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            yield from differences(one.get(key), other.get(key), (*path, str(key)))
    elif _is_list(one) and _is_list(other) and len(one) == len(other):
        for place, (this, that) in enumerate(zip(one, other, strict=True)):
            yield from differences(this, that, (*path, str(place)))
    elif not _alike(one, other):
        yield path, one, other


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool) or not isinstance(one, int | float):
        return bool(one == other)
    return isinstance(other, int | float) and math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def rank_hashes(ranks: pa.Table) -> dict[str, str]:
    """A hash of the ranks of each candidate set, model and training, so that an altered one can be named."""
    encoded = [string_array(ranks[name].cast(pa.large_string())).dictionary_encode() for name in RUN_OF_RANKS]
    group = np.zeros(len(ranks), dtype=np.int64)
    for column in encoded:
        group = group * max(len(column.dictionary), 1) + column.indices.to_numpy(zero_copy_only=False)
    values = np.stack([ranks[name].to_numpy().astype("<i4") for name in ("higher", "equal")])  # (2, rows)
    out = {}
    _, first = np.unique(group, return_index=True)
    for row in np.sort(first):
        candidates, model, seed = (column[int(row)].as_py() for column in encoded)
        chosen = np.ascontiguousarray(values[:, group == group[row]])
        out[f"{model}, seed {seed}, {candidates}"] = hashlib.sha256(chosen.tobytes()).hexdigest()
    return out
