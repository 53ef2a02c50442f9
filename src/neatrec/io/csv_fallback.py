"""Reading with second tries: line ends that differ, quotes escaped with a backslash. What is no record is set aside."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from neatrec.errors import SourceError
from neatrec.io.bad_rows import OPEN_QUOTE, REASONS, BadRow, open_at_end
from neatrec.io.csv_text import with_plain_line_ends
from neatrec.io.duckdb_session import explained
from neatrec.io.tables import InputTable
from neatrec.text import printable

log = logging.getLogger(__name__)
Statement = Callable[[InputTable], tuple[str, list[Any]]]
"""SQL that reads a table with `rejects` (where it is a CSV) and writes what it finds, and its parameters."""


class MixedLineEnds(SourceError):
    """The reader cannot follow a file whose lines end in different ways."""


def read_carefully(
    connection: Any, table: InputTable, statement: Statement, folder: Path
) -> tuple[InputTable, list[BadRow]]:
    """Run `statement`; gives the table as it had to be read, and the rows that are no records."""
    trouble: SourceError | None = None
    readable: InputTable | None = None
    for way, variant in _ways(table, folder):
        try:
            rejected = _try(connection, variant, statement)
        except MixedLineEnds as error:
            trouble = trouble or error
            continue
        if not any(row.reason == OPEN_QUOTE for row in rejected):
            connection.execute("COMMIT")
            if way:
                log.info("%s: %s", printable(table.shown), way)
            return variant, rejected
        connection.execute("ROLLBACK")
        readable = readable or variant
    if readable is None:
        raise trouble or SourceError(f"cannot read {printable(table.shown)}", file=table.shown)
    # no way is clean: the bad rows are those of the first that could be read at all
    rejected = _try(connection, readable, statement)
    connection.execute("COMMIT")
    return readable, rejected


def _ways(table: InputTable, folder: Path) -> Iterator[tuple[str, InputTable]]:
    """How a table may have to be read, the usual way first."""
    yield "", table
    if table.csv is None:
        return
    yield "quotes are escaped with a backslash", replace(table, csv=replace(table.csv, escape="\\"))
    plain = with_plain_line_ends(table.csv, folder)
    yield "its lines end in different ways", replace(table, csv=plain)
    both = replace(table, csv=replace(plain, escape="\\"))
    yield "its lines end in different ways, quotes are escaped with a backslash", both


def _try(connection: Any, table: InputTable, statement: Statement) -> list[BadRow]:
    """Run within a transaction that stays open."""
    connection.execute("BEGIN")
    try:
        with explained(table):
            connection.execute(*statement(table))
            return [] if table.csv is None else _rejected(connection, table)
    except SourceError as error:
        connection.execute("ROLLBACK")
        if "state machine" in error.message:  # the reader's words when line ends change on the way
            hint = "Its lines end in different ways or its quotes are broken: write it again with one kind of line end."
            raise MixedLineEnds(error.message, file=table.shown, hint=hint) from error
        raise


def _rejected(connection: Any, table: InputTable) -> list[BadRow]:
    rows = connection.execute(
        "SELECT line, first(error_type ORDER BY byte_position), any_value(csv_line) FROM rejected "
        "GROUP BY line ORDER BY line"
    ).fetchall()
    connection.execute("DROP TABLE rejected")
    connection.execute("DROP TABLE rejected_scan")
    found = []
    for line, kind, record in rows:
        reason = REASONS.get(str(kind), f"the line is no CSV record ({str(kind).lower()})")
        swallows = kind == "LINE SIZE OVER MAXIMUM"
        found.append(
            BadRow(table.shown, int(line), None, reason, swallows=swallows, text=(record or "").rstrip("\r\n"))
        )
    quotes = [row.line for row in found if row.reason == OPEN_QUOTE and row.line is not None]
    if table.csv is None or not quotes:
        return found
    # a quote that is still open at the end of its line has taken the lines after it along
    still_open = open_at_end(table.csv, quotes)
    return [replace(row, swallows=True) if row.line in still_open else row for row in found]
