"""Changes written down before they are made: the way of the reproducible mode and of mini-batches.

A unit writes the way down for each row it touches on a tape; later the tape is played back. Each row's changes are made
in the order of the tape by whichever thread owns the row, so the result does not depend on how many threads there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32
from numpy import int64 as i64

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.arguments import KernelSettings, Shard, groups_of
from neatrec.models.embeddings.kernels.borrowed import borrowed
from neatrec.models.embeddings.kernels.cpu_threads import meet
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, SQUARES, VARIANCE_SQUARES, width
from neatrec.models.embeddings.kernels.rows import add_row, dot, inverse_root

Floats = npt.NDArray[np.float32]


class Tape(NamedTuple):
    """Changes of a block of units. Unit n of the block writes from start[n] on; written[n] says how many it wrote."""

    table: npt.NDArray[np.int64]  # (changes,)
    row: npt.NDArray[np.int64]  # (changes,)
    vector: Floats  # (changes, width, twice for diagonal covariance) the way down
    slope: Floats  # (changes,) the way down for the log-variance
    start: npt.NDArray[np.int64]  # (units,)
    written: npt.NDArray[np.int64]  # (units,)
    tally: npt.NDArray[np.float64]  # (units, 3) pairs, loss, active hinges


def changes_of_line(settings: KernelSettings, tables: int, streams: int) -> int:
    """The most changes a line can ask for: its own row in each table; for each group the negatives and a user."""
    return tables + groups_of(settings) * (settings.negatives * streams + 1)


def new_tape(
    shard: Shard, settings: KernelSettings, first: int, last: int, tables: int = 1, streams: int = 1, vectors: int = 1
) -> Tape:
    """A tape that holds any block of the units `first` to `last`, or any batch."""
    units = max(1, settings.block)
    if settings.batch:
        total = settings.batch * (2 * tables + settings.negatives * streams + 1)
    else:
        lines = np.zeros(-(-(last - first) // units) * units, dtype=np.int64)
        lines[: last - first] = shard.stop[first:last] - shard.start[first:last] + 2 * settings.window
        most = int(lines.reshape(-1, units).sum(axis=1).max(initial=0))
        total = most * changes_of_line(settings, tables, streams)
    return Tape(
        np.zeros(total, np.int64),
        np.zeros(total, np.int64),
        np.zeros((total, vectors * width(settings.dim)), np.float32),
        np.zeros(total, np.float32),
        np.zeros(units, np.int64),
        np.zeros(units, np.int64),
        np.zeros((units, 3), np.float64),
    )


@compiled(inline="always")
def address(tape, change, table, row):
    """Say which row a change is for; it has no slope."""
    tape.table[change] = table
    tape.row[change] = row
    tape.slope[change] = f32(0)


@compiled(inline="always")
def clipped(x, low, high):
    return min(max(x, low), high)


@compiled(inline="always")
def step_variance(table, row, tail, slope, rate, settings):
    """Row-wise Adagrad on a log-variance: at most 0.3 at a time, between its bounds."""
    squares = table[row, tail + VARIANCE_SQUARES] + slope * slope
    table[row, tail + VARIANCE_SQUARES] = squares
    step = rate * f32(settings.variance_rate) * slope * inverse_root(squares + f32(1e-10))
    moved = table[row, tail + LOG_VARIANCE] + clipped(step, f32(-0.3), f32(0.3))
    table[row, tail + LOG_VARIANCE] = clipped(moved, f32(settings.low), f32(settings.high))


@compiled
def descend(tables, tape, n, rate, settings, member, members, dims):
    """Make the changes of unit n of the block whose rows this member owns, with row-wise Adagrad."""
    tail, share = 8 * len(dims), f32(1.0 / settings.dim)
    for change in range(tape.start[n], tape.start[n] + tape.written[n]):
        row = tape.row[change]
        if row % members != member:
            continue
        table = tables[tape.table[change]]
        squared = dot(tape.vector, change, tape.vector, change, dims)
        if squared > f32(0):
            squares = table[row, tail + SQUARES] + squared * share
            table[row, tail + SQUARES] = squares
            add_row(table, row, rate * inverse_root(squares + f32(1e-10)), tape.vector, change, dims)
            if tape.slope[change] != f32(0):
                step_variance(table, row, tail, tape.slope[change], rate, settings)


@compiled
def descend_together(tables, tape, count, rate, settings, dims):
    """Make the first `count` changes of the tape by plain gradient descent."""
    tail = 8 * len(dims)
    for change in range(count):
        table, row = tables[tape.table[change]], tape.row[change]
        add_row(table, row, rate, tape.vector, change, dims)
        table[row, tail + LOG_VARIANCE] += rate * f32(settings.variance_rate) * tape.slope[change]
    for change in range(count):
        if tape.slope[change] != f32(0):
            table, row = tables[tape.table[change]], tape.row[change]
            table[row, tail + LOG_VARIANCE] = clipped(
                table[row, tail + LOG_VARIANCE], f32(settings.low), f32(settings.high)
            )


@compiled(inline="always")
def in_blocks(ask, make, tables, shard, draws, settings, first, last, room, tape, crew, each, dims, slots, near):
    """Blocks of units: members share the asking, meet, share the rows, meet again. Sums for member 0, zeros for others.

    `ask` writes down what a unit asks for, `make` makes those changes; `each` is how many a line may ask for.
    """
    tables, shard, draws, room, tape = (
        borrowed(tables),
        borrowed(shard),
        borrowed(draws),
        borrowed(room),
        borrowed(tape),
    )
    member, members, size = crew.member, crew.members, max(1, settings.block)
    learns = settings.rate != 0.0 or settings.last_rate != 0.0
    pairs, loss, active = 0.0, 0.0, 0.0
    for begin in range(first, last, size):
        count = min(size, last - begin)
        if member == 0:
            place = 0
            for n in range(count):
                tape.start[n] = place
                place += each * (shard.stop[begin + n] - shard.start[begin + n] + 2 * settings.window)
        meet(crew.gate, members)
        for n in range(member, count, members):
            ask(tables, shard, draws, settings, begin + n, 0, 1 << 60, room, tape, n, dims, slots, near)
        meet(crew.gate, members)
        for n in range(count):
            rate = settings.rate + (settings.last_rate - settings.rate) * (begin + n - first) / (last - first)
            if learns:
                make(tables, tape, n, f32(rate), settings, member, members, dims)
            if member == 0:
                pairs += tape.tally[n, 0]
                loss += tape.tally[n, 1]
                active += tape.tally[n, 2]
        meet(crew.gate, members)
    return pairs, loss, active


@compiled(inline="always")
def in_batches(ask, tables, shard, draws, settings, first, last, room, tape, dims, slots, near):
    """Mini-batches of exactly `settings.batch` pairs, cut wherever they fall."""
    tables, shard, draws, room, tape = (
        borrowed(tables),
        borrowed(shard),
        borrowed(draws),
        borrowed(room),
        borrowed(tape),
    )
    scale = 1.0 / settings.batch if settings.average else 1.0
    pairs, loss, active = 0.0, 0.0, 0.0
    # numbers of one type from the start: with a second one everything below would be compiled twice
    space, used, rate = i64(settings.batch), i64(0), f32(0)
    for unit in range(first, last):
        rate = f32((settings.rate + (settings.last_rate - settings.rate) * (unit - first) / (last - first)) * scale)
        done = i64(0)
        while True:
            tape.start[0] = used
            ask(tables, shard, draws, settings, unit, done, done + space, room, tape, 0, dims, slots, near)
            seen = i64(tape.tally[0, 0])
            pairs += tape.tally[0, 0]
            loss += tape.tally[0, 1]
            active += tape.tally[0, 2]
            used += tape.written[0]
            done += seen
            space -= seen
            if space > 0:
                break
            descend_together(tables, tape, used, rate, settings, dims)
            used, space = i64(0), i64(settings.batch)
    descend_together(tables, tape, used, rate, settings, dims)
    return pairs, loss, active
