"""Writes a store of bundle versions.

A version is written to `versions/.writing`, verified and renamed; then `current` is replaced
atomically: a reader always finds the complete old or new one. A later rollback skips a version that
was rolled back.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neatrec.atomic import remove, sync_file, sync_folder
from neatrec.bundle.folder import system_errors
from neatrec.bundle.manifest import NAME, read_manifest_file, verify_files
from neatrec.bundle.versions import CURRENT, ROLLED_BACK, VERSIONS, StoredVersion, versions_of
from neatrec.errors import BundleError, must_be
from neatrec.text import printable

__all__ = ["BundleStore"]

log = logging.getLogger(__name__)

MAX_VERSIONS = 7
"""Versions that are kept."""
LOCK, GATE = ".lock", "gate.toml"
HASH_DIGITS = 12
"""Digits of the content hash in a version's name."""


class BundleStore:
    """The folder of a store; the first publish creates it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise must_be("store", "a folder", str(folder))
        if (self.folder / NAME).exists():
            raise must_be(
                "store", "the folder of a store, which holds bundles; this is one", str(folder)
            )

    @property
    def gate_file(self) -> Path:
        """The file of the limits."""
        return self.folder / GATE

    def versions(self) -> list[StoredVersion]:
        """All versions, the oldest first."""
        return versions_of(self.folder)

    def current(self) -> StoredVersion | None:
        """The live version; None before the first publish."""
        try:
            target = os.readlink(self.folder / CURRENT)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BundleError(
                f"{printable(self.folder / CURRENT)} is not a link of a store"
            ) from error
        for version in self.versions():
            if version.folder.name == Path(target).name:
                return version
        raise BundleError(
            f"{printable(self.folder)} links to a missing live version: {printable(target)}",
            hint="`neatrec publish --rollback STORE --to N` makes another one live.",
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the store for one writer; system errors inside the block become neatrec's."""
        with system_errors("the store ", self.folder, "The live one is untouched."):
            (self.folder / VERSIONS).mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(self._writing)
                yield
            except BlockingIOError as error:
                message = f"{printable(self.folder)} is being written by another run"
                raise BundleError(message, hint="Wait for it, or stop it.") from error
            finally:
                os.close(handle)

    def add(self, bundle: Path) -> StoredVersion:
        """Copy a bundle as the next version and verify the copy; it is not live yet."""
        manifest, content = read_manifest_file(bundle)
        try:
            for name in manifest.files:
                target = self._writing / name
                target.parent.mkdir(parents=True, exist_ok=True)
                # no links: a damaged file must not damage all versions
                shutil.copyfile(bundle / name, target)
                sync_file(target)
            (self._writing / NAME).write_bytes(content)
            sync_file(self._writing / NAME)
            verify_files(self._writing, manifest)
            number = max((version.number for version in self.versions()), default=0) + 1
            version = StoredVersion(
                number, self._writing.with_name(f"{number}-{manifest.content_hash[:HASH_DIGITS]}")
            )
            for folder in {(self._writing / name).parent for name in (*manifest.files, NAME)}:
                sync_folder(folder)
            os.rename(self._writing, version.folder)
            sync_folder(version.folder.parent)
        finally:
            shutil.rmtree(self._writing, ignore_errors=True)
        return version

    def make_live(self, version: StoredVersion) -> None:
        """Let `current` name a version, in one step."""
        beside = self.folder / f".{CURRENT}.new"
        beside.unlink(missing_ok=True)
        os.symlink(f"{VERSIONS}/{version.folder.name}", beside)
        os.replace(beside, self.folder / CURRENT)
        sync_folder(self.folder)

    def prune(self, keep: int = MAX_VERSIONS) -> list[StoredVersion]:
        """Remove all but the last `keep` versions and the live one, and what killed runs left."""
        live = self.current()
        old = [version for version in self.versions()[:-keep] if version != live]
        for version in old:
            # renamed first: a crash in between leaves no incomplete version
            os.rename(version.folder, version.folder.with_name(f".gone-{version.folder.name}"))
        kept = {version.mark for version in self.versions()}
        marks = (self.folder / VERSIONS).glob(f"*{ROLLED_BACK}")
        for leftover in {*(self.folder / VERSIONS).glob(".gone-*"), *marks} - kept:
            remove(leftover)
        return old

    @property
    def _writing(self) -> Path:
        return self.folder / VERSIONS / ".writing"


def versions_in(store: Path) -> list[dict[str, Any]]:
    """The versions of a store, the newest first, as JSON values; None where one is damaged."""
    stored = BundleStore(store)
    live = stored.current()
    return [_version_facts(version, version == live) for version in reversed(stored.versions())]


def _version_facts(version: StoredVersion, live: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"version": None, "model": None, "created": None}
    try:
        manifest, _ = read_manifest_file(version.folder)
        found = {
            "version": manifest.content_hash,
            "model": manifest.model,
            "created": manifest.created,
        }
    except BundleError as error:
        log.warning("version %d is damaged: %s", version.number, printable(error, 500))
    return {"number": version.number, **found, "live": live, "rolled_back": version.mark.exists()}
