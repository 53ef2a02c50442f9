"""CSV text prepared for the database: unpacked, in UTF-8, with delimiter and header."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import re
import shutil
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from neatrec.errors import bad_file, writing
from neatrec.io.database import TMPDIR
from neatrec.io.files import SourceFile, unreadable
from neatrec.io.options import SourceOptions
from neatrec.text import printable

log = logging.getLogger(__name__)
DELIMITERS = (",", ";", "\t", "|")
SAMPLE = 1 << 16
CHUNK = 1 << 22
MAX_COLUMNS = 2_000
BASKET_AND_ITEM = ("basket", "item")
TEMPORARY = "the unpacked lines into"
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# bytes that are no UTF-8, as `surrogateescape` decodes them; those without a letter in Windows-1252
NO_UTF8 = re.compile("[\udc80-\udcff]")
NO_WINDOWS = re.compile("[\udc81\udc8d\udc8f\udc90\udc9d]")


@dataclass(frozen=True)
class CsvText:
    """A CSV ready to be read: a UTF-8 file and how its records are written."""

    path: Path
    columns: tuple[str, ...]
    delimiter: str
    skip: int
    """Lines before the first record."""


def prepare_csv(
    file: SourceFile, folder: Path, options: SourceOptions, wanted: Collection[str]
) -> CsvText | None:
    """The CSV in `file`, rewritten into `folder` where it is packed or not UTF-8; None: empty.

    `wanted` are expected columns: they help to detect the delimiter.
    """
    path = _unpacked(file, folder) if file.kind == "gz" else file.path
    encoding = options.encoding or _encoding_of(file, path)
    if codecs.lookup(encoding).name not in ("utf-8", "utf-8-sig", "ascii"):
        path = _in_utf8(file, path, folder, encoding)
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
            sample = stream.read(SAMPLE)
    except OSError as error:
        raise unreadable(file.path, error) from error
    if not sample.strip():
        return None
    if "\0" in sample.lstrip("\r\n").partition("\n")[0]:
        trouble = "holds NUL bytes: it is not CSV, or in an unusual encoding"
        raise bad_file(file.shown, trouble, line=1, hint="Export it again as UTF-8.")
    delimiter = options.delimiter or max(DELIMITERS, key=partial(_merit, sample, wanted))
    if options.basket_per_line:
        is_parted = options.delimiter or any(each in sample for each in DELIMITERS)
        return _row_per_item(file, path, folder, delimiter if is_parted else " ")
    return CsvText(path, *_header(file, sample, delimiter))


def _row_per_item(file: SourceFile, path: Path, folder: Path, delimiter: str) -> CsvText:
    """A file with one basket per line as one with a row per item; its line is a basket's id."""
    target = folder / f"lines-{uuid4().hex}.csv"
    with (
        path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as source,
        target.open("w", newline="", encoding="utf-8", errors="surrogateescape") as out,
    ):
        rows, written = csv.reader(source, delimiter=delimiter), csv.writer(out)
        written.writerow(BASKET_AND_ITEM)
        try:
            for row in rows:
                basket = f"{file.path.name}:{rows.line_num}"
                written.writerows((basket, item.strip()) for item in row if item.strip())
        except csv.Error as error:
            raise bad_file(file.shown, printable(error), line=rows.line_num) from error
    return CsvText(target, BASKET_AND_ITEM, ",", 1)


def _unpacked(file: SourceFile, folder: Path) -> Path:
    """The content of a gzip file; a truncated or damaged one is refused."""
    target = folder / f"plain-{uuid4().hex}.csv"
    with (
        writing(TEMPORARY, folder, TMPDIR),
        gzip.open(file.path) as source,
        target.open("wb") as out,
    ):
        try:
            shutil.copyfileobj(source, out, CHUNK)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            trouble = f"is a damaged or cut-off gzip file: {printable(error)}"
            hint = "Copy or export it again; `gzip -t` tells whether a file is complete."
            raise bad_file(file.shown, trouble, hint=hint) from error
    return target


