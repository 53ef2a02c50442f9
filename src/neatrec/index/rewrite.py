"""The table of a bundle written anew, without its baskets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neatrec.bundle import BundleLock, Manifest, rewrite_bundle
from neatrec.index.build import index_of
from neatrec.index.files import FOLDER, NOTE, write_index
from neatrec.index.opened import Index


def rewrite_index(
    bundle: str | Path,
    *,
    k: int | None = None,
    attachment: Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> Manifest:
    """The manifest of the bundle after its table was computed again from its model and its pair counts.

    `k` None: as many answers as before. `attachment` None: what was attached before stays.
    """
    with BundleLock(bundle):
        old = Index.open(bundle)

        def write(folder: Path) -> dict[str, Any]:
            arrays = index_of(old.model, old.pairs, k=old.k if k is None else k, threads=threads)
            return write_index(arrays, folder, old.attachment if attachment is None else attachment)

        return rewrite_bundle(bundle, write, without=FOLDER)


def has_table(manifest: Manifest) -> bool:
    """Whether a bundle has a serving table."""
    return NOTE in manifest.notes
