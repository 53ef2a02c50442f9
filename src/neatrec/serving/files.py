"""The files of the serving table: Arrow, not compressed, checked against declared columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.bundle import Manifest
from neatrec.bundle.manifest import NAME, Kinds, check_entries, damaged
from neatrec.bundle.store import named_file, parameters_of
from neatrec.data.catalog import Catalog
from neatrec.data.counts import DEEPEST, CountOptions
from neatrec.errors import BundleError, InputError
from neatrec.serving.counted import EvidenceTable
from neatrec.serving.evidence import EXPLAINED, LIKELY, STORED
from neatrec.statistics import LiftPrior
from neatrec.text import printable

Columns = Mapping[str, npt.NDArray[Any]]

FOLDER = NOTE = "table"
"""The folder of the table in a bundle, and the entry of the manifest's notes that describes it."""
ANSWERS, ITEMS, PAIRS = (f"{FOLDER}/{name}.arrow" for name in ("answers", "items", "pairs"))
PRIOR = f"{FOLDER}/lift_prior.json"
ABOUT: Kinds = {"k": (int,), "reason": (str,), "same_category": (str,), "evidence": (dict,)}
ABOUT_EVIDENCE: Kinds = {"by_customer": (bool,), "strata": (list,), "min_count": (int,)}
"""The types in the manifest's entry about the table."""
SAME_CATEGORY = ("last", "exclude", "mix")
"""Where answers of the question's own category stand: after all others, nowhere, or among them by
the lower end of their lift."""


class Column(NamedTuple):
    """The type and the bounds of a column."""

    kind: str
    low: float
    high: float
    unknown: float | None = None
    """The marker of a missing value; None: no value is missing."""
    required: bool = True

    def trouble(self, values: npt.NDArray[Any] | None) -> str | None:
        """Why `values` are not such a column; None where they are."""
        if values is None:
            return "is missing" if self.required else None
        if values.dtype != np.dtype(self.kind) or values.ndim != 1:
            return f"must be {np.dtype(self.kind)}, got {values.dtype}"
        good = (values >= self.low) & (values <= self.high)
        if self.unknown is not None:
            good |= (values != values) if self.unknown != self.unknown else values == self.unknown
        if good.all():
            return None
        row = int(np.argmin(good))
        return f"must be from {self.low:g} to {self.high:g}, got {values[row]} in row {row:,}"


FACTOR = Column("f8", 0, 1e300)
ITEM_COLUMNS = {"query_factor": FACTOR, "item_factor": FACTOR}


def pair_columns(items: int, grades: int) -> dict[str, Column]:
    """The columns of `pairs.arrow`: derived from the fields of `Evidence`."""
    code = Column("i4", 0, items - 1)
    found = {"one": code, "other": code, "grade": Column("u1", 0, grades - 1)}
    for name, spec in STORED.items():
        kind, low, high = (spec.metadata[key] for key in ("kind", "low", "high"))
        required = not spec.metadata["optional"]
        found[name] = Column(kind.str, low, high, np.nan if kind.kind == "f" else -1, required)
    return found


def answer_columns(items: int, pairs: int) -> dict[str, Column]:
    """The columns of `answers.arrow`."""
    code = Column("i4", 0, items - 1)
    score = Column("f4", -np.inf, np.inf, np.nan)
    return {"query": code, "item": code, "pair": Column("i8", 0, pairs - 1), "score": score}


def write_table(folder: Path, pairs: EvidenceTable, answers: Columns) -> None:
    """The files of a table into the folder of a bundle."""
    (folder / FOLDER).mkdir()
    write_columns(folder / PAIRS, {"one": pairs.one, "other": pairs.other, **pairs.columns})
    write_columns(folder / ANSWERS, answers)
    factors = {"query_factor": pairs.query_factor, "item_factor": pairs.item_factor}
    write_columns(folder / ITEMS, factors)
    if pairs.prior is not None:
        content = json.dumps(pairs.prior.to_dict(), sort_keys=True, allow_nan=False)
        (folder / PRIOR).write_text(content)


