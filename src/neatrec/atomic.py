"""Files and folders replaced in one step, and flushed to the disk."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from pathlib import Path


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


def remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


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
