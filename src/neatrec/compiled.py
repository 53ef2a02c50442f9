"""`@compiled`: Numba in nopython mode, without the GIL, cached under a key of its room's sources.

Numba's own cache looks only at the file of the function: one that calls a helper in another file stays stale when the
helper changes. Here the cache folder's name is a hash of every source of the room (the folder the function lives in)
and of the versions, so a change anywhere in it compiles anew. A compiled function calls compiled functions of its own
room only.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config

Function = TypeVar("Function", bound=Callable[..., Any])

PACKAGE = Path(__file__).parent
log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Where compiled code is kept: `NEATREC_CACHE`, else the user's cache folder."""
    if chosen := os.environ.get("NEATREC_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neatrec"


@cache
def _room_key(room: Path) -> str:
    """A hash of all sources of `room`, of this file and of the versions that decide what machine code comes out."""
    files = sorted(room.rglob("*.py")) if room.is_dir() else [room]
    digest = hashlib.sha256(f"{sys.version_info}|{numba.__version__}|{platform.machine()}".encode())
    for file in [*files, Path(__file__)]:
        digest.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


@cache
def _usable_folder(room: Path) -> Path | None:
    folder = cache_folder() / "compiled" / f"{room.stem}-{_room_key(room)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError as error:
        log.info("compiled code is not kept: %s", error)
    return None


def _room_of(function: Callable[..., Any]) -> Path:
    source = Path(function.__code__.co_filename)
    inside = source.relative_to(PACKAGE)
    return PACKAGE / inside.parts[0]


def compiled(function: Function | None = None, **options: Any) -> Any:
    """Compile `function` at its first call; keep the machine code for the next start.

    Options go to `numba.njit`. Defaults: no GIL, NumPy error model, no bounds checks.
    """
    if function is None:
        return lambda f: compiled(f, **options)
    folder = _usable_folder(_room_of(function))
    chosen = {"nogil": True, "error_model": "numpy", "boundscheck": False, "cache": folder is not None, **options}
    before = config.CACHE_DIR
    try:
        # read by Numba only while it prepares the function's cache; what the caller had set is put back
        config.CACHE_DIR = str(folder or "")
        dispatcher = numba.njit(**chosen)(function)
    finally:
        config.CACHE_DIR = before
    if folder is not None:
        _keep_or_say(dispatcher)
    return dispatcher


def _keep_or_say(dispatcher: Any) -> None:
    """A disk that takes no more costs the next start some seconds, not this run its result."""
    keep = dispatcher._cache.save_overload

    def keep_if_there_is_room(signature: Any, data: Any) -> None:
        try:
            keep(signature, data)
        except OSError as error:
            _say_once(str(error.strerror or error))

    dispatcher._cache.save_overload = keep_if_there_is_room


@cache
def _say_once(why: str) -> None:
    log.warning("compiled code is not kept in %s: %s; NEATREC_CACHE names another folder", cache_folder(), why)
