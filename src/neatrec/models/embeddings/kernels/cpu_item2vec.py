"""Skip-gram with negative sampling on a CPU: `reference.item2vec` says what is computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.arguments import Draws, KernelSettings, Shard, Tally, groups_of
from neatrec.models.embeddings.kernels.cpu_gradients import address, descend, in_batches, in_blocks
from neatrec.models.embeddings.kernels.cpu_negatives import SEEN_WORDS, accept, basket_key, draw_all, enter, roll_all
from neatrec.models.embeddings.kernels.cpu_run import Ways, run
from neatrec.models.embeddings.kernels.cpu_visit import RELAXED, at_once, bounds
from neatrec.models.embeddings.kernels.layout import LANES, SQUARES, Table, width
from neatrec.models.embeddings.kernels.rows import add_row, clear_row, copy_row, dot, inverse_root, set_row
from neatrec.models.embeddings.kernels.vectors import combine, exchange_all, far_sigmoids, far_steps, near_sigmoids

Floats = npt.NDArray[np.float32]


class SkipGramWorkspace(NamedTuple):
    """Working space for the lines of a unit; near and far as in `cpu_gaussians.SkipGramWorkspace`."""

    item: npt.NDArray[np.int32]  # (1, lines and a window more)
    category: npt.NDArray[np.int32]  # the same
    seen: npt.NDArray[np.uint64]  # see `enter`
    f: Floats  # (lines, width) input rows as they were
    g: Floats  # (lines, width) output rows
    f_gradient: Floats  # (lines, width) the way down
    g_gradient: Floats  # (lines, width)
    norm: Floats  # (lines,) squared length of f
    forth: Floats  # near: 1 - sigmoid(f_i . g_j) of line i and line j = i + 1 + o
    back: Floats  # near: 1 - sigmoid(f_j . g_i)
    forth_loss: Floats  # near
    back_loss: Floats  # near
    negative: npt.NDArray[np.int64]  # (groups, negatives)
    weight: Floats  # far, and so on
    step: Floats
    squares: Floats
    partners: Floats  # (groups,)
    dice: npt.NDArray[np.uint64]  # (groups, negatives) of the next unit
    ahead: npt.NDArray[np.int64]  # (groups, negatives) of the next unit


def new_room(lines: int, settings: KernelSettings) -> SkipGramWorkspace:
    """SkipGramWorkspace for `lines` lines."""
    lines = width(lines)
    groups = lines * groups_of(settings)
    rows, more = (lines, width(settings.dim)), (1, lines + width(settings.window) + LANES)
    near, drawn = (lines, width(settings.window)), (groups, settings.negatives)
    far = (groups, width(settings.negatives))

    def zeros(shape: tuple[int, ...]) -> Floats:
        return np.zeros(shape, dtype=np.float32)

    return SkipGramWorkspace(
        item=np.zeros(more, np.int32),
        category=np.zeros(more, np.int32),
        seen=np.zeros(SEEN_WORDS, np.uint64),
        f=zeros(rows),
        g=zeros(rows),
        f_gradient=zeros(rows),
        g_gradient=zeros(rows),
        norm=zeros((lines,)),
        forth=zeros(near),
        back=zeros(near),
        forth_loss=zeros(near),
        back_loss=zeros(near),
        negative=np.zeros(drawn, np.int64),
        weight=zeros(far),
        step=zeros(far),
        squares=zeros(far),
        partners=zeros((groups,)),
        dice=np.zeros(drawn, np.uint64),
        ahead=np.zeros(drawn, np.int64),
    )


@compiled(inline="always")
def _gather(tables, shard, low, count, room, dims, near):
    enter(shard, low, count, room)
    for i in range(count):
        row = room.item[0, i]
        copy_row(room.f, i, tables[0], row, dims)
        copy_row(room.g, i, tables[1], row, dims)
        clear_row(room.f_gradient, i, dims)
        clear_row(room.g_gradient, i, dims)
        room.norm[i] = dot(room.f, i, room.f, i, dims)


@compiled(inline="always")
def _compare_pairs(room, count, start, stop, settings, dims, near):
    """Weights and losses of all pairs within the window, in both directions; only queries' directions count."""
    for i in range(count):
        reach = min(settings.window, count - 1 - i)
        mine = reach if start <= i < stop else 0
        near_sigmoids(room.forth, room.forth_loss, i, 0, mine, room.f, room.g, room.item, room.category, dims, near)
        low, high = max(0, start - i - 1), min(reach, stop - i - 1)
        near_sigmoids(room.back, room.back_loss, i, low, high, room.g, room.f, room.item, room.category, dims, near)


