"""`neatrec export`: the serving table as Parquet, CSV or SQL."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.errors import ParameterError, ResourceError, must_be
from neatrec.serving import ServingTable
from neatrec.serving.answers import AnswerFilter, answer_item, level_of
from neatrec.serving.evidence import CATEGORY, LIKELY, strength_of
from neatrec.serving.table import COLUMNS, NUMBERS, AnswerLine
from neatrec.text import printable

TABLE = "neatrec_complements"
BLOCK = 200_000
"""Answers written at a time."""
ROWS_PER_INSERT = 500
Places = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[Any]]
SQL_TYPES = {"string": "VARCHAR", "int32": "INTEGER", "float": "DOUBLE PRECISION"}
TEXTS = ("query", "query_name", "item", "item_name", "grade", "strength")


def export_table(index: ServingTable, path: str | Path, *, min_evidence: str | None = None, k: int = 10) -> int:
    """Write the first `k` answers of each item that have at least the evidence asked for, as `recommend` gives them.

    The ending of `path` says the format: .parquet, .csv or .sql. Returns the number of answers.
    """
    path = Path(path)
    chosen = export_rows(index, min_evidence, k)
    writers: dict[str, Callable[[Iterator[pa.Table], Path], None]] = {
        ".parquet": _write_parquet,
        ".csv": _write_csv,
        ".sql": _write_sql,
    }
    if path.suffix not in writers:
        raise must_be("out", "a name that ends in .parquet, .csv or .sql", str(path))
    unfinished = path.with_name(f".{path.name}.writing")
    try:
        writers[path.suffix](blocks(index, chosen), unfinished)
        os.replace(unfinished, path)
    except OSError as error:
        kind = ResourceError if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} else ParameterError
        # Arrow's messages are long; the system's own is enough
        why = os.strerror(error.errno) if error.errno else printable(error)
        raise kind(f"cannot write {printable(path)}: {why}", file=str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return len(chosen)


def answers_table(index: ServingTable, *, min_evidence: str | None = None, k: int = 10) -> pa.Table:
    """The answers that `export_table` writes."""
    return pa.concat_tables(blocks(index, export_rows(index, min_evidence, k)))


@dataclass(frozen=True)
class ExportRows:
    """The answers to write, item after item."""

    query: npt.NDArray[np.int32]
    rank: Places
    """Among the answers of its item, from 1."""
    place: Places
    """The row of the serving table; after its last one those of `beyond`."""
    beyond: Columns
    """Answers that the table does not hold."""

    def __len__(self) -> int:
        return len(self.query)

    def columns(self, index: ServingTable, part: slice = slice(None)) -> Columns:
        """The columns of these answers, or of a part of them."""
        place, after = self.place[part], len(index.columns["item"])
        held = place < after
        columns = {name: np.empty(len(place), dtype=kind) for name, kind in COLUMNS.items()}
        for name, values in columns.items():
            values[held] = index.columns[name][place[held]]
            values[~held] = self.beyond[name][place[~held] - after]
        return columns


def export_rows(index: ServingTable, min_evidence: str | None, k: int) -> ExportRows:
    """The first `k` answers of each item, as `recommend` gives them."""
    if k < 1:
        raise must_be("k", "at least 1", k)
    level = level_of(min_evidence)
    least = LIKELY if level is None else level
    enough = np.asarray(index.columns["grade"]) <= least
    before = np.concatenate([[0], np.cumsum(enough)])[index.start]  # answers before those of each item
    place = np.flatnonzero(enough)
    query = (np.searchsorted(index.start, place, side="right") - 1).astype(np.int32)
    rank = np.arange(len(place)) - before[query] + 1
    # the table holds what most items need; the others are answered one by one
    short = np.flatnonzero(np.diff(before) < k)
    new = (index.item_count[short] == 0) & (level in (None, CATEGORY))
    short = short[
        [bool(is_new) or index.may_have_more(code, least) for code, is_new in zip(short.tolist(), new, strict=True)]
    ]
    kept = (rank <= k) & ~np.isin(query, short)
    lines: list[tuple[int, int, AnswerLine]] = []
    alike: dict[bytes, list[AnswerLine]] = {}  # items that nobody has bought, by their categories
    categories = index.catalog.categories if level is None else None
    for code in short.tolist():
        key = categories[code].tobytes() if categories is not None and index.item_count[code] == 0 else b""
        found = alike.get(key)
        if found is None:
            found = answer_item(index, code, k, level, AnswerFilter(index, [code])) or []
        if key:
            alike[key] = found
        lines += [(code, number, line) for number, line in enumerate(found, 1)]
    query = np.concatenate([query[kept], np.array([code for code, _, _ in lines], dtype=np.int32)])
    rank = np.concatenate([rank[kept], np.array([number for _, number, _ in lines], dtype=np.int64)])
    place = np.concatenate([place[kept], len(enough) + np.arange(len(lines))])
    order = np.lexsort((rank, query))
    return ExportRows(
        query[order], rank[order], place[order], _columns_of([line for _, _, line in lines], index.grades)
    )


def _columns_of(lines: Sequence[AnswerLine], grades: Sequence[str]) -> Columns:
    """Answers as the columns of a serving table."""
    found = {name: [getattr(line.evidence, name) for line in lines] for name in NUMBERS}
    found |= {"item": [line.code for line in lines], "score": [line.score for line in lines]}
    found |= {"grade": [grades.index(line.grade) for line in lines]}
    return {name: np.array(found[name], dtype=kind) for name, kind in COLUMNS.items()}


def blocks(index: ServingTable, chosen: ExportRows) -> Iterator[pa.Table]:
    """These answers in blocks, one row each; at least one block, so that an empty table has its columns."""
    for first in range(0, max(len(chosen), 1), BLOCK):
        yield _block(index, chosen, slice(first, first + BLOCK))


def _block(index: ServingTable, chosen: ExportRows, part: slice) -> pa.Table:
    query, columns = chosen.query[part], chosen.columns(index, part)
    grades, lows = columns["grade"].tolist(), columns["lift_low"].tolist()
    ids = index.catalog.ids
    names = ids if index.catalog.names is None else pc.coalesce(index.catalog.names, ids)
    out: dict[str, Any] = {
        "query": ids.take(pa.array(query)),
        "query_name": names.take(pa.array(query)),
        "rank": pa.array(chosen.rank[part].astype(np.int32)),
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
