"""The devices of a fit: how shards reach the kernel and tables come back, on the CPU and on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.models.embeddings.kernels import gpu_call
from neatrec.models.embeddings.kernels.arguments import Draws, Shard
from neatrec.models.embeddings.kernels.gpu_call import GpuTables
from neatrec.models.embeddings.kernels.gpu_feed import GpuBasketFeed, HostBaskets
from neatrec.models.embeddings.kernels.layout import Table
from neatrec.models.embeddings.sampling import VisitOrder

CHUNK = 2**17
"""Lines per kernel call, between two checks of `Run.stop`. Fixed: reproducible runs must not depend on threads."""


class Span(NamedTuple):
    """One call of the kernel: units `first` to `last` of a visit, lines `begin` to `end` of their shard."""

    visit: Shard
    first: int
    last: int
    begin: int
    end: int


class TrainingDevice:
    """Holds the arrays that a kernel works on. On the CPU: the tables themselves; shards are copied in random order."""

    device = "cpu"

    def __init__(self, visits: VisitOrder) -> None:
        self.visits = visits

    def spans(self, shard: Baskets, number: int, epoch: int, seed: int, first: int) -> Iterator[Span]:
        """The spans of shard `number` from span `first` on; each epoch has its own order of baskets."""
        visit = self.visits.arranged(shard, number, epoch, seed)
        ends = _chunk_ends(visit)
        for chunk in range(first, len(ends) - 1):
            start, stop = ends[chunk], ends[chunk + 1]
            yield Span(visit, start, stop, int(visit.start[start]), int(visit.stop[stop - 1]))

    def count_lines(self, span: Span, first: int, end: int) -> int:
        """Lines of the units `first` to `end` of a span, at least 1."""
        return int(span.visit.stop[end - 1] - span.visit.start[first])

    def upload(self, tables: Mapping[str, Table]) -> tuple[Table, ...]:
        """The kernel's tables, filled from these."""
        return tuple(tables.values())

    def download(self, tables: Mapping[str, Table]) -> None:
        """Copy the kernel's tables into `tables`."""

    def to_host(self, array: Any) -> npt.NDArray[np.float32]:
        """A part of a table, in host memory."""
        return np.asarray(array)

    def max_abs(self, table: Any, dim: int) -> float:
        """The largest absolute value in the vectors of a table; NaN where one is NaN."""
        vectors = table[:, :dim]
        # max(abs(vectors)) would need a copy
        return max(float(vectors.max()), -float(vectors.min())) if len(table) else 0.0

    def upload_draws(self, draws: Draws) -> Draws:
        """The kernel's sampling tables."""
        return draws


class GpuDevice(TrainingDevice):
    """Tables and, where they fit, baskets stay in GPU memory for the whole fit."""

    device = "gpu"

    def __init__(self, visits: VisitOrder, lines: int) -> None:
        super().__init__(visits)
        self.lines = lines
        self._tables: GpuTables | None = None
        self._users: dict[int, npt.NDArray[np.int32]] = {}  # by shard: looking them up takes longer than an epoch

    @cached_property
    def feed(self) -> GpuBasketFeed:
        """Created on first use: the free memory is known once tables and draws are uploaded."""
        return GpuBasketFeed(self.visits.row_of_item, self.visits.category, self.lines)

    def spans(self, shard: Baskets, number: int, epoch: int, seed: int, first: int) -> Iterator[Span]:
        rng = np.random.default_rng([seed, 1, epoch, number])
        if number not in self._users:
            self._users[number] = self.visits.users_of(shard)
        raw = HostBaskets(shard.items, shard.offsets, self._users[number], shard.ordered)
        for piece in self.feed.pieces(raw, number, int(rng.integers(2**62)), first):
            yield Span(piece.shard, 0, len(piece.shard.start), piece.begin, piece.end)

    def count_lines(self, span: Span, first: int, end: int) -> int:
        """Approximate: the units are in random order."""
        return max(1, (end - first) * (span.end - span.begin) // (span.last - span.first))

    def upload(self, tables: Mapping[str, Table]) -> tuple[Table, ...]:
        if self._tables is None:
            self._tables = gpu_call.to_gpu(tuple(tables.values()))
        return self._tables

    def download(self, tables: Mapping[str, Table]) -> None:
        if self._tables is not None:
            gpu_call.from_gpu(self._tables, tuple(tables.values()))

    def to_host(self, array: Any) -> npt.NDArray[np.float32]:
        found: npt.NDArray[np.float32] = array.get()
        return found

    def max_abs(self, table: Any, dim: int) -> float:
        return gpu_call.largest(table, dim)

    def upload_draws(self, draws: Draws) -> Draws:
        return gpu_call.draws_to_gpu(draws)


def training_device(device: str, visits: VisitOrder, lines: int) -> TrainingDevice:
    """The device called `cpu` or `gpu`; `lines`: of all shards."""
    return GpuDevice(visits, lines) if device == "gpu" else TrainingDevice(visits)


def _chunk_ends(visit: Shard) -> list[int]:
    """The first unit of each chunk, and the end of the last."""
    units = len(visit.start)
    if not units:
        return [0]
    inner = np.searchsorted(visit.start, np.arange(CHUNK, int(visit.stop[-1]), CHUNK))
    return [0, *sorted({int(n) for n in inner} - {0, units}), units]