def _decoded(path: Path, encoding: str) -> Iterator[str]:
    with path.open("rb") as stream:
        yield from codecs.iterdecode(iter(partial(stream.read, CHUNK), b""), encoding)


def _encoding_of(file: SourceFile, path: Path) -> str:
    """UTF-16 by its mark, UTF-8, or Western European; refused where some lines are in UTF-8."""
    try:
        with path.open("rb") as stream:
            if stream.read(2) in UTF16_MARKS:
                return "utf-16"
        for _ in _decoded(path, "utf-8"):
            pass
        return "utf-8"
    except OSError as error:
        raise unreadable(file.path, error) from error
    except UnicodeDecodeError:
        return _western(file, path)


def _western(file: SourceFile, path: Path) -> str:
    """Windows-1252, or Latin-1 where it has bytes that the first lacks."""
    first, encoding, has_utf8 = 0, "Windows-1252", False
    with path.open(encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, start=1):
            if NO_UTF8.search(line):
                first = first or number
                encoding = "Latin-1" if NO_WINDOWS.search(line) else encoding
            has_utf8 = has_utf8 or not NO_UTF8.sub("", line).isascii()
    if has_utf8:
        hint = "Correct it, or set --encoding windows-1252."
        raise bad_file(file.shown, "is not UTF-8, and other lines are", line=first, hint=hint)
    log.info("%s is not UTF-8 (line %d): it is read as %s", printable(file.shown), first, encoding)
    return encoding


def _in_utf8(file: SourceFile, path: Path, folder: Path, encoding: str) -> Path:
    target = folder / f"plain-{uuid4().hex}.csv"
    line = 1
    try:
        with writing(TEMPORARY, folder, TMPDIR), target.open("wb") as out:
            for text in _decoded(path, encoding):
                line += text.count("\n")
                out.write(text.encode("utf-8"))
    except UnicodeError as error:
        trouble = f"is not {encoding} from about here on: {printable(error)}"
        hint = "Name the encoding it was written in."
        raise bad_file(file.shown, trouble, line=line, hint=hint) from error
    return target


def _records(sample: str, delimiter: str, limit: int) -> list[tuple[list[str], int]]:
    """The first records and the line each ends in; the last may be cut off."""
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
    records: list[tuple[list[str], int]] = []
    try:
        for record in reader:
            if record:
                records.append((record, reader.line_num))
            if len(records) > limit:
                break
    except csv.Error:
        return records  # DuckDB says what is wrong, and where
    return records


def _merit(sample: str, wanted: Collection[str], delimiter: str) -> tuple[int, bool, int]:
    """How well a delimiter explains the sample: columns that are wanted, records that are alike."""
    records = [record for record, _ in _records(sample, delimiter, 30)]
    names = {name.strip() for name in records[0]} if records else set()
    alike = all(len(record) == len(records[0]) for record in records[1:-1])
    return len(names & set(wanted)), alike and len(names) > 1, len(names)


def _header(file: SourceFile, sample: str, delimiter: str) -> tuple[tuple[str, ...], str, int]:
    """Column names, delimiter and the number of lines before the first record."""
    records = _records(sample, delimiter, 1)
    if not records:
        raise bad_file(file.shown, "is not a readable header", line=1)
    header, line = records[0]
    if len(header) > MAX_COLUMNS:
        hint = "One row is one line of a basket: export basket, item and what describes them."
        raise bad_file(file.shown, f"has more than {MAX_COLUMNS:,} columns", line=1, hint=hint)
    if any("\n" in name or "\r" in name for name in header):
        trouble = "has a header of more than one line: a quote is opened and not closed"
        hint = "The first line must hold the column names."
        raise bad_file(file.shown, trouble, line=1, hint=hint)
    return tuple(name.strip() for name in header), delimiter, line
