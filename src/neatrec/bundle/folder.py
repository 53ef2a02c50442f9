"""The folders of a bundle, and how a new bundle replaces the old one atomically.

Beside the bundle `NAME` there may be `.NAME.writing` (a new one, not finished) and `.NAME.previous` (the old one, for
the moment between two renames where the system cannot exchange two folders in one step). After a crash the older
bundle is under `NAME` or under `.NAME.previous`; readers look in this order, the next writer cleans up.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from neatrec.bundle.manifest import NAME
from neatrec.errors import BundleError, ParameterError, ResourceError, must_be
from neatrec.text import printable

log = logging.getLogger(__name__)


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
        return self.live.with_name(f".{self.live.name}.writing")

    @property
    def previous(self) -> Path:
        return self.live.with_name(f".{self.live.name}.previous")

    @property
    def lock(self) -> Path:
        return self.live.with_name(f"{self.live.name}.lock")

    @property
    def checkpoints(self) -> Path:
        return self.live.with_name(f"{self.live.name}.checkpoint")

    def readable(self) -> Path:
        """The folder to read: the bundle, or the older one that a crash left beside it."""
        for folder in (self.live, self.previous, self.live):  # a writer may have renamed it in between
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
            raise must_be("out", "a new folder or an older bundle", str(self.live), hint="Nothing was overwritten.")

    def recover(self) -> None:
        """Clean up after a crash: restore the older bundle, remove unfinished ones."""
        if self.previous.exists():
            if (self.live / NAME).is_file():
                remove(self.previous)
            else:
                log.warning("restoring %s, which a crash left under another name", printable(self.live))
                os.rename(self.previous, self.live)
        remove(self.writing)

    def publish(self) -> None:
        """Make the finished folder `writing` the bundle: a reader finds the old one or the new one at any time."""
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
    """Whether a bundle stands at `path`."""
    return (Path(path) / NAME).is_file()


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders atomically; False where the system or the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    swap = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS
    here = -100 if sys.platform == "linux" else -2  # AT_FDCWD
    call = getattr(libc, "renameat2" if sys.platform == "linux" else "renameatx_np", None)
    if call is None:
        return False
    if call(here, os.fsencode(one), here, os.fsencode(other), ctypes.c_uint(swap)) == 0:
        return True
    code = ctypes.get_errno()
    if code in {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}:
        return False
    raise OSError(code, os.strerror(code), str(other))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file or folder to write into, which takes the place of the one at `path` when it is whole.

    What the system refuses becomes one sentence, and the old one stays.
    """
    if not path.name:
        raise must_be("out", "a file or folder with a name", str(path))
    place = BundleFolder(path)
    try:
        remove(place.writing)
        yield place.writing
        if place.writing.is_dir():
            place.publish()
        else:
            os.replace(place.writing, path)
    except OSError as error:
        kind = ResourceError if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} else ParameterError
        # Arrow's messages are long; the system's own is enough
        why = os.strerror(error.errno) if error.errno else printable(error)
        raise kind(f"cannot write {printable(path)}: {why}", file=str(path)) from error
    finally:
        remove(place.writing)


def remove(place: Path) -> None:
    """Remove a folder or a file, if it exists."""
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def sync_file(file: Path) -> None:
    """Flush `file` to the disk."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in `folder` to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
