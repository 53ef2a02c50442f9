"""The folder of a state: what `state.json` names is the state; whatever else lies there is left of a broken run.

A new state is written under new names beside the old one; then `state.json` is replaced in one step. Whenever a run
ends, however it ends, the folder holds the old state or the new one.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neatrec.errors import BundleError, ResourceError, must_be
from neatrec.text import printable

FORMAT = 1
MANIFEST = "state.json"
LOCK = "lock"


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What `state.json` says, checked against itself and the sizes of its files; None where there is no state yet."""
    path = folder / MANIFEST
    if not path.exists():
        _refuse_foreign(folder)
        return None
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path, printable(error)) from error
    if not isinstance(about, dict) or about.get("kind") != "neatrec counts":
        raise _damaged(path, "it is not the description of a state")
    if about.get("format") != FORMAT:
        raise BundleError(
            f"{printable(folder)} is a state of format {printable(repr(about.get('format')))}, "
            f"this version keeps format {FORMAT}",
            file=str(path),
            hint="Make a new state from all baskets.",
        )
    if about.get("hash") != manifest_hash(about):
        raise _damaged(path, "its hash differs")
    for name, size in about["files"].items():
        if not (folder / name).is_file() or (folder / name).stat().st_size != size:
            raise _damaged(folder / name, "it is missing or cut off")
    return about


def commit(folder: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Let `about` (which names its files) be the state; what it no longer names is removed afterwards."""
    for name in about["files"]:
        _sync(folder / name)
    about = {**about, "kind": "neatrec counts", "format": FORMAT}
    about["files"] = {name: (folder / name).stat().st_size for name in about["files"]}
    about["hash"] = manifest_hash(about)
    beside = folder / f".{MANIFEST}.part"
    beside.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    _sync(beside)
    _sync(folder)
    os.replace(beside, folder / MANIFEST)
    _sync(folder)
    sweep(folder, about)
    return about


def sweep(folder: Path, about: dict[str, Any] | None) -> None:
    """Remove what a broken run or an older state left."""
    keep = {MANIFEST, LOCK, *(about["files"] if about else ())}
    for file in folder.iterdir():
        if file.name not in keep and file.is_file():
            file.unlink()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder is there and this process is the only one that writes to it; troubles of the disk told as ours."""
    try:
        _refuse_foreign(folder)
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _cannot_write(folder, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise BundleError(
            f"{printable(folder)} is being written by another run", file=str(folder), hint="Wait for it, or stop it."
        ) from error
    except OSError as error:
        raise _cannot_write(folder, error) from error
    finally:
        os.close(handle)


def manifest_hash(about: dict[str, Any]) -> str:
    rest = {key: value for key, value in about.items() if key != "hash"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _refuse_foreign(folder: Path) -> None:
    """Only a state, an empty folder or nothing is written to; what a first run left unfinished counts as nothing."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise must_be("state", "a folder", str(folder), hint="A file of that name stands there.")
    names = {file.name for file in folder.iterdir()}
    if names and not names & {MANIFEST, LOCK}:
        raise must_be("state", "a new folder or an older state", str(folder), hint="Nothing was overwritten.")


def _damaged(path: Path, reason: str) -> BundleError:
    return BundleError(
        f"{printable(path)} of the state is damaged: {reason}",
        file=str(path),
        hint="Put the folder back from a copy, or make a new state from all baskets.",
    )


def _cannot_write(folder: Path, error: OSError) -> Exception:
    why = printable(error.strerror or error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        hint = "Make room. The state is what it was before."
        return ResourceError(f"cannot write the state {printable(folder)}: {why}", file=str(folder), hint=hint)
    return must_be("state", f"a folder that can be written ({why})", str(folder))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
