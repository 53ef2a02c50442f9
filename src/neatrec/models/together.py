"""Several processes that train one model: each works on its own shards, and every few thousand baskets they agree.

What each process changed since they last agreed is added up, row by row, and every process goes on from the sum: the
same numbers everywhere. The sums that Adagrad divides by are added up too: a row learns as slowly as all that was seen
of it asks for.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from neatrec.errors import ResourceError, must_be, must_be_one_of
from neatrec.kernels.layout import VISITOR, Table, width

log = logging.getLogger(__name__)

EVERY = 4096
"""Baskets of a process between two agreements, unless told otherwise."""


class Team(Protocol):
    """The processes, as `neatrec.distributed` brings them together."""

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
    every: int = EVERY
    rule: str = "sum"
    """What becomes of a row that several processes changed: the sum of their changes, or the mean."""

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
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

    def agree(self, table: Table, last: Table, dim: int, vectors: int) -> None:
        """`table` and `last` become `last` and all changes to it since; `last` was equal everywhere."""
        tail = width(dim) * vectors
        table -= last
        table[:, tail + VISITOR] = 0.0  # means something to one process and one call alone
        if self.rule == "mean":
            changed = (table[:, :tail] != 0).any(axis=1).astype(np.float32)
            self.team.add(changed)
            table[:, :tail] /= np.maximum(changed, 1.0)[:, None]
            table[:, tail] /= np.maximum(changed, 1.0)  # the log-variance of a sphere
        self.team.add(table)
        last += table
        table[:] = last

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
