"""The files of `neatrec export`: Parquet, CSV and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.release.export_rows import TEXTS
from neatrec.text import FORMULA_STARTS

FORMULA = rf"\A['{FORMULA_STARTS}]"
"""How a cell starts that a spreadsheet runs, or that an apostrophe before it would no longer tell from one."""
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
        if name in TEXTS and table[name].type == pa.string():
            cells = table[name]
            risky = pc.match_substring_regex(cells, FORMULA)
            quoted = pc.binary_join_element_wise(pa.scalar("'"), cells, pa.scalar(""))
            table = table.set_column(place, name, pc.if_else(risky, quoted, cells))
    return table


def documents(parts: Parts, bundle: str, *, evidence: bool) -> Parts:
    """What goes with each item as one JSON text, in the shape of `GET /v1/complements`: columns id and document."""
    for part in parts:
        texts = {name: _json_texts(part[name].combine_chunks()) for name in part.column_names}
        shown = {
            "rank": "rank",
            "id": "item",
            "name": "item_name",
            "grade": "grade",
            "strength": "strength",
        }
        entries = {name: texts[column] for name, column in shown.items()}
        if evidence:
            numbers = {
                name: texts[name] for name in part.column_names if name not in {*TEXTS, "rank"}
            }
            entries |= {"evidence": _json_object(numbers)}
        # rank 1 begins the answers of an item
        start = np.flatnonzero(part["rank"].to_numpy() == 1)
        answers = pc.binary_join(
            pa.ListArray.from_arrays(
                pa.array([*start, len(part)], pa.int32()), _json_object(entries)
            ),
            ",",
        )
        query = _json_object(
            {"id": texts["query"].take(start), "name": texts["query_name"].take(start)}
        )
        whole = {
            "bundle": json.dumps(bundle),
            "query": query,
            "complements": _joined("[", answers, "]"),
        }
        yield pa.table(
            {"id": part["query"].take(start).cast(pa.string()), "document": _json_object(whole)}
        )


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
