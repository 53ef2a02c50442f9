"""What the compiled kernels share: the lines of a unit, its negatives, steps of Adagrad, gradients kept in a buffer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32
from numpy import int64 as i64
from numpy import uint64 as u64

from neatrec.compiled import RELAXED, compiled, prefetch, splitmix64
from neatrec.models.embeddings.kernels.arguments import KernelSettings, groups_of
from neatrec.models.embeddings.kernels.cpu_rows import (
    Floats,
    add_row,
    clipped,
    copy_row,
    dot,
    inverse_root,
    prefetch_row,
)
from neatrec.models.embeddings.kernels.draws import TRIES, basket_key, counted, holds, picked
from neatrec.models.embeddings.kernels.intrinsics import LANES
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, SQUARES, VARIANCE_SQUARES

SEEN_WORDS = 8
"""Words of `seen`: so many bits that most candidates need no look through the unit's lines."""
ALL_PAIRS = 1 << 60


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


class UnitLines(NamedTuple):
    """Where a unit lies in its shard, and how its negatives are drawn."""

    low: int  # the first line that is loaded
    loaded: int  # lines that are loaded
    start: int  # its first query, counted from `low`
    stop: int
    groups: int  # groups of negatives of all its queries
    key: int  # what the draws of its basket are counted under
    place: int  # the number of its first group in the basket


class Query(NamedTuple):
    """What negatives must not be: items of the first `lines` lines of the unit, of `item`'s baskets, of `user`."""

    item: int
    user: int  # -1: none
    lines: int


class PairRange(NamedTuple):
    """The pairs of a unit that are trained: those numbered from `first` to `last`."""

    first: int | np.int64
    last: int | np.int64


class GradientBuffer(NamedTuple):
    """Gradients of a block of units. Unit n of the block writes from start[n] on, length[n] entries."""

    table: npt.NDArray[np.int64]  # (entries,)
    row: npt.NDArray[np.int64]  # (entries,)
    vector: Floats  # (entries, width) minus the gradient
    slope: Floats  # (entries,) minus the derivative by the log-variance
    start: npt.NDArray[np.int64]  # (units,)
    length: npt.NDArray[np.int64]  # (units,)
    stats: npt.NDArray[np.float64]  # (units, 3) pairs, loss, active hinges
    line_entries: int  # the most that a line writes


# ---- the lines of a unit and their negatives: `reference.groups` says which


@compiled(inline="always")
def unit_lines(data, unit):
    """The lines of a unit: `UnitLines`."""
    shard, window, groups = data.shard, data.settings.window, group_count(data.settings)
    basket, start, stop = shard.basket[unit], shard.start[unit], shard.stop[unit]
    begin, end = shard.offsets[basket], shard.offsets[basket + 1]
    low = max(begin, start - window)
    count = min(end, stop + window) - low
    key = basket_key(data.draws.seed, shard.number[basket])
    return UnitLines(low, count, start - low, stop - low, (stop - start) * groups, key, (start - begin) * groups)


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
def places(g, settings):
    """The places in the window (see `arguments.groups_of`) of the partners that share group g: (first, last)."""
    return (0, 2 * settings.window) if settings.shared else (g, g + 1)


@compiled(inline="always")
def flat_place(row, width, column):
    """The place of an entry of a table that is kept flat; unsigned, so that Numba looks for no index from the end."""
    return u64(row * width + column)


@compiled(inline="always")
def line_at(i, place, window):
    """The line at a place in the window of line i, and where numbers of the pair stand, if the line is in the unit:
    those of the earlier line."""
    if place < window:
        return i + 1 + place, flat_place(i, window, place)
    j = i - 1 - (place - window)
    return j, flat_place(j, window, place - window)


@compiled(inline="always")
def has_partner(unit, i, count, g, settings):
    """Whether group g of line i has any partner."""
    found = False
    first, last = places(g, settings)
    for place in range(first, last):
        j, _ = line_at(i, place, settings.window)
        found |= 0 <= j < count and is_pair(unit, i, j)
    return found


@compiled(inline="always")
def in_basket(line, g, begin, end, settings):
    """Whether the partner of group g of a line lies in its basket; with shared negatives, whether any does."""
    return end - begin > 1 if settings.shared else begin <= line_at(line, g, settings.window)[0] < end


@compiled(inline="always")
def draw_bits(data, key, group, random_bits, row):
    """Random bits for the candidates of group number `group`; asks for the alias entries they pick."""
    alias, count = data.draws.alias, data.settings.negatives
    for k in range(count):
        bits = counted(key, u64(group * count + k))
        random_bits[row, k] = bits
        prefetch(alias, i64(((bits >> u64(32)) * u64(len(alias))) >> u64(32)))


@compiled(inline="always")
def draw_candidates(data, table, random_bits, negative, row):
    """Turn random_bits[row] into candidates negative[row]; asks for their rows."""
    for k in range(data.settings.negatives):
        item = i64(picked(random_bits[row, k], data.draws.alias))
        negative[row, k] = item
        prefetch_row(table, item, data.dims)


@compiled(inline="always")
def draw_unit_bits(data, unit, lines, kind):
    """Random bits for one kind of negatives of all groups of a unit, into rows kind x groups on."""
    key = lines.key if kind == 0 else splitmix64(lines.key + u64(kind))
    for n in range(lines.groups):
        draw_bits(data, key, lines.place + n, unit.random_bits, kind * lines.groups + n)


