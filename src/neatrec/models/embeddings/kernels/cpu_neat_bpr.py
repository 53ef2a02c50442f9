"""NEAT+bpr on a CPU: `reference.neat_bpr` says what is computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32
from numpy import uint64 as u64

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.arguments import Draws, KernelSettings, Shard, Tally
from neatrec.models.embeddings.kernels.cpu_gaussians import (
    GaussianWorkspace,
    compare_negatives,
    compare_pairs,
    gather,
    new_room,
    partners_of,
)
from neatrec.models.embeddings.kernels.cpu_gradients import address, descend, in_batches, in_blocks
from neatrec.models.embeddings.kernels.cpu_neat import write_lines
from neatrec.models.embeddings.kernels.cpu_negatives import accept, basket_key, draw_ahead, roll
from neatrec.models.embeddings.kernels.cpu_run import Ways, run
from neatrec.models.embeddings.kernels.cpu_visit import RELAXED, bounds
from neatrec.models.embeddings.kernels.draws import mixed
from neatrec.models.embeddings.kernels.gaussians import hinges
from neatrec.models.embeddings.kernels.lanes import add_rankings, products
from neatrec.models.embeddings.kernels.layout import Table, width
from neatrec.models.embeddings.kernels.rows import add_row, clear_row, copy_row, dot, part, prefetch_row, set_row

Floats = npt.NDArray[np.float32]
WORSE, OTHER = 0, 1
"""Rows of the arrays about what a user did not buy: in place of the partner, in place of the query."""


class UserWorkspace(NamedTuple):
    """Working space for a unit and its user."""

    items: GaussianWorkspace
    user: Floats  # (1, width) theta_u
    liking: Floats  # (lines,) theta_u . mu of each line
    product: Floats  # (2, negatives padded) theta_u . mu' of each negative
    real: Floats  # (2, negatives padded) 1 for a negative, 0 for one that is left out
    weight: Floats  # (2, negatives padded) how strongly it is pushed


def new_user_room(lines: int, settings: KernelSettings) -> UserWorkspace:
    """GaussianWorkspace for `lines` lines."""
    slots = (2, width(settings.negatives))
    return UserWorkspace(
        new_room(lines, settings, streams=2),
        np.zeros((1, width(settings.dim)), np.float32),
        np.zeros(width(lines), np.float32),
        np.zeros(slots, np.float32),
        np.zeros(slots, np.float32),
        np.zeros(slots, np.float32),
    )


@compiled(inline="always")
def _rank_line(room, j, settings, user, dims, slots):
    """The user prefers line j to each of the worse partners at hand; what that costs."""
    force, cost = add_rankings(
        room.weight, WORSE, room.product, WORSE, room.liking[j], f32(1), room.real, WORSE, settings.logistic, slots
    )
    add_row(room.items.gradient, j, force, room.user, 0, dims)
    add_row(user[0], user[1], force, room.items.x, j, dims)
    return cost


@compiled(inline="always")
def _draw(tables, shard, draws, settings, unit, room, low, count, every, user, dims, near):
    """Draw all negatives of the unit, first `every` groups of worse partners, then as many of other queries."""
    inner, negatives, basket = room.items, settings.negatives, shard.basket[unit]
    key = basket_key(draws.seed, shard.number[basket])
    place = (shard.start[unit] - shard.offsets[basket]) * (1 if settings.shared else 2 * settings.window)
    prefetch_row(tables[1], user, dims)
    for group in range(every):
        roll(draws.alias, key, place + group, inner.dice, group, negatives)
        roll(draws.alias, mixed(key + u64(1)), place + group, inner.dice, every + group, negatives)
    gather(tables, shard, low, count, inner, dims, near)
    for group in range(2 * every):
        draw_ahead(tables[0], draws.alias, inner.dice, inner.negative, group, negatives, dims)
    copy_row(room.user, 0, tables[1], user, dims)
    for i in range(count):
        room.liking[i] = dot(room.user, 0, inner.x, i, dims)


@compiled(inline="always")
def _rank(table, room, i, group, other, ahead, behind, partners, settings, user, dims, slots):
    """The user prefers each partner to the worse ones, and line i to the other queries; what that costs."""
    inner, negatives, query, loss = room.items, settings.negatives, room.items.item[0, i], f32(0)
    for k in range(negatives):
        room.real[WORSE, k] = f32(inner.negative[group, k] != query)
        room.real[OTHER, k] = f32(inner.negative[other, k] != query)
    clear_row(room.weight, WORSE, slots)
    clear_row(room.weight, OTHER, slots)
    products(room.product, WORSE, room.user, 0, table, inner.negative, group, negatives, dims, slots)
    products(room.product, OTHER, room.user, 0, table, inner.negative, other, negatives, dims, slots)
    for o in range(ahead[0], ahead[1]):
        if inner.bar[i, o] < f32(1e38):
            loss += _rank_line(room, i + 1 + o, settings, user, dims, slots)
    for o in range(behind[0], behind[1]):
        if inner.bar[i - 1 - o, o] < f32(1e38):
            loss += _rank_line(room, i - 1 - o, settings, user, dims, slots)
    liking, logistic = room.liking[i], settings.logistic
    force, cost = add_rankings(
        room.weight, OTHER, room.product, OTHER, liking, partners, room.real, OTHER, logistic, slots
    )
    add_row(inner.gradient, i, force, room.user, 0, dims)
    add_row(user[0], user[1], force, inner.x, i, dims)
    return loss + cost


@compiled(inline="always")
def _write(table, room, tape, at, i, group, other, settings, dims):
    """Write down the changes of the group's negatives; one that is left out is written as no change.

    The user's change stands after them.
    """
    inner, negatives, half = room.items, settings.negatives, f32(0.5 * settings.dim)
    mine = at + 2 * negatives
    for k in range(negatives):
        row, precision = inner.negative[group, k], inner.precision[group, k]
        clear_row(tape.vector, at + k, dims)
        address(tape, at + k, 0, row)
        if room.real[WORSE, k] > f32(0):
            push = inner.active[group, k] * precision
            part(tape.vector, at + k, push, inner.x, i, table, row, inner.gradient, dims)
            slope = push * (half - f32(0.5) * inner.distance[group, k] * precision)
            inner.slope[i] += slope
            tape.slope[at + k] = slope * inner.far_variance[group, k]
            add_row(tape.vector, at + k, -room.weight[WORSE, k], room.user, 0, dims)
            add_row(tape.vector, mine, -room.weight[WORSE, k], table, row, dims)
    for k in range(negatives):
        row, weight = inner.negative[other, k], room.weight[OTHER, k]
        set_row(tape.vector, at + negatives + k, -weight, room.user, 0, dims)
        address(tape, at + negatives + k, 0, row)
        add_row(tape.vector, mine, -weight, table, row, dims)


@compiled(fastmath=RELAXED)
def neat_bpr_unit(tables, shard, draws, settings, unit, first_pair, last_pair, room, tape, n, dims, slots, near):
    """Write down what a unit asks for; of its pairs only those numbered from `first_pair` to `last_pair`."""
    table, inner, negatives = tables[0], room.items, settings.negatives
    low, count, start, stop = bounds(shard, unit, settings.window)
    groups = 1 if settings.shared else 2 * settings.window
    every, user = (stop - start) * groups, shard.users[shard.basket[unit]]
    _draw(tables, shard, draws, settings, unit, room, low, count, every, user, dims, near)
    compare_pairs(inner, count, settings, dims, near)
    seen, pairs, loss, active = 0, 0.0, 0.0, 0.0
    at = tape.start[n]
    for group in range(every):
        i = start + group // groups
        ahead, behind = partners_of(inner, i, count, group % groups, settings)
        if ahead[1] - ahead[0] + behind[1] - behind[0] == 0:
            continue
        seen += 1
        if not (settings.shared or first_pair < seen <= last_pair):
            continue
        for drawn in (group, every + group):
            accept(inner, inner.negative, drawn, negatives, count, inner.item[0, i], user, draws)
        compare_negatives(table, inner, i, group, settings, dims, slots)
        partners, passes, excess = hinges(
            inner.active, group, inner.likelihood, inner.bar, inner.forth, inner.back, i, ahead, behind, slots
        )
        if partners == f32(0):
            continue
        other, mine = every + group, at + 2 * negatives
        clear_row(tape.vector, mine, dims)
        address(tape, mine, 1, user)
        theirs = tape.vector, mine
        loss += excess + _rank(table, room, i, group, other, ahead, behind, partners, settings, theirs, dims, slots)
        pairs += partners
        active += passes
        _write(table, room, tape, at, i, group, other, settings, dims)
        at = mine + 1
    at = write_lines(inner, tape, at, count, settings, dims, near)
    tape.written[n] = at - tape.start[n]
    tape.tally[n, 0], tape.tally[n, 1], tape.tally[n, 2] = pairs, loss, active


@compiled(fastmath=RELAXED)
def _blocks(tables, shard, draws, settings, first, last, room, tape, crew, each, dims, slots, near):
    return in_blocks(
        neat_bpr_unit, descend, tables, shard, draws, settings, first, last, room, tape, crew, each, dims, slots, near
    )


@compiled(fastmath=RELAXED)
def _batches(tables, shard, draws, settings, first, last, room, tape, dims, slots, near):
    return in_batches(neat_bpr_unit, tables, shard, draws, settings, first, last, room, tape, dims, slots, near)


WAYS = Ways(new_user_room, _blocks, _batches, streams=2)


def neat_bpr(
    tables: tuple[Table, ...],
    shard: Shard,
    draws: Draws,
    settings: KernelSettings,
    first: int,
    last: int,
    threads: int = 1,
) -> Tally:
    """NEAT with ranking losses of users; tables: (items, users)."""
    return run(WAYS, tables, shard, draws, settings, first, last, threads)
