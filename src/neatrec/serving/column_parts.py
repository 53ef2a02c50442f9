"""`ColumnParts`: columns that are written part by part, on disk where memory should hold one part only."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]
Columns = Mapping[str, Array]


class ColumnParts:
    """Columns of one length in files without a name in `folder`; None: in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.types: dict[str, np.dtype[Any]] = {}
        self.rows: dict[str, int] = {}
        self._files: dict[str, IO[bytes]] = {}
        self._parts: dict[str, list[Array]] = {}

    def append(self, columns: Columns) -> None:
        """Add rows to some of the columns."""
        for name, values in columns.items():
            if name not in self.types:
                self.types[name], self.rows[name], self._parts[name] = values.dtype, 0, []
                if self.folder is not None:
                    self._files[name] = _unnamed(self.folder)
            if values.dtype != self.types[name]:
                raise TypeError(f"{name} holds {self.types[name]}, got {values.dtype}")
            self.rows[name] += len(values)
            if self.folder is None:
                self._parts[name].append(values)
            else:
                self._files[name].write(np.ascontiguousarray(values).data)

    def take(self, name: str, other: ColumnParts) -> None:
        """Have a column of `other` too."""
        for columns in ("types", "rows", "_files", "_parts"):
            if name in (found := getattr(other, columns)):
                getattr(self, columns)[name] = found[name]

    def column(self, name: str) -> Array:
        """A whole column, read-only; one on disk is mapped."""
        if self.folder is None:
            return np.concatenate(self._parts[name])
        self._files[name].flush()
        if not self.rows[name]:
            return np.zeros(0, dtype=self.types[name])
        return np.frombuffer(mmap.mmap(self._files[name].fileno(), 0, access=mmap.ACCESS_READ), self.types[name])

    def copy_into(self, name: str, target: IO[bytes]) -> None:
        """Write a column where `target` stands."""
        if self.folder is None:
            for part in self._parts[name]:
                target.write(np.ascontiguousarray(part).data)
        else:
            self._files[name].seek(0)
            copyfileobj(self._files[name], target, 1 << 20)


def _unnamed(folder: Path) -> IO[bytes]:
    return TemporaryFile(dir=folder)


def release_pages(array: Array | None) -> None:
    """Let go of what a mapped column holds in memory; it is read again when it is used."""
    mapped: Any = None if array is None else array.base
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def write_arrow(file: Path, columns: Sequence[str], parts: Sequence[ColumnParts]) -> None:
    """Columns of some parts, one after the other, as an Arrow file of one record batch, each column one flat buffer.

    The file is written with zeros first, which take no memory; then each column is put into its place.
    """
    rows = {name: sum(each.rows[name] for each in parts) for name in columns}
    types = [parts[0].types[name] for name in columns]
    size = max([rows[name] * kind.itemsize for name, kind in zip(columns, types, strict=True)] + [1])
    zeros = pa.py_buffer(mmap.mmap(-1, size, prot=mmap.PROT_READ))
    empty = [
        pa.Array.from_buffers(pa.from_numpy_dtype(kind), rows[name], [None, zeros.slice(0, rows[name] * kind.itemsize)])
        for name, kind in zip(columns, types, strict=True)
    ]
    batch = pa.record_batch(empty, list(columns))
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.memory_map(str(file)) as source:
        begin = source.read_buffer().address
        source.seek(0)
        written = pa.ipc.open_file(source).get_batch(0)
        places = [written.column(number).buffers()[1].address - begin for number in range(len(columns))]
        del written
    with file.open("r+b") as target:
        for name, place in zip(columns, places, strict=True):
            target.seek(place)
            for each in parts:
                each.copy_into(name, target)
