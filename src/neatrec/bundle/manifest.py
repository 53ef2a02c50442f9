"""`manifest.json`: what a bundle is, and the sizes and hashes that prove its files whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from neatrec.errors import BundleError
from neatrec.text import printable

FORMAT = 1
NAME = "manifest.json"
LARGEST = 16 * 1024 * 1024
"""Bytes that a manifest may have: a file that is none should not be read whole."""


@dataclass(frozen=True)
class FileRecord:
    """One file of the bundle."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What stands in `manifest.json`."""

    model: str
    kind: str
    parameters: Mapping[str, Any]
    data_hash: str
    """`Baskets.hash` of what it learned from."""
    seed: int | None
    items: int
    """Items of the catalogue."""
    lines: int
    """Lines of the training baskets."""
    created: str
    """When it was written, UTC."""
    versions: Mapping[str, str]
    """Of neatrec, Python and the libraries that made the numbers."""
    files: Mapping[str, FileRecord]
    """Every other file, by its path inside the bundle."""
    learned: Mapping[str, Any] = field(default_factory=dict)
    """What the fit found out: a chosen strength, for example."""
    keeps_users: bool = False
    """Whether vectors and ids of users are inside."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Whatever the writer wants remembered."""
    format: int = FORMAT

    @property
    def content_hash(self) -> str:
        """SHA-256 of all the rest of the manifest, and through the files' hashes of the whole bundle: its version."""
        return hashlib.sha256(_canonical(asdict(self))).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "content_hash": self.content_hash}

    def to_bytes(self) -> bytes:
        """The file, byte for byte: whatever differs from this is not a manifest of ours."""
        return _canonical(self.to_dict())

    @classmethod
    def from_bytes(cls, content: bytes, file: Path) -> Manifest:
        """The manifest that `content` is, or a `BundleError` that names the file."""
        try:
            entries = json.loads(content)
            version = entries.pop("format")
        except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
            raise damaged(file, "it is not a manifest") from error
        if version != FORMAT:
            raise BundleError(
                f"{printable(file)} has bundle format {printable(version)}, this version of neatrec reads {FORMAT}",
                file=str(file),
                hint="Train it anew, or use the version of neatrec that wrote it.",
            )
        manifest = _from_entries(entries, file)
        if manifest.to_bytes() != content:
            raise damaged(file, "its content hash does not fit")
        return manifest


def _from_entries(entries: dict[str, Any], file: Path) -> Manifest:
    entries.pop("content_hash", None)
    try:
        files = {str(name): FileRecord(**record) for name, record in entries.pop("files").items()}
        manifest = Manifest(files=files, **entries)
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(file, "an entry is missing, unknown or not what it must be") from error
    if not all(_inside(name) for name in files):
        raise damaged(file, "it names a file outside the bundle")
    return manifest


def _inside(name: str) -> bool:
    return bool(name) and "\\" not in name and all(part not in {"", ".", ".."} for part in name.split("/"))


def _canonical(entries: Mapping[str, Any]) -> bytes:
    return (json.dumps(entries, indent=2, sort_keys=True, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")


def damaged(file: Path, why: str) -> BundleError:
    """The one sentence for a file that is not as it was written."""
    return BundleError(
        f"{printable(file)} is damaged: {why}", file=str(file), hint="Take the bundle from a backup, or train it anew."
    )


def read_manifest_file(folder: Path) -> tuple[Manifest, bytes]:
    """The manifest of a bundle's folder, and its bytes. The other files are not looked at."""
    file = folder / NAME
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except OSError as error:
        raise BundleError(f"cannot read {printable(file)}: {printable(error.strerror)}", file=str(file)) from error
    if len(content) > LARGEST:
        raise damaged(file, f"it is larger than {LARGEST:,} bytes")
    return Manifest.from_bytes(content, file), content


def record_of(file: Path) -> FileRecord:
    """Size and hash of a file, read in one pass."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
        return FileRecord(stream.tell(), digest.hexdigest())


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Raise `BundleError` with the file's name unless every file is byte for byte the one that was written."""
    for name, record in manifest.files.items():
        file = folder / name
        try:
            size = file.stat().st_size
            if size != record.size:
                raise damaged(file, f"it has {size:,} bytes, {record.size:,} were written")
            found = record_of(file)
        except OSError as error:
            raise BundleError(f"cannot read {printable(file)}: {printable(error.strerror)}", file=str(file)) from error
        if found != record:
            raise damaged(file, "its SHA-256 is not that of what was written")
