"""The ways through a span of units, and the compiled kernels made of them.

- fast: each unit's changes are made at once; its negatives are drawn one unit ahead, so that their rows are in the
  cache when they are needed;
- blocks (the reproducible mode): the gradients of a block of units are written to a buffer at the same tables and then
  applied. Each row is changed in the order of the buffer by whichever thread owns the row, so the result does not
  depend on the number of threads;
- batches: synchronous mini-batches of pairs, plain gradient descent.

`train_fast`, `train_blocks` and `train_batches` are templates: `CompiledKernel` compiles a copy for each kernel, in
which `gather`, `compare`, `push`, `settle` and `unit_gradients` are the functions of that kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import pairwise
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types
from numpy import float32 as f32
from numpy import int64 as i64

from neatrec.compiled import RELAXED, compiled, prefetch
from neatrec.models.embeddings.kernels.arguments import (
    LONGEST,
    KernelInput,
    KernelSettings,
    Shard,
    StepStats,
    groups_of,
)
from neatrec.models.embeddings.kernels.cpu_common import (
    ALL_PAIRS,
    GradientBuffer,
    PairRange,
    Query,
    apply_batch,
    apply_unit,
    draw_bits,
    draw_candidates,
    group_count,
    in_basket,
    replace_refused,
    unit_lines,
)
from neatrec.models.embeddings.kernels.cpu_rows import prefetch_row
from neatrec.models.embeddings.kernels.intrinsics import atomic_add, borrowed
from neatrec.models.embeddings.kernels.layout import chunks, new_table

SPINS = 2000
"""Looks before a waiting thread sleeps."""
MICROSECONDS = 50
"""It sleeps so long at a time: on shared processors a thread that spins pays for it when it has work to do."""
CAME, TURN, NEXT = 0, 8, 16
"""Places in `ThreadTeam.counters`, each in a cache line of its own."""
COUNTERS = 24

sleep = types.ExternalFunction("usleep", types.int32(types.uint32))
Sums = tuple[float, float, float]
"""Pairs, loss, active hinges."""


class ThreadTeam(NamedTuple):
    """Threads that work on one span together; each has its own number."""

    member: int
    size: int
    counters: npt.NDArray[np.int64]
    """How many have come to a wait, how often all have, and the next unit of the block that nobody works on."""


@compiled
def wait_for_all(team):
    """Return when all members of the team have called."""
    counters = team.counters
    if team.size == 1:
        return
    turn = atomic_add(counters, TURN, 0)
    if (atomic_add(counters, CAME, 1) + 1) % team.size == 0:
        atomic_add(counters, TURN, 1)
        return
    spins = 0
    while atomic_add(counters, TURN, 0) == turn:
        spins += 1
        if spins > SPINS:
            sleep(MICROSECONDS)


def _in_threads(calls: list[Callable[[], Sums]]) -> StepStats:
    """Run each call in a thread of its own; their sums added up."""
    if len(calls) == 1:
        return _stats([calls[0]()])
    with ThreadPoolExecutor(len(calls)) as pool:
        return _stats([future.result() for future in [pool.submit(call) for call in calls]])


def _stats(sums: list[Sums]) -> StepStats:
    pairs, loss, active = (sum(column) for column in zip(*sums, strict=True))
    return StepStats(int(pairs), float(loss), int(active))


# ---- templates


def gather(data, work, low, count):
    """Copy `count` lines from `low` on, and what the tables hold of them, into the workspace."""


def compare(data, work, count, start, stop):
    """Compare all pairs of the unit: (pairs, loss, active hinges)."""


def push(data, work, i, first, unit, rate):
    """Change the negatives of line i, groups from `first` on; a loss that is known only now comes back."""


def settle(data, work, count, rate):
    """Change the rows of the unit's lines."""


def unit_gradients(data, work, buffer, slot, unit, pairs):
    """Write a unit's gradients to the buffer, of its pairs only those of a `PairRange`."""


@compiled(inline="always")
def rate_at(settings, unit, first, last):
    """`KernelSettings.rate_at`."""
    return settings.rate + (settings.last_rate - settings.rate) * (unit - first) / (last - first)


