"""Basket lines of all files in one database table; what cannot be read is set aside with its line."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from neatrec.errors import SourceError
from neatrec.sources.bad_rows import OPEN_QUOTE, REASONS, BadRow, BadRows, lines_of, open_at_end
from neatrec.sources.clean import CHECKS, FIRST_BAD, NO_ID, RAW_ROLES, RETURN, clean_rows
from neatrec.sources.columns import Columns
from neatrec.sources.csv_text import with_plain_line_ends
from neatrec.sources.session import explained
from neatrec.sources.tables import Table
from neatrec.text import printable

log = logging.getLogger(__name__)


def create_lines(connection: Any, columns: Columns) -> None:
    """The empty table `line`."""
    fields = ["basket VARCHAR", "item VARCHAR", "position DOUBLE", "customer VARCHAR", "moment BIGINT"]
    fields += [f"a{i} VARCHAR" for i in range(len(columns.attributes))]
    connection.execute(f"CREATE TABLE line ({', '.join(fields)}, fate UTINYINT)")


def load_lines(connection: Any, table: Table, columns: Columns, bad: BadRows, folder: Path) -> tuple[Table, int]:
    """Put the lines of one table into `line`; gives the table as it was read, and its rows.

    Where quotes do not close, a second try takes the backslash as the escape: some programs write \\" for a quote.
    """
    before = _count(connection)
    try:
        rejected = _insert(connection, table, columns)
    except MixedLineEnds:
        if table.csv is None:
            raise
        table = replace(table, csv=with_plain_line_ends(table.csv, folder))
        rejected = _insert(connection, table, columns)
    if table.csv is not None and any(row.reason == OPEN_QUOTE for row in rejected):
        connection.execute("ROLLBACK")
        other = replace(table, csv=replace(table.csv, escape="\\"))
        again = _insert(connection, other, columns)
        if any(row.reason == OPEN_QUOTE for row in again):
            connection.execute("ROLLBACK")
            rejected = _insert(connection, table, columns)
        else:
            log.info("%s: quotes are escaped with a backslash", printable(table.shown))
            table, rejected = other, again
    connection.execute("COMMIT")
    rows = _count(connection) - before + len(rejected)
    bad.add([*rejected, *_bad_values(connection, table, columns)])
    return table, rows


class MixedLineEnds(SourceError):
    """The reader cannot follow a file whose lines end in different ways."""


def _count(connection: Any) -> int:
    return int(connection.execute("SELECT count(*) FROM line").fetchall()[0][0])


def _insert(connection: Any, table: Table, columns: Columns) -> list[BadRow]:
    """Insert within an open transaction; gives the rows that are no records."""
    select, parameters = clean_rows(table, columns, rejects=table.csv is not None)
    fields = ["basket", "item"]
    fields += ["position" if columns.position else "NULL"]
    fields += ["customer" if columns.user else "NULL", "moment" if columns.time else "NULL"]
    fields += [f"a{i}" for i in range(len(columns.attributes))]
    connection.execute("BEGIN")
    try:
        with explained(table):
            connection.execute(f"INSERT INTO line SELECT {', '.join(fields)}, fate FROM ({select})", parameters)
            return [] if table.csv is None else rejected_rows(connection, table)
    except SourceError as error:
        connection.execute("ROLLBACK")
        if "state machine" in error.message:
            raise MixedLineEnds(error.message, file=table.shown, hint=_LINE_ENDS) from error
        raise


_LINE_ENDS = "Its lines end in different ways or its quotes are broken: write it again with one kind of line end."


def rejected_rows(connection: Any, table: Table) -> list[BadRow]:
    """Rows that are no CSV records, as the last scan with `rejects` set them aside."""
    rows = connection.execute(
        "SELECT line, first(error_type ORDER BY byte_position) FROM rejected GROUP BY line ORDER BY line"
    ).fetchall()
    connection.execute("DROP TABLE rejected")
    connection.execute("DROP TABLE rejected_scan")
    found = []
    for line, kind in rows:
        reason = REASONS.get(str(kind), f"the line is no CSV record ({str(kind).lower()})")
        found.append(BadRow(table.shown, int(line), None, reason, swallows=kind == "LINE SIZE OVER MAXIMUM"))
    quotes = [row.line for row in found if row.reason == OPEN_QUOTE and row.line is not None]
    if table.csv is None or not quotes:
        return found
    # a quote that is still open at the end of its line has taken the lines after it along
    still_open = open_at_end(table.csv, quotes)
    return [replace(row, swallows=True) if row.line in still_open else row for row in found]


def _bad_values(connection: Any, table: Table, columns: Columns) -> list[BadRow]:
    """Rows whose values cannot be read, with their lines; they leave the table `line`."""
    if not connection.execute("SELECT count(*) FROM line WHERE fate >= ?", [FIRST_BAD]).fetchall()[0][0]:
        return []
    connection.execute("DELETE FROM line WHERE fate >= ?", [FIRST_BAD])
    by_role = columns.by_role()
    roles = [role for role in RAW_ROLES if role in by_role]
    select, parameters = clean_rows(table, columns, numbered=table.csv is None)
    fields = ", ".join(["row_number" if table.csv is None else "NULL", "fate", *(f"raw_{role}" for role in roles)])
    with explained(table):
        rows = connection.execute(
            f"SELECT {fields} FROM ({select}) WHERE fate >= ?", [*parameters, FIRST_BAD]
        ).fetchall()
    places: list[int | None] = [row[0] for row in rows]
    if table.csv is not None:
        at = [table.columns.index(by_role[role]) for role in roles]
        places = lines_of(table.csv, at, [tuple("" if v is None else str(v) for v in row[2:]) for row in rows])
    bad = []
    for (_, fate, *values), line in zip(rows, places, strict=True):
        check = CHECKS[fate - FIRST_BAD]
        reason = check.reason.format(value=printable(repr(values[roles.index(check.role)]), 60))
        unit = "row" if table.csv is None else "line"
        bad.append(BadRow(table.shown, line, by_role[check.role], reason, unit, check.swallows))
    return sorted(bad, key=lambda row: (row.line is None, row.line or 0))


def count_fates(connection: Any) -> dict[str, int]:
    """What was left out so far, reason -> rows."""
    rows = dict(connection.execute("SELECT fate, count(*) FROM line GROUP BY fate").fetchall())
    return {"no basket or item id": rows.get(NO_ID, 0), "returns": rows.get(RETURN, 0)}
