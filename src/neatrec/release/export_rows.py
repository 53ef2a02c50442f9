"""The answers of all items as `recommend` gives them: as tables, as JSON documents, as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.catalog import Catalog
from neatrec.serving import Answers, Filters, PairTable, answers_to
from neatrec.serving.answers import brief
from neatrec.serving.evidence import PUBLIC
from neatrec.text import FORMULA_STARTS

BLOCK = 20_000
"""Answers in a table, and the rest of its last item."""
FORMULA = rf"\A['{FORMULA_STARTS}]"
"""The start of a cell that a spreadsheet runs, or that already begins with an apostrophe."""
Tables = Iterable[pa.Table]


@dataclass
class AllAnswers:
    """The answers of each item, one after the other, and how many there were."""

    table: PairTable
    filters: Filters
    count: int = 0

    def __iter__(self) -> Iterator[Answers]:
        categories = self.table.catalog.categories
        by_category: dict[bytes, Answers] = {}
        for code, bought in enumerate(self.table.item_count.tolist()):
            if bought or categories is None:
                answers = answers_to(self.table, [code], self.filters)
            else:  # the answers of a new item depend on its category only
                key = categories[code].tobytes()
                if key not in by_category:
                    by_category[key] = answers_to(self.table, [code], self.filters)
                answers = replace(by_category[key], cart=(code,))
            self.count += len(answers)
            yield answers

    def tables(self) -> Iterator[pa.Table]:
        """One row per answer; at least one table: an empty one has columns too."""
        schema, rows = _schema(self.table.catalog), list[dict[str, Any]]()
        for answers in self:
            rows += _rows(answers)
            if len(rows) >= BLOCK:
                yield pa.Table.from_pylist(rows, schema)
                rows = []
        yield pa.Table.from_pylist(rows, schema)

    def documents(self, *, evidence: bool = True) -> Iterator[tuple[str, str]]:
        """The id of each item with answers, and these in the shape of `GET /v1/complements`."""
        for answers in filter(len, self):
            query, rows = brief(answers.catalog, answers.cart[0]), answers.rows()
            if not evidence:
                names = ("rank", "id", "name", "grade", "strength")
                rows = [{name: row[name] for name in names} for row in rows]
            document = {"bundle": self.table.version, "query": query, "complements": rows}
            yield str(query["id"]), json.dumps(document, ensure_ascii=False)


def _schema(catalog: Catalog) -> pa.Schema:
    text, ids = pa.string(), pa.int64() if catalog.integer_ids else pa.string()
    columns = [("query", ids), ("query_name", text), ("rank", pa.int32())]
    columns += [("item", ids), ("item_name", text), ("grade", text), ("strength", text)]
    return pa.schema([*columns, *((name, _type(spec)) for name, spec in PUBLIC.items())])


def _type(spec: Field[Any]) -> pa.DataType:
    kind = spec.metadata["json"]
    if kind in (int, float):
        return pa.from_numpy_dtype(spec.metadata["kind"])
    return pa.bool_() if kind is bool else pa.string()


def _rows(answers: Answers) -> Iterator[dict[str, Any]]:
    query = brief(answers.catalog, answers.cart[0])
    for row in answers.rows():
        evidence = {
            name: "; ".join(value) if isinstance(value, list) else value
            for name, value in row["evidence"].items()
        }
        asked = {"query": query["id"], "query_name": query["name"]}
        yield {**row, **evidence, **asked, "item": row["id"], "item_name": row["name"]}


def write_parquet(tables: Tables, path: Path) -> None:
    """One Parquet file."""
    import pyarrow.parquet as pq

    _write(tables, partial(pq.ParquetWriter, path, compression="zstd"))


def write_csv(tables: Tables, path: Path) -> None:
    """One CSV file, none of whose cells is a formula."""
    from pyarrow import csv

    _write(map(formula_safe, tables), partial(csv.CSVWriter, path))


def _write(tables: Tables, writer_of: Callable[[pa.Schema], Any]) -> None:
    rest = iter(tables)
    first = next(rest)
    with writer_of(first.schema) as writer:
        for table in chain([first], rest):
            writer.write_table(table)


def formula_safe(table: pa.Table) -> pa.Table:
    """Put an apostrophe before texts that start like a formula, which a spreadsheet would run.

    A text that starts with an apostrophe gets one too: removing the first restores every text.
    """
    for place, field in enumerate(table.schema):
        if field.type == pa.string():
            cells = table[place]
            risky = pc.match_substring_regex(cells, FORMULA)
            quoted = pc.binary_join_element_wise(pa.scalar("'"), cells, pa.scalar(""))
            table = table.set_column(place, field.name, pc.if_else(risky, quoted, cells))
    return table