def train_fast(data, work, first, last):
    """Visit the units one after the other, changing the tables at once: (pairs, loss, active hinges).

    Rows of negatives belong to the last table. The turn before the first unit only draws for it.
    """
    data, work = borrowed(data), borrowed(work)
    tables, shard, settings, dims = data.tables, data.shard, data.settings, data.dims
    of_unit, groups, far = work.unit, group_count(settings), tables[len(tables) - 1]
    pairs, loss, active = 0.0, 0.0, 0.0
    for unit in range(first - 1, last):
        following = min(unit + 1, last - 1)
        ahead = unit_lines(data, following)
        begin, basket = shard.start[following], shard.basket[following]
        lines, basket_start, basket_end = ahead.stop - ahead.start, shard.offsets[basket], shard.offsets[basket + 1]
        here = unit_lines(data, max(unit, first))
        start, count, queries = here.start, here.loaded, here.stop - here.start
        if unit < first:
            count, queries = 0, 0
        rate = f32(rate_at(settings, unit, first, last))
        gather(data, work, here.low, count)
        for n in range(queries):
            query = Query(of_unit.item[start + n], -1, count)
            for group in range(n * groups, (n + 1) * groups):
                replace_refused(data, of_unit, of_unit.next_negative, group, query)
        for m in range(lines):
            for g in range(groups):
                if in_basket(begin + m, g, basket_start, basket_end, settings):
                    draw_bits(data, ahead.key, ahead.place + m * groups + g, of_unit.random_bits, m * groups + g)
        p, e, a = compare(data, work, count, start, start + queries)
        pairs += p
        loss += e
        active += a
        done = 0
        for n in range(max(1, queries)):
            until = (n + 1) * lines // max(1, queries)
            for m in range(done, until):
                for table in tables:
                    prefetch_row(table, shard.items[begin + m], dims)
                prefetch(shard.category, shard.items[begin + m])
                for g in range(groups):
                    if in_basket(begin + m, g, basket_start, basket_end, settings):
                        draw_candidates(data, far, of_unit.random_bits, of_unit.next_negative, m * groups + g)
            done = until
            if n < queries:
                loss += push(data, work, start + n, n * groups, unit, rate)
        settle(data, work, count, rate)
    return pairs, loss, active


def train_blocks(data, work, buffer, team, first, last):
    """Blocks of units: members share the units, wait, share the rows, wait again. Member 0 gets the sums.

    Who is free takes the next unit: gradients do not depend on who computes them.
    """
    data, work, buffer, team = borrowed(data), borrowed(work), borrowed(buffer), borrowed(team)
    shard, settings, member, size = data.shard, data.settings, team.member, max(1, data.settings.block)
    learns = settings.rate != 0.0 or settings.last_rate != 0.0
    pairs, loss, active = 0.0, 0.0, 0.0
    for begin in range(first, last, size):
        count = min(size, last - begin)
        if member == 0:
            place, team.counters[NEXT] = 0, 0
            for slot in range(count):
                buffer.start[slot] = place
                lines = shard.stop[begin + slot] - shard.start[begin + slot] + 2 * settings.window
                place += buffer.line_entries * lines
        wait_for_all(team)
        slot = atomic_add(team.counters, NEXT, 1)
        while slot < count:
            unit_gradients(data, work, buffer, slot, begin + slot, PairRange(0, ALL_PAIRS))
            slot = atomic_add(team.counters, NEXT, 1)
        wait_for_all(team)
        for slot in range(count):
            if learns:
                apply_unit(data, buffer, slot, f32(rate_at(settings, begin + slot, first, last)), team)
            if member == 0:
                pairs += buffer.stats[slot, 0]
                loss += buffer.stats[slot, 1]
                active += buffer.stats[slot, 2]
        wait_for_all(team)
    return pairs, loss, active


def train_batches(data, work, buffer, first, last):
    """Mini-batches of exactly `settings.batch` pairs, cut wherever they fall."""
    data, work, buffer = borrowed(data), borrowed(work), borrowed(buffer)
    settings = data.settings
    scale = 1.0 / settings.batch if settings.average else 1.0
    pairs, loss, active = 0.0, 0.0, 0.0
    # numbers of one type from the start: with a second one everything below would be compiled twice
    free, used, rate = i64(settings.batch), i64(0), f32(0)
    for unit in range(first, last):
        rate = f32(rate_at(settings, unit, first, last) * scale)
        done = i64(0)
        while True:
            buffer.start[0] = used
            unit_gradients(data, work, buffer, 0, unit, PairRange(done, done + free))
            found = i64(buffer.stats[0, 0])
            pairs += buffer.stats[0, 0]
            loss += buffer.stats[0, 1]
            active += buffer.stats[0, 2]
            used += buffer.length[0]
            done += found
            free -= found
            if free > 0:
                break
            apply_batch(data, buffer, used, rate)
            used, free = i64(0), i64(settings.batch)
    apply_batch(data, buffer, used, rate)
    return pairs, loss, active


