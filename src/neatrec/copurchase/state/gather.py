"""The pairs of baskets as `Rows`, all of them, in memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neatrec.baskets import BasketStream
from neatrec.copurchase.counter import count
from neatrec.copurchase.records import Counting, Margins, Mask, PairBlock
from neatrec.copurchase.state.rows import GROUP, NO_ROWS, Rows, combined, cut, keys_of

RUN = 1 << 22
"""Rows sorted at a time."""
SAMPLED = 1 << 10
"""Every so many rows of a run say where groups may end."""


class Gather:
    """A `keep` that keeps nothing: each block goes away as it comes, sorted, to files that are merged in the end."""

    def __init__(self, folder: Path, *, directed: bool, run: int = RUN) -> None:
        """Runs are written to `folder`."""
        self._folder, self._directed, self._run = folder, directed, run
        self._waiting: list[Rows] = []
        self._runs: list[Rows] = []

    def __call__(self, block: PairBlock, _: Margins) -> Mask:
        key = keys_of(block.query, block.item, directed=self._directed)
        people = block.count if block.customers is None else block.customers
        self._waiting.append(Rows(key, block.count.astype(np.int64), people.astype(np.int64)))
        if sum(map(len, self._waiting)) >= self._run:
            self._flush()
        return np.zeros(len(block), dtype=bool)

    def _flush(self) -> None:
        rows, self._waiting = combined(self._waiting), []
        files = [self._folder / f"run-{len(self._runs)}-{name}.npy" for name in ("key", "count", "customers")]
        for file, values in zip(files, (rows.key, rows.count, rows.customers), strict=True):
            np.save(file, values)
        self._runs.append(Rows(*(np.load(file, mmap_mode="r") for file in files)))

    def groups(self) -> Iterator[Rows]:
        """All rows in order."""
        runs = [*self._runs, combined([NO_ROWS, *self._waiting])]
        if len(runs) == 1:
            yield from cut(runs[0])
            return
        sample = np.sort(np.concatenate([run.key[SAMPLED // 2 :: SAMPLED] for run in runs]))
        ends = np.unique(sample[GROUP // SAMPLED :: GROUP // SAMPLED] | 1)
        stops = [[0, *np.searchsorted(run.key, ends, side="right").tolist(), len(run)] for run in runs]
        for part in range(len(ends) + 1):
            group = combined([run.where(slice(*stop[part : part + 2])) for run, stop in zip(runs, stops, strict=True)])
            if len(group):
                yield group


def gathered(
    baskets: BasketStream, counting: Counting, folder: Path, engine: Mapping[str, Any], *, run: int = RUN
) -> Iterator[Rows]:
    """Every pair of the baskets in order; their catalogue codes are the state's numbers."""
    gather = Gather(folder, directed=counting.directed, run=run)
    count(baskets, counting, keep=gather, **engine)
    yield from gather.groups()
