"""Where the bundle to serve lies, and how to see that it changed."""

from __future__ import annotations

import os
from pathlib import Path

from neatrec.bundle.manifest import NAME

CURRENT = "current"
"""The link in a store that names the live bundle."""

Stamp = tuple[str, int, int, int] | None


def bundle_at(place: Path) -> Path:
    """The bundle to open: that of a store's `current`, or the place itself."""
    return place / CURRENT if not (place / NAME).exists() and (place / CURRENT).exists() else place


def stamp_of(place: Path) -> Stamp:
    """What differs when something else lies at `place`: real path, file number, time, size. None: nothing is there."""
    try:
        if place.is_file():
            file = place
        else:
            file = Path(os.path.realpath(bundle_at(place))) / NAME
        found = file.stat()
    except OSError:
        return None
    return str(file), found.st_ino, found.st_mtime_ns, found.st_size
