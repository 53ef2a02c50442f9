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
"""The start of a cell that a spreadsheet runs, or that already begins with an apostrophe."""
Parts = Iterator[pa.Table]


def write_parquet(parts: Parts, path: Path) -> None:
    """One Parquet file."""
    import pyarrow.parquet as pq

    _write_tables(parts, partial(pq.ParquetWriter, path, compression="zstd"))


def write_csv(parts: Parts, path: Path) -> None:
    """One CSV file, none of whose cells is a formula."""
    from pyarrow import csv

    _write_tables(map(formula_safe, parts), partial(csv.CSVWriter, path))


def _write_tables(parts: Parts, writer_of: Callable[[pa.Schema], Any]) -> None:
    first = next(parts)
    with writer_of(first.schema) as writer:
        for part in chain([first], parts):
            writer.write_table(part)


def formula_safe(table: pa.Table) -> pa.Table:
    """Put an apostrophe before cells that start like a formula, which a spreadsheet would run.

    A cell that starts with an apostrophe gets one too: removing the first restores every text.
    """
    for place, name in enumerate(table.column_names):
        if name in TEXTS and table[name].type == pa.string():
            cells = table[name]
            risky = pc.match_substring_regex(cells, FORMULA)
            quoted = pc.binary_join_element_wise(pa.scalar("'"), cells, pa.scalar(""))
            table = table.set_column(place, name, pc.if_else(risky, quoted, cells))
    return table


def documents(parts: Parts, bundle: str, *, evidence: bool) -> Parts:
    """The answers of each item as one JSON text, in the shape of `GET /v1/complements`."""
    for part in parts:
        texts = {name: _json_texts(part[name].combine_chunks()) for name in part.column_names}
        entries = {"rank": texts["rank"], "id": texts["item"], "name": texts["item_name"]}
        entries |= {name: texts[name] for name in ("grade", "strength")}
        if evidence:
            numbers = {
                name: texts[name] for name in part.column_names if name not in {*TEXTS, "rank"}
            }
            entries |= {"evidence": _json_object(numbers)}
        # rank 1 begins the answers of an item
        start = np.flatnonzero(part["rank"].to_numpy() == 1)
        offsets = pa.array([*start, len(part)], pa.int32())
        lists = pa.ListArray.from_arrays(offsets, _json_object(entries))
        query = {"id": texts["query"].take(start), "name": texts["query_name"].take(start)}
        document = {"bundle": json.dumps(bundle), "query": _json_object(query)}
        document |= {"complements": _joined("[", pc.binary_join(lists, ","), "]")}
        ids = part["query"].take(start).cast(pa.string())
        yield pa.table({"id": ids, "document": _json_object(document)})


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
    """One JSON document per line."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for part in parts:
            out.writelines(f"{document}\n" for document in part["document"].to_pylist())
