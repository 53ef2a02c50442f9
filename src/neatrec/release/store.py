"""A store of bundles: `versions/N-HASH/`, of which the link `current` names the live one.

A version is written beside (`versions/.writing`), checked, renamed, and then `current` is replaced in one step: at
every moment a reader finds the old one or the new one, whole. A version that was rolled back has a file `N-HASH.back`
beside it, so that a later rollback does not return to it.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neatrec.bundle.folder import remove, sync_file, sync_folder
from neatrec.bundle.manifest import NAME, read_manifest_file, verify_files
from neatrec.errors import BundleError, NeatrecError, ParameterError, ResourceError, must_be
from neatrec.text import printable

log = logging.getLogger(__name__)

KEPT = 7
"""Versions that stay."""
CURRENT, VERSIONS, LOCK, GATE = "current", "versions", ".lock", "gate.toml"
WITHDRAWN = ".back"
DIGITS = 12
"""Digits of the content hash in a version's name."""


@dataclass(frozen=True, order=True)
class StoredVersion:
    """One bundle of a store."""

    number: int
    folder: Path

    @property
    def mark(self) -> Path:
        """The file that says that it was rolled back."""
        return self.folder.with_name(self.folder.name + WITHDRAWN)


class BundleStore:
    """The folder of a store; made at the first publish."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise must_be("store", "a folder", str(folder))
        if (self.folder / NAME).exists():
            raise must_be("store", "the folder of a store, which holds bundles; this is one", str(folder))

    @property
    def gate_file(self) -> Path:
        return self.folder / GATE

    def versions(self) -> list[StoredVersion]:
        """All that are whole, the oldest first."""
        place = self.folder / VERSIONS
        names = [entry for entry in place.iterdir() if entry.is_dir()] if place.is_dir() else []
        parted = [(entry.name.partition("-"), entry) for entry in names]
        return sorted(
            StoredVersion(int(number), entry) for (number, dash, _), entry in parted if dash and number.isdigit()
        )

    def current(self) -> StoredVersion | None:
        """The live version; None before the first publish."""
        try:
            target = os.readlink(self.folder / CURRENT)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BundleError(f"{printable(self.folder / CURRENT)} is not a link of a store") from error
        for version in self.versions():
            if version.folder.name == Path(target).name:
                return version
        raise BundleError(
            f"{printable(self.folder)} names a live version that is not there: {printable(target)}",
            hint="`neatrec rollback STORE --to N` makes another one live.",
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time; whatever the system refuses meanwhile is said in a sentence."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / VERSIONS).mkdir(exist_ok=True)
            handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._refusal(error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(self._writing)
            yield
        except BlockingIOError as error:
            raise BundleError(
                f"{printable(self.folder)} is being written by another run", hint="Wait for it, or stop it."
            ) from error
        except NeatrecError:
            raise
        except OSError as error:
            raise self._refusal(error) from error
        finally:
            os.close(handle)

    def add(self, bundle: Path) -> StoredVersion:
        """A whole, verified copy of a bundle as the next version; not live yet."""
        manifest, content = read_manifest_file(bundle)
        try:
            for name in manifest.files:
                target = self._writing / name
                target.parent.mkdir(parents=True, exist_ok=True)
                # a copy of its own: a byte that flips in one place must not flip in all
                shutil.copyfile(bundle / name, target)
                sync_file(target)
            (self._writing / NAME).write_bytes(content)
            sync_file(self._writing / NAME)
            verify_files(self._writing, manifest)
            number = max((version.number for version in self.versions()), default=0) + 1
            version = StoredVersion(number, self._writing.with_name(f"{number}-{manifest.content_hash[:DIGITS]}"))
            for folder in {(self._writing / name).parent for name in (*manifest.files, NAME)}:
                sync_folder(folder)
            os.rename(self._writing, version.folder)
            sync_folder(version.folder.parent)
        finally:
            shutil.rmtree(self._writing, ignore_errors=True)
        return version

    def make_live(self, version: StoredVersion) -> None:
        """`current` names this version from now on, in one step."""
        beside = self.folder / f".{CURRENT}.new"
        beside.unlink(missing_ok=True)
        os.symlink(f"{VERSIONS}/{version.folder.name}", beside)
        os.replace(beside, self.folder / CURRENT)
        sync_folder(self.folder)

    def prune(self, keep: int = KEPT) -> list[StoredVersion]:
        """Remove all but the last `keep` versions and the live one; those that are gone now."""
        live = self.current()
        old = [version for version in self.versions()[:-keep] if version != live]
        for version in old:
            # out of sight first: a crash in between leaves no half version under its name
            beside = version.folder.with_name(f".gone-{version.folder.name}")
            os.rename(version.folder, beside)
            version.mark.unlink(missing_ok=True)
        for leftover in (self.folder / VERSIONS).glob(".gone-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        return old

    @property
    def _writing(self) -> Path:
        return self.folder / VERSIONS / ".writing"

    def _refusal(self, error: OSError) -> ParameterError | ResourceError:
        where, why = printable(self.folder), printable(error.strerror or error)
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            return ResourceError(f"cannot write the store {where}: {why}", hint="Make room. The live one is untouched.")
        hint = "Choose a folder that can be written. The live one is untouched."
        return ParameterError(f"cannot write the store {where}: {why}", hint=hint)


def bundle_in(place: str | Path) -> Path:
    """The bundle that a path means: itself, or the live one of a store."""
    place = Path(place)
    return place / CURRENT if is_store(place) else place


def is_store(place: Path) -> bool:
    """Whether the path is a store with a live version."""
    return (place / CURRENT).is_symlink() and not (place / NAME).exists()


def versions_in(store: Path) -> list[dict[str, Any]]:
    """The versions of a store, the newest first, as JSON holds them; what a damaged manifest does not say is None."""
    place = BundleStore(store)
    live = place.current()
    return [_about(version, version == live) for version in reversed(place.versions())]


def _about(version: StoredVersion, live: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"version": None, "model": None, "created": None}
    try:
        manifest, _ = read_manifest_file(version.folder)
        found = {"version": manifest.content_hash, "model": manifest.model, "created": manifest.created}
    except BundleError as error:
        log.warning("version %d is damaged: %s", version.number, printable(error, 500))
    return {"number": version.number, **found, "live": live, "rolled_back": version.mark.exists()}
