"""The files of `neatrec export`: Parquet, CSV, SQL, JSON lines, and a folder of JSON files with the widget."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.errors import must_be
from neatrec.release.export_rows import TEXTS
from neatrec.text import FORMULA_STARTS, printable

TABLE = "neatrec_complements"
ROWS_PER_INSERT = 500
SQL_TYPES = {"string": "VARCHAR", "int32": "INTEGER", "float": "DOUBLE PRECISION"}
FORMULA = rf"\A['{FORMULA_STARTS}]"
"""How a cell starts that a spreadsheet runs, or that an apostrophe before it would no longer tell from one."""
WIDGET = "widget.js"
SHARDS = 1024
"""Files of a static export, always: the widget needs no list of them. One per item would be too many for most hosts."""
Parts = Iterator[pa.Table]


def write_parquet(parts: Parts, path: Path) -> None:
    import pyarrow.parquet as pq

    _write_tables(parts, partial(pq.ParquetWriter, path, compression="zstd"))


def write_csv(parts: Parts, path: Path) -> None:
    from pyarrow import csv

    _write_tables(map(formula_safe, parts), partial(csv.CSVWriter, path))


def _write_tables(parts: Parts, writer_of: Callable[[pa.Schema], Any]) -> None:
    first = next(parts)
    with writer_of(first.schema) as writer:
        for part in chain([first], parts):
            writer.write_table(part)


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
        for part in chain([first], parts):
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
    for part in parts:
        texts = {name: _json_texts(part[name].combine_chunks()) for name in part.column_names}
        shown = {"rank": "rank", "id": "item", "name": "item_name", "grade": "grade", "strength": "strength"}
        entries = {name: texts[column] for name, column in shown.items()}
        if evidence:
            numbers = {name: texts[name] for name in part.column_names if name not in {*TEXTS, "rank", "score"}}
            entries |= {"score": texts["score"], "evidence": _json_object(numbers)}
        # rank 1 begins the answers of an item
        start = np.flatnonzero(part["rank"].to_numpy() == 1)
        answers = pc.binary_join(
            pa.ListArray.from_arrays(pa.array([*start, len(part)], pa.int32()), _json_object(entries)), ","
        )
        query = _json_object({"id": texts["query"].take(start), "name": texts["query_name"].take(start)})
        whole = {"bundle": json.dumps(bundle), "query": query, "complements": _joined("[", answers, "]")}
        yield pa.table({"id": part["query"].take(start), "document": _json_object(whole)})


def _json_texts(values: pa.Array) -> pa.Array:
    if values.type == pa.string():
        coded = values.dictionary_encode()
        texts = [json.dumps(text, ensure_ascii=False) for text in coded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(coded.indices).fill_null("null")
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_finite(values), values, None)
    return values.cast(pa.string()).fill_null("null")


def _json_object(entries: dict[str, Any]) -> pa.Array:
    """JSON objects of JSON texts, one per row."""
    pieces = [piece for name, texts in entries.items() for piece in (f',"{name}":', texts)]
    return _joined("{" + pieces[0][1:], *pieces[1:], "}")


def _joined(*pieces: Any) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, "")


def write_json_lines(parts: Parts, path: Path) -> None:
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
    return file.is_file() and (file.name == WIDGET or (file.suffix == ".json" and file.stem.isdecimal()))


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
