"""Rows that cannot be read: where they stand, how many are allowed, and CSV variants that are tried before."""

from __future__ import annotations

import csv
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from neatrec.errors import SourceError, bad_file
from neatrec.io.csv_text import CsvText, not_utf8, with_plain_line_ends
from neatrec.io.duckdb_session import explained
from neatrec.io.options import bad_rows_allowed
from neatrec.io.tables import InputTable
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

NOT_UTF8 = "the line is not UTF-8"
OPEN_QUOTE = "a quote is opened and not closed, or text follows a closing quote"
FIX_OR_ALLOW = "Fix the data, or allow such rows with --max-bad-rows 100 or 0.5%."
REASONS = {
    "MISSING COLUMNS": "the line has fewer fields than the header",
    "TOO MANY COLUMNS": "the line has more fields than the header",
    "UNQUOTED VALUE": OPEN_QUOTE,
    "INVALID ENCODING": NOT_UTF8,
    "LINE SIZE OVER MAXIMUM": "the line is longer than 16 MB",
}


@dataclass(frozen=True)
class BadRow:
    """One row that cannot be read."""

    file: str
    line: int | None
    """Line of a CSV, row of other tables; counted from 1."""
    column: str | None
    reason: str
    unit: str = "line"
    swallows: bool = False
    """It may have swallowed the rows after it, so it is never allowed."""
    text: str = ""
    """The row as it stands in its file, where it is known."""

    def error(self, count: int, hint: str) -> SourceError:
        if self.reason == NOT_UTF8:
            return not_utf8(self.file, self.line)
        more = "" if count == 1 else f" (the first of {count:,} bad rows)"
        where: dict[str, Any] = {"line": self.line, "unit": self.unit, "column": self.column}
        return bad_file(self.file, self.reason + more, **where, hint=hint)


class BadRows:
    """Keeps count of bad rows against what `max_bad_rows` allows."""

    def __init__(self, limit: str | int, hint: str = FIX_OR_ALLOW) -> None:
        self.limit = limit
        self.hint = hint
        self.rows: list[BadRow] = []

    def add(self, found: Sequence[BadRow]) -> None:
        """Note the bad rows of one file; more than a fixed number allows is an error at once."""
        self.rows += found
        for row in found:
            if row.swallows:
                raise row.error(1, "Close the quote; a quote inside a quoted field is written twice.")
        if "%" not in str(self.limit):
            self.check_limit(0)

    def check_limit(self, read: int) -> None:
        """An error when there are more bad rows than `max_bad_rows` allows of `read` rows."""
        if len(self.rows) > bad_rows_allowed(self.limit, read):
            raise self.rows[0].error(len(self.rows), self.hint)

    def write(self, path: Path) -> None:
        """All bad rows as CSV: file, line, column, reason, text. Written beside and renamed."""
        beside = path.parent / f".rejects-{os.getpid()}"
        try:
            with beside.open("w", newline="", encoding="utf-8") as stream:
                out = csv.writer(stream)
                out.writerow(["file", "line", "column", "reason", "text"])
                for row in self.rows:
                    where = [printable(row.file, 1000), row.line or "", printable(row.column or "")]
                    out.writerow([*where, row.reason, printable(row.text, 1000)])
            os.replace(beside, path)
        except OSError as error:
            if os.path.exists(beside):
                beside.unlink()
            raise SourceError(
                f"cannot write the rejected rows to {printable(path)}: {error.strerror}",
                file=str(path),
                hint="Choose another file with --rejects FILE.",
            ) from error
        log.warning("%s could not be read; they are listed in %s", plural(len(self.rows), "row"), printable(path))


def refuse_to_overwrite(path: Path, read: Sequence[str | Path]) -> None:
    """An error when rejected rows would be written over a file of the source, or over something that is no file."""
    there = os.path.exists(path)
    if there and not path.is_file():
        raise SourceError(f"cannot write the rejected rows to {printable(path)}: it is no file", argument="rejects")
    for file in map(Path, read):
        if there and os.path.exists(file) and path.samefile(file):
            raise SourceError(
                f"the rejected rows would be written over {printable(file)}, which is read",
                file=str(file),
                argument="rejects",
                hint="Give another file with --rejects FILE.",
            )


