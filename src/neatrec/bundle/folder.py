"""The folders of a bundle, the atomic replacement of the old one, and the lock of its one writer.

Beside the bundle `NAME` there may be `.NAME.writing`, an unfinished new one, and
`.NAME.previous`, the old one between two renames where the system cannot exchange two folders in
one step. After a crash the older bundle is under `NAME` or under `.NAME.previous`; readers look in
this order, the next writer cleans up.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from neatrec.atomic import exchange, remove, sync_folder
from neatrec.bundle.manifest import NAME
from neatrec.errors import BundleError, ParameterError, ResourceError, must_be
from neatrec.text import printable

log = logging.getLogger(__name__)

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of the system where nothing more can be written."""


@dataclass(frozen=True)
class BundleFolder:
    """The paths that belong to one bundle."""

    live: Path

    @classmethod
    def of(cls, bundle: str | Path) -> BundleFolder:
        """The folders of `bundle`; a link is resolved, so that its target is replaced."""
        live = Path(os.path.realpath(bundle))
        if not live.name:
            raise must_be("bundle", "a folder of its own", str(bundle))
        return cls(live)

    @property
    def writing(self) -> Path:
        """The new bundle, not finished."""
        return self.live.with_name(f".{self.live.name}.writing")

    @property
    def previous(self) -> Path:
        """The old bundle between two renames."""
        return self.live.with_name(f".{self.live.name}.previous")

    @property
    def lock(self) -> Path:
        """The file that its writer locks."""
        return self.live.with_name(f"{self.live.name}.lock")

    def readable(self) -> Path:
        """The folder to read: the bundle, or the older one that a crash left beside it."""
        # a writer may have renamed it in between
        for folder in (self.live, self.previous, self.live):
            if (folder / NAME).is_file():
                return folder
        raise BundleError(
            f"{printable(self.live)} is not a bundle: it has no {NAME}"
            if self.live.exists()
            else f"there is no bundle at {printable(self.live)}",
            file=str(self.live),
            hint="`neatrec train SOURCE --out DIR` writes one.",
        )

    def check_replaceable(self) -> None:
        """Refuse to replace anything but a bundle or an empty folder."""
        if self.live.is_dir() and ((self.live / NAME).is_file() or not any(self.live.iterdir())):
            return
        if self.live.exists():
            raise must_be(
                "out",
                "a new folder or an older bundle",
                str(self.live),
                hint="Nothing was overwritten.",
            )

    def recover(self) -> None:
        """Clean up after a crash: restore the older bundle, or remove the replaced one."""
        if self.previous.exists():
            if (self.live / NAME).is_file():
                remove(self.previous)
            else:
                log.warning(
                    "restoring %s, which a crash left under another name", printable(self.live)
                )
                os.rename(self.previous, self.live)

    def publish(self) -> None:
        """Make `writing` the bundle or file; readers find the old one or the new one."""
        if self.writing.is_file():
            os.replace(self.writing, self.live)
            return
        sync_folder(self.writing)
        if not self.live.exists() or not any(self.live.iterdir()):
            os.rename(self.writing, self.live)
        elif exchange(self.writing, self.live):
            sync_folder(self.live.parent)
            remove(self.writing)
        else:
            os.rename(self.live, self.previous)
            os.rename(self.writing, self.live)
            sync_folder(self.live.parent)
            remove(self.previous)
        sync_folder(self.live.parent)


def is_bundle(path: str | Path) -> bool:
    """Whether there is a manifest."""
    return (Path(path) / NAME).is_file()


@contextmanager
def replacing(path: Path, *, parents: bool = False) -> Iterator[Path]:
    """A new file or folder to write into, which replaces the one at `path` when it is finished.

    With `parents` the folders that lead to it are made. Errors of the system become one sentence,
    and the old one stays. A second writer is refused meanwhile.
    """
    if not path.name:
        raise must_be("out", "a file or folder with a name", str(path))
    paths = BundleFolder(path)
    with system_errors("", path):
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        os.stat(os.path.join(path.parent, ""))
        with _locked(paths), replaced(paths) as writing:
            yield writing


@contextmanager
def replaced(paths: BundleFolder, what: str = "") -> Iterator[Path]:
    """The path of a new file or folder, which becomes the live one after the `with` block."""
    with system_errors(what, paths.live):
        try:
            remove(paths.writing)
            yield paths.writing
            paths.publish()
        finally:
            try:
                remove(paths.writing)
            except OSError as error:  # the next writer removes it
                log.warning("cannot remove %s: %s", printable(paths.writing), printable(error))


@contextmanager
def system_errors(
    what: str, path: Path, untouched: str = "The earlier content is untouched."
) -> Iterator[None]:
    """Turn the system's refusals to write (full, read-only, of another user) into one sentence."""
    try:
        yield
    except OSError as error:
        # Arrow's messages are long; the system's own is enough
        why = os.strerror(error.errno) if error.errno else printable(error)
        message, is_full = f"cannot write {what}{printable(path)}: {why}", error.errno in FULL
        advice = "Free some space." if is_full else "Choose a folder that can be written."
        kind = ResourceError if is_full else ParameterError
        raise kind(message, file=str(path), hint=f"{advice} {untouched}") from error


@contextmanager
def bundle_lock(bundle: str | Path) -> Iterator[BundleFolder]:
    """The folders of a bundle that nobody else writes meanwhile, by `NAME.lock` beside it.

    A folder that holds something else is refused at once, not after the training. The system
    releases the lock when its process ends, so a dead process locks nobody out. A thread may take a
    lock that it holds again: `save_bundle` does so inside a training.
    """
    paths = BundleFolder.of(bundle)
    paths.check_replaceable()
    if str(paths.lock) in vars(_held):
        yield paths
        return
    with _locked(paths, "the bundle "):
        with system_errors("the bundle ", paths.live):
            paths.recover()
        yield paths


_held = threading.local()
"""Its attributes are the lock files that this thread holds."""


@contextmanager
def _locked(paths: BundleFolder, what: str = "") -> Iterator[None]:
    mine, path = vars(_held), str(paths.lock)
    with system_errors(what, paths.live):
        mine[path] = handle = _lock_file(paths)
    try:
        yield
    finally:
        del mine[path]
        # removed while locked: a process that opened it meanwhile notices that it is gone
        paths.lock.unlink(missing_ok=True)
        os.close(handle)


def _lock_file(paths: BundleFolder) -> int:
    while True:
        paths.lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _read_holder(handle)
            os.close(handle)
            raise _busy(paths, holder or "another run") from error
        except OSError as error:
            os.close(handle)
            raise ResourceError(
                f"cannot lock {printable(paths.lock)}: {printable(error.strerror)}"
            ) from error
        if _is_at(handle, paths.lock):
            break
        os.close(handle)
    if left_by := _read_holder(handle):
        log.info("took over the lock %s of %s, which has ended", printable(paths.lock), left_by)
    info = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(info).encode(), 0)
    return handle


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _read_holder(handle: int) -> str | None:
    try:
        info = json.loads(os.pread(handle, 1000, 0))
        return printable(f"process {info['pid']} on {info['host']}, since {info['since']}")
    except (ValueError, KeyError, TypeError):
        return None


def _busy(paths: BundleFolder, holder: str) -> BundleError:
    return BundleError(
        f"{printable(paths.live)} is being written by {holder}",
        file=str(paths.lock),
        hint="Wait for it, stop it, or write to another folder.",
    )
