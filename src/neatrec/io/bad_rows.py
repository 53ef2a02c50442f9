"""Rows that cannot be read: their lines, how many are allowed, the file that lists them."""

from __future__ import annotations

import csv
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from neatrec.errors import SourceError, bad_file
from neatrec.io.csv_text import CHUNK, CsvText
from neatrec.io.database import Database
from neatrec.io.tables import InputTable
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

CLOSE_IT = "Close the quote; a quote inside a quoted field is written twice."
TOO_LONG = "LINE SIZE OVER MAXIMUM"
REASONS = {
    "MISSING COLUMNS": "the line has fewer fields than the header",
    "TOO MANY COLUMNS": "the line has more fields than the header",
    "UNQUOTED VALUE": "a quote is opened and not closed, or text follows a closing quote",
    "INVALID ENCODING": "the line is not UTF-8",
    TOO_LONG: "the line is longer than 16 MB",
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
        """The error for this row, the first of `count`."""
        more = "" if count == 1 else f" (the first of {count:,} bad rows)"
        where: dict[str, Any] = {"line": self.line, "unit": self.unit, "column": self.column}
        return bad_file(self.file, self.reason + more, **where, hint=hint)


def write_rejects(rows: Sequence[BadRow], path: Path) -> None:
    """Bad rows as CSV: file, line, column, reason, text. Written beside and renamed."""
    beside = path.parent / f".rejects-{os.getpid()}"
    try:
        with beside.open("w", newline="", encoding="utf-8") as stream:
            out = csv.writer(stream)
            out.writerow(["file", "line", "column", "reason", "text"])
            for row in rows:
                where = [printable(row.file, 1000), row.line or "", printable(row.column or "")]
                out.writerow([*where, row.reason, printable(row.text, 1000)])
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        message = f"cannot write the rejected rows to {printable(path)}: {error.strerror}"
        hint = "Choose another file with --rejects FILE."
        raise SourceError(message, file=str(path), hint=hint) from error
    count = plural(len(rows), "row")
    log.warning("%s could not be read; they are listed in %s", count, printable(path))


def refuse_to_overwrite(path: Path, read: Sequence[str | Path]) -> None:
    """An error when rejected rows would replace a file of the source, or what is no file."""
    is_there = os.path.exists(path)
    if is_there and not path.is_file():
        raise SourceError(
            f"cannot write the rejected rows to {printable(path)}: it is not a file",
            argument="rejects",
        )
    for file in map(Path, read):
        if is_there and os.path.exists(file) and path.samefile(file):
            raise SourceError(
                f"the rejected rows would be written over {printable(file)}, which is read",
                file=str(file),
                argument="rejects",
                hint="Give another file with --rejects FILE.",
            )


def no_records(database: Database, table: InputTable) -> list[BadRow]:
    """The rows of a CSV that are no records, after a scan with `rejects`."""
    if table.csv is None:
        return []
    rows = database.rows(
        "SELECT line_byte_position, first(error_type ORDER BY byte_position), any_value(csv_line) "
        "FROM rejected GROUP BY 1 ORDER BY 1"
    )
    database.execute("DROP TABLE rejected")
    database.execute("DROP TABLE rejected_scan")
    lines = _lines_at(table.csv, [position for position, *_ in rows])
    # a quote that is still open at the end of its line has taken the lines after it along
    unquoted = {lines[position] for position, kind, _ in rows if kind == "UNQUOTED VALUE"}
    swallowing = _open_at_end(table.csv, unquoted)
    swallowing |= {lines[position] for position, kind, _ in rows if kind == TOO_LONG}
    found = []
    for position, kind, record in rows:
        reason = REASONS.get(kind, f"the line is not a CSV record ({str(kind).lower()})")
        line, text = lines[position], (record or "").strip("\r\n")
        swallows = line in swallowing
        found.append(BadRow(table.shown, line, None, reason, swallows=swallows, text=text))
    return found


def _lines_at(text: CsvText, positions: Sequence[int]) -> dict[int, int]:
    """The line of each position, a number of bytes; positions rise."""
    lines, line, passed = {}, 1, 0
    with text.path.open("rb") as stream:
        end = b"\n" if b"\n" in stream.read(CHUNK) else b"\r"
        stream.seek(0)
        for position in positions:
            while passed < position and (block := stream.read(min(CHUNK, position - passed))):
                line += block.count(end)
                passed += len(block)
            lines[position] = line
    return lines


def _open_at_end(text: CsvText, lines: Collection[int]) -> set[int]:
    """Those of `lines` at whose end a quote is still open."""
    last = max(lines, default=0)
    with text.path.open(newline=None, encoding="utf-8-sig", errors="replace") as stream:
        numbered = enumerate(islice(stream, last), start=1)
        return {number for number, line in numbered if number in lines and line.count('"') % 2}


def record_lines(
    text: CsvText, numbers: Collection[int], rejected: Collection[int]
) -> dict[int, tuple[int, str]]:
    """Number of a record, counted from 1 without those `rejected` by their lines -> line and text.

    Only asked when something is wrong: DuckDB tells the numbers of records, not their lines.
    """
    found: dict[int, tuple[int, str]] = {}
    held: list[str] = []
    number = 0
    with text.path.open(newline=None, encoding="utf-8-sig", errors="replace") as stream:
        reader = csv.reader(_held(stream, held), delimiter=text.delimiter)
        while len(found) < len(numbers):
            first = reader.line_num + 1
            try:
                fields = next(reader, None)
            except csv.Error:  # a field beyond what the csv module takes
                fields = [""]
            if fields is None:
                break
            record = "".join(held)
            held.clear()
            if fields and first > text.skip and first not in rejected:
                number += 1
                if number in numbers:
                    found[number] = (first, record.rstrip("\n"))
    return found


def _held(lines: Iterable[str], held: list[str]) -> Iterator[str]:
    """The same lines, kept in `held` until the record that they belong to is complete."""
    for line in lines:
        held.append(line)
        yield line
