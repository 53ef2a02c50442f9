"""The files of the table: Arrow, not compressed, so that they are used where they lie."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.bundle import Manifest
from neatrec.bundle.manifest import damaged
from neatrec.errors import BundleError
from neatrec.serving.approximate import MeasuredRecall
from neatrec.serving.evidence import thresholds
from neatrec.serving.pairs import PairTable
from neatrec.serving.projection import Positions
from neatrec.serving.topk import TopK
from neatrec.statistics import LiftPrior
from neatrec.text import printable

FOLDER = "topk"
NOTE = "topk"
"""The entry of the manifest's notes that describes the table."""
ANSWERS, ITEMS, PAIRS, ATTACHMENT = "answers.arrow", "items.arrow", "pairs.arrow", "attachment.json"
LIFT_PRIOR = "lift_prior.json"
COLUMNS_VERSION = 2
"""Columns may be added under this number; one that changes its meaning raises it. Version 1 had other grades."""

Columns = Mapping[str, npt.NDArray[Any]]
PAIR_COLUMNS = ("count", "customers", "forward", "q", "expected", "explained", "season")
"""Columns of a pair beside its items; all but `count` and `q` may be missing."""
UNKNOWN_COLUMNS = ("customers", "forward", "backward")
"""Left out of the file where they are not known of any pair."""


class GoalOrder(NamedTuple):
    """The answers by one goal, item after item, best first."""

    start: npt.NDArray[np.int64]
    """Where the answers of each item start, shape (items + 1,)."""
    row: npt.NDArray[Any]
    """Where each answer stands among the columns."""
    score: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ServingArrays:
    """All that the table's files hold."""

    k: int
    best: TopK
    columns: dict[str, npt.NDArray[Any]]
    """Evidence of the answers, each of shape (answers,)."""
    pairs: PairTable
    variance: npt.NDArray[np.float32] | None
    position: Positions | None
    reason: str
    recall: MeasuredRecall | None = None
    """What an approximate table has of the exact one; None for the exact one."""
    more_items: npt.NDArray[np.int32] | None = None
    """Answers by other goals only: `columns` has their rows behind those of `best`."""
    goals: Mapping[str, GoalOrder] = field(default_factory=dict)
    """The answers by each other goal of the model."""


