"""`neatrec export`: the serving table as Parquet, CSV or SQL."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.errors import ParameterError, ResourceError, must_be, must_be_one_of
from neatrec.serving import ServingTable
from neatrec.serving.evidence import strength_of
from neatrec.serving.query import PAIR_GRADES
from neatrec.text import printable

TABLE = "neatrec_complements"
BLOCK = 200_000
"""Answers written at a time."""
ROWS_PER_INSERT = 500
Places = npt.NDArray[np.int64]
SQL_TYPES = {"string": "VARCHAR", "int32": "INTEGER", "float": "DOUBLE PRECISION"}
TEXTS = ("query", "query_name", "item", "item_name", "grade", "strength")


def export_table(index: ServingTable, path: str | Path, *, min_evidence: str = "likely", k: int = 10) -> int:
    """Write the first `k` answers of each item that have at least the evidence asked for, as `recommend` gives them.

    The ending of `path` says the format: .parquet, .csv or .sql. Returns the number of answers.
    """
    path = Path(path)
    rows, rank = export_rows(index, min_evidence, k)
    writers: dict[str, Callable[[Iterator[pa.Table], Path], None]] = {
        ".parquet": _write_parquet,
        ".csv": _write_csv,
        ".sql": _write_sql,
    }
    if path.suffix not in writers:
        raise must_be("out", "a name that ends in .parquet, .csv or .sql", str(path))
    unfinished = path.with_name(f".{path.name}.writing")
    try:
        writers[path.suffix](blocks(index, rows, rank), unfinished)
        os.replace(unfinished, path)
    except OSError as error:
        kind = ResourceError if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} else ParameterError
        # Arrow's messages are long; the system's own is enough
        why = os.strerror(error.errno) if error.errno else printable(error)
        raise kind(f"cannot write {printable(path)}: {why}", file=str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return len(rows)


def answers_table(index: ServingTable, *, min_evidence: str = "likely", k: int = 10) -> pa.Table:
    """The answers that `export_table` writes."""
    return pa.concat_tables(blocks(index, *export_rows(index, min_evidence, k)))


def export_rows(index: ServingTable, min_evidence: str, k: int) -> tuple[Places, Places]:
    """The places of the answers to write, and the rank of each among those of its item, from 1."""
    if min_evidence not in PAIR_GRADES:
        raise must_be_one_of("min_evidence", PAIR_GRADES, min_evidence)
    if k < 1:
        raise must_be("k", "at least 1", k)
    enough = np.asarray(index.columns["grade"]) <= PAIR_GRADES.index(min_evidence)
    rows = np.flatnonzero(enough)
    before = np.concatenate([[0], np.cumsum(enough)])[index.start]  # answers written before those of each item
    rank = np.arange(len(rows)) - before[_queries(index, rows)] + 1
    return rows[rank <= k], rank[rank <= k]


def _queries(index: ServingTable, rows: Places) -> npt.NDArray[np.int32]:
    return (np.searchsorted(index.start, rows, side="right") - 1).astype(np.int32)


def blocks(index: ServingTable, rows: Places, rank: Places) -> Iterator[pa.Table]:
    """These answers in blocks, one row each; at least one block, so that an empty table has its columns."""
    for first in range(0, max(len(rows), 1), BLOCK):
        yield _block(index, rows[first : first + BLOCK], rank[first : first + BLOCK])


def _block(index: ServingTable, rows: Places, rank: Places) -> pa.Table:
    query = _queries(index, rows)
    columns = {name: values[rows] for name, values in index.columns.items()}
    grades, lows = columns["grade"].tolist(), columns["lift_low"].tolist()
    ids = index.catalog.ids
    names = ids if index.catalog.names is None else pc.coalesce(index.catalog.names, ids)
    out: dict[str, Any] = {
        "query": ids.take(pa.array(query)),
        "query_name": names.take(pa.array(query)),
        "rank": pa.array(rank.astype(np.int32)),
        "item": ids.take(pa.array(columns["item"])),
        "item_name": names.take(pa.array(columns["item"])),
        "grade": pa.array(np.array(index.grades)[columns["grade"]]),
        "strength": pa.array([strength_of(grade, low) for grade, low in zip(grades, lows, strict=True)], pa.string()),
    }
    for name, values in columns.items():
        if name not in {"item", "grade", "season"}:
            out[name] = pa.array(values, mask=(values == -1) if values.dtype.kind == "i" else np.isnan(values))
    table = pa.table(out)
    return table.cast(pa.schema([(f.name, pa.string() if f.name in TEXTS else f.type) for f in table.schema]))


def _write_parquet(parts: Iterator[pa.Table], path: Path) -> None:
    import pyarrow.parquet as pq

    first = next(parts)
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for part in parts:
            writer.write_table(part)


def _write_csv(parts: Iterator[pa.Table], path: Path) -> None:
    from pyarrow import csv

    first = _formula_safe(next(parts))
    with csv.CSVWriter(path, first.schema) as writer:
        writer.write_table(first)
        for part in parts:
            writer.write_table(_formula_safe(part))


def _formula_safe(table: pa.Table) -> pa.Table:
    """A spreadsheet runs a cell that starts like a formula: an apostrophe before it makes it text.

    A cell that starts with an apostrophe gets one too, so that removing the first one restores every text.
    """
    for place, name in enumerate(table.column_names):
        if name in TEXTS:
            cells = table[name]
            risky = pc.match_substring_regex(cells, r"\A['=+\-@\t\r]")
            quoted = pc.binary_join_element_wise(pa.scalar("'"), cells, pa.scalar(""))
            table = table.set_column(place, name, pc.if_else(risky, quoted, cells))
    return table


def _write_sql(parts: Iterator[pa.Table], path: Path) -> None:
    """One CREATE TABLE, then INSERTs in one transaction, in standard SQL."""
    first = next(parts)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        columns = ",\n".join(f"  {field.name} {SQL_TYPES[str(field.type)]}" for field in first.schema)
        out.write(f"CREATE TABLE {TABLE} (\n{columns},\n  PRIMARY KEY (query, rank)\n);\nBEGIN TRANSACTION;\n")
        for part in (first, *parts):
            for begin in range(0, len(part), ROWS_PER_INSERT):
                rows = zip(*part.slice(begin, ROWS_PER_INSERT).to_pydict().values(), strict=True)
                out.write(f"INSERT INTO {TABLE} VALUES\n")
                out.write(",\n".join(f"({', '.join(map(sql_literal, row))})" for row in rows) + ";\n")
        out.write("COMMIT;\n")


def sql_literal(value: object) -> str:
    """A value as standard SQL writes it. A NUL, which SQL text cannot hold, becomes the replacement character.

    >>> sql_literal("Baker's"), sql_literal(None), sql_literal(0.5)
    ("'Baker''s'", 'NULL', '0.5')
    """
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("\x00", "\ufffd").replace("'", "''") + "'"
    return repr(value)