@compiled(inline="always")
def maybe_seen(seen, row):
    return (seen[(u64(row) >> u64(6)) & u64(SEEN_WORDS - 1)] >> (u64(row) & u64(63))) & u64(1) == u64(1)


@compiled
def another(draws, unit, query, item, bits):
    """`item`, or the first further draw that is not refused; the query itself where there is none."""
    for _ in range(TRIES):
        refused = False
        if maybe_seen(unit.seen, item):
            for i in range(query.lines):
                refused |= unit.item[i] == item
        if len(draws.observed) > 0:
            refused |= holds(draws.observed, query.item, item)
        if len(draws.bought) > 0:
            refused |= holds(draws.bought, query.user, item)
        if not refused:
            return item
        bits = splitmix64(bits + u64(1))
        item = i64(picked(bits, draws.alias))
    return i64(query.item)


@compiled(inline="always")
def replace_refused(data, unit, drawn, row, query):
    """negative[row] = drawn[row], less what is refused; one that cannot be replaced becomes the query itself."""
    draws = data.draws
    for k in range(data.settings.negatives):
        item = drawn[row, k]
        if maybe_seen(unit.seen, item) or len(draws.observed) > 0 or len(draws.bought) > 0:
            item = another(draws, unit, query, item, unit.random_bits[row, k])
        unit.negative[row, k] = item


@compiled
def draw_other_users(key, group, negative, row, users, user):
    """Other users than `user` for group number `group` into negative[row]; where there is none, the user."""
    count = negative.shape[1]
    for k in range(count):
        bits = counted(key, u64(group * count + k))
        other = i64(user)
        for _ in range(TRIES):
            other = i64(((bits >> u64(32)) * u64(users)) >> u64(32))
            if other != user:
                break
            bits = splitmix64(bits + u64(1))
        negative[row, k] = other


# ---- steps of row-wise Adagrad


@compiled(inline="always")
def adagrad_step(data, table, row, squared, rate):
    """Add the sum of squares of a gradient to what Adagrad divides by; the length of its step comes back."""
    place = LANES * len(data.dims) + SQUARES
    squares = table[row, place] + squared * f32(1.0 / data.settings.dim)
    table[row, place] = squares
    return rate * inverse_root(squares + f32(1e-10))


@compiled(inline="always")
def variance_step(data, table, row, slope, rate):
    """Row-wise Adagrad on a log-variance: at most 0.3 at a time, between its bounds."""
    settings, tail = data.settings, LANES * len(data.dims)
    squares = table[row, tail + VARIANCE_SQUARES] + slope * slope
    table[row, tail + VARIANCE_SQUARES] = squares
    step = rate * f32(settings.variance_rate) * slope * inverse_root(squares + f32(1e-10))
    moved = table[row, tail + LOG_VARIANCE] + clipped(step, f32(-0.3), f32(0.3))
    table[row, tail + LOG_VARIANCE] = clipped(moved, f32(settings.low), f32(settings.high))


# ---- gradients kept in a buffer


@compiled(inline="always")
def add_entry(buffer, at, table, row):
    """Note which row the entry `at` is for; it has no slope."""
    buffer.table[at] = table
    buffer.row[at] = row
    buffer.slope[at] = f32(0)


@compiled(inline="always")
def write_lines(data, work, buffer, at, count):
    """Write the gradients of the lines, of their rows in the first two tables; the next free entry comes back."""
    for table in range(2):
        gradient = work.f_gradient if table == 0 else work.g_gradient
        for i in range(count):
            if dot(gradient, i, gradient, i, data.dims) > f32(0):
                add_entry(buffer, at, table, work.unit.item[i])
                copy_row(buffer.vector, at, gradient, i, data.dims)
                at += 1
    return at


@compiled(inline="always")
def finish_unit(buffer, slot, at, pairs, loss, active):
    """Note how many entries and what sums unit `slot` of the block has."""
    buffer.length[slot] = at - buffer.start[slot]
    buffer.stats[slot, 0], buffer.stats[slot, 1], buffer.stats[slot, 2] = pairs, loss, active


@compiled(forceinline=True, fastmath=RELAXED)
def apply_unit(data, buffer, slot, rate, team):
    """Apply the gradients of unit `slot` of the block whose rows this member owns, with row-wise Adagrad."""
    dims = data.dims
    for at in range(buffer.start[slot], buffer.start[slot] + buffer.length[slot]):
        row = buffer.row[at]
        if row % team.size != team.member:
            continue
        table = data.tables[buffer.table[at]]
        squared = dot(buffer.vector, at, buffer.vector, at, dims)
        if squared > f32(0):
            add_row(table, row, adagrad_step(data, table, row, squared, rate), buffer.vector, at, dims)
            if buffer.slope[at] != f32(0):
                variance_step(data, table, row, buffer.slope[at], rate)


@compiled(forceinline=True, fastmath=RELAXED)
def apply_batch(data, buffer, count, rate):
    """Apply the first `count` entries of the buffer by plain gradient descent."""
    settings, place = data.settings, LANES * len(data.dims) + LOG_VARIANCE
    for at in range(count):
        table, row = data.tables[buffer.table[at]], buffer.row[at]
        add_row(table, row, rate, buffer.vector, at, data.dims)
        table[row, place] += rate * f32(settings.variance_rate) * buffer.slope[at]
    for at in range(count):
        if buffer.slope[at] != f32(0):
            table, row = data.tables[buffer.table[at]], buffer.row[at]
            table[row, place] = clipped(table[row, place], f32(settings.low), f32(settings.high))
