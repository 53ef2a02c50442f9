"""What the compiled kernels share: negatives of a unit, gradients kept in a buffer, and the ways through a span.

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
from functools import cached_property
from itertools import pairwise
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types
from numpy import float32 as f32
from numpy import int64 as i64
from numpy import uint64 as u64

from neatrec.compiled import compiled, prefetch
from neatrec.models.embeddings.kernels.arguments import (
    LONGEST,
    Draws,
    KernelSettings,
    Shard,
    StepStats,
    groups_of,
)
from neatrec.models.embeddings.kernels.cpu_rows import (
    RELAXED,
    add_row,
    clipped,
    dot,
    inverse_root,
    prefetch_row,
)
from neatrec.models.embeddings.kernels.draws import TRIES, counted, holds, mixed, picked
from neatrec.models.embeddings.kernels.intrinsics import LANES, atomic_add, borrowed
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, SQUARES, VARIANCE_SQUARES, Table, chunks, width

SEEN_WORDS = 8
"""Words of `seen`: so many bits that most candidates need no look through the unit's lines."""
SPINS = 2000
"""Looks before a waiting thread offers its processor to others."""

offer_processor = types.ExternalFunction("sched_yield", types.int32())
Floats = npt.NDArray[np.float32]
Sums = tuple[float, float, float]
"""Pairs, loss, active hinges."""


class KernelInput(NamedTuple):
    """The arguments of a kernel, as compiled code takes them."""

    tables: tuple[Table, ...]
    shard: Shard
    draws: Draws
    settings: KernelSettings
    dims: tuple[int, ...]
    """As long as a row's vector has registers: see `layout.chunks`."""


class UnitWorkspace(NamedTuple):
    """The lines of a unit and its negatives: part of every kernel's workspace. A group is a line's set of negatives."""

    item: npt.NDArray[np.int32]  # (lines,)
    category: npt.NDArray[np.int32]  # (lines,)
    seen: npt.NDArray[np.uint64]  # bits of the items of the unit
    negative: npt.NDArray[np.int64]  # (kinds of negatives x groups, negatives)
    random_bits: npt.NDArray[np.uint64]  # the same, of the next unit in the fast way
    next_negative: npt.NDArray[np.int64]  # the same


def unit_workspace(lines: int, settings: KernelSettings, kinds: int = 1) -> UnitWorkspace:
    drawn = (kinds * lines * groups_of(settings), settings.negatives)
    return UnitWorkspace(
        np.zeros(lines, np.int32),
        np.zeros(lines, np.int32),
        np.zeros(SEEN_WORDS, np.uint64),
        np.zeros(drawn, np.int64),
        np.zeros(drawn, np.uint64),
        np.zeros(drawn, np.int64),
    )


class GradientBuffer(NamedTuple):
    """Gradients of a block of units. Unit n of the block writes from start[n] on, length[n] entries."""

    table: npt.NDArray[np.int64]  # (entries,)
    row: npt.NDArray[np.int64]  # (entries,)
    vector: Floats  # (entries, width) minus the gradient
    slope: Floats  # (entries,) minus the derivative by the log-variance
    start: npt.NDArray[np.int64]  # (units,)
    length: npt.NDArray[np.int64]  # (units,)
    stats: npt.NDArray[np.float64]  # (units, 3) pairs, loss, active hinges


class ThreadTeam(NamedTuple):
    """Threads that work on one span together; each has its own number."""

    member: int
    size: int
    barrier: npt.NDArray[np.int64]
    """How many have come, and how often all have."""


# ---- the lines of a unit and their negatives: `reference.groups` says which


@compiled(inline="always")
def unit_lines(shard, unit, window):
    """The lines of a unit: first one loaded, how many are loaded, and its queries, counted from the first loaded."""
    basket = shard.basket[unit]
    low = max(shard.offsets[basket], shard.start[unit] - window)
    high = min(shard.offsets[basket + 1], shard.stop[unit] + window)
    return low, high - low, shard.start[unit] - low, shard.stop[unit] - low


@compiled(inline="always")
def group_count(settings):
    """Groups of negatives of a line: see `arguments.groups_of`."""
    return 1 if settings.shared else 2 * settings.window


@compiled(inline="always")
def copy_items(shard, low, count, unit):
    """Note items and categories of `count` lines from `low` on; `seen` gets a bit for the last bits of each item."""
    for word in range(SEEN_WORDS):
        unit.seen[word] = u64(0)
    for i in range(count):
        row = u64(shard.items[low + i])
        unit.item[i] = row
        unit.category[i] = shard.category[row]
        unit.seen[(row >> u64(6)) & u64(SEEN_WORDS - 1)] |= u64(1) << (row & u64(63))


