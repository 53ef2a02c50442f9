"""Several processes that train one model: each works on its own shards, and every few thousand baskets they agree.

What each process changed since they last agreed is added up, row by row, and every process goes on from the sum: the
same numbers everywhere. The sums that Adagrad divides by are added up too: a row learns as slowly as all that was seen
of it asks for. Of tables in the memory of the host only those rows travel that somebody changed, where they are few.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from neatrec.errors import ResourceError, must_be, must_be_one_of
from neatrec.models.embeddings.kernels.layout import VISITOR, Table, width

log = logging.getLogger(__name__)

EVERY = {"cpu": 1024, "gpu": 4096}
"""Baskets of a process between two agreements, unless told otherwise: with fewer it learns better, at a price."""
FEW = 0.75
"""Changed rows travel by themselves where they are at most this share of a table; else the whole table does."""
LOOKED_AT = 4096
"""Rows that are compared at a time: they stay in the cache."""
PIECE = 2**26
"""Bytes of changed rows that travel at a time, so that picking them out takes no second table's memory."""


class Team(Protocol):
    """The processes, as `neatrec.training.process_group` brings them together."""

    rank: int
    """Which of them this is, from 0."""
    size: int

    def add(self, array: Any) -> None:
        """`array` (any shape, equal everywhere, NumPy's or CuPy's) becomes the sum of all processes', in place."""


@dataclass(frozen=True)
class Together:
    """How a team trains one model."""

    rules: ClassVar[tuple[str, ...]] = ("sum", "mean")

    team: Team
    every: int | None = None
    """Baskets of a process between two agreements; None: as `EVERY` says for its device."""
    rule: str = "sum"
    """What becomes of a row that several processes changed: the sum of their changes, or the mean."""

    def __post_init__(self) -> None:
        if self.every is not None and (
            isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1
        ):
            raise must_be("combine_every", "a whole number of at least 1", self.every)
        if self.rule not in self.rules:
            raise must_be_one_of("rule", self.rules, self.rule)

    @property
    def agrees(self) -> bool:
        """Whether there is anybody to agree with: one process goes the plain way, to the same bits."""
        return self.team.size > 1

    @property
    def leads(self) -> bool:
        """Whether this process writes, logs and answers for all."""
        return self.team.rank == 0

    def every_on(self, device: str) -> int:
        """Baskets of a process between two agreements on `cpu` or `gpu`."""
        return EVERY[device] if self.every is None else self.every

    def agree(self, table: Any, last: Any, dim: int, vectors: int) -> int:
        """`table` and `last` become `last` and all changes to it since; `last` was equal everywhere.

        Tables are NumPy's or CuPy's. Gives back the bytes that this process had summed up with the others'.
        """
        tail = width(dim) * vectors
        if not isinstance(table, np.ndarray):  # on a GPU
            return self._agree_on_all(table, last, tail)
        table[:, tail + VISITOR] = last[:, tail + VISITOR]  # means something to one process and one call alone
        rows, told = self._changed_by_any(table, last)
        if len(rows) > FEW * len(table):
            return told + self._agree_on_all(table, last, tail)
        return told + sum(self._agree_on_rows(table, last, some, tail) for some in _pieces(rows, table))

    def _agree_on_all(self, table: Table, last: Table, tail: int) -> int:
        table -= last
        sent = self._add(table, tail)
        last += table
        table[:] = last
        return sent

    def _agree_on_rows(self, table: Table, last: Table, rows: npt.NDArray[np.intp], tail: int) -> int:
        some = table[rows]
        some -= last[rows]
        sent = self._add(some, tail)
        some += last[rows]
        last[rows] = some
        table[rows] = some
        return sent

    def _add(self, changes: Table, tail: int) -> int:
        """Sum the changes up over the processes; the bytes that went out for it."""
        changes[:, tail + VISITOR] = 0.0
        sent = int(changes.nbytes)
        if self.rule == "mean":
            changed = (changes[:, :tail] != 0).any(axis=1).astype(np.float32)
            self.team.add(changed)
            sent += int(changed.nbytes)
            changes[:, :tail] /= np.maximum(changed, 1.0)[:, None]
            changes[:, tail] /= np.maximum(changed, 1.0)  # the log-variance of a sphere
        self.team.add(changes)
        return sent

    def _changed_by_any(self, table: Table, last: Table) -> tuple[npt.NDArray[np.intp], int]:
        """Rows that at least one process changed, the same in all of them, and the bytes that finding out took."""
        count = np.zeros(len(table), dtype=np.uint8 if self.team.size < 256 else np.int32)  # of the processes
        for first in range(0, len(table), LOOKED_AT):
            some = slice(first, first + LOOKED_AT)
            # bits, not numbers: -0.0 in one process and 0.0 in another would stay unequal
            count[some] = (table[some].view(np.uint32) != last[some].view(np.uint32)).any(axis=1)
        self.team.add(count)
        return np.flatnonzero(count), count.nbytes

    def agreed_device(self, mine: str) -> str:
        """`gpu` where all processes would take a GPU, else `cpu`: all must do as the others."""
        gpus = self.say(float(mine == "gpu"))[0]
        if mine == "gpu" and gpus < self.team.size:
            log.info("training on the CPU: only %d of %d processes have a GPU", int(gpus), self.team.size)
        return "gpu" if gpus == self.team.size else "cpu"

    def say(self, *numbers: float) -> list[float]:
        """Each number summed over the processes."""
        array = np.array(numbers, dtype=np.float64)
        self.team.add(array)
        return [float(number) for number in array]

    def check_equal(self, tables: Mapping[str, Table], when: str) -> None:
        """Refuse to go on when the processes do not hold the same bits; tables of the host."""
        digest = hashlib.sha256()
        for name in sorted(tables):
            digest.update(np.ascontiguousarray(tables[name]).data)
        mine = np.frombuffer(digest.digest(), dtype="<u4").astype(np.int64)
        total = mine.copy()
        self.team.add(total)
        if not np.array_equal(total, mine * self.team.size):
            raise ResourceError(
                f"process {self.team.rank} and the others do not hold the same numbers {when}",
                hint="All processes must see the same files and run the same version; begin without --resume.",
            )


def _pieces(rows: npt.NDArray[np.intp], table: Table) -> Iterator[npt.NDArray[np.intp]]:
    """The rows, in pieces of at most `PIECE` bytes."""
    at_a_time = max(1, PIECE // (table.shape[1] * table.itemsize))
    for first in range(0, len(rows), at_a_time):
        yield rows[first : first + at_a_time]