def open_at_end(text: CsvText, lines: Sequence[int]) -> set[int]:
    """Those of `lines` (numbers of physical lines) at whose end a quote is still open."""
    wanted, last = set(lines), max(lines, default=0)
    with text.path.open(newline=None, encoding="utf-8-sig", errors="replace") as stream:
        numbered = enumerate(islice(stream, last), start=1)
        return {number for number, line in numbered if number in wanted and _marks(line, text) % 2}


def lines_of(text: CsvText, columns: Sequence[int], wanted: Sequence[tuple[str, ...]]) -> list[tuple[int | None, str]]:
    """The line and text of each record in `wanted`, known by its values in `columns`; None, "" where it is not found.

    Only asked when something is wrong: the fast reader does not number its records.
    """
    left = Counter(wanted)
    remaining = len(wanted)
    found: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    # most records need no closer look when few are wanted and no value is written with quotes around or in it
    plain = len(left) <= 8 and not any(set("".join(key)) & set('"\\\r\n') for key in left)
    for line, record in _records(text):
        if plain and not any(all(value in record for value in key) for key in left):
            continue
        fields = _split_record(record, text)
        key = tuple(fields[column] for column in columns) if len(fields) == len(text.columns) else ()
        if left[key]:
            left[key] -= 1
            remaining -= 1
            found.setdefault(key, []).append((line, record))
            if not remaining:
                break
    lines = {key: iter(numbers) for key, numbers in found.items()}
    nowhere: tuple[None, str] = (None, "")
    return [next(lines[key], nowhere) if key in lines else nowhere for key in wanted]


def _records(text: CsvText) -> Iterator[tuple[int, str]]:
    """Records with the line each begins in. A record goes on while a quote is open."""
    held: list[str] = []
    start = marks = 0
    with text.path.open(newline=None, encoding="utf-8-sig", errors="replace") as stream:
        for number, line in enumerate(stream, start=1):
            start = start if held else number
            held.append(line)
            marks += _marks(line, text)
            if marks % 2:
                continue
            if number > text.skip:
                yield start, "".join(held)
            held, marks = [], 0


def _marks(line: str, text: CsvText) -> int:
    """Quotes in a line, without escaped ones."""
    return line.count('"') - (line.count('\\"') if text.escape == "\\" else 0)


def _split_record(record: str, text: CsvText) -> list[str]:
    escape = None if text.escape == '"' else text.escape
    try:
        rows = list(csv.reader([record.rstrip("\n")], delimiter=text.delimiter, escapechar=escape))
    except csv.Error:  # a field beyond what the csv module takes
        return []
    return rows[0] if rows else []


Statement = Callable[[InputTable], tuple[str, list[Any]]]
"""SQL that reads a table with `rejects` (where it is a CSV) and writes what it finds, and its parameters."""


class MixedLineEnds(SourceError):
    """The reader cannot follow a file whose lines end in different ways."""


def read_with_fallback(
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
            return [] if table.csv is None else _rejected(connection, table.shown, table.csv)
    except SourceError as error:
        connection.execute("ROLLBACK")
        if "state machine" in error.message:  # the reader's words when line ends change on the way
            hint = "Its lines end in different ways or its quotes are broken: write it again with one kind of line end."
            raise MixedLineEnds(error.message, file=table.shown, hint=hint) from error
        raise


def _rejected(connection: Any, shown: str, text: CsvText) -> list[BadRow]:
    rows = connection.execute(
        "SELECT line, first(error_type ORDER BY byte_position), any_value(csv_line) FROM rejected "
        "GROUP BY line ORDER BY line"
    ).fetchall()
    connection.execute("DROP TABLE rejected")
    connection.execute("DROP TABLE rejected_scan")
    # a quote that is still open at the end of its line has taken the lines after it along
    swallowing = open_at_end(text, [line for line, kind, _ in rows if kind == "UNQUOTED VALUE"])
    swallowing |= {line for line, kind, _ in rows if kind == "LINE SIZE OVER MAXIMUM"}
    found = []
    for line, kind, record in rows:
        reason = REASONS.get(kind, f"the line is no CSV record ({str(kind).lower()})")
        record = (record or "").rstrip("\r\n")
        found.append(BadRow(shown, line, None, reason, swallows=line in swallowing, text=record))
    return found