@compiled(inline="always")
def is_pair(unit, i, j):
    """Whether lines i and j are of different items and categories; categories below 0 are nobody's."""
    same = unit.category[i] >= 0 and unit.category[i] == unit.category[j]
    return not (same or unit.item[i] == unit.item[j])


@compiled(inline="always")
def partner_range(i, count, g, settings):
    """The partners of group g of line i, as ranges of o: lines i + 1 + o ahead and i - 1 - o behind."""
    window = settings.window
    ahead, behind = min(window, count - 1 - i), min(window, i)
    if settings.shared:
        return 0, ahead, 0, behind
    o = g - window
    return (g, g + 1 if g < ahead else g, 0, 0) if g < window else (0, 0, o, o + 1 if o < behind else o)


@compiled(inline="always")
def has_partner(unit, i, count, g, settings):
    """Whether group g of line i has any partner."""
    first, last, begin, end = partner_range(i, count, g, settings)
    found = False
    for o in range(first, last):
        found |= is_pair(unit, i, i + 1 + o)
    for o in range(begin, end):
        found |= is_pair(unit, i, i - 1 - o)
    return found


@compiled(inline="always")
def in_basket(line, g, begin, end, settings):
    """Whether the partner of group g of a line lies in its basket; with shared negatives, whether any does."""
    if settings.shared:
        return end - begin > 1
    partner = line + 1 + g if g < settings.window else line - 1 - (g - settings.window)
    return begin <= partner < end


@compiled(inline="always")
def basket_key(seed, number):
    """What the draws of a basket are counted under."""
    return mixed(seed + u64(number) * u64(0xD1B54A32D192ED03))


@compiled(inline="always")
def draw_bits(alias, key, group, random_bits, row, count):
    """Random bits for the candidates of group number `group`; asks for the alias entries they pick."""
    for k in range(count):
        bits = counted(key, u64(group * count + k))
        random_bits[row, k] = bits
        prefetch(alias, i64(((bits >> u64(32)) * u64(len(alias))) >> u64(32)))


@compiled(inline="always")
def draw_candidates(table, alias, random_bits, negative, row, count, dims):
    """Turn random_bits[row] into candidates negative[row]; asks for their rows."""
    for k in range(count):
        item = i64(picked(random_bits[row, k], alias))
        negative[row, k] = item
        prefetch_row(table, item, dims)


@compiled(inline="always")
def maybe_seen(seen, row):
    return (seen[(u64(row) >> u64(6)) & u64(SEEN_WORDS - 1)] >> (u64(row) & u64(63))) & u64(1) == u64(1)


@compiled
def another(item, bits, items, lines, seen, query, user, draws):
    """`item`, or the first further draw that is not refused; the query itself where there is none."""
    for _ in range(TRIES):
        refused = False
        if maybe_seen(seen, item):
            for i in range(lines):
                refused |= items[i] == item
        if len(draws.observed) > 0:
            refused |= holds(draws.observed, query, item)
        if len(draws.bought) > 0:
            refused |= holds(draws.bought, user, item)
        if not refused:
            return item
        bits = mixed(bits + u64(1))
        item = i64(picked(bits, draws.alias))
    return i64(query)


@compiled(inline="always")
def replace_refused(unit, row, count, lines, query, user, draws):
    """Replace candidates of negative[row] that are refused; one that cannot be replaced becomes the query itself."""
    for k in range(count):
        item = unit.negative[row, k]
        if maybe_seen(unit.seen, item) or len(draws.observed) > 0 or len(draws.bought) > 0:
            bits = unit.random_bits[row, k]
            unit.negative[row, k] = another(item, bits, unit.item, lines, unit.seen, query, user, draws)


@compiled
def draw_other_users(key, group, negative, row, count, users, user):
    """Other users than `user` for group number `group` into negative[row]; where there is none, the user."""
    for k in range(count):
        bits = counted(key, u64(group * count + k))
        other = i64(user)
        for _ in range(TRIES):
            other = i64(((bits >> u64(32)) * u64(users)) >> u64(32))
            if other != user:
                break
            bits = mixed(bits + u64(1))
        negative[row, k] = other


# ---- steps of row-wise Adagrad


