"""The files of a SOURCE, each with its kind by its first bytes."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from neatrec.errors import SourceError, bad_file
from neatrec.text import printable

ENDINGS = (
    *(".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq"),
    *(".arrow", ".arrows", ".feather", ".ipc", ".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz"),
)
"""Files that are read of a folder; a .json there is more often a description than a table."""
JSON_ENDINGS = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".json", ".json.gz")
HEAD = 64
"""First bytes of a file, which tell its kind."""
KINDS = {
    b"\x1f\x8b": "gz",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",  # a stream
}
CALLED = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow"}
JSON = re.compile(rb"(\xef\xbb\xbf)?\s*(\{|\[\s*\{)")
# what other tools' files begin with, and how to get a CSV out of them
OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive or Excel workbook: save it as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook: save it as CSV",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: unpack it with `zstd -d`",
    b"BZh": "compressed with bzip2: unpack it with `bunzip2`",
    b"\xfd7zXZ": "compressed with xz: unpack it with `unxz`",
    b"FEA1": "an old Feather file: write it as Parquet",
    b"%PDF": "a PDF",
    b"SQLite format 3": "an SQLite database: export the order lines as CSV or Parquet",
}


@dataclass(frozen=True)
class SourceFile:
    """A file of the source and its kind."""

    path: Path
    kind: str
    """"csv", "gz" (a gzipped CSV), "parquet", "arrow", "json" (packed or not) or "empty"."""

    @property
    def shown(self) -> str:
        """The path, for messages."""
        return str(self.path)


def find_files(source: str) -> list[SourceFile]:
    """The files of a path, folder or glob, sorted by name."""
    path = Path(source)
    try:
        if path.is_dir():
            return [open_file(file) for file in _in_folder(path)]
        if path.exists():
            return [open_file(path)]
        if glob.has_magic(source):
            return [open_file(file) for file in _matches(source)]
    except OSError as error:
        raise unreadable(source, error) from error
    except ValueError as error:  # a NUL character in the path
        raise bad_file(source, f"is not a path: {error}") from error
    raise SourceError(
        f"there is no file or folder {printable(source)}", file=source, hint=_near(path)
    )


def _in_folder(folder: Path) -> list[Path]:
    named = sorted(file for file in folder.rglob("*") if file.name.lower().endswith(ENDINGS))
    # Spark and Hadoop leave markers that begin with an underscore or a dot
    files = [
        file
        for file in named
        if file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]
    if not files:
        trouble = "holds no CSV, Parquet, JSON lines or Arrow file"
        raise bad_file(folder, trouble, hint="Give a file or a glob such as 'orders/*.csv'.")
    return files


def _matches(pattern: str) -> list[Path]:
    matches = map(Path, glob.glob(pattern, recursive=True))
    files = sorted(match for match in matches if match.is_file())
    if not files:
        hint = "Quote the pattern, check the folder."
        raise SourceError(f"no file matches {printable(pattern)}", file=pattern, hint=hint)
    return files


def _near(path: Path) -> str:
    if path.parent.is_dir():
        # stems, because the same ending makes no likeness
        stems = {other.stem: other for other in path.parent.iterdir()}
        if names := get_close_matches(path.stem, stems, n=1):
            return f"Did you mean {printable(stems[names[0]])}?"
    return "Check the path."


def open_file(path: Path) -> SourceFile:
    """`path` with its kind, by its first bytes; a kind that cannot be read is refused."""
    shown = str(path)
    try:
        if not path.is_file():
            raise bad_file(path, "is not a regular file", hint="Save it as a file first.")
        with path.open("rb") as stream:
            head = stream.read(HEAD)
    except OSError as error:
        raise unreadable(path, error) from error
    for magic, what in OTHER_FORMATS.items():
        if head.startswith(magic):
            raise bad_file(shown, f"is {what}")
    kind = _kind(head, shown.lower())
    for ending, is_one in CALLED.items():
        if shown.lower().endswith(ending) and kind not in (is_one, "empty"):
            trouble = f"is called {ending} but does not begin like one"
            raise bad_file(shown, trouble, hint="If it is a CSV, let its name end in .csv.")
    return SourceFile(path, kind)


def _kind(head: bytes, name: str) -> str:
    if len(head) < HEAD and not head.strip():
        return "empty"
    kinds = [kind for magic, kind in KINDS.items() if head.startswith(magic)]
    may_be_json = kinds in ([], ["gz"]) and name.endswith(JSON_ENDINGS)
    if may_be_json or JSON.match(head):
        return "json"
    return kinds[0] if kinds else "csv"


def text_of(path: Path, hint: str | None = None) -> str:
    """The text of a small file in UTF-8, with or without a byte order mark."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise unreadable(path, error, hint) from error
    except UnicodeDecodeError as error:
        raise bad_file(path, "is not UTF-8", hint=hint) from error
    except ValueError as error:  # a NUL character in the path
        raise bad_file(path, f"is not a path: {error}") from error


def unreadable(path: object, error: OSError, hint: str | None = None) -> SourceError:
    """The error for a file the system does not hand out."""
    message = f"cannot read {printable(path)}: {error.strerror or error}"
    return SourceError(message, file=str(path), hint=hint)
