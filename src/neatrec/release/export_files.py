"""The files of `neatrec export`: Parquet, CSV, SQL, JSON lines, and a folder of JSON files with the widget."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from neatrec.errors import must_be
from neatrec.release.export_rows import TEXTS
from neatrec.text import printable

TABLE = "neatrec_complements"
ROWS_PER_INSERT = 500
SQL_TYPES = {"string": "VARCHAR", "int32": "INTEGER", "float": "DOUBLE PRECISION"}
FORMULA = r"\A['=+\-@\t\r]"
"""How a cell starts that a spreadsheet runs, or that an apostrophe before it would no longer tell from one."""
WIDGET = "widget.js"
SHARDS = 1024
"""Files of a static export, always: the widget needs no list of them. One per item would be too many for most hosts."""
BRIEF = ("grade", "strength")
"""What a page shows of an answer; counts stay at home."""
Parts = Iterator[pa.Table]


def write_parquet(parts: Parts, path: Path) -> None:
    import pyarrow.parquet as pq

    first = next(parts)
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for part in parts:
            writer.write_table(part)


def write_csv(parts: Parts, path: Path) -> None:
    from pyarrow import csv

    first = formula_safe(next(parts))
    with csv.CSVWriter(path, first.schema) as writer:
        writer.write_table(first)
        for part in parts:
            writer.write_table(formula_safe(part))


def formula_safe(table: pa.Table) -> pa.Table:
    """A spreadsheet runs a cell that starts like a formula: an apostrophe before it makes it text.

    A cell that starts with an apostrophe gets one too, so that removing the first one restores every text.
    """
    for place, name in enumerate(table.column_names):
        if name in TEXTS:
            cells = table[name]
            risky = pc.match_substring_regex(cells, FORMULA)
            quoted = pc.binary_join_element_wise(pa.scalar("'"), cells, pa.scalar(""))
            table = table.set_column(place, name, pc.if_else(risky, quoted, cells))
    return table


def write_sql(parts: Parts, path: Path) -> None:
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


def documents(parts: Parts, bundle: str, *, evidence: bool) -> Parts:
    """What goes with each item as one JSON text, in the shape of `GET /v1/complements`: columns id and document."""
    import duckdb

    with duckdb.connect() as connection:
        for part in parts:
            numbers = [name for name in part.column_names if name not in {*TEXTS, "rank"}]
            shown = ["rank: rank", "id: item", "name: item_name", *(f"{name}: {name}" for name in BRIEF)]
            if evidence:
                # by its text: as a DOUBLE a FLOAT has nine digits more
                texts = {name: f"{name}: {name}::VARCHAR::JSON" for name in numbers}
                shown += [texts.pop("score"), f"evidence: {{{', '.join(texts.values())}}}"]
            query = "{id: query, name: query_name}"
            answers = f"list({{{', '.join(shown)}}} ORDER BY rank)"
            connection.register("part", part)
            yield connection.sql(
                f"SELECT query AS id, to_json({{bundle: $bundle, query: {query}, complements: {answers}}})::VARCHAR "
                "AS document FROM part GROUP BY query, query_name ORDER BY query",
                params={"bundle": bundle},
            ).to_arrow_table()


def write_json_lines(parts: Parts, path: Path) -> None:
    """One document per line."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for part in parts:
            out.writelines(f"{document}\n" for document in part["document"].to_pylist())


def check_json_folder(folder: Path) -> None:
    """Refuse a folder that holds anything else: what stands there is replaced."""
    if folder.is_dir() and (other := [file.name for file in folder.iterdir() if not _is_ours(file)]):
        raise must_be(
            "out", "a new folder, or one of an earlier export", str(folder), hint=f"It holds {printable(other[0])}."
        )


def _is_ours(file: Path) -> bool:
    return file.is_file() and (file.name == WIDGET or file.suffix == ".json")


def write_json_folder(parts: Parts, folder: Path) -> None:
    """For a static host: the documents of all items, by id, in `SHARDS` files; and the widget that reads them."""
    folder.mkdir()
    shards: list[list[str]] = [[] for _ in range(SHARDS)]
    for part in parts:
        for item, document in zip(part["id"].to_pylist(), part["document"].to_pylist(), strict=True):
            shards[shard_of(item)].append(f"{json.dumps(item)}:{document}")
    for number, entries in enumerate(shards):
        (folder / f"{number}.json").write_text("{" + ",\n".join(entries) + "}", encoding="utf-8")
    shutil.copyfile(str(files("neatrec.serving") / WIDGET), folder / WIDGET)


def shard_of(item: str) -> int:
    """The number of the file that holds an item: FNV-1a, as the widget computes it.

    >>> shard_of("100"), shard_of("\u00c4rmel")
    (156, 350)
    """
    state = 2166136261
    for byte in item.encode():
        state = (state ^ byte) * 16777619 % 2**32
    return state % SHARDS