@compiled(inline="always")
def adagrad_step(table, row, squared, rate, settings, dims):
    """Add the sum of squares of a gradient to what Adagrad divides by; the length of its step comes back."""
    tail = LANES * len(dims)
    squares = table[row, tail + SQUARES] + squared * f32(1.0 / settings.dim)
    table[row, tail + SQUARES] = squares
    return rate * inverse_root(squares + f32(1e-10))


@compiled(inline="always")
def variance_step(table, row, slope, rate, settings, dims):
    """Row-wise Adagrad on a log-variance: at most 0.3 at a time, between its bounds."""
    tail = LANES * len(dims)
    squares = table[row, tail + VARIANCE_SQUARES] + slope * slope
    table[row, tail + VARIANCE_SQUARES] = squares
    step = rate * f32(settings.variance_rate) * slope * inverse_root(squares + f32(1e-10))
    moved = table[row, tail + LOG_VARIANCE] + clipped(step, f32(-0.3), f32(0.3))
    table[row, tail + LOG_VARIANCE] = clipped(moved, f32(settings.low), f32(settings.high))


@compiled(inline="always")
def add_entry(buffer, at, table, row):
    """Note which row the entry `at` is for; it has no slope."""
    buffer.table[at] = table
    buffer.row[at] = row
    buffer.slope[at] = f32(0)


@compiled(inline="always")
def finish_unit(buffer, slot, at, pairs, loss, active):
    """Note how many entries and what sums unit `slot` of the block has."""
    buffer.length[slot] = at - buffer.start[slot]
    buffer.stats[slot, 0], buffer.stats[slot, 1], buffer.stats[slot, 2] = pairs, loss, active


@compiled(fastmath=RELAXED)
def apply_unit(tables, buffer, slot, rate, settings, member, members, dims):
    """Apply the gradients of unit `slot` of the block whose rows this member owns, with row-wise Adagrad."""
    for at in range(buffer.start[slot], buffer.start[slot] + buffer.length[slot]):
        row = buffer.row[at]
        if row % members != member:
            continue
        table = tables[buffer.table[at]]
        squared = dot(buffer.vector, at, buffer.vector, at, dims)
        if squared > f32(0):
            add_row(table, row, adagrad_step(table, row, squared, rate, settings, dims), buffer.vector, at, dims)
            if buffer.slope[at] != f32(0):
                variance_step(table, row, buffer.slope[at], rate, settings, dims)


@compiled(fastmath=RELAXED)
def apply_batch(tables, buffer, count, rate, settings, dims):
    """Apply the first `count` entries of the buffer by plain gradient descent."""
    place = LANES * len(dims) + LOG_VARIANCE
    for at in range(count):
        table, row = tables[buffer.table[at]], buffer.row[at]
        add_row(table, row, rate, buffer.vector, at, dims)
        table[row, place] += rate * f32(settings.variance_rate) * buffer.slope[at]
    for at in range(count):
        if buffer.slope[at] != f32(0):
            table, row = tables[buffer.table[at]], buffer.row[at]
            table[row, place] = clipped(table[row, place], f32(settings.low), f32(settings.high))


# ---- threads


@compiled
def wait_for_all(team):
    """Return when all members of the team have called."""
    barrier = team.barrier
    if team.size == 1:
        return
    turn = atomic_add(barrier, 1, 0)
    if (atomic_add(barrier, 0, 1) + 1) % team.size == 0:
        atomic_add(barrier, 1, 1)
        return
    spins = 0
    while atomic_add(barrier, 1, 0) == turn:
        spins += 1
        if spins > SPINS:
            offer_processor()


def _in_threads(calls: list[Callable[[], Sums]]) -> StepStats:
    """Run each call in a thread of its own; their sums added up."""
    if len(calls) == 1:
        return _stats([calls[0]()])
    with ThreadPoolExecutor(len(calls)) as pool:
        return _stats([future.result() for future in [pool.submit(call) for call in calls]])


def _stats(sums: list[Sums]) -> StepStats:
    pairs, loss, active = (sum(column) for column in zip(*sums, strict=True))
    return StepStats(int(pairs), float(loss), int(active))


# ---- templates: the ways through a span


def gather(data, work, low, count):
    """Copy `count` lines from `low` on, and what the tables hold of them, into the workspace."""


def compare(data, work, count, start, stop):
    """Compare all pairs of the unit: (pairs, loss, active hinges)."""


