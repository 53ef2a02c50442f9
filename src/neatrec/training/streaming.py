"""Training on shards of baskets, one in memory at a time; they lie beside the bundle until the training ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from neatrec.bundle.folder import BundleFolder, remove
from neatrec.data.baskets import Baskets, MaskedShards
from neatrec.data.splits import uniform_of_ids
from neatrec.errors import ResourceError, writing
from neatrec.io import SourceOptions
from neatrec.io.read import log_dropped
from neatrec.io.shards import SHARD_LINES, ShardFolder, cut_shards, open_shards
from neatrec.models.embeddings.synchronize import Synchronizer
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

MARKER = ".neatrec-shards"
"""Marks a folder of shards: only a folder with this file is removed."""


@dataclass(frozen=True)
class StreamOptions:
    """Which source to cut into shards, and how."""

    source: str
    options: SourceOptions
    shard_lines: int = SHARD_LINES
    memory: int | None = None
    """Bytes that DuckDB may use meanwhile."""
    at_least: int = 1
    """The smallest number of shards: several per process."""

    @contextmanager
    def shards(self, bundle: Path, synchronizer: Synchronizer | None = None) -> Iterator[ShardFolder]:
        """The shards, in the folder `NAME.shards` beside the bundle while the block runs.

        What an earlier run left there is removed first: the caller holds the bundle's lock. Of several processes the
        first one writes and removes the shards, and the others wait until they are written.
        """
        folder = shards_of(bundle)
        if synchronizer is not None and not synchronizer.is_main:
            if synchronizer.sum(0.0)[0]:
                raise ResourceError("process 0 could not cut the baskets into shards", hint="Its own error says why.")
            yield open_shards(folder)
            return
        try:
            with self._cut(folder) as shards:
                if synchronizer is not None:
                    synchronizer.sum(0.0)
                    synchronizer = None  # the shards are there: later errors are not reported here
                yield shards
        except BaseException:
            if synchronizer is not None:
                synchronizer.sum(1.0)
            raise

    @contextmanager
    def _cut(self, folder: Path) -> Iterator[ShardFolder]:
        _clear_folder(folder)
        try:
            shards = cut_shards(
                self.source,
                self.options,
                folder,
                shard_lines=self.shard_lines,
                at_least=self.at_least,
                memory=self.memory,
            )
            log.info("read %s, %s", plural(shards.lines, "line"), plural(shards.baskets, "basket"))
            log_dropped(shards.dropped)
            yield shards
        finally:
            remove(folder)


def _clear_folder(folder: Path) -> None:
    """Remove what an earlier run left in `folder`, and mark the new folder; a folder without the marker is refused."""
    marker = folder / MARKER
    if folder.exists() and not marker.exists() and any(folder.iterdir()):
        raise ResourceError(
            f"{printable(folder)} is in the way: it was not written by neatrec, which cuts baskets into shards there",
            file=str(folder),
            hint="Move it, or write the bundle elsewhere.",
        )
    remove(folder)
    with writing("shards into", folder):
        folder.mkdir(parents=True)
        marker.touch()


def shards_of(bundle: Path) -> Path:
    """Where the shards of a training into `bundle` lie."""
    live = BundleFolder.of(bundle).live
    return live.with_name(f"{live.name}.shards")


def validation_parts(shards: Sequence[Baskets], share: float, seed: int) -> tuple[MaskedShards, MaskedShards]:
    """(train, validation): the baskets that `validation_split` gives, shard by shard."""
    held_out = [uniform_of_ids(shard.ids, f"validation-{seed}") < share for shard in shards]
    return MaskedShards(shards, [~mask for mask in held_out]), MaskedShards(shards, held_out)
