"""`--vectors`: vectors of items that an encoder made of names or pictures, from a Parquet file."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import SourceError, bad_file
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
            trouble = f"none of its {plural(len(ids), 'id')} is an item of the catalogue"
            hint = f"Ids must be those of the orders, such as {printable(catalog.id(0))!r}."
            raise bad_file(self.file, trouble, column="id", hint=hint)
        log.info(
            "vectors: %s of %d numbers, %s without, %s not in the catalogue",
            *(plural(len(catalog) - missing, "item"), out.shape[1], plural(missing, "item"), plural(unknown, "id")),
        )
        return out


def read_vectors(file: str | Path) -> ItemVectors:
    """The vectors of a Parquet file with the columns `id` and `vector`; others are not read."""
    try:
        names = pq.read_schema(file).names
        for column in ("id", "vector"):
            if column not in names:
                trouble = f"has no column {column!r}, only {printable(', '.join(names[:20]))}"
                raise SourceError(f"{printable(file)} {trouble}", file=str(file), column=column, hint=HINT)
        table = pq.read_table(file, columns=["id", "vector"]).combine_chunks()
    except (OSError, pa.ArrowException) as error:
        message = f"cannot read vectors from {printable(file)}: {printable(error)}"
        raise SourceError(message, file=str(file), hint=HINT) from error
    if not len(table):
        raise bad_file(file, "holds no vectors", hint=HINT)
    return ItemVectors(str(file), _ids(table["id"], file), _numbers(table["vector"], file))


def _ids(column: pa.ChunkedArray, file: str | Path) -> pa.LargeStringArray:
    bad_id = partial(bad_file, file, column="id", unit="row", hint=HINT)
    try:
        ids = string_array(column)
    except pa.ArrowException as error:
        raise bad_id(f"must be text, got {column.type}") from error
    if ids.null_count:
        raise bad_id("must not be empty", line=ids.is_null().index(True).as_py() + 1)
    counts = pc.value_counts(ids)
    twice = pc.filter(counts.field("values"), pc.greater(counts.field("counts"), 1))
    if len(twice):
        raise bad_id(f"{printable(twice[0].as_py())!r} stands there more than once")
    return ids


def _numbers(column: pa.ChunkedArray, file: str | Path) -> npt.NDArray[np.float32]:
    """(rows, dim), finite."""
    bad_vector = partial(bad_file, file, column="vector", unit="row", hint=HINT)
    kind: Any = column.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not lists or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise bad_vector(f"must be lists of numbers, got {kind}")
    array = pa.concat_arrays(column.chunks)
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    if (wrong := np.flatnonzero((sizes != sizes[0]) | (sizes == 0))).size:
        wanted = f"{sizes[0]} numbers as in row 1" if sizes[0] else "at least one number"
        raise bad_vector(f"must hold {wanted}, got {sizes[wrong[0]]}", line=int(wrong[0]) + 1)
    values: npt.NDArray[np.float32] = (
        array.flatten().cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False).reshape(len(array), -1)
    )
    if (wrong := np.flatnonzero(~np.isfinite(values).all(axis=1))).size:
        raise bad_vector("must hold finite numbers", line=int(wrong[0]) + 1)
    return values
