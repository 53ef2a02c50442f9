"""NEAT on a CPU, spherical Gaussians: `reference.neat` says what is computed.

A unit (a basket) at a time: its rows are copied, the distance of each pair is computed once for both directions, each
position compares its partners with its own negatives, and each row of the basket is changed once. Negatives are drawn
one unit ahead, so that their rows are in the cache when they are needed.
"""

from __future__ import annotations

from numpy import float32 as f32

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.arguments import Draws, KernelSettings, Shard, Tally
from neatrec.models.embeddings.kernels.cpu_gaussians import (
    compare_negatives,
    compare_pairs,
    gather,
    new_room,
    partners_of,
)
from neatrec.models.embeddings.kernels.cpu_gradients import address, descend, in_batches, in_blocks, step_variance
from neatrec.models.embeddings.kernels.cpu_negatives import accept, basket_key, draw_all, roll_all
from neatrec.models.embeddings.kernels.cpu_run import Ways, run
from neatrec.models.embeddings.kernels.cpu_visit import RELAXED, at_once, bounds
from neatrec.models.embeddings.kernels.gaussians import hinges, pull, weigh
from neatrec.models.embeddings.kernels.layout import SQUARES, VISITOR, Table
from neatrec.models.embeddings.kernels.rows import add_row, copy_row, inverse_root, part, repel, square_distance


@compiled(inline="always")
def _compare(tables, room, count, start, stop, groups, settings, dims, slots, near):
    """Compare all pairs of the unit and all negatives of its positions; (pairs, loss, active hinges)."""
    pairs, loss, active = 0.0, 0.0, 0.0
    compare_pairs(room, count, settings, dims, near)
    for n in range((stop - start) * groups):
        i = start + n // groups
        ahead, behind = partners_of(room, i, count, n % groups, settings)
        if ahead[1] - ahead[0] + behind[1] - behind[0] > 0:
            compare_negatives(tables[0], room, i, n, settings, dims, slots)
    for n in range((stop - start) * groups):
        i = start + n // groups
        ahead, behind = partners_of(room, i, count, n % groups, settings)
        partners, passes, excess = hinges(
            room.active, n, room.likelihood, room.bar, room.forth, room.back, i, ahead, behind, slots
        )
        pairs += partners
        loss += excess
        active += passes
    return pairs, loss, active


@compiled(inline="always")
def _push(tables, room, i, first, last, unit, settings, rate, dims, slots):
    """Push the active negatives of line i's groups away from it."""
    table, tail, half, share = tables[0], 8 * len(dims), f32(0.5 * settings.dim), f32(1.0 / settings.dim)
    total = f32(0)
    for group in range(first, last):
        for k in range(settings.negatives):
            active = room.active[group, k]
            if active > f32(0):
                row, precision, distance = room.negative[group, k], room.precision[group, k], room.distance[group, k]
                force = active * precision
                if table[row, tail + VISITOR] == f32(unit + 1):
                    # drawn before in this unit and pushed since: from where it stands now
                    distance = square_distance(room.x, i, table, row, dims)
                table[row, tail + VISITOR] = f32(unit + 1)
                squares = table[row, tail + SQUARES] + force * force * distance * share
                table[row, tail + SQUARES] = squares
                step = force * rate * inverse_root(squares + f32(1e-10))
                repel(table, row, room.x, i, room.gradient, force, step, dims)
                slope = force * (half - f32(0.5) * distance * precision)
                total += slope
                step_variance(table, row, tail, slope * room.far_variance[group, k], rate, settings)
    room.slope[i] += total
    return f32(0)


@compiled(inline="always")
def pull_together(room, i, count, settings, dims, near):
    """Finish the gradient of line i; its sum of squares and its slope come back. Lines before it must be finished."""
    half = f32(0.5 * settings.dim)
    weigh(room.weight, room.bend, i, room.forth, room.back, room.near_precision, room.near_distance, half, near)
    ahead, behind = min(settings.window, count - 1 - i), min(settings.window, i)
    squared, bend = pull(room.gradient, i, room.x, room.weight, room.bend, ahead, behind, dims)
    return squared, (room.slope[i] + bend) * room.variance[0, i]