def write_index(arrays: ServingArrays, folder: Path, attachment: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write the table into the folder of a bundle; what the manifest's notes should say of it."""
    place = folder / FOLDER
    place.mkdir()
    columns = {name: values for name, values in arrays.columns.items() if _known(name, values)}
    more = np.zeros(0, dtype=np.int32) if arrays.more_items is None else arrays.more_items
    item = np.concatenate([arrays.best.item, more])
    score = np.concatenate([arrays.best.score, np.full(len(more), np.nan, dtype=np.float32)])
    _write(place / ANSWERS, {"item": item, "score": score, **columns})
    for goal, order in arrays.goals.items():
        _write(place / goal_file(goal), {"row": order.row, "score": order.score})
    _write(place / ITEMS, _item_columns(arrays))
    pairs = {name: getattr(arrays.pairs, name) for name in ("item", *PAIR_COLUMNS)}
    _write(place / PAIRS, {name: values for name, values in pairs.items() if values is not None})
    if arrays.pairs.prior is not None:
        (place / LIFT_PRIOR).write_text(json.dumps(arrays.pairs.prior.to_dict(), sort_keys=True, allow_nan=False))
    if attachment is not None:
        (place / ATTACHMENT).write_text(json.dumps(attachment, sort_keys=True, allow_nan=False))
    about = {
        "columns": COLUMNS_VERSION,
        "k": arrays.k,
        "answers": len(arrays.best.item),
        "reason": arrays.reason,
        "grades": thresholds(),
        "evidence": dict(arrays.pairs.about()),
        **({} if arrays.recall is None else {"recall": arrays.recall.to_dict()}),
        **({"goals": list(arrays.goals)} if arrays.goals else {}),
    }
    return {NOTE: about}


def _known(name: str, values: npt.NDArray[Any]) -> bool:
    return name not in UNKNOWN_COLUMNS or bool((values >= 0).any())


def _item_columns(arrays: ServingArrays) -> dict[str, npt.NDArray[Any]]:
    """One row an item: how many answers and pairs are its own, the factors of expected counts, variance and place."""
    pairs = arrays.pairs
    columns: dict[str, npt.NDArray[Any]] = {
        "answers": np.diff(arrays.best.start),
        "pairs": np.diff(pairs.start),
        "query_factor": pairs.query_factor,
        "item_factor": pairs.item_factor,
        "category": pairs.category,
    }
    columns |= {f"answers_{goal}": np.diff(order.start) for goal, order in arrays.goals.items()}
    if arrays.variance is not None:
        columns["variance"] = arrays.variance
    if arrays.position is not None:
        columns |= {"x": arrays.position[:, 0], "y": arrays.position[:, 1]}
    return columns


def _write(file: Path, columns: Columns) -> None:
    """One record batch, each column one flat buffer."""
    batch = pa.record_batch([pa.array(np.ascontiguousarray(values)) for values in columns.values()], list(columns))
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def read_columns(folder: Path, name: str) -> dict[str, npt.NDArray[Any]]:
    """The columns of a file of the table, read-only arrays in the mapped file."""
    file = folder / FOLDER / name
    try:
        with pa.memory_map(str(file)) as source:
            batch = pa.ipc.open_file(source).get_batch(0)
        return {column: batch.column(i).to_numpy() for i, column in enumerate(batch.schema.names)}
    except (OSError, pa.ArrowException) as error:
        raise damaged(file, printable(error)) from error


def goal_file(goal: str) -> str:
    return f"answers-{goal}.arrow"


def read_goals(folder: Path, about: Mapping[str, Any], items: Columns) -> dict[str, GoalOrder]:
    """The answers by the other goals that the table holds."""
    found = {}
    for goal in about.get("goals", ()):
        columns = read_columns(folder, goal_file(goal))
        found[goal] = GoalOrder(starts(items[f"answers_{goal}"]), columns["row"], columns["score"])
    return found


def read_attachment(folder: Path, manifest: Manifest) -> dict[str, Any] | None:
    """What was attached by `index --report`."""
    name = f"{FOLDER}/{ATTACHMENT}"
    if name not in manifest.files:
        return None
    content: dict[str, Any] = json.loads((folder / name).read_text())
    return content


def about_table(manifest: Manifest, bundle: object) -> dict[str, Any]:
    """The manifest's entry about the table; a `BundleError` with the command to run where there is none."""
    about = manifest.notes.get(NOTE)
    if about is None:
        raise BundleError(
            f"{printable(bundle)} has no serving table",
            file=str(bundle),
            hint=f"Run `neatrec train SOURCE --out {printable(bundle)} --rewrite-table` with the baskets it "
            "was trained on.",
        )
    if about["columns"] not in (1, COLUMNS_VERSION):
        raise BundleError(
            f"the serving table of {printable(bundle)} has columns of version {printable(about['columns'])}, "
            f"this version of neatrec reads 1 and {COLUMNS_VERSION}",
            file=str(bundle),
            hint=f"Run `neatrec train {printable(bundle)} --rewrite-table`.",
        )
    return dict(about)


def read_pairs(folder: Path, about: Mapping[str, Any]) -> tuple[PairTable, dict[str, npt.NDArray[Any]]]:
    """The pairs of the table, and its columns of items."""
    items, columns = read_columns(folder, ITEMS), read_columns(folder, PAIRS)
    evidence, prior = about["evidence"], folder / FOLDER / LIFT_PRIOR
    pairs = PairTable(
        start=starts(items["pairs"]),
        item=columns["item"],
        **{name: columns.get(name) for name in PAIR_COLUMNS},  # type: ignore[arg-type]
        strata=tuple(evidence.get("strata", ())),
        query_factor=items["query_factor"],
        item_factor=items["item_factor"],
        category=items["category"],
        by_customer=evidence["by_customer"],
        min_count=evidence["min_count"],
        baskets=evidence["baskets"],
        records=evidence["records"],
        prior=LiftPrior.from_dict(json.loads(prior.read_text())) if prior.exists() else None,
    )
    return pairs, items


def starts(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Where each of several runs begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