@compiled(inline="always")
def _partners(room, i, count, g, settings):
    """How many pairs group g of line i has, and the sum of their losses."""
    window, pairs, loss = settings.window, 0, f32(0)
    for o in range(min(window, count - 1 - i)):
        if (settings.shared or g == o) and room.forth[i, o] > f32(0):
            pairs += 1
            loss += room.forth_loss[i, o]
    for o in range(min(window, i)):
        if (settings.shared or g == window + o) and room.back[i - 1 - o, o] > f32(0):
            pairs += 1
            loss += room.back_loss[i - 1 - o, o]
    return pairs, loss


@compiled(inline="always")
def _compare(tables, room, count, start, stop, groups, settings, dims, slots, near):
    """Compare all pairs of the unit; (pairs, loss, 0)."""
    pairs, loss = 0.0, 0.0
    _compare_pairs(room, count, start, stop, settings, dims, near)
    for n in range((stop - start) * groups):
        partners, cost = _partners(room, start + n // groups, count, n % groups, settings)
        room.partners[n] = partners
        pairs += partners
        loss += cost
    return pairs, loss, 0.0


@compiled(inline="always")
def _push(tables, room, i, first, last, unit, settings, rate, dims, slots):
    """Compare line i with the negatives of its groups and push them away; what that cost."""
    share, loss = room.norm[i] * f32(1.0 / settings.dim), f32(0)
    for group in range(first, last):
        if room.partners[group] > f32(0):
            loss += far_steps(
                room.weight,
                room.step,
                room.squares,
                group,
                tables[1],
                room.negative,
                settings.negatives,
                room.item[0, i],
                room.f,
                i,
                room.partners[group],
                share,
                rate,
                dims,
                slots,
            )
    for group in range(first, last):
        if room.partners[group] > f32(0):
            exchange_all(
                tables[1],
                room.negative,
                room.weight,
                room.step,
                room.squares,
                group,
                settings.negatives,
                room.f,
                i,
                room.f_gradient,
                dims,
            )
    return loss


@compiled(inline="always")
def _pull(room, i, count, settings, dims):
    """Finish the gradients of line i; their sums of squares come back."""
    ahead, behind = min(settings.window, count - 1 - i), min(settings.window, i)
    f = combine(room.f_gradient, i, room.g, room.forth, room.back, ahead, behind, dims)
    g = combine(room.g_gradient, i, room.f, room.back, room.forth, ahead, behind, dims)
    return f, g


@compiled(inline="always")
def _move(table, row, gradient, i, squared, settings, rate, dims):
    tail = 8 * len(dims)
    if squared > f32(0):
        squares = table[row, tail + SQUARES] + squared * f32(1.0 / settings.dim)
        table[row, tail + SQUARES] = squares
        add_row(table, row, rate * inverse_root(squares + f32(1e-10)), gradient, i, dims)


@compiled(inline="always")
def _settle(tables, room, count, settings, rate, dims, near):
    for i in range(count):
        f, g = _pull(room, i, count, settings, dims)
        _move(tables[0], room.item[0, i], room.f_gradient, i, f, settings, rate, dims)
        _move(tables[1], room.item[0, i], room.g_gradient, i, g, settings, rate, dims)


@compiled(fastmath=RELAXED)
def _at_once(tables, shard, draws, settings, first, last, room, groups, dims, slots, near):
    return at_once(
        _gather, _compare, _push, _settle, tables, shard, draws, settings, first, last, room, groups, dims, slots, near
    )


@compiled(fastmath=RELAXED)
def item2vec_unit(tables, shard, draws, settings, unit, first_pair, last_pair, room, tape, n, dims, slots, near):
    """Write down what a unit asks for; of its pairs only those numbered from `first_pair` to `last_pair`."""
    window, negatives, table = settings.window, settings.negatives, tables[1]
    low, count, start, stop = bounds(shard, unit, window)
    groups = 1 if settings.shared else 2 * window
    basket = shard.basket[unit]
    key = basket_key(draws.seed, shard.number[basket])
    place = (shard.start[unit] - shard.offsets[basket]) * groups
    roll_all(draws.alias, key, place, room, (stop - start) * groups, negatives)
    _gather(tables, shard, low, count, room, dims, near)
    draw_all(table, draws.alias, room, (stop - start) * groups, negatives, dims)
    _compare_pairs(room, count, start, stop, settings, dims, near)
    seen, pairs, loss = 0, 0.0, 0.0
    at = tape.start[n]
    for group in range((stop - start) * groups):
        i, g = start + group // groups, group % groups
        partners, cost = _partners(room, i, count, g, settings)
        if partners == 0:
            continue
        seen += 1
        if not (settings.shared or first_pair < seen <= last_pair):
            if g < window:
                room.forth[i, g] = f32(0)
            else:
                room.back[i - 1 - (g - window), g - window] = f32(0)
            continue
        accept(room, room.negative, group, negatives, count, room.item[0, i], -1, draws)
        pairs += partners
        loss += cost + far_sigmoids(
            room.weight,
            group,
            table,
            room.negative,
            negatives,
            room.item[0, i],
            room.f,
            i,
            f32(partners),
            dims,
            slots,
        )
        for k in range(negatives):
            weight, row = room.weight[group, k], room.negative[group, k]
            if weight != f32(0):
                set_row(tape.vector, at, weight, room.f, i, dims)
                add_row(room.f_gradient, i, weight, table, row, dims)
                address(tape, at, 1, row)
                at += 1
    for which in range(2):
        for i in range(count):
            if which == 0:
                f, g = _pull(room, i, count, settings, dims)
                room.norm[i] = g
                squared = f
            else:
                squared = room.norm[i]
            if squared > f32(0):
                copy_row(tape.vector, at, room.f_gradient if which == 0 else room.g_gradient, i, dims)
                address(tape, at, which, room.item[0, i])
                at += 1
    tape.written[n] = at - tape.start[n]
    tape.tally[n, 0], tape.tally[n, 1], tape.tally[n, 2] = pairs, loss, 0.0


@compiled(fastmath=RELAXED)
def _blocks(tables, shard, draws, settings, first, last, room, tape, crew, each, dims, slots, near):
    return in_blocks(
        item2vec_unit, descend, tables, shard, draws, settings, first, last, room, tape, crew, each, dims, slots, near
    )


@compiled(fastmath=RELAXED)
def _batches(tables, shard, draws, settings, first, last, room, tape, dims, slots, near):
    return in_batches(item2vec_unit, tables, shard, draws, settings, first, last, room, tape, dims, slots, near)


WAYS = Ways(new_room, _blocks, _batches, _at_once, line_tables=2)


def item2vec(
    tables: tuple[Table, ...],
    shard: Shard,
    draws: Draws,
    settings: KernelSettings,
    first: int,
    last: int,
    threads: int = 1,
) -> Tally:
    """Skip-gram with negative sampling; tables: (input, output)."""
    return run(WAYS, tables, shard, draws, settings, first, last, threads)
