"""The files of the serving table: Arrow, not compressed, checked against declared columns."""

from __future__ import annotations

from collections.abc import Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.bundle import Manifest
from neatrec.bundle.manifest import damaged
from neatrec.bundle.store import named_file
from neatrec.errors import ResourceError
from neatrec.memory import total_memory
from neatrec.text import printable

Columns = Mapping[str, npt.NDArray[Any]]

MAX_MEMORY_SHARE = 0.25
"""Tables that take more of the memory are mapped, not read into it."""


class Column(NamedTuple):
    """The type and the bounds of a column."""

    kind: np.dtype[Any]
    low: float
    high: float
    unknown: float | None = None
    """What stands for a value that is not known; None: all are known."""
    required: bool = True

    def trouble(self, values: npt.NDArray[Any]) -> str | None:
        """Why `values` are not such a column; None where they are."""
        if values.dtype != self.kind or values.ndim != 1:
            return f"must be {self.kind}, got {values.dtype}"
        good = (values >= self.low) & (values <= self.high)
        if self.unknown is not None:
            good |= (values != values) if self.unknown != self.unknown else values == self.unknown
        if good.all():
            return None
        row = int(np.argmin(good))
        return f"must be from {self.low:g} to {self.high:g}, got {values[row]} in row {row:,}"


def write_columns(file: Path, columns: Columns) -> None:
    """One record batch, each column one flat buffer."""
    batch = pa.record_batch([pa.array(values) for values in columns.values()], list(columns))
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def read_columns(
    folder: Path, manifest: Manifest, name: str, specs: Mapping[str, Column]
) -> dict[str, npt.NDArray[Any]]:
    """The columns of a file of a bundle, read-only arrays of one length within their bounds.

    A file that is changed or cut off in place cannot change an answer, nor end the process: it is
    read into memory, or, where it takes more than a quarter of that, copied and mapped.
    """
    file = named_file(folder, manifest, name)
    large = manifest.files[name].size > MAX_MEMORY_SHARE * total_memory()
    try:
        content = pa.py_buffer(_private_copy(file) if large else file.read_bytes())
        with pa.BufferReader(content) as source:
            reader = pa.ipc.open_file(source)
            if reader.num_record_batches != 1:
                batches = reader.num_record_batches
                raise damaged(file, f"it must hold one record batch, got {batches}")
            batch = reader.get_batch(0)
        batch.validate(full=True)
        columns = {name: batch.column(name).to_numpy() for name in batch.schema.names}
    except (OSError, ValueError, TypeError, MemoryError, pa.ArrowException) as error:
        raise damaged(file, printable(error, 300)) from error
    for column, spec in specs.items():
        if column in columns:
            trouble = spec.trouble(columns[column])
        else:
            trouble = "is missing" if spec.required else None
        if trouble:
            raise damaged(file, f"column {column!r} {trouble}")
    return columns


def _private_copy(file: Path) -> mmap:
    """A copy of a file in the temporary folder, mapped, under no name: nobody can cut it off."""
    try:
        with TemporaryFile() as copy, file.open("rb") as source:
            copyfileobj(source, copy, 1 << 20)
            copy.flush()
            return mmap(copy.fileno(), 0, access=ACCESS_READ)
    except OSError as error:
        raise ResourceError(
            f"cannot copy {printable(file)} to the temporary folder: {printable(error.strerror)}",
            file=str(file),
            hint="It exceeds a quarter of the memory: set TMPDIR to a folder with more space.",
        ) from error
