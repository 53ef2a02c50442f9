"""What `neatrec export` writes: the first answers of each item, as `recommend` gives them, as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.errors import must_be
from neatrec.serving import ServingTable
from neatrec.serving.answers import AnswerFilter, answer_item, level_of
from neatrec.serving.evidence import CATEGORY, LIKELY, strength_of
from neatrec.serving.table import COLUMNS, NUMBERS, AnswerLine

BLOCK = 200_000
"""Answers written at a time, and those that complete the last item."""
Places = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[Any]]
TEXTS = ("query", "query_name", "item", "item_name", "grade", "strength")


def answers_table(index: ServingTable, *, min_evidence: str | None = None, k: int = 10) -> pa.Table:
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
            found = answer_item(index, code, k, level, AnswerFilter(index, [code]))
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
    found = {name: [getattr(line.evidence, name) for line in lines] for name in NUMBERS}
    found |= {"item": [line.code for line in lines], "score": [line.score for line in lines]}
    found |= {"grade": [grades.index(line.grade) for line in lines]}
    return {name: np.array(found[name], dtype=kind) for name, kind in COLUMNS.items()}


def blocks(index: ServingTable, chosen: ExportRows) -> Iterator[pa.Table]:
    """These answers in blocks of whole items, one row each; at least one block: an empty table has columns too."""
    first = 0
    while first < max(len(chosen), 1):
        last = min(first + BLOCK, len(chosen))
        if last < len(chosen):
            last = int(np.searchsorted(chosen.query, chosen.query[last - 1], side="right"))
        yield _block(index, chosen, slice(first, last))
        first = max(last, 1)


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
        if name not in {"item", "grade", "season"} and (name != "weighted" or index.pairs.weighted is not None):
            out[name] = pa.array(values, mask=(values == -1) if values.dtype.kind == "i" else np.isnan(values))
    table = pa.table(out)
    return table.cast(pa.schema([(f.name, pa.string() if f.name in TEXTS else f.type) for f in table.schema]))
