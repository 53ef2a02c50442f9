"""Data-parallel training: each process trains on its own shards, and the processes all-reduce their changes.

Every `sync_every` baskets the changes of all processes since the last synchronization are summed row by row, and each
process continues from the sum, with the same bits everywhere. Adagrad's sums of squares are summed too. Of tables in
host memory only the rows that a process changed are sent, unless these are most of the table.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from neatrec.errors import ResourceError, must_be
from neatrec.models.embeddings.kernels.layout import VISITOR, Table, width

log = logging.getLogger(__name__)

SYNC_EVERY = {"cpu": 1024, "gpu": 4096}
"""Default of `sync_every` by device: fewer baskets train better and cost more."""
MAX_CHANGED_SHARE = 0.75
"""The whole table is sent when a larger share of its rows was changed."""
ROWS_PER_STEP = 2**17
"""Rows compared or sent at a time, so that no second table is needed."""


class ProcessGroup(Protocol):
    """The processes of one training. `neatrec.training.distributed` has the one of torch."""

    rank: int
    """The number of this process, from 0."""
    size: int

    def all_reduce(self, array: Any) -> None:
        """Replace `array` (NumPy or CuPy, of one shape in all processes) by the sum over the processes, in place."""


@dataclass(frozen=True)
class Synchronizer:
    """Keeps the tables of one process equal to those of the others."""

    group: ProcessGroup
    sync_every: int | None = None
    """Baskets per process between two synchronizations; None: `SYNC_EVERY` of the device."""

    def __post_init__(self) -> None:
        every = self.sync_every
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise must_be("sync_every", "a whole number of at least 1", every)

    @property
    def active(self) -> bool:
        """Whether there are other processes: a single one trains as without a launcher, to the same bits."""
        return self.group.size > 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes the files and reports the progress."""
        return self.group.rank == 0

    def interval(self, device: str) -> int:
        """Baskets per process between two synchronizations on `cpu` or `gpu`."""
        return SYNC_EVERY[device] if self.sync_every is None else self.sync_every

    def synchronize(self, table: Any, previous: Any, dim: int) -> int:
        """Add all processes' changes since `previous` to both tables; returns the bytes that this process sent.

        `table` and `previous` are NumPy or CuPy arrays; `previous` must be equal in all processes.
        """
        visitor = width(dim) + VISITOR  # a mark of one process and one kernel call
        table[:, visitor] = previous[:, visitor]
        if not isinstance(table, np.ndarray):  # on a GPU
            return self._sum_changes(table, previous, slice(None))
        rows, sent = self._changed_rows(table, previous)
        if len(rows) > MAX_CHANGED_SHARE * len(table):
            return sent + self._sum_changes(table, previous, slice(None))
        steps = (rows[first : first + ROWS_PER_STEP] for first in range(0, len(rows), ROWS_PER_STEP))
        return sent + sum(self._sum_changes(table, previous, step) for step in steps)

    def _sum_changes(self, table: Any, previous: Any, rows: Any) -> int:
        changes = table[rows]  # a view of the whole table, a copy of some rows
        changes -= previous[rows]
        self.group.all_reduce(changes)
        previous[rows] += changes
        table[rows] = previous[rows]
        return int(changes.nbytes)

    def _changed_rows(self, table: Table, previous: Table) -> tuple[npt.NDArray[np.intp], int]:
        """The rows that at least one process changed, the same in all processes, and the bytes sent to find them."""
        changed = np.zeros(len(table), dtype=np.int32)
        for first in range(0, len(table), ROWS_PER_STEP):
            step = slice(first, first + ROWS_PER_STEP)
            # bits, not numbers: -0.0 in one process and 0.0 in another would stay unequal
            changed[step] = (table[step].view(np.uint32) != previous[step].view(np.uint32)).any(axis=1)
        self.group.all_reduce(changed)
        return np.flatnonzero(changed), changed.nbytes

    def common_device(self, device: str) -> str:
        """`gpu` where all processes would choose a GPU, else `cpu`."""
        gpus = self.sum(float(device == "gpu"))[0]
        if device == "gpu" and gpus < self.group.size:
            log.info("training on the CPU: only %d of %d processes have a GPU", int(gpus), self.group.size)
        return "gpu" if gpus == self.group.size else "cpu"

    def sum(self, *numbers: float) -> list[float]:
        """Each number summed over the processes."""
        array = np.array(numbers, dtype=np.float64)
        self.group.all_reduce(array)
        return [float(number) for number in array]

    def check_equal(self, tables: Mapping[str, Table], when: str) -> None:
        """Refuse to continue when the processes' tables (in host memory) differ in any bit."""
        digest = hashlib.sha256()
        for name in sorted(tables):
            digest.update(np.ascontiguousarray(tables[name]).data)
        own = np.frombuffer(digest.digest(), dtype="<u4").tolist()
        if self.sum(*own) != [self.group.size * number for number in own]:
            raise ResourceError(
                f"the tables of process {self.group.rank} differ from those of the others {when}",
                hint="All processes must read the same files and run the same version; train without --resume.",
            )
