"""The rows of `neatrec export`: the first answers of each item, as `recommend` gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.serving import Filters, PairTable, answers_to
from neatrec.serving.evidence import PUBLIC, shown, strength_of

BLOCK = 200_000
"""Answers written at a time, and those that complete the last item."""
Places = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
TEXTS = ("query", "query_name", "item", "item_name", "grade", "strength")


@dataclass(frozen=True)
class ExportRows:
    """The answers to write, item after item: arrays of one length."""

    query: Codes
    item: Codes
    rank: Places
    """Among the answers of its item, from 1."""
    pair: Places
    """The row of the pair in the table; -1: answered from the category of a new item."""

    def __len__(self) -> int:
        return len(self.query)


def answers_table(table: PairTable, filters: Filters) -> pa.Table:
    """The answers of all items as one table."""
    return pa.concat_tables(blocks(table, export_rows(table, filters)))


def export_rows(table: PairTable, filters: Filters) -> ExportRows:
    """The first answers of each item; guesses are those that the table holds."""
    found, same_category = table.answers, filters.same_category or table.same_category
    kept = table.rows_of(None, filters.level, same_category)
    query = found["query"][kept]
    rank = np.arange(len(kept)) - np.searchsorted(query, query) + 1
    first = rank <= filters.k
    kept = kept[first]
    rows = ExportRows(query[first], found["item"][kept], rank[first], found["pair"][kept])
    return _with_new_items(table, filters, rows) if filters.by_category else rows


def _with_new_items(table: PairTable, filters: Filters, rows: ExportRows) -> ExportRows:
    """The rows, and those of items that nobody has bought, which depend on their category only."""
    categories, alike = table.catalog.categories, dict[bytes, list[int]]()
    new = np.flatnonzero(table.item_count == 0).tolist() if categories is not None else []
    parts = [(rows.query, rows.item, rows.rank, rows.pair)]
    plain = replace(filters, min_evidence=None)
    for code in new:
        key = categories[code].tobytes()  # type: ignore[index]
        if key not in alike:
            alike[key] = [line.code for line in answers_to(table, [code], plain).lines]
        size = len(alike[key])
        rank, nothing = np.arange(1, size + 1), np.full(size, -1)
        parts.append((np.full(size, code), np.array(alike[key], np.int32), rank, nothing))
    query, item, rank, pair = map(np.concatenate, zip(*parts, strict=True))
    order = np.lexsort((rank, query))
    return ExportRows(query[order], item[order], rank[order], pair[order])


def blocks(table: PairTable, chosen: ExportRows) -> Iterator[pa.Table]:
    """The answers in blocks of complete items; at least one: an empty table has columns too."""
    first = 0
    while first < max(len(chosen), 1):
        last = min(first + BLOCK, len(chosen))
        if last < len(chosen):
            last = int(np.searchsorted(chosen.query, chosen.query[last - 1], side="right"))
        yield _block(table, chosen, slice(first, last))
        first = max(last, 1)


def _block(table: PairTable, chosen: ExportRows, part: slice) -> pa.Table:
    query, item, pair = (
        values[part].astype(kind)
        for values, kind in ((chosen.query, "i4"), (chosen.item, "i4"), (chosen.pair, "i8"))
    )
    columns = table.evidence_columns(query, item, pair)
    by_category = pair < 0
    grade, low = columns.pop("grade"), columns["lift_low"]
    names = np.where(by_category, "category", np.array(table.grades)[grade])
    strength = [
        None if new else strength_of(number, lower)
        for number, lower, new in zip(grade.tolist(), low.tolist(), by_category, strict=True)
    ]
    ids, texts = table.catalog.public_ids, table.catalog.ids
    titles = texts if table.catalog.names is None else pc.coalesce(table.catalog.names, texts)
    out: dict[str, Any] = {
        "query": ids.take(pa.array(query)),
        "query_name": titles.take(pa.array(query)),
        "rank": pa.array(chosen.rank[part].astype(np.int32)),
        "item": ids.take(pa.array(item)),
        "item_name": titles.take(pa.array(item)),
        "grade": pa.array(names),
        "strength": pa.array(strength, pa.string()),
    }
    for name in PUBLIC:
        if name in columns:
            out[name] = _column(name, columns[name], by_category & (name != "item_count"))
    found = pa.table(out)
    types = [pa.string() if f.type == pa.large_string() else f.type for f in found.schema]
    return found.cast(pa.schema(list(zip(found.column_names, types, strict=True))))


def _column(name: str, values: npt.NDArray[Any], hidden: npt.NDArray[np.bool_]) -> pa.Array:
    """A column of evidence, null where it is not known or `hidden`."""
    spec = PUBLIC[name]
    if name == "same_category":
        return pa.array(values > 0, mask=hidden | (values < 0))
    if spec.metadata["show"] is not None:
        texts = [shown(spec, value) for value in values.tolist()]
        return pa.array([text and "; ".join(text) for text in texts], pa.string(), mask=hidden)
    unknown = values == -1 if values.dtype.kind == "i" else np.isnan(values)
    return pa.array(values, mask=hidden | unknown)
