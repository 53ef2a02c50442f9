"""Baskets for a training that holds one shard of them at a time: cut beside the bundle, gone when it is done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

from neatrec.bundle.folder import BundleFolder, remove
from neatrec.data.baskets import Baskets
from neatrec.data.splits import uniform_of_ids
from neatrec.errors import ResourceError
from neatrec.io import SourceOptions
from neatrec.io.read import log_dropped
from neatrec.io.shards import SHARD_LINES, ShardFolder, cut_shards, open_shards
from neatrec.models.embeddings.synchronize import Together
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

OURS = ".neatrec-shards"
"""The file by which a folder of shards is known as one: only such a folder is removed."""


@dataclass(frozen=True)
class StreamOptions:
    """Which source to cut, and how."""

    source: str
    options: SourceOptions
    shard_lines: int = SHARD_LINES
    memory: int | None = None
    """Bytes the database may use while it cuts."""
    at_least: int = 1
    """Shards that there should be: several for each process."""

    @contextmanager
    def shards(self, bundle: Path, together: Together | None = None) -> Iterator[ShardFolder]:
        """The shards, in the folder `NAME.shards` beside the bundle while the block runs.

        Whatever an earlier run left there is removed first: the caller holds the bundle's lock. Of several processes
        the first one cuts and clears up, and the others wait until it has cut.
        """
        folder = shards_of(bundle)
        if together is not None and not together.leads:
            if together.say(0.0)[0]:
                raise ResourceError("process 0 could not cut the baskets into shards", hint="It says why.")
            yield open_shards(folder)
            return
        try:
            with self._cut(folder) as shards:
                if together is not None:
                    together.say(0.0)
                    together = None  # what goes wrong from here on is no matter of the cutting
                yield shards
        except BaseException:
            if together is not None:
                together.say(1.0)
            raise

    @contextmanager
    def _cut(self, folder: Path) -> Iterator[ShardFolder]:
        _make_way(folder)
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


def _make_way(folder: Path) -> None:
    """Remove what an earlier run left in `folder`, and mark it as ours; a folder of somebody else's is refused."""
    ours = folder / OURS
    if folder.exists() and not ours.exists() and any(folder.iterdir()):
        raise ResourceError(
            f"{printable(folder)} is in the way: it was not written by neatrec, which cuts baskets into shards there",
            file=str(folder),
            hint="Move it, or write the bundle elsewhere.",
        )
    remove(folder)
    try:
        folder.mkdir(parents=True)
        ours.touch()
    except OSError as error:
        raise ResourceError(
            f"cannot write shards into {printable(folder)}: {printable(error)}", file=str(folder)
        ) from error


def shards_of(bundle: Path) -> Path:
    """Where the shards of a training into `bundle` lie."""
    live = BundleFolder.of(bundle).live
    return live.with_name(f"{live.name}.shards")


@dataclass(frozen=True)
class ShardSubset(Sequence[Baskets]):
    """Of each shard the baskets that `chosen` says, shape (baskets,)."""

    shards: Sequence[Baskets]
    chosen: Callable[[Baskets], npt.NDArray[np.bool_]]

    def __len__(self) -> int:
        return len(self.shards)

    @overload
    def __getitem__(self, number: int) -> Baskets: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Baskets]: ...
    def __getitem__(self, number: int | slice) -> Baskets | Sequence[Baskets]:
        if isinstance(number, slice):
            return ShardSubset(self.shards[number], self.chosen)
        shard = self.shards[number]
        return shard.select(self.chosen(shard))


def validation_parts(shards: Sequence[Baskets], share: float, seed: int) -> tuple[ShardSubset, ShardSubset]:
    """(train, validation): the baskets that `validation_split` gives, shard by shard."""

    def kept_out(shard: Baskets) -> npt.NDArray[np.bool_]:
        return uniform_of_ids(shard.ids, f"validation-{seed}") < share

    return ShardSubset(shards, lambda shard: ~kept_out(shard)), ShardSubset(shards, kept_out)