class CompiledKernel:
    """A kernel of the CPU: its workspace and its functions, put into the templates above."""

    def __init__(
        self,
        name: str,
        new_workspace: Callable[[int, KernelSettings], Any],
        unit_gradients: Callable[..., Any],
        *,
        fast: dict[str, Callable[..., Any]] | None = None,
        line_tables: int = 1,
        negative_kinds: int = 1,
    ) -> None:
        """`fast`: gather, compare, push and settle, where there is a fast way of its own; else blocks of one unit.

        `line_tables`: tables in which a line has a row.
        """
        self.name, self.new_workspace, self.unit_gradients, self.fast = name, new_workspace, unit_gradients, fast
        self.line_tables, self.negative_kinds = line_tables, negative_kinds

    @cached_property
    def _fast(self) -> Any:
        return self._compiled(train_fast, **(self.fast or {}))

    @cached_property
    def _blocks(self) -> Any:
        return self._compiled(train_blocks, unit_gradients=self.unit_gradients)

    @cached_property
    def _batches(self) -> Any:
        return self._compiled(train_batches, unit_gradients=self.unit_gradients)

    def _compiled(self, template: Any, **functions: Callable[..., Any]) -> Any:
        """A copy of the template with these functions; its name keeps its machine code apart from other kernels'."""
        copy = FunctionType(template.__code__, {**template.__globals__, **functions}, template.__name__)
        copy.__qualname__ = f"{template.__name__}_{self.name}"
        return compiled(copy, fastmath=RELAXED)

    def __call__(self, data: KernelInput, first: int, last: int, threads: int = 1) -> StepStats:
        """Train on units `first` to `last`. Mini-batches come one after the other, on one thread."""
        if first == last:
            return StepStats(0, 0.0, 0)
        settings = data.settings
        data = data._replace(dims=chunks(settings.dim))
        if settings.batch:
            buffer = self._buffer(data.shard, settings, first, last)
            return _stats([self._batches(data, self._workspace(settings), buffer, first, last)])
        if settings.block:
            buffer, counters = self._buffer(data.shard, settings, first, last), np.zeros(COUNTERS, dtype=np.int64)
            teams = [ThreadTeam(member, threads, counters) for member in range(threads)]
            return _in_threads([partial(self._in_blocks, data, buffer, team, first, last) for team in teams])
        ends = sorted({first + (last - first) * n // threads for n in range(threads + 1)})
        rates = pairwise([settings.rate_at(end, first, last) for end in ends])
        parts = [data._replace(settings=settings._replace(rate=start, last_rate=end)) for start, end in rates]
        return _in_threads([partial(self._at_once, *part) for part in zip(parts, ends[:-1], ends[1:], strict=True)])

    def _at_once(self, data: KernelInput, first: int, last: int) -> Sums:
        if self.fast is not None:
            return self._fast(data, self._workspace(data.settings), first, last)  # type: ignore[no-any-return]
        data = data._replace(settings=data.settings._replace(block=1))
        alone = ThreadTeam(0, 1, np.zeros(COUNTERS, dtype=np.int64))
        return self._in_blocks(data, self._buffer(data.shard, data.settings, first, last), alone, first, last)

    def _in_blocks(self, data: KernelInput, buffer: GradientBuffer, team: ThreadTeam, first: int, last: int) -> Sums:
        return self._blocks(data, self._workspace(data.settings), buffer, team, first, last)  # type: ignore[no-any-return]

    def _workspace(self, settings: KernelSettings) -> Any:
        return self.new_workspace(LONGEST + 2 * settings.window, settings)

    def _buffer(self, shard: Shard, settings: KernelSettings, first: int, last: int) -> GradientBuffer:
        """A buffer that holds any block of the units `first` to `last`, or any batch."""
        units, drawn = max(1, settings.block), settings.negatives * self.negative_kinds + 1
        # the most a line writes: its own row in each table; for each group the negatives and a user
        line_entries = self.line_tables + groups_of(settings) * drawn
        if settings.batch:
            total = settings.batch * (2 * self.line_tables + drawn)
        else:
            lines = np.zeros(-(-(last - first) // units) * units, dtype=np.int64)
            lines[: last - first] = shard.stop[first:last] - shard.start[first:last] + 2 * settings.window
            total = int(lines.reshape(-1, units).sum(axis=1).max(initial=0)) * line_entries
        return GradientBuffer(
            np.zeros(total, np.int64),
            np.zeros(total, np.int64),
            new_table(total, settings.dim),
            np.zeros(total, np.float32),
            np.zeros(units, np.int64),
            np.zeros(units, np.int64),
            np.zeros((units, 3), np.float64),
            line_entries,
        )
