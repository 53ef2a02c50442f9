"""Triple2Vec on a CPU: `reference.triple2vec` says what is computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32
from numpy import uint64 as u64

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.arguments import Draws, KernelSettings, Shard, Tally, groups_of
from neatrec.models.embeddings.kernels.cpu_gradients import address, descend, in_batches, in_blocks
from neatrec.models.embeddings.kernels.cpu_negatives import (
    SEEN_WORDS,
    accept,
    basket_key,
    draw_ahead,
    draw_others,
    enter,
    roll,
)
from neatrec.models.embeddings.kernels.cpu_run import Ways, run
from neatrec.models.embeddings.kernels.cpu_visit import RELAXED, bounds
from neatrec.models.embeddings.kernels.draws import mixed
from neatrec.models.embeddings.kernels.lanes import add_sigmoids, products, take_far, take_near
from neatrec.models.embeddings.kernels.layout import LANES, Table, width
from neatrec.models.embeddings.kernels.rows import add_row, clear_row, copy_row, dot, prefetch_row, set_row

Floats = npt.NDArray[np.float32]
PARTNER, QUERY, USER = 0, 1, 2
"""Kinds of negatives, and rows of the arrays about them: in place of the partner, of the query, of the user."""
KINDS = 3


class TripleWorkspace(NamedTuple):
    """Working space for a unit and its user. Arrays about negatives have a row for each kind."""

    item: npt.NDArray[np.int32]  # (1, lines and a window more)
    category: npt.NDArray[np.int32]  # the same
    seen: npt.NDArray[np.uint64]  # see `enter`
    f: Floats  # (lines, width) rows as queries, as they were
    g: Floats  # (lines, width) rows as partners
    f_gradient: Floats  # (lines, width) the way down
    g_gradient: Floats
    f_user: Floats  # (lines,) f . h_u
    g_user: Floats  # (lines,) g . h_u
    h: Floats  # (1, width) h_u
    negative: npt.NDArray[np.int64]  # (3 groups, negatives)
    dice: npt.NDArray[np.uint64]  # (3 groups, negatives)
    real: Floats  # (3, negatives padded) 1 for a negative, 0 for one that is left out
    own: Floats  # (3, negatives padded) products that all partners share
    product: Floats  # (3, negatives padded) products with the partner at hand, then all that s is made of
    partner: npt.NDArray[np.int64]  # (1, 2 window) lines of the partners at hand
    near: Floats  # (2 window, 8) weights of the true triple with each of them
    here_query: Floats  # (2 window, negatives padded) weights of other queries with each of them
    here_user: Floats  # (2 window, negatives padded) weights of other users
    weight: Floats  # (3, negatives padded) weights over all partners


def new_room(lines: int, settings: KernelSettings) -> TripleWorkspace:
    """TripleWorkspace for `lines` lines."""
    lines = width(lines)
    more = (1, lines + width(settings.window) + LANES)
    rows, slots = (lines, width(settings.dim)), (KINDS, width(settings.negatives))
    drawn = (KINDS * lines * groups_of(settings), settings.negatives)

    def zeros(shape: tuple[int, ...]) -> Floats:
        return np.zeros(shape, dtype=np.float32)

    return TripleWorkspace(
        item=np.zeros(more, np.int32),
        category=np.zeros(more, np.int32),
        seen=np.zeros(SEEN_WORDS, np.uint64),
        f=zeros(rows),
        g=zeros(rows),
        f_gradient=zeros(rows),
        g_gradient=zeros(rows),
        f_user=zeros((lines,)),
        g_user=zeros((lines,)),
        h=zeros((1, width(settings.dim))),
        negative=np.zeros(drawn, np.int64),
        dice=np.zeros(drawn, np.uint64),
        real=zeros(slots),
        own=zeros(slots),
        product=zeros(slots),
        partner=np.zeros((1, 2 * settings.window), np.int64),
        near=zeros((2 * settings.window, LANES)),
        here_query=zeros((2 * settings.window, slots[1])),
        here_user=zeros((2 * settings.window, slots[1])),
        weight=zeros(slots),
    )


@compiled(inline="always")
def _gather(tables, shard, low, count, room, user, dims):
    enter(shard, low, count, room)
    copy_row(room.h, 0, tables[2], user, dims)
    for i in range(count):
        row = room.item[0, i]
        copy_row(room.f, i, tables[0], row, dims)
        copy_row(room.g, i, tables[1], row, dims)
        clear_row(room.f_gradient, i, dims)
        clear_row(room.g_gradient, i, dims)
        room.f_user[i] = dot(room.f, i, room.h, 0, dims)
        room.g_user[i] = dot(room.g, i, room.h, 0, dims)


@compiled(inline="always")
def _partner(room, i, count, g, place, settings):
    """The line at place `place` of the window around line i, or -1 where it is no partner of group g."""
    window = settings.window
    j = i + 1 + place if place < window else i - 1 - (place - window)
    if j < 0 or j >= count or not (settings.shared or g == place):
        return -1
    same = room.category[0, i] >= 0 and room.category[0, i] == room.category[0, j]
    return -1 if same or room.item[0, i] == room.item[0, j] else j


@compiled(inline="always")
def _roll(tables, room, group, number, key, user, draws, settings, dims):
    """Random bits for what stands in for partners and queries of a group; other users at once."""
    negatives, at = settings.negatives, KINDS * group
    roll(draws.alias, key, number, room.dice, at + PARTNER, negatives)
    roll(draws.alias, mixed(key + u64(1)), number, room.dice, at + QUERY, negatives)
    draw_others(mixed(key + u64(2)), number, room.negative, at + USER, negatives, len(tables[2]), user)
    for k in range(negatives):
        prefetch_row(tables[2], room.negative[at + USER, k], dims)


@compiled(inline="always")
def _negatives(tables, room, i, count, at, user, draws, settings, dims, slots):
    """The negatives of line i, rows at ... at + 2 of `room.negative`, and products that all partners share."""
    negatives, query = settings.negatives, room.item[0, i]
    accept(room, room.negative, at + PARTNER, negatives, count, query, user, draws)
    accept(room, room.negative, at + QUERY, negatives, count, query, user, draws)
    for k in range(negatives):
        room.real[PARTNER, k] = f32(room.negative[at + PARTNER, k] != query)
        room.real[QUERY, k] = f32(room.negative[at + QUERY, k] != query)
        room.real[USER, k] = f32(room.negative[at + USER, k] != user)
    products(room.own, PARTNER, room.f, i, tables[1], room.negative, at + PARTNER, negatives, dims, slots)
    products(room.product, PARTNER, room.h, 0, tables[1], room.negative, at + PARTNER, negatives, dims, slots)
    products(room.own, QUERY, room.h, 0, tables[0], room.negative, at + QUERY, negatives, dims, slots)
    products(room.own, USER, room.f, i, tables[2], room.negative, at + USER, negatives, dims, slots)
    for k in range(negatives):
        room.own[PARTNER, k] += room.product[PARTNER, k]
    for kind in range(KINDS):
        clear_row(room.weight, kind, slots)


@compiled(inline="always")
def _compare(tables, room, i, n, at, settings, dims, slots):
    """Compare the triple of line i and its partner number n with its negatives; what it costs.

    Kept: here_query[n] and here_user[n], weights of each negative; pair[n], of f_i . g_j; with_user[n], of g_j . h_u.
    """
    negatives, j = settings.negatives, room.partner[0, n]
    both = dot(room.f, i, room.g, j, dims)
    s = both + room.f_user[i] + room.g_user[j]
    near = f32(1) / (f32(1) + np.exp(s))
    loss = f32(3) * (max(-s, f32(0)) + np.log1p(np.exp(-abs(s))))
    _, cost = add_sigmoids(room.weight, PARTNER, room.own, PARTNER, room.f_user[i], room.real, PARTNER, slots)
    loss += cost
    products(room.product, QUERY, room.g, j, tables[0], room.negative, at + QUERY, negatives, dims, slots)
    products(room.product, USER, room.g, j, tables[2], room.negative, at + USER, negatives, dims, slots)
    for k in range(negatives):
        room.product[QUERY, k] += room.own[QUERY, k]
        room.product[USER, k] += room.own[USER, k]
    clear_row(room.here_query, n, slots)
    clear_row(room.here_user, n, slots)
    by_query, cost = add_sigmoids(room.here_query, n, room.product, QUERY, room.g_user[j], room.real, QUERY, slots)
    loss += cost
    by_user, cost = add_sigmoids(room.here_user, n, room.product, USER, both, room.real, USER, slots)
    room.near[n, 0] = f32(-3) * near
    room.near[n, 1] = f32(-3) * near + by_user
    room.near[n, 2] = f32(-3) * near + by_query
    return loss + cost


@compiled(inline="always")
def _write(tables, room, tape, at, i, count, drawn, user, settings, dims):
    """Write down the changes that a group of `count` partners asks for, and add to the gradients of its lines."""
    negatives = settings.negatives
    queries, others, mine = at + negatives, at + 2 * negatives, at + 3 * negatives
    clear_row(tape.vector, mine, dims)
    total = f32(0)
    for n in range(count):
        j = room.partner[0, n]
        total += room.near[n, 0]
        add_row(room.g_gradient, j, -room.near[n, 1], room.f, i, dims)
        add_row(room.g_gradient, j, -room.near[n, 2], room.h, 0, dims)
        take_far(room.g_gradient, j, room.here_query, n, tables[0], room.negative, drawn + QUERY, negatives, dims)
        take_far(room.g_gradient, j, room.here_user, n, tables[2], room.negative, drawn + USER, negatives, dims)
        for k in range(negatives):
            room.weight[QUERY, k] += room.here_query[n, k]
            room.weight[USER, k] += room.here_user[n, k]
    take_near(room.f_gradient, i, room.near, 1, room.g, room.partner, count, dims)
    take_near(tape.vector, mine, room.near, 2, room.g, room.partner, count, dims)
    for k in range(negatives):
        a, b, c = room.weight[PARTNER, k], room.weight[QUERY, k], room.weight[USER, k]
        total += a
        set_row(tape.vector, at + k, -a, room.f, i, dims)
        add_row(tape.vector, at + k, -a, room.h, 0, dims)
        set_row(tape.vector, queries + k, -b, room.h, 0, dims)
        take_near(tape.vector, queries + k, room.here_query, k, room.g, room.partner, count, dims)
        set_row(tape.vector, others + k, -c, room.f, i, dims)
        take_near(tape.vector, others + k, room.here_user, k, room.g, room.partner, count, dims)
        tape.table[at + k], tape.row[at + k], tape.slope[at + k] = 1, room.negative[drawn + PARTNER, k], f32(0)
        tape.table[queries + k], tape.row[queries + k], tape.slope[queries + k] = (
            0,
            room.negative[drawn + QUERY, k],
            f32(0),
        )
        tape.table[others + k], tape.row[others + k], tape.slope[others + k] = 2, room.negative[drawn + USER, k], f32(0)
    take_far(room.f_gradient, i, room.weight, PARTNER, tables[1], room.negative, drawn + PARTNER, negatives, dims)
    take_far(room.f_gradient, i, room.weight, USER, tables[2], room.negative, drawn + USER, negatives, dims)
    take_far(tape.vector, mine, room.weight, PARTNER, tables[1], room.negative, drawn + PARTNER, negatives, dims)
    take_far(tape.vector, mine, room.weight, QUERY, tables[0], room.negative, drawn + QUERY, negatives, dims)
    add_row(room.f_gradient, i, -total, room.h, 0, dims)
    add_row(tape.vector, mine, -total, room.f, i, dims)
    address(tape, mine, 2, user)


@compiled(fastmath=RELAXED)
def triple2vec_unit(tables, shard, draws, settings, unit, first_pair, last_pair, room, tape, n, dims, slots, near):
    """Write down what a unit asks for; of its pairs only those numbered from `first_pair` to `last_pair`."""
    window, negatives = settings.window, settings.negatives
    low, count, start, stop = bounds(shard, unit, window)
    basket = shard.basket[unit]
    user = shard.users[basket]
    groups = 1 if settings.shared else 2 * window
    key = basket_key(draws.seed, shard.number[basket])
    place = (shard.start[unit] - shard.offsets[basket]) * groups
    for group in range((stop - start) * groups):
        _roll(tables, room, group, place + group, key, user, draws, settings, dims)
    _gather(tables, shard, low, count, room, user, dims)
    for group in range((stop - start) * groups):
        at = KINDS * group
        draw_ahead(tables[1], draws.alias, room.dice, room.negative, at + PARTNER, negatives, dims)
        draw_ahead(tables[0], draws.alias, room.dice, room.negative, at + QUERY, negatives, dims)
    seen, pairs, loss = 0, 0.0, 0.0
    at = tape.start[n]
    for i in range(start, stop):
        for g in range(groups):
            partners = 0
            for around in range(2 * window):
                j = _partner(room, i, count, g, around, settings)
                if j >= 0:
                    room.partner[0, partners] = j
                    partners += 1
            seen += partners
            if partners == 0 or not (settings.shared or first_pair < seen <= last_pair):
                continue
            drawn = KINDS * ((i - start) * groups + g)
            _negatives(tables, room, i, count, drawn, user, draws, settings, dims, slots)
            for partner in range(partners):
                loss += _compare(tables, room, i, partner, drawn, settings, dims, slots)
            pairs += partners
            _write(tables, room, tape, at, i, partners, drawn, user, settings, dims)
            at += 3 * negatives + 1
    for which in range(2):
        gradient = room.f_gradient if which == 0 else room.g_gradient
        for i in range(count):
            if dot(gradient, i, gradient, i, dims) > f32(0):
                copy_row(tape.vector, at, gradient, i, dims)
                address(tape, at, which, room.item[0, i])
                at += 1
    tape.written[n] = at - tape.start[n]
    tape.tally[n, 0], tape.tally[n, 1], tape.tally[n, 2] = pairs, loss, 0.0


@compiled(fastmath=RELAXED)
def _blocks(tables, shard, draws, settings, first, last, room, tape, crew, each, dims, slots, near):
    return in_blocks(
        triple2vec_unit, descend, tables, shard, draws, settings, first, last, room, tape, crew, each, dims, slots, near
    )


@compiled(fastmath=RELAXED)
def _batches(tables, shard, draws, settings, first, last, room, tape, dims, slots, near):
    return in_batches(triple2vec_unit, tables, shard, draws, settings, first, last, room, tape, dims, slots, near)


WAYS = Ways(new_room, _blocks, _batches, line_tables=2, streams=3)


def triple2vec(
    tables: tuple[Table, ...],
    shard: Shard,
    draws: Draws,
    settings: KernelSettings,
    first: int,
    last: int,
    threads: int = 1,
) -> Tally:
    """Cohesion of query, partner and user; tables: (queries, partners, users)."""
    return run(WAYS, tables, shard, draws, settings, first, last, threads)
