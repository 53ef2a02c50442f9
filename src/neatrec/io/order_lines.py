"""Basket lines of all files in one database table; what cannot be read is set aside with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neatrec.io.bad_rows import BadRow, BadRows, lines_of
from neatrec.io.columns import Columns
from neatrec.io.csv_fallback import read_carefully
from neatrec.io.duckdb_session import explained
from neatrec.io.row_status import CHECKS, FIRST_BAD, NO_ID, RAW_ROLES, RETURN, clean_rows
from neatrec.io.tables import ROW, InputTable
from neatrec.text import printable


def create_lines(connection: Any, columns: Columns) -> None:
    """The empty table `line`."""
    fields = ["basket VARCHAR", "item VARCHAR", "position DOUBLE", "customer VARCHAR", "moment BIGINT"]
    fields += [f"a{i} VARCHAR" for i in range(len(columns.attributes))]
    connection.execute(f"CREATE TABLE line ({', '.join(fields)}, fate UTINYINT)")


def load_lines(
    connection: Any, table: InputTable, columns: Columns, bad: BadRows, folder: Path
) -> tuple[InputTable, int]:
    """Put the lines of one table into `line`; gives the table as it was read, and its rows."""

    def insert(table: InputTable) -> tuple[str, list[Any]]:
        select, parameters = clean_rows(table, columns, rejects=table.csv is not None)
        fields = ["basket", "item", "position" if columns.position else "NULL"]
        fields += ["customer" if columns.user else "NULL", "moment" if columns.time else "NULL"]
        fields += [f"a{i}" for i in range(len(columns.attributes))]
        return f"INSERT INTO line SELECT {', '.join(fields)}, fate FROM ({select})", parameters

    before = _count(connection)
    table, rejected = read_carefully(connection, table, insert, folder)
    rows = _count(connection) - before + len(rejected)
    bad.add([*rejected, *_bad_values(connection, table, columns)])
    return table, rows


def _count(connection: Any) -> int:
    return int(connection.execute("SELECT count(*) FROM line").fetchall()[0][0])


def _bad_values(connection: Any, table: InputTable, columns: Columns) -> list[BadRow]:
    """Rows whose values cannot be read, with their lines; they leave the table `line`."""
    if not connection.execute("SELECT count(*) FROM line WHERE fate >= ?", [FIRST_BAD]).fetchall()[0][0]:
        return []
    connection.execute("DELETE FROM line WHERE fate >= ?", [FIRST_BAD])
    by_role = columns.by_role()
    roles = [role for role in RAW_ROLES if role in by_role]
    select, parameters = clean_rows(table, columns, numbered=table.csv is None)
    fields = ", ".join([ROW if table.csv is None else "NULL", "fate", *(f"raw_{role}" for role in roles)])
    with explained(table):
        rows = connection.execute(
            f"SELECT {fields} FROM ({select}) WHERE fate >= ?", [*parameters, FIRST_BAD]
        ).fetchall()
    places: list[tuple[int | None, str]] = [(row[0], "") for row in rows]
    if table.csv is not None:
        at = [table.columns.index(by_role[role]) for role in roles]
        places = lines_of(table.csv, at, [tuple("" if v is None else str(v) for v in row[2:]) for row in rows])
    bad = []
    for (_, fate, *values), (line, record) in zip(rows, places, strict=True):
        check = CHECKS[fate - FIRST_BAD]
        reason = check.reason.format(value=printable(repr(values[roles.index(check.role)]), 60))
        unit = "row" if table.csv is None else "line"
        bad.append(BadRow(table.shown, line, by_role[check.role], reason, unit, check.swallows, record.rstrip("\n")))
    return sorted(bad, key=lambda row: (row.line is None, row.line or 0))


def count_fates(connection: Any) -> dict[str, int]:
    """What was left out so far, reason -> rows."""
    rows = dict(connection.execute("SELECT fate, count(*) FROM line GROUP BY fate").fetchall())
    return {"no basket or item id": rows.get(NO_ID, 0), "returns": rows.get(RETURN, 0)}
