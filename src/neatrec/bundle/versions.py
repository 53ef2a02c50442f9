"""The versions of a store: `versions/N-HASH/`, and `current`, a link to the live one.

A version that was rolled back has a file `N-HASH.back` beside it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from neatrec.bundle.manifest import NAME

CURRENT, VERSIONS, ROLLED_BACK = "current", "versions", ".back"


@dataclass(frozen=True, order=True)
class StoredVersion:
    """One bundle of a store."""

    number: int
    folder: Path

    @property
    def mark(self) -> Path:
        """The file that marks a version that was rolled back."""
        return self.folder.with_name(self.folder.name + ROLLED_BACK)


def versions_of(store: Path) -> list[StoredVersion]:
    """All versions of a store, the oldest first; none of another folder."""
    path = store / VERSIONS
    folders = [entry for entry in path.iterdir() if entry.is_dir()] if path.is_dir() else []
    named = [(re.match("([0-9]+)-", folder.name), folder) for folder in folders]
    return sorted(StoredVersion(int(name[1]), folder) for name, folder in named if name)


def is_store(path: Path) -> bool:
    """Whether the path is a store with a live version."""
    return os.path.lexists(path / CURRENT) and not (path / NAME).exists()


def bundle_in(path: str | Path) -> Path:
    """The bundle at a path: the path itself, or the live version of a store."""
    path = Path(path)
    return path / CURRENT if is_store(path) else path
