"""`neatrec import`: orders added to a folder of Parquet files, which is an ordinary SOURCE.

Readers see the folder before an import or after it. New orders are one new file, renamed when it is
complete; replaced orders are a new folder beside, exchanged with the old one.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neatrec.atomic import exchange, remove, sync_file, sync_folder
from neatrec.data.baskets import Baskets
from neatrec.errors import SourceError, bad_file, writing
from neatrec.io.addresses import holds_password, password_refused
from neatrec.io.column_names import ATTRIBUTE, CATEGORY
from neatrec.io.options import SourceOptions
from neatrec.io.read import read_baskets
from neatrec.text import printable

__all__ = ["ImportResult", "import_orders"]

log = logging.getLogger(__name__)
PART = "orders-*.parquet"
BLOCK = 1 << 18
"""Baskets that are written at a time."""


@dataclass(frozen=True)
class ImportResult:
    """The baskets and lines of an import, those it replaced, and the content of the folder."""

    baskets: int
    lines: int
    replaced: int
    folder_baskets: int
    parts: int
    dropped: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The counts as `--json` prints them."""
        return asdict(self)


def import_orders(
    source: str | Path,
    folder: str | Path,
    options: SourceOptions | None = None,
    *,
    replace: bool = False,
) -> ImportResult:
    """Add the orders of `source` to `folder`, which is made where there is none.

    A basket id that the folder has already is an error that names it, unless `replace`: then the
    new basket replaces the old one.
    """
    if holds_password(str(folder)):
        raise password_refused("the folder of the orders")
    folder = Path(os.path.realpath(folder))
    if Path(os.path.realpath(source)) == folder:
        raise bad_file(source, "cannot be imported into itself")
    baskets = read_baskets(source, options)
    with writing("the orders into", folder, "It is as it was before."), _locked(folder):
        folder.mkdir(exist_ok=True)
        parts = _parts(folder, baskets)
        all_ids = {part: _ids(part) for part in parts}
        shared = {part: ids.filter(pc.is_in(ids, baskets.ids)) for part, ids in all_ids.items()}
        shared = {part: ids for part, ids in shared.items() if len(ids)}
        if shared and not replace:
            raise _is_there(baskets, folder, list(shared.values()))
        if shared:
            _replace_orders(folder, baskets, parts, shared)
        else:
            _write_part(baskets, folder)
            sync_folder(folder)
        files = len(list(folder.glob(PART)))
    replaced = sum(map(len, shared.values()))
    total = sum(map(len, all_ids.values())) - replaced + len(baskets)
    return ImportResult(len(baskets), baskets.lines, replaced, total, files, baskets.dropped)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """`folder` for this import alone, by a lock beside it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _beside(folder, "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            hint = "Run this one again when the other has ended."
            raise bad_file(folder, "is being written by another import", hint=hint) from error
        _recover(folder)
        is_new = not folder.exists()
        try:
            yield
        except BaseException:
            _recover(folder)
            if is_new:
                remove(folder)
            raise


def _beside(folder: Path, what: str) -> Path:
    return folder.with_name(f".{folder.name}.{what}")


def _recover(folder: Path) -> None:
    """Remove the remains of a killed or failed import; restore a folder that it had moved."""
    if not folder.exists() and _beside(folder, "previous").exists():
        os.rename(_beside(folder, "previous"), folder)
    for left in (
        _beside(folder, "writing"),
        _beside(folder, "previous"),
        *folder.glob(".orders-*"),
    ):
        remove(left)


def _parts(folder: Path, baskets: Baskets) -> list[Path]:
    """The files of earlier imports, whose columns must be those of `baskets`."""
    parts = sorted(folder.glob(PART))
    for file in sorted(folder.iterdir()):
        if file not in parts and not file.name.startswith("."):
            trouble = f"holds {printable(file.name)}, which no import wrote"
            raise bad_file(folder, trouble, hint="Name a new or empty folder.")
    ours = set(_table(baskets, 0, 0).column_names)
    theirs = set(pq.read_schema(parts[0]).names) if parts else ours
    if ours != theirs:
        more, less = (", ".join(sorted(each)) or "none" for each in (ours - theirs, theirs - ours))
        raise bad_file(
            baskets.source,
            f"does not fit {printable(folder)}: columns that the folder has not: "
            f"{printable(more)}; columns that only the folder has: {printable(less)}",
            hint="Name the same columns in every import.",
        )
    return parts


def _ids(part: Path) -> pa.Array:
    return pc.unique(pq.read_table(part, columns=["basket"])["basket"].cast(pa.large_string()))


def _is_there(baskets: Baskets, folder: Path, shared: list[Any]) -> SourceError:
    count = sum(map(len, shared))
    first = printable(repr(min(pc.min(ids).as_py() for ids in shared)))
    more = "" if count == 1 else f" (the first of {count:,})"
    there = f"basket {first} of {printable(baskets.source)} is in {printable(folder)} already{more}"
    hint = "Leave it out, or replace the order in the folder with --replace."
    return SourceError(there, file=baskets.source, hint=hint)


def _replace_orders(
    folder: Path, baskets: Baskets, parts: list[Path], shared: Mapping[Path, Any]
) -> None:
    """Exchange `folder` with a new one: its files without the shared orders, and a new part."""
    new = _beside(folder, "writing")
    new.mkdir()
    for part in parts:
        if part not in shared:
            os.link(part, new / part.name)
            continue
        table = pq.read_table(part)
        is_shared = pc.is_in(table["basket"].cast(pa.large_string()), shared[part])
        left = table.filter(pc.invert(is_shared))
        if left.num_rows:
            pq.write_table(left, new / part.name, compression="zstd")
            sync_file(new / part.name)
    _write_part(baskets, new)
    sync_folder(new)
    if not exchange(new, folder):
        os.rename(folder, _beside(folder, "previous"))
        os.rename(new, folder)
        remove(_beside(folder, "previous"))
    sync_folder(folder.parent)
    remove(new)


def _write_part(baskets: Baskets, folder: Path) -> None:
    """The lines of `baskets` as a new file, under its name when it is complete."""
    number = uuid4().hex[:12]
    unfinished = folder / f".orders-{number}.part"
    schema = _table(baskets, 0, 0).schema
    with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        for first in range(0, len(baskets), BLOCK):
            writer.write_table(_table(baskets, first, min(first + BLOCK, len(baskets))))
    sync_file(unfinished)
    os.rename(unfinished, folder / f"orders-{number}.parquet")


def _table(baskets: Baskets, first: int, end: int) -> pa.Table:
    """The lines of baskets `first` to `end`, under names of columns that are recognised."""
    levels = {level: CATEGORY + level for level in baskets.catalog.levels}
    names = levels | {name: ATTRIBUTE + name for name in baskets.attributes}
    table = baskets.select(np.arange(first, end)).to_arrow()
    return table.rename_columns([names.get(name, name) for name in table.column_names])
