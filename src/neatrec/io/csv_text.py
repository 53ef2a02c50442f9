"""CSV text made plain for the reader: unpacked, in UTF-8, with its delimiter and its header known."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import shutil
import zlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from neatrec.errors import ResourceError, SourceError, bad_file
from neatrec.io.files import SourceFile, unreadable
from neatrec.text import printable

DELIMITERS = (",", ";", "\t", "|")
SAMPLE = 1 << 16
CHUNK = 1 << 22
MOST_COLUMNS = 2_000
BASKET_AND_ITEM = ("basket", "item")
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class CsvText:
    """A CSV ready to be read: a UTF-8 file and how its records are written."""

    path: Path
    columns: tuple[str, ...]
    delimiter: str
    skip: int
    """Lines before the first record."""
    escape: str = '"'


def prepare_csv(
    file: SourceFile, folder: Path, *, delimiter: str | None, encoding: str | None, wanted: Collection[str]
) -> CsvText | None:
    """The CSV in `file`, rewritten into `folder` where it is packed or not UTF-8; None when there is nothing in it.

    `wanted` are columns the caller knows of: they help to tell the delimiter.
    """
    sample = _sample(file)
    written_in = encoding or _encoding(sample)
    plain = codecs.lookup(written_in).name in ("utf-8", "utf-8-sig", "ascii")
    text = _sample_text(file, sample, "utf-8-sig" if plain else written_in)
    if not text.strip():
        return None
    path = file.path
    if file.kind == "gz" or not plain:
        path = _rewritten(file, folder, None if plain else written_in)
    chosen, columns, skip = _header(file, text, delimiter, wanted)
    return CsvText(path, columns, chosen, skip)


def basket_lines(
    file: SourceFile, folder: Path, *, delimiter: str | None, encoding: str | None, basket: str = ""
) -> CsvText | None:
    """A file with one basket per line, rewritten into one row per item; None when there is nothing in it.

    Baskets are called by their lines, with `basket` in front.
    """
    text = prepare_csv(file, folder, delimiter=delimiter or _list_delimiter(file), encoding=encoding, wanted=())
    if text is None:
        return None
    target = folder / f"lines-{uuid4().hex}.csv"
    with (
        text.path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as source,
        target.open("w", newline="", encoding="utf-8", errors="surrogateescape") as out,
    ):
        rows, written = csv.reader(source, delimiter=text.delimiter), csv.writer(out)
        written.writerow(BASKET_AND_ITEM)
        try:
            for row in rows:
                written.writerows((f"{basket}{rows.line_num}", item.strip()) for item in row if item.strip())
        except csv.Error as error:
            raise bad_file(file.shown, printable(error), line=rows.line_num) from error
    return CsvText(target, BASKET_AND_ITEM, ",", 1)


def _list_delimiter(file: SourceFile) -> str | None:
    """A blank where the first lines hold no other delimiter."""
    sample = _sample(file)
    return None if any(each.encode() in sample for each in DELIMITERS) else " "


def fields_vary(text: CsvText) -> bool:
    """Whether the first lines have several numbers of fields, as lists of items do."""
    with text.path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        records = _records(stream.read(SAMPLE), text.delimiter, 30)[:-1]
    return len({len(record) for record, _ in records}) > 2


def with_plain_line_ends(text: CsvText, folder: Path) -> CsvText:
    """The same CSV with every line ended alike: some files mix them."""
    target = folder / f"lines-{uuid4().hex}.csv"
    with (
        text.path.open(newline=None, encoding="utf-8", errors="surrogateescape") as source,
        target.open("w", newline="\n", encoding="utf-8", errors="surrogateescape") as out,
    ):
        shutil.copyfileobj(source, out, CHUNK)
    return replace(text, path=target)


def _bytes(file: SourceFile) -> BinaryIO:
    try:
        return gzip.open(file.path, "rb") if file.kind == "gz" else file.path.open("rb")  # type: ignore[return-value]
    except OSError as error:
        raise unreadable(file.path, error) from error


def _read(file: SourceFile, stream: BinaryIO, size: int) -> bytes:
    """Up to `size` bytes; a packed file that is cut off or damaged is refused."""
    parts: list[bytes] = []
    try:
        while size > 0 and (part := stream.read(size)):
            parts.append(part)
            size -= len(part)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        hint = "Copy or export it again; `gzip -t` tells whether a file is whole."
        raise bad_file(file.shown, f"is a damaged or cut-off gzip file: {printable(error)}", hint=hint) from error
    except OSError as error:
        raise unreadable(file.path, error) from error
    return b"".join(parts)


def _sample(file: SourceFile) -> bytes:
    with _bytes(file) as stream:
        return _read(file, stream, SAMPLE)


def _encoding(sample: bytes) -> str:
    """What a byte order mark says; two-byte text without one shows by its zeros; else UTF-8."""
    for mark, name in MARKS.items():
        if sample.startswith(mark):
            return name
    head = sample[:1000]
    for zeros, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(head) >= 4 and head[zeros::2].count(0) > 0.2 * len(head) and not head[1 - zeros :: 2].count(0):
            return name
    return "utf-8"


def _sample_text(file: SourceFile, sample: bytes, encoding: str) -> str:
    """The sample decoded; its first line must be clean, the reader looks at the others."""
    try:
        text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(sample)
    except UnicodeError as error:
        raise _not_as_said(file, encoding, 1, error) from error
    header = text.lstrip("\r\n").splitlines()[:1]
    if header and "\N{REPLACEMENT CHARACTER}" in header[0]:
        raise not_utf8(file.shown, 1)
    if header and "\0" in header[0]:
        trouble = "holds NUL bytes: it is no CSV, or in an unusual encoding"
        raise bad_file(file.shown, trouble, line=1, hint="Export it again as UTF-8.")
    return text


def not_utf8(file: str, line: int | None) -> SourceError:
    """The error for bytes that are not UTF-8, with the way out."""
    where = "" if line is None else f" in line {line:,}"
    return SourceError(
        f"{printable(file)} is not UTF-8{where}",
        file=file,
        line=line,
        hint="Convert it with `iconv -f WINDOWS-1252 -t UTF-8`, or say --encoding latin-1.",
    )


def _not_as_said(file: SourceFile, encoding: str | None, line: int, error: UnicodeError) -> SourceError:
    trouble = f"is not {encoding} from about here on: {printable(error)}"
    return bad_file(file.shown, trouble, line=line, hint="Say the encoding it was written in.")


def _rewritten(file: SourceFile, folder: Path, encoding: str | None) -> Path:
    """A copy of `file`, unpacked, in UTF-8."""
    target = folder / f"plain-{uuid4().hex}.csv"
    decoder = codecs.getincrementaldecoder(encoding)("strict") if encoding else None
    line = 1
    try:
        with _bytes(file) as source, target.open("wb") as out:
            while block := _read(file, source, CHUNK):
                if decoder:
                    text = decoder.decode(block)
                    line += text.count("\n")
                    block = text.encode("utf-8")
                out.write(block)
            if decoder:
                decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise _not_as_said(file, encoding, line, error) from error
    except OSError as error:
        raise ResourceError(
            f"cannot unpack {printable(file.shown)} into {printable(folder)}: {error.strerror or error}",
            file=file.shown,
            hint="TMPDIR says where temporary files go.",
        ) from error
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
        return records  # the reader proper says what is wrong, and where
    return records


def _header(
    file: SourceFile, text: str, delimiter: str | None, wanted: Collection[str]
) -> tuple[str, tuple[str, ...], int]:
    """Delimiter, column names and the number of lines before the first record."""

    def merit(candidate: str) -> tuple[int, bool, int]:
        records = [record for record, _ in _records(text, candidate, 30)]
        names = {name.strip() for name in records[0]} if records else set()
        alike = all(len(record) == len(records[0]) for record in records[1:-1])
        return len(names & set(wanted)), alike and len(names) > 1, len(names)

    chosen = delimiter or max(DELIMITERS, key=merit)
    records = _records(text, chosen, 1)
    if not records:
        raise bad_file(file.shown, "is no header that can be read", line=1)
    header, line = records[0]
    if len(header) > MOST_COLUMNS:
        hint = "One row is one line of a basket: export basket, item and what describes them."
        raise bad_file(file.shown, f"has more than {MOST_COLUMNS:,} columns", line=1, hint=hint)
    if any("\n" in name or "\r" in name for name in header):
        trouble = "has a header of more than one line: a quote is opened and not closed"
        raise bad_file(file.shown, trouble, line=1, hint="The first line must hold the column names.")
    return chosen, tuple(name.strip() for name in header), line