@compiled(inline="always")
def _settle(tables, room, count, settings, rate, dims, near):
    """Change the row of each line by all that its unit asks for."""
    table, tail, share = tables[0], 8 * len(dims), f32(1.0 / settings.dim)
    for i in range(count):
        squared, slope = pull_together(room, i, count, settings, dims, near)
        if squared > f32(0):
            row = room.item[0, i]
            squares = table[row, tail + SQUARES] + squared * share
            table[row, tail + SQUARES] = squares
            add_row(table, row, rate * inverse_root(squares + f32(1e-10)), room.gradient, i, dims)
            step_variance(table, row, tail, slope, rate, settings)


@compiled(fastmath=RELAXED)
def _at_once(tables, shard, draws, settings, first, last, room, groups, dims, slots, near):
    return at_once(
        gather, _compare, _push, _settle, tables, shard, draws, settings, first, last, room, groups, dims, slots, near
    )


@compiled(inline="always")
def write_lines(room, tape, at, count, settings, dims, near):
    """Write down the change of each line of the unit from place `at` of the tape on; the next free place comes back."""
    for i in range(count):
        squared, slope = pull_together(room, i, count, settings, dims, near)
        if squared > f32(0):
            copy_row(tape.vector, at, room.gradient, i, dims)
            address(tape, at, 0, room.item[0, i])
            tape.slope[at] = slope
            at += 1
    return at


@compiled(fastmath=RELAXED)
def neat_unit(tables, shard, draws, settings, unit, first_pair, last_pair, room, tape, n, dims, slots, near):
    """Write down what a unit asks for; of its pairs only those numbered from `first_pair` to `last_pair`."""
    table, window, negatives = tables[0], settings.window, settings.negatives
    half = f32(0.5 * settings.dim)
    low, count, start, stop = bounds(shard, unit, window)
    groups = 1 if settings.shared else 2 * window
    basket = shard.basket[unit]
    key = basket_key(draws.seed, shard.number[basket])
    place = (shard.start[unit] - shard.offsets[basket]) * groups
    roll_all(draws.alias, key, place, room, (stop - start) * groups, negatives)
    gather(tables, shard, low, count, room, dims, near)
    draw_all(table, draws.alias, room, (stop - start) * groups, negatives, dims)
    compare_pairs(room, count, settings, dims, near)
    seen, pairs, loss, active = 0, 0.0, 0.0, 0.0
    at = tape.start[n]
    for group in range((stop - start) * groups):
        i = start + group // groups
        ahead, behind = partners_of(room, i, count, group % groups, settings)
        if ahead[1] - ahead[0] + behind[1] - behind[0] == 0:
            continue
        seen += 1
        if not (settings.shared or first_pair < seen <= last_pair):
            continue
        accept(room, room.negative, group, negatives, count, room.item[0, i], -1, draws)
        compare_negatives(table, room, i, group, settings, dims, slots)
        partners, passes, excess = hinges(
            room.active, group, room.likelihood, room.bar, room.forth, room.back, i, ahead, behind, slots
        )
        pairs += partners
        loss += excess
        active += passes
        for k in range(negatives):
            if room.active[group, k] > f32(0):
                row, precision = room.negative[group, k], room.precision[group, k]
                force = room.active[group, k] * precision
                part(tape.vector, at, force, room.x, i, table, row, room.gradient, dims)
                slope = force * (half - f32(0.5) * room.distance[group, k] * precision)
                room.slope[i] += slope
                address(tape, at, 0, row)
                tape.slope[at] = slope * room.far_variance[group, k]
                at += 1
    at = write_lines(room, tape, at, count, settings, dims, near)
    tape.written[n] = at - tape.start[n]
    tape.tally[n, 0], tape.tally[n, 1], tape.tally[n, 2] = pairs, loss, active


@compiled(fastmath=RELAXED)
def _blocks(tables, shard, draws, settings, first, last, room, tape, crew, each, dims, slots, near):
    return in_blocks(
        neat_unit, descend, tables, shard, draws, settings, first, last, room, tape, crew, each, dims, slots, near
    )


@compiled(fastmath=RELAXED)
def _batches(tables, shard, draws, settings, first, last, room, tape, dims, slots, near):
    return in_batches(neat_unit, tables, shard, draws, settings, first, last, room, tape, dims, slots, near)


WAYS = Ways(new_room, _blocks, _batches, _at_once)


def neat(
    tables: tuple[Table, ...],
    shard: Shard,
    draws: Draws,
    settings: KernelSettings,
    first: int,
    last: int,
    threads: int = 1,
) -> Tally:
    """Gaussian items by the max-margin loss on their log expected likelihood; tables: (items,)."""
    return run(WAYS, tables, shard, draws, settings, first, last, threads)
