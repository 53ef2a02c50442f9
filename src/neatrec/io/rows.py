"""All rows of a source in one table, and those that cannot be read with file and line."""

from __future__ import annotations

import csv
import logging
import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from neatrec.errors import SourceError, bad_file
from neatrec.io.columns import Columns
from neatrec.io.csv_text import CHUNK, CsvText
from neatrec.io.database import Database, quoted
from neatrec.io.options import SourceOptions, bad_rows_allowed
from neatrec.io.rules import CHECKS, FIRST_BAD, SWALLOWING, clean_rows, text
from neatrec.io.tables import InputTable
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
CLOSE_IT = "Close the quote; a quote inside a quoted field is written twice."
TOO_LONG = "LINE SIZE OVER MAXIMUM"
REASONS = {
    "MISSING COLUMNS": "the line has fewer fields than the header",
    "TOO MANY COLUMNS": "the line has more fields than the header",
    "UNQUOTED VALUE": "a quote is opened and not closed, or text follows a closing quote",
    "INVALID ENCODING": "the line is not UTF-8",
    TOO_LONG: "the line is longer than 16 MB",
}
SHOWN = 3
"""Bad rows that the log names."""


@dataclass(frozen=True)
class BadRow:
    """One row that cannot be read."""

    table: InputTable
    line: int
    """Line of a CSV, row of other tables; counted from 1."""
    reason: str
    column: str | None = None
    swallows: bool = False
    """It may have swallowed the rows after it, so it is never allowed."""

    def error(self, count: int, hint: str | None) -> SourceError:
        """The error for this row, the first of `count`."""
        more = "" if count == 1 else f" (the first of {count:,} bad rows)"
        unit = "row" if self.table.csv is None else "line"
        return bad_file(
            self.table.shown,
            self.reason + more,
            line=self.line,
            unit=unit,
            column=self.column,
            hint=hint,
        )


@dataclass(frozen=True)
class LoadedRows:
    """The tables whose rows are in the table `name` of the database."""

    name: str
    tables: Sequence[InputTable]
    columns: Columns
    counts: Sequence[int]
    """Rows of each table."""
    rejected: Sequence[Sequence[BadRow]]
    """Rows of each table that are no CSV records."""

    def clean(self, database: Database, options: SourceOptions, into: str) -> None:
        """The table `into` of the rows with parsed values."""
        is_csv = any(table.csv is not None for table in self.tables)
        clean_rows(database, self.columns, options, self.name, into, is_csv=is_csv)


def load_rows(
    database: Database, tables: Sequence[InputTable], columns: Columns, name: str
) -> LoadedRows:
    """The rows of `tables` in one table, in their order: a column per role, text or typed times."""
    roles = columns.by_role()
    kinds = {table.column(columns.time).kind for table in tables} if columns.time else set()
    typed = {"time"} if kinds == {"moment"} else set()
    types = (f"{quoted(role)} {'BIGINT' if role in typed else 'VARCHAR'}" for role in roles)
    database.execute(f"CREATE TABLE {name} ({', '.join(types)})")
    counts: list[int] = []
    rejected = []
    for table in tables:
        used = {role: table.column(column) for role, column in roles.items()}
        values = (
            f"epoch_us(CAST({column.sql} AS TIMESTAMP))" if role in typed else text(column)
            for role, column in used.items()
        )
        insert = f"INSERT INTO {name} SELECT {', '.join(values)} FROM {table.scan}"
        database.execute(insert, table.parameters, table)
        counts.append(database.count(name) - sum(counts))
        rejected.append(_no_records(database, table))
    return LoadedRows(name, tables, columns, counts, rejected)


def require_readable(
    database: Database, loaded: LoadedRows, lines: str, options: SourceOptions
) -> int:
    """The number of rows that cannot be read; an error where they are more than is allowed."""
    rejected = [row for rows in loaded.rejected for row in rows]
    total = sum(loaded.counts) + len(rejected)
    if not total:
        shown = loaded.tables[0].shown if len(loaded.tables) == 1 else database.source
        trouble = "has column names but no rows"
        raise bad_file(shown, trouble, hint="Check the export or query that wrote it.")
    count = len(rejected) + database.count(f"{lines} WHERE status >= {FIRST_BAD}")
    if not count:
        return 0
    first = sorted(
        [*rejected, *_bad_values(database, loaded, lines)],
        key=lambda row: (not row.swallows, loaded.tables.index(row.table), row.line),
    )
    if first[0].swallows:
        raise first[0].error(1, CLOSE_IT)
    if count > bad_rows_allowed(options.max_bad_rows or 0, total):
        by_role, column = loaded.columns.by_role(), first[0].column
        roles = [role for role in ANOTHER if role in by_role and by_role[role] == column]
        another = f", {ANOTHER[roles[0]]}" if roles else ""
        raise first[0].error(count, f"{FIX_OR_ALLOW}{another}.")
    shown = "; ".join(row.error(1, None).message for row in first[:SHOWN])
    log.warning("%s could not be read: %s", plural(count, "row"), shown)
    return count


