"""Names, groups and categories of items, read from the lines or from a catalogue file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neatrec.errors import SourceError
from neatrec.io.bad_rows import BadRows, lines_of
from neatrec.io.columns import Columns
from neatrec.io.csv_fallback import read_carefully
from neatrec.io.duckdb_session import explained
from neatrec.io.items import ItemTexts, describe
from neatrec.io.row_status import clean_rows
from neatrec.io.tables import InputTable
from neatrec.text import printable

log = logging.getLogger(__name__)


def texts_in_lines(connection: Any, tables: Sequence[InputTable], columns: Columns) -> dict[str, ItemTexts]:
    """Item -> what the lines say of it most often (among equals, the first by alphabet)."""
    fields = _fields(columns)
    if not fields:
        return {}
    names = [sql for _, sql in fields]
    connection.execute(f"CREATE TABLE item_text (item VARCHAR, {', '.join(f'{n} VARCHAR' for n in names)}, n BIGINT)")
    for table in tables:
        select, parameters = clean_rows(table, columns)
        chosen = ", ".join(["item", *names])
        with explained(table):
            connection.execute(
                f"INSERT INTO item_text SELECT {chosen}, count(*) FROM ({select}) WHERE fate = 0 GROUP BY ALL",
                parameters,
            )
    path = [sql for role, sql in fields if role not in ("name", "group")]
    best = [_most_frequent(connection, [sql]) for role, sql in fields if role in ("name", "group")]
    if path:
        best.append(_most_frequent(connection, path))
    width = [1] * (len(best) - bool(path)) + ([len(path)] if path else [])
    items = sorted(set().union(*best)) if best else []
    rows = [
        (item, *(value for table, size in zip(best, width, strict=True) for value in table.get(item, (None,) * size)))
        for item in items
    ]
    return describe(rows, [role for role, _ in fields])


def _fields(columns: Columns) -> list[tuple[str, str]]:
    """Role and SQL name of the columns that describe items, categories last."""
    singles = [(role, f"item_{role}") for role in ("name", "group") if getattr(columns, role) is not None]
    return singles + [(f"category {i}", f"k{i}") for i in range(len(columns.category))]


def _most_frequent(connection: Any, names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    chosen = ", ".join(names)
    rows = connection.execute(
        f"SELECT item, {chosen} FROM item_text WHERE coalesce({chosen}) IS NOT NULL GROUP BY item, {chosen} "
        f"QUALIFY row_number() OVER (PARTITION BY item ORDER BY sum(n) DESC, {chosen}) = 1"
    ).fetchall()
    return {item: tuple(values) for item, *values in rows}


def texts_in_catalogue(connection: Any, table: InputTable, columns: Columns, folder: Path) -> dict[str, ItemTexts]:
    """Item -> description from a catalogue file, in which an item stands once."""
    fields = _fields(columns)
    chosen = ", ".join(["item", *(sql for _, sql in fields)])
    table = load_whole(connection, table, columns, f"CREATE OR REPLACE TABLE described AS SELECT {chosen}", folder)
    if connection.execute("SELECT count(*) FROM described WHERE item IS NULL").fetchall()[0][0]:
        log.warning("%s has rows without an item id; they are passed over", printable(table.shown))
    connection.execute(
        f"CREATE OR REPLACE TABLE catalogue AS SELECT DISTINCT {chosen} FROM described WHERE item IS NOT NULL"
    )
    _refuse_twins(connection, table, columns)
    rows = connection.execute(f"SELECT {chosen} FROM catalogue").fetchall()
    if not rows:
        raise SourceError(f"the catalogue {printable(table.shown)} has no rows", file=table.shown)
    return describe(rows, [role for role, _ in fields])


def load_whole(connection: Any, table: InputTable, columns: Columns, create: str, folder: Path) -> InputTable:
    """Run `create` FROM the rows of a table in which every row must be a record; gives the table as it was read."""

    def statement(table: InputTable) -> tuple[str, list[Any]]:
        select, parameters = clean_rows(table, columns, rejects=table.csv is not None)
        return f"{create} FROM ({select})", parameters

    table, rejected = read_carefully(connection, table, statement, folder)
    BadRows(0, hint="Mend it: no bad row is put up with in a table that describes others.").add(rejected)
    return table


def _refuse_twins(connection: Any, table: InputTable, columns: Columns) -> None:
    twin = connection.execute(
        "SELECT item FROM catalogue GROUP BY item HAVING count(*) > 1 ORDER BY item LIMIT 1"
    ).fetchall()
    if not twin:
        return
    item = str(twin[0][0])
    line = None
    if table.csv is not None:
        line = lines_of(table.csv, [table.columns.index(columns.item)], [(item,), (item,)])[1][0]
    where = "" if line is None else f", line {line:,}"
    raise SourceError(
        f"{printable(table.shown)}{where}: item {printable(repr(item))} stands in the catalogue twice, with different "
        "names, groups or categories",
        file=table.shown,
        line=line,
        column=columns.item,
        hint="Keep one row an item.",
    )
