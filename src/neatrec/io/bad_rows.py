"""Rows that cannot be read: where they stand, how many are put up with, the file they are written to."""

from __future__ import annotations

import csv
import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from neatrec.errors import SourceError
from neatrec.io.csv_text import CsvText, not_utf8
from neatrec.io.options import bad_rows_allowed
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

NOT_UTF8 = "the line is not UTF-8"
OPEN_QUOTE = "a quote is opened and not closed, or text follows a closing quote"
MEND_OR_PASS = "Mend the data, or let such rows pass with --max-bad-rows 100 or 0.5%."
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
    """It may have swallowed the rows after it, so it is never put up with."""
    text: str = ""
    """The row as it stands in its file, where it is known."""

    def error(self, count: int, hint: str) -> SourceError:
        if self.reason == NOT_UTF8:
            return not_utf8(self.file, self.line)
        where = "" if self.line is None else f", {self.unit} {self.line:,}"
        column = "" if self.column is None else f", column {printable(repr(self.column))}"
        more = "" if count == 1 else f" (the first of {count:,} bad rows)"
        return SourceError(
            f"{printable(self.file)}{where}{column}: {self.reason}{more}",
            file=self.file,
            line=self.line,
            column=self.column,
            hint=hint,
        )


class BadRows:
    """Keeps count of bad rows against what `max_bad_rows` allows."""

    def __init__(self, limit: str | int, hint: str = MEND_OR_PASS) -> None:
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
            self.settle(0)

    def settle(self, read: int) -> None:
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
                hint="Say where they may go with --rejects FILE.",
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
    wanted, found = set(lines), set()
    with text.path.open(newline=None, encoding="utf-8-sig", errors="replace") as stream:
        for number, line in enumerate(stream, start=1):
            if number in wanted and _marks(line, text) % 2:
                found.add(number)
            if number >= max(wanted):
                break
    return found


def lines_of(text: CsvText, columns: Sequence[int], wanted: Sequence[tuple[str, ...]]) -> list[tuple[int | None, str]]:
    """The line and text of each record in `wanted`, known by its values in `columns`; None, "" where it is not found.

    Only asked when something is wrong: the fast reader does not number its records.
    """
    left = Counter(wanted)
    found: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    # most records need no closer look when few are wanted and no value is written with quotes around or in it
    plain = len(left) <= 8 and not any(set("".join(key)) & set('"\\\r\n') for key in left)
    for line, record in _records(text):
        if plain and not any(all(value in record for value in key) for key in left):
            continue
        fields = _fields(record, text)
        key = tuple(fields[column] for column in columns) if len(fields) == len(text.columns) else ()
        if left[key]:
            left[key] -= 1
            found.setdefault(key, []).append((line, record))
            if not left.total():
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


def _fields(record: str, text: CsvText) -> list[str]:
    escape = None if text.escape == '"' else text.escape
    try:
        rows = list(csv.reader([record.rstrip("\n")], delimiter=text.delimiter, escapechar=escape))
    except csv.Error:  # a field beyond what the csv module takes
        return []
    return rows[0] if rows else []