def require_records(loaded: LoadedRows) -> None:
    """An error for the first row of a table that is no record: none is allowed in a catalogue."""
    for rows in loaded.rejected:
        if rows:
            hint = "Fix it: no bad row is allowed in a table that describes others."
            raise rows[0].error(len(rows), hint)


def _bad_values(database: Database, loaded: LoadedRows, lines: str) -> list[BadRow]:
    """The first rows whose values cannot be read, and before them those that swallow others."""
    used = {check.role for check in CHECKS} & set(loaded.columns.by_role())
    values = ", ".join(f"CAST(raw.{quoted(role)} AS VARCHAR)" for role in sorted(used))
    query = (
        f"SELECT row, status, {values} FROM {lines} JOIN {loaded.name} AS raw ON raw.rowid = row "
        f"WHERE status >= {FIRST_BAD} "
        f"ORDER BY status >= {FIRST_BAD + len(SWALLOWING)}, row LIMIT {SHOWN}"
    )
    bad = []
    for row, status, *texts in database.rows(query):
        check = CHECKS[status - FIRST_BAD]
        value = printable(repr(texts[sorted(used).index(check.role)]), 60)
        reason = check.reason.format(value=value)
        table, line = line_of(loaded, row)
        column = loaded.columns.by_role()[check.role]
        bad.append(BadRow(table, line, reason, column, swallows=check in SWALLOWING))
    return bad


def line_of(loaded: LoadedRows, row: int) -> tuple[InputTable, int]:
    """The table of a row, counted from 0, and its line there, counted from 1."""
    ends = list(accumulate(loaded.counts))
    number = bisect_right(ends, row)
    table, record = loaded.tables[number], row + 1 - (ends[number] - loaded.counts[number])
    if table.csv is None:
        return table, record
    return table, _line_of_record(table.csv, record, {bad.line for bad in loaded.rejected[number]})


def _no_records(database: Database, table: InputTable) -> list[BadRow]:
    """The rows of a scanned CSV that are no records."""
    if table.csv is None:
        return []
    rows = database.rows(
        "SELECT line_byte_position, first(error_type ORDER BY byte_position), any_value(csv_line) "
        "FROM rejected GROUP BY 1 ORDER BY 1"
    )
    database.execute("DROP TABLE rejected")
    database.execute("DROP TABLE rejected_scan")
    lines = _lines_at(table.csv, [position for position, *_ in rows])
    found = []
    for line, (_, kind, record) in zip(lines, rows, strict=True):
        reason = REASONS.get(kind, f"the line is not a CSV record ({str(kind).lower()})")
        # a quote that is still open at the end of its line has taken the lines after it along
        is_open = kind == "UNQUOTED VALUE" and re.split("[\r\n]", record)[0].count('"') % 2 == 1
        found.append(BadRow(table, line, reason, swallows=is_open or kind == TOO_LONG))
    return found


def _lines_at(text: CsvText, positions: Sequence[int]) -> list[int]:
    """The line of each position, a number of bytes; positions rise."""
    lines, line, passed = [], 1, 0
    with text.path.open("rb") as stream:
        end = b"\n" if b"\n" in stream.read(CHUNK) else b"\r"
        stream.seek(0)
        for position in positions:
            while passed < position and (block := stream.read(min(CHUNK, position - passed))):
                line += block.count(end)
                passed += len(block)
            lines.append(line)
    return lines


def _line_of_record(text: CsvText, record: int, rejected: Collection[int]) -> int:
    """The line of a record, counted from 1 without those `rejected` by their lines.

    Only called when something is wrong: DuckDB tells the numbers of records, not their lines.
    """
    with text.path.open(newline=None, encoding="utf-8-sig", errors="replace") as stream:
        reader = csv.reader(stream, delimiter=text.delimiter)
        while True:
            line = reader.line_num + 1
            try:
                fields = next(reader, None)
            except csv.Error:  # a field beyond what the csv module takes
                fields = [""]
            if fields and line > text.skip and line not in rejected:
                record -= 1
            if not record or fields is None:
                return line
