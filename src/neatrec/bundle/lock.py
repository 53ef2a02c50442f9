"""`BundleLock`: one run at a time into one bundle."""

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
"""Locks of this process: lock file -> (thread that holds it, how often)."""
_guard = threading.Lock()


class BundleLock:
    """`NAME.lock` beside the bundle, held while the `with` block runs.

    A place that holds something else than a bundle is refused at once, not after hours of training. The system gives
    the lock back when its process ends, however it ends, so the lock of a dead run stops nobody. A thread that holds a
    lock may take it again: `save_bundle` does so inside a run that holds it for longer.
    """

    def __init__(self, bundle: str | Path) -> None:
        self.place = BundleFolder.of(bundle)
        self._file: int | None = None

    @property
    def checkpoints(self) -> Path:
        """Where a run into this bundle keeps its checkpoints."""
        return self.place.checkpoints

    def remove_checkpoints(self) -> None:
        """The checkpoints are gone: the bundle is whole and needs none."""
        remove(self.checkpoints)

    def __enter__(self) -> Self:
        path, me = self.place.lock, threading.get_ident()
        with _guard:
            owner, times = _held.get(path, (me, 0))
            if owner != me:
                raise _busy(self.place, "another thread of this process")
            if times == 0:
                self.place.refuse_foreign()
                self._file = _locked_file(self.place)
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
                # the name goes first, while the lock is held: whoever opened it meanwhile sees that it is gone
                path.unlink(missing_ok=True)
                os.close(self._file)
                self._file = None


def _locked_file(place: BundleFolder) -> int:
    """A handle to the lock file, locked, which still has its name."""
    while True:
        handle = _opened(place)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _read(handle)
            os.close(handle)
            raise _busy(place, holder or "another run") from error
        except OSError as error:
            os.close(handle)
            raise ResourceError(f"cannot lock {printable(place.lock)}: {printable(error.strerror)}") from error
        if _still_named(handle, place.lock):
            break
        os.close(handle)
    if left_by := _read(handle):
        log.info("took over the lock %s of %s, which is gone", printable(place.lock), left_by)
    about = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(about).encode(), 0)
    return handle


def _opened(place: BundleFolder) -> int:
    try:
        place.lock.parent.mkdir(parents=True, exist_ok=True)
        return os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise cannot_write(place, error) from error


def _still_named(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _read(handle: int) -> str | None:
    """Who wrote the lock file, in words."""
    try:
        about = json.loads(os.pread(handle, 1000, 0))
        return printable(f"process {about['pid']} on {about['host']}, since {about['since']}")
    except (ValueError, KeyError, TypeError):
        return None


def _busy(place: BundleFolder, holder: str) -> BundleError:
    return BundleError(
        f"{printable(place.live)} is being written by {holder}",
        file=str(place.lock),
        hint="Wait for it, stop it, or write to another folder.",
    )


def cannot_write(place: BundleFolder, error: OSError) -> ParameterError | ResourceError:
    """The error for a place that takes no files: full, read-only, not ours."""
    import errno

    where, why = printable(place.live), printable(error.strerror or error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        hint = "Make room. What was there before is untouched."
        return ResourceError(f"cannot write the bundle {where}: {why}", file=str(place.live), hint=hint)
    hint = "Choose a folder that can be written. What was there before is untouched."
    return ParameterError(f"cannot write the bundle {where}: {why}", file=str(place.live), hint=hint)