def push(data, work, i, first, last, unit, rate):
    """Change the negatives of line i, groups `first` to `last`; a loss that is known only now comes back."""


def settle(data, work, count, rate):
    """Change the rows of the unit's lines."""


def unit_gradients(data, work, buffer, slot, unit, first_pair, last_pair):
    """Write a unit's gradients to the buffer; of its pairs only those numbered from `first_pair` to `last_pair`."""


def train_fast(data, work, first, last):
    """Visit the units one after the other, changing the tables at once: (pairs, loss, active hinges).

    Rows of negatives belong to the last table. The turn before the first unit only draws for it.
    """
    data, work = borrowed(data), borrowed(work)
    tables, shard, draws, settings, dims = data
    lines_of, groups = work.unit, group_count(settings)
    far, window, negatives = tables[len(tables) - 1], settings.window, settings.negatives
    pairs, loss, active = 0.0, 0.0, 0.0
    for unit in range(first - 1, last):
        following = min(unit + 1, last - 1)
        begin, lines = shard.start[following], shard.stop[following] - shard.start[following]
        basket = shard.basket[following]
        basket_start, basket_end = shard.offsets[basket], shard.offsets[basket + 1]
        low, count, start, stop = unit_lines(shard, max(unit, first), window)
        if unit < first:
            count, stop = 0, start
        queries = stop - start
        rate = f32(settings.rate + (settings.last_rate - settings.rate) * (unit - first) / (last - first))
        gather(data, work, low, count)
        for n in range(queries * groups):
            for k in range(negatives):
                lines_of.negative[n, k] = lines_of.next_negative[n, k]
            replace_refused(lines_of, n, negatives, count, lines_of.item[start + n // groups], -1, draws)
        key = basket_key(draws.seed, shard.number[basket])
        for n in range(lines * groups):
            if in_basket(begin + n // groups, n % groups, basket_start, basket_end, settings):
                number = (begin - basket_start) * groups + n
                draw_bits(draws.alias, key, number, lines_of.random_bits, n, negatives)
        p, e, a = compare(data, work, count, start, stop)
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
                        bits, row = lines_of.random_bits, m * groups + g
                        draw_candidates(far, draws.alias, bits, lines_of.next_negative, row, negatives, dims)
            done = until
            if n < queries:
                loss += push(data, work, start + n, n * groups, n * groups + groups, unit, rate)
        settle(data, work, count, rate)
    return pairs, loss, active


def train_blocks(data, work, first, last, buffer, team, entries):
    """Blocks of units: members share the units, wait, share the rows, wait again. Sums for member 0, zeros for others.

    `entries` is how many a line may write.
    """
    data, work, buffer = borrowed(data), borrowed(work), borrowed(buffer)
    tables, shard, settings, dims = data.tables, data.shard, data.settings, data.dims
    member, members, size = team.member, team.size, max(1, settings.block)
    learns = settings.rate != 0.0 or settings.last_rate != 0.0
    pairs, loss, active = 0.0, 0.0, 0.0
    for begin in range(first, last, size):
        count = min(size, last - begin)
        if member == 0:
            place = 0
            for slot in range(count):
                buffer.start[slot] = place
                place += entries * (shard.stop[begin + slot] - shard.start[begin + slot] + 2 * settings.window)
        wait_for_all(team)
        for slot in range(member, count, members):
            unit_gradients(data, work, buffer, slot, begin + slot, 0, 1 << 60)
        wait_for_all(team)
        for slot in range(count):
            rate = settings.rate + (settings.last_rate - settings.rate) * (begin + slot - first) / (last - first)
            if learns:
                apply_unit(tables, buffer, slot, f32(rate), settings, member, members, dims)
            if member == 0:
                pairs += buffer.stats[slot, 0]
                loss += buffer.stats[slot, 1]
                active += buffer.stats[slot, 2]
        wait_for_all(team)
    return pairs, loss, active


def train_batches(data, work, first, last, buffer):
    """Mini-batches of exactly `settings.batch` pairs, cut wherever they fall."""
    data, work, buffer = borrowed(data), borrowed(work), borrowed(buffer)
    tables, settings, dims = data.tables, data.settings, data.dims
    scale = 1.0 / settings.batch if settings.average else 1.0
    pairs, loss, active = 0.0, 0.0, 0.0
    # numbers of one type from the start: with a second one everything below would be compiled twice
    free, used, rate = i64(settings.batch), i64(0), f32(0)
    for unit in range(first, last):
        rate = f32((settings.rate + (settings.last_rate - settings.rate) * (unit - first) / (last - first)) * scale)
        done = i64(0)
        while True:
            buffer.start[0] = used
            unit_gradients(data, work, buffer, 0, unit, done, done + free)
            found = i64(buffer.stats[0, 0])
            pairs += buffer.stats[0, 0]
            loss += buffer.stats[0, 1]
            active += buffer.stats[0, 2]
            used += buffer.length[0]
            done += found
            free -= found
            if free > 0:
                break
            apply_batch(tables, buffer, used, rate, settings, dims)
            used, free = i64(0), i64(settings.batch)
    apply_batch(tables, buffer, used, rate, settings, dims)
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

    def __call__(
        self,
        tables: tuple[Table, ...],
        shard: Shard,
        draws: Draws,
        settings: KernelSettings,
        first: int,
        last: int,
        threads: int = 1,
    ) -> StepStats:
        """Train on units `first` to `last`. Mini-batches come one after the other, on one thread."""
        if first == last:
            return StepStats(0, 0.0, 0)
        data = KernelInput(tables, shard, draws, settings, chunks(settings.dim))
        if settings.batch:
            buffer = self._buffer(shard, settings, first, last)
            return _stats([self._batches(data, self._workspace(settings), first, last, buffer)])
        if settings.block:
            buffer, barrier = self._buffer(shard, settings, first, last), np.zeros(2, dtype=np.int64)
            teams = [ThreadTeam(member, threads, barrier) for member in range(threads)]
            return _in_threads([lambda team=team: self._in_blocks(data, first, last, buffer, team) for team in teams])  # type: ignore[misc]
        ends = [first + (last - first) * n // threads for n in range(threads + 1)]
        spans = [(start, stop) for start, stop in pairwise(ends) if start < stop]
        parts = [(data._replace(settings=_part(settings, first, last, *span)), *span) for span in spans]
        return _in_threads([lambda part=part: self._at_once(*part) for part in parts])  # type: ignore[misc]

    def _at_once(self, data: KernelInput, first: int, last: int) -> Sums:
        if self.fast is not None:
            return self._fast(data, self._workspace(data.settings), first, last)  # type: ignore[no-any-return]
        data = data._replace(settings=data.settings._replace(block=1))
        alone = ThreadTeam(0, 1, np.zeros(2, dtype=np.int64))
        return self._in_blocks(data, first, last, self._buffer(data.shard, data.settings, first, last), alone)

    def _in_blocks(self, data: KernelInput, first: int, last: int, buffer: GradientBuffer, team: ThreadTeam) -> Sums:
        work = self._workspace(data.settings)
        return self._blocks(data, work, first, last, buffer, team, self._entries(data.settings))  # type: ignore[no-any-return]

    def _workspace(self, settings: KernelSettings) -> Any:
        return self.new_workspace(LONGEST + 2 * settings.window, settings)

    def _entries(self, settings: KernelSettings) -> int:
        """The most a line can write: its own row in each table; for each group the negatives and a user."""
        return self.line_tables + groups_of(settings) * (settings.negatives * self.negative_kinds + 1)

    def _buffer(self, shard: Shard, settings: KernelSettings, first: int, last: int) -> GradientBuffer:
        """A buffer that holds any block of the units `first` to `last`, or any batch."""
        units = max(1, settings.block)
        if settings.batch:
            total = settings.batch * (2 * self.line_tables + settings.negatives * self.negative_kinds + 1)
        else:
            lines = np.zeros(-(-(last - first) // units) * units, dtype=np.int64)
            lines[: last - first] = shard.stop[first:last] - shard.start[first:last] + 2 * settings.window
            total = int(lines.reshape(-1, units).sum(axis=1).max(initial=0)) * self._entries(settings)
        return GradientBuffer(
            np.zeros(total, np.int64),
            np.zeros(total, np.int64),
            np.zeros((total, width(settings.dim)), np.float32),
            np.zeros(total, np.float32),
            np.zeros(units, np.int64),
            np.zeros(units, np.int64),
            np.zeros((units, 3), np.float64),
        )


def _part(settings: KernelSettings, first: int, last: int, start: int, stop: int) -> KernelSettings:
    """The settings of a part of the span: its part of the learning rate's way."""

    def rate(unit: int) -> float:
        return settings.rate + (settings.last_rate - settings.rate) * (unit - first) / (last - first)

    return settings._replace(rate=rate(start), last_rate=rate(stop))
