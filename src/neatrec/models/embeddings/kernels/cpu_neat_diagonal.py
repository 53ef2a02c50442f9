"""NEAT on a CPU with a variance for each dimension: `reference.neat_diagonal` says what is computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.arguments import Draws, KernelSettings, Shard, Tally
from neatrec.models.embeddings.kernels.cpu_gradients import clipped, in_blocks
from neatrec.models.embeddings.kernels.cpu_negatives import SEEN_WORDS, accept, basket_key, draw, enter
from neatrec.models.embeddings.kernels.cpu_run import Ways, run
from neatrec.models.embeddings.kernels.cpu_visit import RELAXED, bounds
from neatrec.models.embeddings.kernels.diagonal import ascend, diagonal_likelihood
from neatrec.models.embeddings.kernels.gaussians import hinges
from neatrec.models.embeddings.kernels.lanes import exponentials
from neatrec.models.embeddings.kernels.layout import LANES, SQUARES, VARIANCE_SQUARES, Table, width
from neatrec.models.embeddings.kernels.rows import add_row, clear_row, copy_row, dot, inverse_root

Floats = npt.NDArray[np.float32]


class DiagonalWorkspace(NamedTuple):
    """Working space for the lines of a unit; near as in `cpu_gaussians.DiagonalWorkspace`."""

    item: npt.NDArray[np.int32]  # (1, lines and a window more)
    category: npt.NDArray[np.int32]  # the same
    seen: npt.NDArray[np.uint64]  # see `enter`
    x: Floats  # (lines, width) means as they were
    s: Floats  # (lines, width) variances
    gradient: Floats  # (lines, width) the way down
    spread_gradient: Floats  # (lines, width) for the log-variances
    bar: Floats  # near: what a negative's likelihood must pass
    forth: Floats  # near
    back: Floats  # near
    negative: npt.NDArray[np.int64]  # (1, negatives)
    dice: npt.NDArray[np.uint64]  # (1, negatives)
    far: Floats  # (negatives, width) their variances
    likelihood: Floats  # (1, negatives padded)
    active: Floats  # (1, negatives padded)


def new_room(lines: int, settings: KernelSettings) -> DiagonalWorkspace:
    """DiagonalWorkspace for `lines` lines."""
    lines = width(lines)
    more = (1, lines + width(settings.window) + LANES)
    rows, near, slots = (lines, width(settings.dim)), (lines, width(settings.window)), (1, width(settings.negatives))

    def zeros(shape: tuple[int, ...]) -> Floats:
        return np.zeros(shape, dtype=np.float32)

    return DiagonalWorkspace(
        item=np.zeros(more, np.int32),
        category=np.zeros(more, np.int32),
        seen=np.zeros(SEEN_WORDS, np.uint64),
        x=zeros(rows),
        s=zeros(rows),
        gradient=zeros(rows),
        spread_gradient=zeros(rows),
        bar=zeros(near),
        forth=zeros(near),
        back=zeros(near),
        negative=np.zeros((1, settings.negatives), np.int64),
        dice=np.zeros((1, settings.negatives), np.uint64),
        far=zeros((settings.negatives, width(settings.dim))),
        likelihood=np.full(slots, -3e38, np.float32),
        active=zeros(slots),
    )


@compiled(inline="always")
def _compare_pairs(room, count, settings, dims):
    """The bars that negatives must pass; 3e38 where two lines make no pair."""
    margin = f32(settings.margin)
    for i in range(count):
        for o in range(min(settings.window, count - 1 - i)):
            j = i + 1 + o
            known = room.category[0, i] >= 0 and room.category[0, i] == room.category[0, j]
            if known or room.item[0, i] == room.item[0, j]:
                room.bar[i, o] = f32(3e38)
            else:
                room.bar[i, o] = diagonal_likelihood(room.x, i, room.s, i, room.x, j, room.s, j, dims) - margin


@compiled(inline="always")
def _partners(room, i, count, g, settings):
    """Ranges of o, ahead and behind, that group g of line i compares with, and how many of them make a pair."""
    window, pairs = settings.window, 0
    ahead, behind = (0, min(window, count - 1 - i)), (0, min(window, i))
    if not settings.shared:
        o = g - window
        ahead, behind = (g, min(g + 1, max(g, ahead[1]))), (o, min(o + 1, max(o, behind[1])))
        if g < window:
            behind = (0, 0)
        else:
            ahead = (0, 0)
    for o in range(ahead[0], ahead[1]):
        pairs += room.bar[i, o] < f32(1e38)
    for o in range(behind[0], behind[1]):
        pairs += room.bar[i - 1 - o, o] < f32(1e38)
    return ahead, behind, pairs


@compiled(inline="always")
def _pull(room, i, j, weight, dims):
    x, s = room.x, room.s
    ascend(room.gradient, room.spread_gradient, i, weight, x, i, s, i, x, j, s, j, dims)
    ascend(room.gradient, room.spread_gradient, j, weight, x, j, s, j, x, i, s, i, dims)


@compiled(inline="always")
def _wipe(slopes, row, first, last):
    """Nothing is asked of the padding."""
    for d in range(first, last):
        slopes[row, d] = f32(0)


@compiled(fastmath=RELAXED)
def neat_diagonal_unit(tables, shard, draws, settings, unit, first_pair, last_pair, room, tape, n, dims, slots, near):
    """Write down what a unit asks for."""
    table, window, negatives, size = tables[0], settings.window, settings.negatives, 8 * len(dims)
    logs, slopes = table[:, size:], tape.vector[:, size:]
    low, count, start, stop = bounds(shard, unit, window)
    enter(shard, low, count, room)
    for i in range(count):
        copy_row(room.x, i, table, room.item[0, i], dims)
        exponentials(room.s, i, logs, room.item[0, i], dims)
        clear_row(room.gradient, i, dims)
        clear_row(room.spread_gradient, i, dims)
        clear_row(room.forth, i, near)
        clear_row(room.back, i, near)
    _compare_pairs(room, count, settings, dims)
    groups = 1 if settings.shared else 2 * window
    basket = shard.basket[unit]
    key = basket_key(draws.seed, shard.number[basket])
    pairs, loss, active = 0.0, 0.0, 0.0
    at = tape.start[n]
    for i in range(start, stop):
        for g in range(groups):
            ahead, behind, partners = _partners(room, i, count, g, settings)
            if partners == 0:
                continue
            number = (low + i - shard.offsets[basket]) * groups + g
            draw(draws.alias, key, number, room.dice, room.negative, 0, negatives)
            accept(room, room.negative, 0, negatives, count, room.item[0, i], -1, draws)
            for k in range(negatives):
                row = room.negative[0, k]
                exponentials(room.far, k, logs, row, dims)
                likelihood = diagonal_likelihood(room.x, i, room.s, i, table, row, room.far, k, dims)
                room.likelihood[0, k] = f32(-3e38) if row == room.item[0, i] else likelihood
            _, passes, excess = hinges(
                room.active, 0, room.likelihood, room.bar, room.forth, room.back, i, ahead, behind, slots
            )
            pairs += partners
            loss += excess
            active += passes
            for k in range(negatives):
                weight = room.active[0, k]
                if weight > f32(0):
                    row = room.negative[0, k]
                    clear_row(tape.vector, at, dims)
                    clear_row(slopes, at, dims)
                    ascend(tape.vector, slopes, at, -weight, table, row, room.far, k, room.x, i, room.s, i, dims)
                    _wipe(slopes, at, settings.dim, size)
                    ascend(
                        room.gradient,
                        room.spread_gradient,
                        i,
                        -weight,
                        room.x,
                        i,
                        room.s,
                        i,
                        table,
                        row,
                        room.far,
                        k,
                        dims,
                    )
                    tape.table[at], tape.row[at] = 0, row
                    at += 1
    for i in range(count):
        for o in range(min(window, count - 1 - i)):
            weight = room.forth[i, o] + room.back[i, o]
            if weight > f32(0):
                _pull(room, i, i + 1 + o, weight, dims)
    for i in range(count):
        if dot(room.gradient, i, room.gradient, i, dims) > f32(0):
            copy_row(tape.vector, at, room.gradient, i, dims)
            copy_row(slopes, at, room.spread_gradient, i, dims)
            _wipe(slopes, at, settings.dim, size)
            tape.table[at], tape.row[at] = 0, room.item[0, i]
            at += 1
    tape.written[n] = at - tape.start[n]
    tape.tally[n, 0], tape.tally[n, 1], tape.tally[n, 2] = pairs, loss, active


@compiled
def _descend(tables, tape, n, rate, settings, member, members, dims):
    """Make the changes of unit n of the block whose rows this member owns, with row-wise Adagrad."""
    table, size, share = tables[0], 8 * len(dims), f32(1.0 / settings.dim)
    tail, slopes = 2 * size, tape.vector[:, size:]
    low, high, variance_rate = f32(settings.low), f32(settings.high), rate * f32(settings.variance_rate)
    for change in range(tape.start[n], tape.start[n] + tape.written[n]):
        row = tape.row[change]
        if row % members != member:
            continue
        squares = table[row, tail + SQUARES] + dot(tape.vector, change, tape.vector, change, dims) * share
        table[row, tail + SQUARES] = squares
        add_row(table, row, rate * inverse_root(squares + f32(1e-10)), tape.vector, change, dims)
        squares = table[row, tail + VARIANCE_SQUARES] + dot(slopes, change, slopes, change, dims) * share
        table[row, tail + VARIANCE_SQUARES] = squares
        step = variance_rate * inverse_root(squares + f32(1e-10))
        for d in range(settings.dim):
            moved = table[row, size + d] + clipped(step * slopes[change, d], f32(-0.3), f32(0.3))
            table[row, size + d] = clipped(moved, low, high)


@compiled(fastmath=RELAXED)
def _blocks(tables, shard, draws, settings, first, last, room, tape, crew, each, dims, slots, near):
    return in_blocks(
        neat_diagonal_unit,
        _descend,
        tables,
        shard,
        draws,
        settings,
        first,
        last,
        room,
        tape,
        crew,
        each,
        dims,
        slots,
        near,
    )


WAYS = Ways(new_room, _blocks, None, vectors=2)


def neat_diagonal(
    tables: tuple[Table, ...],
    shard: Shard,
    draws: Draws,
    settings: KernelSettings,
    first: int,
    last: int,
    threads: int = 1,
) -> Tally:
    """Gaussian items, a variance for each dimension, by the max-margin loss; tables: (items,)."""
    return run(WAYS, tables, shard, draws, settings, first, last, threads)
