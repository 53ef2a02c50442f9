"""All lines of a source into the table `line`, each with its status; rows that cannot be read."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from neatrec.errors import SourceError, bad_file
from neatrec.io.bad_rows import (
    CLOSE_IT,
    BadRow,
    no_records,
    record_lines,
    refuse_to_overwrite,
    write_rejects,
)
from neatrec.io.columns import Columns
from neatrec.io.database import Database
from neatrec.io.files import REJECTS
from neatrec.io.options import SourceOptions, bad_rows_allowed
from neatrec.io.reading_rules import (
    CHECKS,
    FIRST_BAD,
    NUMBER_STYLES,
    RAW_ROLES,
    VOID,
    clean_rows,
    text,
)
from neatrec.io.tables import ROW, InputTable
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

FIX_OR_ALLOW = "Fix the data, or allow such rows with --max-bad-rows 100 or 0.5%"
ANOTHER = {
    "position": "or name another column with --position, or none",
    "quantity": "or name another column with --quantity, or none",
    "time": "or give its format, such as --time-format '%d %b %Y', or name another column with "
    "--time, or none",
}
"""Further advice where a value of a role cannot be read."""


class Reading(NamedTuple):
    """One reading of a source: its database and options."""

    database: Database
    options: SourceOptions


def with_number_styles(
    database: Database, tables: Sequence[InputTable], columns: Columns
) -> Columns:
    """`columns` with the way in which all numbers of a column of text are written."""
    styles = {}
    for role in ("position", "quantity", "price"):
        name = getattr(columns, role)
        found = None if name is None else _number_style(database, tables, name)
        if found is not None:
            log.info("numbers of column %s are written as %s", printable(repr(name)), found)
            styles[role] = found
    return replace(columns, number_styles=styles)


def _number_style(database: Database, tables: Sequence[InputTable], name: str) -> str | None:
    unlike = ["TRY_CAST(value AS DOUBLE) IS NULL"]
    unlike += [
        f"NOT regexp_full_match(value, '{style.pattern}')" for style in NUMBER_STYLES.values()
    ]
    counts = ", ".join(f"count(*) FILTER ({each})" for each in unlike)
    total = [0] * len(unlike)
    for table in tables:
        column = table.column(name)
        if column.kind == "text":
            scan, parameters = table.scan()
            values = f"SELECT {text(column)} AS value FROM {scan}"
            query = f"SELECT {counts} FROM ({values}) WHERE value IS NOT NULL"
            row = database.rows(query, parameters, table)[0]
            total = [before + more for before, more in zip(total, row, strict=True)]
    fitting = [style for style, wrong in zip(NUMBER_STYLES, total[1:], strict=True) if not wrong]
    return fitting[0] if total[0] and fitting else None


def stage(
    reading: Reading, tables: Sequence[InputTable], columns: Columns, more_files: Sequence[str] = ()
) -> int:
    """Load all lines into the table `line`; the number of bad rows that were allowed.

    `more_files` are read too and, like the tables, not to be written over.
    """
    options, database = reading.options, reading.database
    if columns.time is None and (options.since or options.until):
        raise SourceError(
            "`since` and `until` need a column with times",
            hint="Name it with --time COLUMN.",
            argument="time",
        )
    named = [path for path in (options.catalog, options.exclude_items) if isinstance(path, Path)]
    files: list[str | Path] = [
        *(table.shown for table in tables if table.relation is None),
        *more_files,
        *named,
    ]
    if options.rejects is not None:
        refuse_to_overwrite(options.rejects, files)
    _create_lines(database, columns)
    loaded = [_load_lines(database, table, columns) for table in tables]
    total = sum(each.rows for each in loaded)
    if not total:
        hint = "Check the export that wrote it."
        raise bad_file(database.source, "has column names but no rows", hint=hint)
    bad = _bad_rows(database, loaded, columns, bad_rows_allowed(options.max_bad_rows or 0, total))
    if bad:
        rejects = options.rejects or default_rejects(database.source)
        refuse_to_overwrite(rejects, files)
        write_rejects(bad, rejects)
    if columns.void:
        voided = "SELECT basket FROM line WHERE void AND basket IS NOT NULL"
        database.execute(f"UPDATE line SET status = {VOID} WHERE basket IN ({voided})")
    return len(bad)


def default_rejects(source: str) -> Path:
    """The file for rejected rows of `source`, in the working folder.

    >>> default_rejects("shop/orders.2024.csv").name, default_rejects("shop/*.csv").name
    ('orders.rejects.csv', 'source.rejects.csv')
    """
    stem = re.sub(r"[^\w-]+", "-", Path(source).name.split(".")[0]).strip("-")[:100]
    return Path(f"{stem or 'source'}{REJECTS}")


def _create_lines(database: Database, columns: Columns) -> None:
    fields = ["basket VARCHAR", "item VARCHAR", "position DOUBLE", "customer VARCHAR"]
    fields += ["moment BIGINT", *(f"a{i} VARCHAR" for i in range(len(columns.attributes)))]
    database.execute(f"CREATE TABLE line ({', '.join(fields)}, void BOOLEAN, status UTINYINT)")


class LoadedTable(NamedTuple):
    """A table whose lines are in `line`."""

    table: InputTable
    rows: int
    rejected: list[BadRow]
    """Rows that are no CSV records."""
    bad: int
    """Rows with values that cannot be read."""


def _load_lines(database: Database, table: InputTable, columns: Columns) -> LoadedTable:
    """Put the lines of one table into `line`, without those that cannot be read."""
    before = database.count("line")
    select, parameters = clean_rows(table, columns, rejects=table.csv is not None)
    fields = ["basket", "item", "position" if columns.position else "NULL"]
    fields += ["customer" if columns.user else "NULL", "moment" if columns.time else "NULL"]
    fields += [*(f"a{i}" for i in range(len(columns.attributes))), "void", "status"]
    insert = f"INSERT INTO line SELECT {', '.join(fields)} FROM ({select})"
    database.execute(insert, parameters, table)
    rejected = no_records(database, table)
    rows = database.count("line") - before + len(rejected)
    if bad := database.count(f"line WHERE status >= {FIRST_BAD}"):
        database.execute(f"DELETE FROM line WHERE status >= {FIRST_BAD}")
    log.debug("%s: %s", printable(table.shown), plural(rows, "row"))
    return LoadedTable(table, rows, rejected, bad)


def _bad_rows(
    database: Database, loaded: Sequence[LoadedTable], columns: Columns, allowed: int
) -> list[BadRow]:
    """The rows that cannot be read; an error where they are more than `allowed`."""
    count = sum(each.bad + len(each.rejected) for each in loaded)
    found: list[BadRow] = []
    for each in loaded:
        found += each.rejected
        if each.bad:
            found += _bad_values(database, each, columns, each.bad if count <= allowed else 1)
        for row in found:
            if row.swallows:
                raise row.error(1, CLOSE_IT)
        if found and count > allowed:
            raise found[0].error(count, _hint(found[0], columns))
    return found


def _hint(row: BadRow, columns: Columns) -> str:
    roles = [role for role in ANOTHER if row.column == getattr(columns, role)]
    return f"{FIX_OR_ALLOW}, {ANOTHER[roles[0]]}." if roles else f"{FIX_OR_ALLOW}."


def _bad_values(
    database: Database, loaded: LoadedTable, columns: Columns, most: int
) -> list[BadRow]:
    """The first rows whose values cannot be read, with their lines."""
    table, by_role = loaded.table, columns.by_role()
    roles = [role for role in RAW_ROLES if role in by_role]
    select, parameters = clean_rows(table, columns, numbered=True)
    fields = ", ".join([ROW, "status", *(f"raw_{role}" for role in roles)])
    query = f"SELECT {fields} FROM ({select}) WHERE status >= {FIRST_BAD} ORDER BY {ROW} LIMIT ?"
    rows = database.rows(query, [*parameters, most], table)
    lines: dict[int, tuple[int, str]] = {}
    if table.csv is not None:
        rejected = {row.line for row in loaded.rejected if row.line is not None}
        lines = record_lines(table.csv, {row[0] for row in rows}, rejected)
    bad = []
    for number, status, *values in rows:
        check = CHECKS[status - FIRST_BAD]
        value = printable(repr(values[roles.index(check.role)]), 60)
        line, record = lines.get(number, (number, ""))
        unit = "row" if table.csv is None else "line"
        reason = check.reason.format(value=value)
        where = (table.shown, line, by_role[check.role], reason, unit)
        bad.append(BadRow(*where, swallows=check.swallows, text=record))
    return bad