def write_columns(file: Path, columns: Columns) -> None:
    """One record batch, each column one flat buffer."""
    batch = pa.record_batch([pa.array(values) for values in columns.values()], list(columns))
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def read_columns(
    folder: Path, manifest: Manifest, name: str, specs: Mapping[str, Column]
) -> dict[str, npt.NDArray[Any]]:
    """The columns of a file of a bundle, read-only arrays of one length within their bounds.

    They are read into memory: a file that is changed or cut off later cannot change an answer.
    """
    file = named_file(folder, manifest, name)
    try:
        reader = pa.ipc.open_file(file.read_bytes())
        if reader.num_record_batches != 1:
            batches = reader.num_record_batches
            raise damaged(file, f"it must hold one record batch, got {batches}")
        batch = reader.get_batch(0)
        batch.validate(full=True)
        columns = {name: batch.column(name).to_numpy() for name in batch.schema.names}
    except (OSError, ValueError, TypeError, MemoryError, pa.ArrowException) as error:
        raise damaged(file, printable(error, 300)) from error
    for column, spec in specs.items():
        if trouble := spec.trouble(columns.get(column)):
            raise damaged(file, f"column {column!r} {trouble}")
    return columns


def table_note(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """The manifest's entry about the table."""
    note = manifest.notes.get(NOTE)
    if note is None:
        raise BundleError(
            f"{printable(folder)} has no serving table",
            file=str(folder),
            hint=f"`neatrec train SOURCE --out {printable(folder)}` writes a bundle with one.",
        )
    check_entries(note, ABOUT, folder / NAME)
    check_entries(note["evidence"], ABOUT_EVIDENCE, folder / NAME)
    if not all(isinstance(name, str) for name in note["evidence"]["strata"]):
        raise damaged(folder / NAME, "`strata` must be a list of names")
    if note["same_category"] not in SAME_CATEGORY:
        raise damaged(folder / NAME, f"`same_category` must be one of {', '.join(SAME_CATEGORY)}")
    return dict(note)


def category_of(catalog: Catalog, parameters: Mapping[str, Any]) -> npt.NDArray[np.int32]:
    """The category of each item at the level of a model's parameters; negative: unknown."""
    level = parameters.get("category_level", DEEPEST)
    return CountOptions(category_level=level).category_of(catalog)


def read_pairs(
    folder: Path, manifest: Manifest, about: Mapping[str, Any], catalog: Catalog
) -> EvidenceTable:
    """The evidence of a bundle; `about`: the manifest's entry on it."""
    items = read_columns(folder, manifest, ITEMS, ITEM_COLUMNS)
    if len(items["query_factor"]) != len(catalog):
        raise damaged(folder / ITEMS, f"it must have {len(catalog):,} rows")
    specs = pair_columns(len(catalog), EXPLAINED + len(about["strata"]))
    columns = read_columns(folder, manifest, PAIRS, specs)
    # sentences and orders need the numbers of pairs with evidence
    evident = (columns["grade"] <= LIKELY) | (columns["grade"] >= EXPLAINED)
    for name in ("lift", "lift_low", "lift_high", "overall_lift", "beyond", "q"):
        if not np.isfinite(columns[name][evident]).all():
            why = f"column {name!r} must hold a number for each pair with evidence"
            raise damaged(folder / PAIRS, why)
    try:
        category = category_of(catalog, parameters_of(manifest, folder).to_dict())
    except InputError as error:
        raise damaged(folder / NAME, printable(error, 300)) from error
    return EvidenceTable(
        one=columns.pop("one"),
        other=columns.pop("other"),
        columns=columns,
        query_factor=items["query_factor"],
        item_factor=items["item_factor"],
        category=category,
        prior=_read_prior(folder, manifest),
        **{name: about[name] for name in ABOUT_EVIDENCE} | {"strata": tuple(about["strata"])},
    )


def _read_prior(folder: Path, manifest: Manifest) -> LiftPrior | None:
    """The prior of lifts, tried out; None where the table has none."""
    if PRIOR not in manifest.files:
        return None
    file = named_file(folder, manifest, PRIOR)
    try:
        prior = LiftPrior.from_dict(json.loads(file.read_text()))
        estimate = prior.estimate(np.array([0.0, 3.0, 1e6]), np.array([1.0, 1e-6, 1e6]))
        if not all(np.isfinite(values).all() for values in vars(estimate).values()):
            raise ValueError("it gives lifts that are not numbers")
    except Exception as error:  # what it is depends on what it holds
        raise damaged(file, printable(error, 300)) from error
    return prior
