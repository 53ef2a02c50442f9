"""CSV text prepared for the database: unpacked, in UTF-8, with delimiter and header."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from neatrec.errors import bad_file, writing
from neatrec.io.files import SourceFile, unreadable
from neatrec.text import printable

log = logging.getLogger(__name__)
DELIMITERS = (",", ";", "\t", "|")
SAMPLE = 1 << 16
CHUNK = 1 << 22
MOST_COLUMNS = 2_000
BASKET_AND_ITEM = ("basket", "item")
TEMPORARY = "the unpacked lines into"
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
UTF8 = ("utf-8", "utf-8-sig", "ascii")
# bytes that are no UTF-8, as `surrogateescape` decodes them; those without a letter in Windows-1252
NO_UTF8 = re.compile("[\udc80-\udcff]")
NO_WINDOWS = re.compile("[\udc81\udc8d\udc8f\udc90\udc9d]")
LETTERS_IN_UTF8 = re.compile("[\u0080-\ud7ff\ue000-\U0010ffff]")


@dataclass(frozen=True)
class CsvText:
    """A CSV ready to be read: a UTF-8 file and how its records are written."""

    path: Path
    columns: tuple[str, ...]
    delimiter: str
    skip: int
    """Lines before the first record."""


def prepare_csv(
    file: SourceFile,
    folder: Path,
    *,
    delimiter: str | None,
    encoding: str | None,
    wanted: Collection[str],
) -> CsvText | None:
    """The CSV in `file`, rewritten into `folder` where it is packed or not UTF-8; None: empty.

    `wanted` are columns the caller knows of: they help to tell the delimiter.
    """
    path = _unpacked(file, folder) if file.kind == "gz" else file.path
    written_in = encoding or _encoding_of(file, path)
    if codecs.lookup(written_in).name not in UTF8:
        path = _in_utf8(file, path, folder, written_in)
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
            text = stream.read(SAMPLE)
    except OSError as error:
        raise unreadable(file.path, error) from error
    if not text.strip():
        return None
    if "\0" in text.lstrip("\r\n").partition("\n")[0]:
        trouble = "holds NUL bytes: it is not CSV, or in an unusual encoding"
        raise bad_file(file.shown, trouble, line=1, hint="Export it again as UTF-8.")
    return CsvText(path, *_header(file, text, delimiter, wanted))


def basket_lines(
    file: SourceFile, folder: Path, *, delimiter: str | None, encoding: str | None, prefix: str
) -> CsvText | None:
    """A file with one basket per line, rewritten into one row per item; None: empty.

    A basket's id is the number of its line, with `prefix` in front.
    """
    text = prepare_csv(file, folder, delimiter=delimiter, encoding=encoding, wanted=())
    if text is None:
        return None
    with text.path.open(encoding="utf-8-sig", errors="replace") as stream:
        sample = stream.read(SAMPLE)
    is_parted = any(each in sample for each in DELIMITERS)
    delimiter = delimiter or (text.delimiter if is_parted else " ")
    target = folder / f"lines-{uuid4().hex}.csv"
    with (
        text.path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as source,
        target.open("w", newline="", encoding="utf-8", errors="surrogateescape") as out,
    ):
        rows, written = csv.reader(source, delimiter=delimiter), csv.writer(out)
        written.writerow(BASKET_AND_ITEM)
        try:
            for row in rows:
                items = [item.strip() for item in row if item.strip()]
                written.writerows((f"{prefix}{rows.line_num}", item) for item in items)
        except csv.Error as error:
            raise bad_file(file.shown, printable(error), line=rows.line_num) from error
    return CsvText(target, BASKET_AND_ITEM, ",", 1)


def fields_vary(text: CsvText) -> bool:
    """Whether the first lines have several numbers of fields, as lists of items do."""
    with text.path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        records = _records(stream.read(SAMPLE), text.delimiter, 30)[:-1]
    return len({len(record) for record, _ in records}) > 2


def _unpacked(file: SourceFile, folder: Path) -> Path:
    """The content of a gzip file; one that is cut off or damaged is refused."""
    target = folder / f"plain-{uuid4().hex}.csv"
    try:
        with (
            gzip.open(file.path, "rb") as source,
            writing(TEMPORARY, folder),
            target.open("wb") as out,
        ):
            for block in _blocks(source, file):
                out.write(block)
    except OSError as error:
        raise unreadable(file.path, error) from error
    return target


def _blocks(source: gzip.GzipFile, file: SourceFile) -> Iterator[bytes]:
    try:
        yield from iter(partial(source.read, CHUNK), b"")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        trouble = f"is a damaged or cut-off gzip file: {printable(error)}"
        hint = "Copy or export it again; `gzip -t` tells whether a file is complete."
        raise bad_file(file.shown, trouble, hint=hint) from error


def _decoded(path: Path, encoding: str, errors: str = "strict") -> Iterator[str]:
    with path.open("rb") as stream:
        yield from codecs.iterdecode(iter(partial(stream.read, CHUNK), b""), encoding, errors)


def _encoding_of(file: SourceFile, path: Path) -> str:
    """By the byte order mark, or UTF-8; text in neither is Western European."""
    try:
        with path.open("rb") as stream:
            head = stream.read(4)
        for mark, name in MARKS.items():
            if head.startswith(mark):
                return name
        for _ in _decoded(path, "utf-8"):
            pass
    except UnicodeDecodeError:
        return _western(file, path)
    except OSError as error:
        raise unreadable(file.path, error) from error
    return "utf-8"


def _western(file: SourceFile, path: Path) -> str:
    """Windows-1252 or Latin-1; refused where other letters of the file are in UTF-8."""
    line, passed, encoding, is_mixed = 0, 1, "Windows-1252", False
    for text in _decoded(path, "utf-8", "surrogateescape"):
        if not line and (first := NO_UTF8.search(text)):
            line = passed + text.count("\n", 0, first.start())
        passed += text.count("\n")
        is_mixed = is_mixed or LETTERS_IN_UTF8.search(text) is not None
        encoding = "Latin-1" if NO_WINDOWS.search(text) else encoding
    if is_mixed:
        raise bad_file(
            file.shown,
            "is not UTF-8, and other lines are",
            line=line,
            hint="Correct it, or set --encoding windows-1252.",
        )
    log.info("%s is not UTF-8 (line %d): it is read as %s", printable(file.shown), line, encoding)
    return encoding


def _in_utf8(file: SourceFile, path: Path, folder: Path, encoding: str) -> Path:
    """A copy of the text in UTF-8."""
    target = folder / f"plain-{uuid4().hex}.csv"
    line = 1
    try:
        with writing(TEMPORARY, folder), target.open("wb") as out:
            for text in _decoded(path, encoding):
                line += text.count("\n")
                out.write(text.encode("utf-8"))
    except UnicodeError as error:
        trouble = f"is not {encoding} from about here on: {printable(error)}"
        hint = "Name the encoding it was written in."
        raise bad_file(file.shown, trouble, line=line, hint=hint) from error
    return target


def _records(text: str, delimiter: str, limit: int) -> list[tuple[list[str], int]]:
    """The first records and the line each ends in; the last may be cut off."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
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


def _header(
    file: SourceFile, text: str, delimiter: str | None, wanted: Collection[str]
) -> tuple[tuple[str, ...], str, int]:
    """Column names, delimiter and the number of lines before the first record."""

    def merit(candidate: str) -> tuple[int, bool, int]:
        records = [record for record, _ in _records(text, candidate, 30)]
        names = {name.strip() for name in records[0]} if records else set()
        alike = all(len(record) == len(records[0]) for record in records[1:-1])
        return len(names & set(wanted)), alike and len(names) > 1, len(names)

    delimiter = delimiter or max(DELIMITERS, key=merit)
    records = _records(text, delimiter, 1)
    if not records:
        raise bad_file(file.shown, "is not a readable header", line=1)
    header, line = records[0]
    if len(header) > MOST_COLUMNS:
        hint = "One row is one line of a basket: export basket, item and what describes them."
        raise bad_file(file.shown, f"has more than {MOST_COLUMNS:,} columns", line=1, hint=hint)
    if any("\n" in name or "\r" in name for name in header):
        trouble = "has a header of more than one line: a quote is opened and not closed"
        hint = "The first line must hold the column names."
        raise bad_file(file.shown, trouble, line=1, hint=hint)
    return tuple(name.strip() for name in header), delimiter, line
