"""`--vectors`: vectors of items that an encoder made of names or pictures, from a Parquet file."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import SourceError
from neatrec.text import plural, printable

HINT = "Write a Parquet file with the columns id (text) and vector (a list of as many numbers for every item)."

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ItemVectors:
    """Vectors by item id."""

    file: str
    ids: pa.LargeStringArray
    vectors: npt.NDArray[np.float32]
    """Finite numbers, (ids, dim)."""

    def of_catalog(self, catalog: Catalog) -> npt.NDArray[np.float32]:
        """A row per item of the catalogue, (items, dim), NaN where the file has none; that of a variant serves too."""
        out = np.full((len(catalog), self.vectors.shape[1]), np.nan, dtype=np.float32)
        ids = self.ids.to_pylist()
        for code_of in (catalog.code_of_variant, catalog.code_of):  # an item's own vector comes before its variants'
            for row, item in enumerate(ids):
                if (code := code_of.get(item)) is not None:
                    out[code] = self.vectors[row]
        unknown = sum(item not in catalog.code_of and item not in catalog.code_of_variant for item in ids)
        missing = int(np.isnan(out[:, 0]).sum())
        if missing == len(catalog):
            raise SourceError(
                f"{printable(self.file)}: none of its {plural(len(ids), 'id')} is an item of the catalogue",
                file=self.file,
                column="id",
                hint=f"Ids must be those of the orders, such as {printable(catalog.id(0))!r}.",
            )
        log.info(
            "vectors: %s of %d numbers, %s without, %s not in the catalogue",
            *(plural(len(catalog) - missing, "item"), out.shape[1], plural(missing, "item"), plural(unknown, "id")),
        )
        return out


def read_vectors(file: str | Path) -> ItemVectors:
    """The vectors of a Parquet file with the columns `id` and `vector`; others are not read."""
    shown = printable(file)
    try:
        names = pq.read_schema(file).names
        for column in ("id", "vector"):
            if column not in names:
                raise _bad(file, f"{shown} has no column {column!r}, only {printable(', '.join(names[:20]))}", column)
        table = pq.read_table(file, columns=["id", "vector"]).combine_chunks()
    except (OSError, pa.ArrowException) as error:
        raise _bad(file, f"cannot read vectors from {shown}: {printable(error)}") from error
    if not len(table):
        raise _bad(file, f"{shown} holds no vectors")
    return ItemVectors(str(file), _ids(table["id"], file), _numbers(table["vector"], file))


def _ids(column: pa.ChunkedArray, file: str | Path) -> pa.LargeStringArray:
    try:
        ids = string_array(column)
    except pa.ArrowException as error:
        raise _bad(file, f"{printable(file)}: column 'id' must be text, got {column.type}", "id") from error
    if ids.null_count:
        row = int(np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))[0])
        raise _bad(file, f"{printable(file)}, row {row + 1:,}: column 'id' must not be empty", "id")
    counts = pc.value_counts(ids)
    twice = pc.filter(counts.field("values"), pc.greater(counts.field("counts"), 1))
    if len(twice):
        raise _bad(file, f"{printable(file)}: id {printable(twice[0].as_py())!r} stands there more than once", "id")
    return ids


def _numbers(column: pa.ChunkedArray, file: str | Path) -> npt.NDArray[np.float32]:
    """(rows, dim), finite."""
    kind: Any = column.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not lists or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise _bad(file, f"{printable(file)}: column 'vector' must be lists of numbers, got {kind}", "vector")
    array = pa.concat_arrays(column.chunks)
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    if (wrong := np.flatnonzero((sizes != sizes[0]) | (sizes == 0))).size:
        row = int(wrong[0])
        wanted = f"{sizes[0]} numbers as in row 1" if sizes[0] else "at least one number"
        raise _bad(
            file, f"{printable(file)}, row {row + 1:,}: column 'vector' must hold {wanted}, got {sizes[row]}", "vector"
        )
    values: npt.NDArray[np.float32] = (
        array.flatten().cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False).reshape(len(array), -1)
    )
    if (wrong := np.flatnonzero(~np.isfinite(values).all(axis=1))).size:
        row = int(wrong[0])
        raise _bad(file, f"{printable(file)}, row {row + 1:,}: column 'vector' must hold finite numbers", "vector")
    return values


def _bad(file: str | Path, message: str, column: str | None = None) -> SourceError:
    return SourceError(message, file=str(file), column=column, hint=HINT)
