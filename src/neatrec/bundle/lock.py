"""`BundleLock`: one writer per bundle at a time."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from neatrec.bundle.folder import BundleFolder, remove
from neatrec.errors import BundleError, ParameterError, ResourceError
from neatrec.text import printable

log = logging.getLogger(__name__)

_held: dict[Path, tuple[int, int]] = {}
"""Locks of this process: lock file -> (thread that holds it, depth)."""
_guard = threading.Lock()


class BundleLock:
    """`NAME.lock` beside the bundle, held while the `with` block runs.

    A folder that holds something else than a bundle is refused at once, not after hours of training. The system
    releases the lock when its process ends, so a dead process locks nobody out. A thread may take a lock that it holds
    again: `save_bundle` does so inside a training.
    """

    def __init__(self, bundle: str | Path) -> None:
        self.place = BundleFolder.of(bundle)
        self._file: int | None = None

    @property
    def checkpoints(self) -> Path:
        """Where a run into this bundle keeps its checkpoints."""
        return self.place.checkpoints

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints: the bundle is complete."""
        remove(self.checkpoints)

    def __enter__(self) -> Self:
        path, me = self.place.lock, threading.get_ident()
        with _guard:
            owner, times = _held.get(path, (me, 0))
            if owner != me:
                raise _busy(self.place, "another thread of this process")
            if times == 0:
                self.place.check_replaceable()
                self._file = _lock_file(self.place)
            _held[path] = (me, times + 1)
        return self

    def __exit__(self, *_: object) -> None:
        path = self.place.lock
        with _guard:
            owner, times = _held[path]
            if times > 1:
                _held[path] = (owner, times - 1)
                return
            del _held[path]
            if self._file is not None:
                # removed while locked: a process that opened it meanwhile notices that it is gone
                path.unlink(missing_ok=True)
                os.close(self._file)
                self._file = None


def _lock_file(place: BundleFolder) -> int:
    """A locked handle of the lock file."""
    while True:
        handle = _open_lock_file(place)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _read_holder(handle)
            os.close(handle)
            raise _busy(place, holder or "another run") from error
        except OSError as error:
            os.close(handle)
            raise ResourceError(f"cannot lock {printable(place.lock)}: {printable(error.strerror)}") from error
        if _is_at(handle, place.lock):
            break
        os.close(handle)
    if left_by := _read_holder(handle):
        log.info("took over the lock %s of %s, which has ended", printable(place.lock), left_by)
    info = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(info).encode(), 0)
    return handle


def _open_lock_file(place: BundleFolder) -> int:
    try:
        place.lock.parent.mkdir(parents=True, exist_ok=True)
        return os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise cannot_write(place, error) from error


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _read_holder(handle: int) -> str | None:
    """The process that wrote the lock file."""
    try:
        info = json.loads(os.pread(handle, 1000, 0))
        return printable(f"process {info['pid']} on {info['host']}, since {info['since']}")
    except (ValueError, KeyError, TypeError):
        return None


def _busy(place: BundleFolder, holder: str) -> BundleError:
    return BundleError(
        f"{printable(place.live)} is being written by {holder}",
        file=str(place.lock),
        hint="Wait for it, stop it, or write to another folder.",
    )


def cannot_write(place: BundleFolder, error: OSError) -> ParameterError | ResourceError:
    """The error for a folder that cannot be written: full, read-only, of another user."""
    import errno

    where, why = printable(place.live), printable(error.strerror or error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        hint = "Free some space. What was there before is untouched."
        return ResourceError(f"cannot write the bundle {where}: {why}", file=str(place.live), hint=hint)
    hint = "Choose a folder that can be written. What was there before is untouched."
    return ParameterError(f"cannot write the bundle {where}: {why}", file=str(place.live), hint=hint)
