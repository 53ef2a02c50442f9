"""Basket lines of all files in one database table, each with its fate: kept, or why not."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from neatrec.errors import SourceError
from neatrec.sources.bad_rows import OPEN_QUOTE, REASONS, BadRow, BadRows, lines_of
from neatrec.sources.csv_text import with_plain_line_ends
from neatrec.sources.session import explained
from neatrec.sources.sql import LARGEST_POSITION, moment, number, raw, text
from neatrec.sources.tables import Table
from neatrec.text import printable

log = logging.getLogger(__name__)

KEPT, NO_ID, RETURN = 0, 1, 2
FIRST_BAD = 10  # fates from here on are bad rows: FIRST_BAD + index into CHECKS
CHECKS: tuple[tuple[str, str, str], ...] = (
    # role, what makes the row bad, the reason as told
    ("basket", "contains(basket, chr(0))", "must be text, holds a NUL byte"),
    ("item", "contains(item, chr(0))", "must be text, holds a NUL byte"),
    ("position", "position_text IS NULL", "must be a number, is missing"),
    ("position", "position IS NULL OR isnan(position) OR isinf(position)", "must be a number, got {value}"),
    ("position", f"position < 0 OR position > {LARGEST_POSITION}", "must be a number from 0 to 2^53, got {value}"),
    (
        "quantity",
        "quantity_text IS NOT NULL AND (quantity IS NULL OR isnan(quantity))",
        "must be a number, got {value}",
    ),
    (
        "time",
        "time_text IS NOT NULL AND moment IS NULL",
        "must be a time such as 2024-01-31 or 2024-01-31T12:00:00Z, got {value}",
    ),
)


@dataclass(frozen=True)
class Columns:
    """Which column plays which role in the lines."""

    basket: str
    item: str
    position: str | None = None
    quantity: str | None = None
    user: str | None = None
    time: str | None = None
    attributes: tuple[str, ...] = ()
    name: str | None = None
    group: str | None = None
    category: tuple[str, ...] = ()

    def by_role(self) -> dict[str, str]:
        """Role -> column, for the roles that have one."""
        roles = ("basket", "item", "position", "quantity", "user", "time", "name", "group")
        single = {role: getattr(self, role) for role in roles if getattr(self, role) is not None}
        return single | self.numbered("attribute", self.attributes) | self.numbered("category", self.category)

    @staticmethod
    def numbered(role: str, columns: Sequence[str]) -> dict[str, str]:
        return {f"{role} {i}": column for i, column in enumerate(columns)}


def clean_rows(
    table: Table, columns: Columns, *, rejects: bool = False, numbered: bool = False
) -> tuple[str, list[Any]]:
    """A SELECT of the lines as text, numbers and moments with their fate, and its parameters."""
    chosen = {role: table.column(name) for role, name in columns.by_role().items()}
    for role, column in chosen.items():
        if not column.has_ids:
            raise SourceError(
                f"{printable(table.shown)}, column {printable(repr(columns.by_role()[role]))}: cannot be read as "
                f"{role.split()[0]}, its type is {printable(column.type, 40)}",
                file=table.shown,
                column=columns.by_role()[role],
                hint="One row is one line of a basket, with plain values.",
            )
    fields = [f"{text(chosen['basket'])} AS basket", f"{text(chosen['item'])} AS item"]
    if "position" in chosen:
        fields += [f"{number(chosen['position'])} AS position", f"{text(chosen['position'])} AS position_text"]
    if "quantity" in chosen:
        fields += [f"{number(chosen['quantity'])} AS quantity", f"{text(chosen['quantity'])} AS quantity_text"]
    if "time" in chosen:
        fields += [f"{moment(chosen['time'])} AS moment", f"{text(chosen['time'])} AS time_text"]
    if "user" in chosen:
        fields.append(f"{text(chosen['user'])} AS customer")
    fields += [f"{text(chosen[f'attribute {i}'])} AS a{i}" for i in range(len(columns.attributes))]
    fields += [f"{text(chosen[role])} AS item_{role}" for role in ("name", "group") if role in chosen]
    fields += [f"{text(chosen[f'category {i}'])} AS k{i}" for i in range(len(columns.category))]
    fields += [
        f"{raw(chosen[role])} AS raw_{role}"
        for role in ("basket", "item", "position", "quantity", "time")
        if role in chosen
    ]
    fields += ["row_number"] if numbered else []
    scan, parameters = table.scan(rejects=rejects, numbered=numbered)
    return f"SELECT *, {_fate(chosen)} AS fate FROM (SELECT {', '.join(fields)} FROM {scan})", parameters


def _fate(chosen: dict[str, Any]) -> str:
    cases = [
        f"WHEN {condition} THEN {FIRST_BAD + i}" for i, (role, condition, _) in enumerate(CHECKS) if role in chosen
    ]
    cases.append(f"WHEN basket IS NULL OR item IS NULL THEN {NO_ID}")
    if "quantity" in chosen:
        cases.append(f"WHEN quantity <= 0 THEN {RETURN}")
    return f"CAST(CASE {' '.join(cases)} ELSE {KEPT} END AS UTINYINT)"


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
    bad.add([*rejected, *_bad_values(connection, table, columns, before)])
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
        "SELECT line, min(error_type), bool_or(contains(rtrim(csv_line, chr(10) || chr(13)), chr(10))) "
        "FROM rejected GROUP BY line ORDER BY line"
    ).fetchall()
    connection.execute("DROP TABLE rejected")
    connection.execute("DROP TABLE rejected_scan")
    found = []
    for line, kind, spans_lines in rows:
        reason = REASONS.get(str(kind), f"the line is no CSV record ({str(kind).lower()})")
        swallows = kind == "LINE SIZE OVER MAXIMUM" or (reason == OPEN_QUOTE and bool(spans_lines))
        found.append(BadRow(table.shown, int(line), None, reason, swallows=swallows))
    return found


def _bad_values(connection: Any, table: Table, columns: Columns, before: int) -> list[BadRow]:
    """Rows whose values cannot be read, with their lines; they leave the table `line`."""
    found = connection.execute("SELECT count(*) FROM line WHERE fate >= ?", [FIRST_BAD]).fetchall()[0][0]
    if not found:
        return []
    connection.execute("DELETE FROM line WHERE fate >= ?", [FIRST_BAD])
    bad: list[BadRow] = []
    for number_of_check, (role, _, reason) in enumerate(CHECKS):
        bad += _of_one_kind(connection, table, columns, FIRST_BAD + number_of_check, role, reason)
    return sorted(bad, key=lambda row: (row.line is None, row.line or 0))


def _of_one_kind(connection: Any, table: Table, columns: Columns, fate: int, role: str, reason: str) -> list[BadRow]:
    name = columns.by_role().get(role)
    if name is None:
        return []
    numbered = table.csv is None
    select, parameters = clean_rows(table, columns, numbered=numbered)
    place = "row_number" if numbered else "NULL"
    query = f"SELECT raw_basket, raw_item, raw_{role}, {place} FROM ({select}) WHERE fate = ?"
    with explained(table):
        rows = connection.execute(query, [*parameters, fate]).fetchall()
    if not rows:
        return []
    places: list[int | None] = [row[3] for row in rows]
    if table.csv is not None:
        at = [table.columns.index(column) for column in (columns.basket, columns.item, name)]
        places = lines_of(table.csv, at, [tuple("" if v is None else str(v) for v in row[:3]) for row in rows])
    unit = "row" if numbered else "line"
    return [
        BadRow(table.shown, line, name, reason.format(value=printable(repr(row[2]), 60)), unit)
        for row, line in zip(rows, places, strict=True)
    ]


def count_fates(connection: Any) -> dict[str, int]:
    """What was left out so far, reason -> rows."""
    rows = dict(connection.execute("SELECT fate, count(*) FROM line GROUP BY fate").fetchall())
    return {"no basket or item id": rows.get(NO_ID, 0), "returns": rows.get(RETURN, 0)}
