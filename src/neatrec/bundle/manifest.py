"""`manifest.json`: the contents of a bundle, with the size and SHA-256 of each file."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from neatrec.errors import BundleError
from neatrec.text import printable

Kinds = Mapping[str, tuple[type, ...]]
FORMAT = 1
NAME = "manifest.json"


@dataclass(frozen=True)
class FileRecord:
    """The size and the hash of a file."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The content of `manifest.json`."""

    model: str
    kind: str
    parameters: Mapping[str, Any]
    data_hash: str
    """`Baskets.hash` of the training baskets."""
    seed: int | None
    items: int
    """Items of the catalog."""
    lines: int
    """Lines of the training baskets."""
    created: str
    """When it was written, UTC."""
    versions: Mapping[str, str]
    """Of neatrec, Python and the libraries of the fit."""
    files: Mapping[str, FileRecord]
    """Every other file, by its path inside the bundle."""
    learned: Mapping[str, Any] = field(default_factory=dict)
    """`Model.learned`, such as a tuned parameter."""
    keeps_users: bool = False
    """Whether the bundle holds vectors and ids of users."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Further facts: of the serving table, for one."""
    format: int = FORMAT

    @property
    def content_hash(self) -> str:
        """The version of the bundle: SHA-256 of all entries but `created`.

        Equal trainings have equal versions.
        """
        entries = asdict(self)
        del entries["created"]
        return hashlib.sha256(_canonical(entries)).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The entries of the file, with both hashes."""
        return {
            **asdict(self),
            "content_hash": self.content_hash,
            "manifest_hash": hashlib.sha256(_canonical(asdict(self))).hexdigest(),
        }

    def to_bytes(self) -> bytes:
        """The only valid bytes of this manifest."""
        return _canonical(self.to_dict())

    @classmethod
    def from_bytes(cls, content: bytes, file: Path) -> Manifest:
        """The manifest in `content`, or a `BundleError` that names the file."""
        try:
            entries = json.loads(content)
            version = entries.pop("format")
        except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
            raise damaged(file, "it is not a manifest") from error
        if version != FORMAT:
            raise BundleError(
                f"{printable(file)} has bundle format {printable(version)}, this version of "
                f"neatrec reads {FORMAT}",
                file=str(file),
                hint="Train it again, or use the version of neatrec that wrote it.",
            )
        try:
            manifest = _from_entries(entries, file)
            intact = content == manifest.to_bytes()
        except (ValueError, RecursionError) as error:  # numbers that are none, notes in notes
            raise damaged(file, "it is not a manifest") from error
        if not intact:
            raise damaged(file, "its content hash does not match")
        return manifest


TYPES: Kinds = {"str": (str,), "int": (int,), "int | None": (int, type(None)), "bool": (bool,)}
KINDS: Kinds = {entry.name: TYPES.get(str(entry.type), (dict,)) for entry in fields(Manifest)}
"""The types of each entry. No pydantic: a bare install reads bundles, too."""


def _from_entries(entries: dict[str, Any], file: Path) -> Manifest:
    for name in ("content_hash", "manifest_hash"):
        entries.pop(name, None)
    try:
        files = {str(name): FileRecord(**record) for name, record in entries.pop("files").items()}
        manifest = Manifest(files=files, **entries)
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(file, "an entry is missing, unknown or of the wrong type") from error
    check_entries(vars(manifest), KINDS, file)
    for name, record in files.items():
        if not _is_inside(name):
            raise damaged(file, "it names a file outside the bundle")
        check_entries(vars(record), {"size": (int,), "sha256": (str,)}, file)
    return manifest


def check_entries(entries: Any, kinds: Kinds, file: Path) -> None:
    """Refuse a missing entry of a JSON file, one of another type, or a negative integer."""
    if not isinstance(entries, dict):
        raise damaged(file, f"it must hold objects, got {printable(repr(entries), 60)}")
    for name, allowed in kinds.items():
        if name not in entries:
            raise damaged(file, f"it has no entry {name!r}")
        value = entries[name]
        if type(value) not in allowed or (type(value) is int and value < 0):
            words = " or ".join(kind.__name__ for kind in allowed)
            shown = printable(repr(value), 60)
            raise damaged(file, f"its entry {name!r} must be of type {words}, got {shown}")


def _is_inside(name: str) -> bool:
    return (
        name.isprintable()
        and "\\" not in name
        and all(part not in {"", ".", ".."} for part in name.split("/"))
    )


def _canonical(entries: Mapping[str, Any]) -> bytes:
    return (
        json.dumps(entries, indent=2, sort_keys=True, ensure_ascii=True, allow_nan=False) + "\n"
    ).encode("ascii")


def damaged(file: Path, why: str) -> BundleError:
    """The error for a damaged file."""
    return BundleError(
        f"{printable(file)} is damaged: {why}",
        file=str(file),
        hint="Restore the bundle from a backup, or train it again.",
    )


def unreadable(file: Path, error: OSError) -> BundleError:
    """The error for a file that the system does not let us read."""
    return BundleError(
        f"cannot read {printable(file)}: {printable(error.strerror)}", file=str(file)
    )


def read_manifest_file(folder: Path) -> tuple[Manifest, bytes]:
    """The manifest of a bundle's folder, and its bytes. The other files are not read."""
    file = folder / NAME
    try:
        content = file.read_bytes()
    except OSError as error:
        raise unreadable(file, error) from error
    return Manifest.from_bytes(content, file), content


def file_record(file: Path) -> FileRecord:
    """Size and hash of a file, read in one pass."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
        return FileRecord(stream.tell(), digest.hexdigest())


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Raise `BundleError` with the name of a file that differs from its hash."""
    for name, record in manifest.files.items():
        file = folder / name
        try:
            status = file.lstat()
            if not stat.S_ISREG(status.st_mode):  # a pipe would block
                raise damaged(file, "it is not a regular file")
            if status.st_size != record.size:
                sizes = f"it has {status.st_size:,} bytes, {record.size:,} were written"
                raise damaged(file, sizes)
            found = file_record(file)
        except OSError as error:
            raise unreadable(file, error) from error
        if found != record:
            raise damaged(file, "its SHA-256 does not match")
