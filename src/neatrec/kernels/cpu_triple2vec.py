"""Triple2Vec on a CPU: `reference.triple2vec` says what is computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32
from numpy import uint64 as u64

from neatrec.compiled import compiled
from neatrec.kernels.arguments import Draws, Settings, Shard, Tally
from neatrec.kernels.cpu_negatives import SEEN_WORDS, accept, basket_key, draw, draw_others, enter
from neatrec.kernels.cpu_run import Ways, run
from neatrec.kernels.cpu_tape import descend, in_batches, in_blocks
from neatrec.kernels.cpu_visit import RELAXED, bounds
from neatrec.kernels.draws import mixed
from neatrec.kernels.lanes import add_sigmoids, products
from neatrec.kernels.layout import LANES, Table, width
from neatrec.kernels.rows import add_row, clear_row, copy_row, dot

Floats = npt.NDArray[np.float32]
PARTNER, QUERY, USER = 0, 1, 2
"""Rows of the arrays about negatives: those in place of the partner, of the query, of the user."""


class Room(NamedTuple):
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
    negative: npt.NDArray[np.int64]  # (3, negatives)
    dice: npt.NDArray[np.uint64]  # (3, negatives)
    real: Floats  # (3, negatives padded) 1 for a negative, 0 for one that is left out
    own: Floats  # (3, negatives padded) products that all partners share
    product: Floats  # (3, negatives padded) products with the partner at hand, then all that s is made of
    here: Floats  # (3, negatives padded) weights with the partner at hand
    weight: Floats  # (3, negatives padded) weights over all partners


def new_room(lines: int, settings: Settings) -> Room:
    """Room for `lines` lines."""
    lines = width(lines)
    more = (1, lines + width(settings.window) + LANES)
    rows, slots, drawn = (lines, width(settings.dim)), (3, width(settings.negatives)), (3, settings.negatives)

    def zeros(shape: tuple[int, ...]) -> Floats:
        return np.zeros(shape, dtype=np.float32)

    return Room(
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
        here=zeros(slots),
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
def _negatives(tables, room, i, count, number, key, user, draws, settings, dims, slots):
    """Draw what stands in for the partner, the query and the user; products that all partners share."""
    negatives, query = settings.negatives, room.item[0, i]
    draw(draws.alias, key, number, room.dice, room.negative, PARTNER, negatives)
    draw(draws.alias, mixed(key + u64(1)), number, room.dice, room.negative, QUERY, negatives)
    accept(room, room.negative, PARTNER, negatives, count, query, user, draws)
    accept(room, room.negative, QUERY, negatives, count, query, user, draws)
    draw_others(mixed(key + u64(2)), number, room.negative, USER, negatives, len(tables[2]), user)
    for k in range(negatives):
        room.real[PARTNER, k] = f32(room.negative[PARTNER, k] != query)
        room.real[QUERY, k] = f32(room.negative[QUERY, k] != query)
        room.real[USER, k] = f32(room.negative[USER, k] != user)
    products(room.own, PARTNER, room.f, i, tables[1], room.negative, PARTNER, negatives, dims, slots)
    products(room.product, PARTNER, room.h, 0, tables[1], room.negative, PARTNER, negatives, dims, slots)
    products(room.own, QUERY, room.h, 0, tables[0], room.negative, QUERY, negatives, dims, slots)
    products(room.own, USER, room.f, i, tables[2], room.negative, USER, negatives, dims, slots)
    for k in range(negatives):
        room.own[PARTNER, k] += room.product[PARTNER, k]
    for kind in range(3):
        clear_row(room.weight, kind, slots)


@compiled(inline="always")
def _compare(tables, room, tape, at, i, j, settings, dims, slots):
    """Compare the triple of lines i and j with its negatives; (weight of the user in it, loss)."""
    negatives = settings.negatives
    queries, others, mine = at + negatives, at + 2 * negatives, at + 3 * negatives
    both = dot(room.f, i, room.g, j, dims)
    s = both + room.f_user[i] + room.g_user[j]
    near = f32(1) / (f32(1) + np.exp(s))
    loss = f32(3) * (max(-s, f32(0)) + np.log1p(np.exp(-abs(s))))
    p = f32(-3) * near
    _, cost = add_sigmoids(room.weight, PARTNER, room.own, PARTNER, room.f_user[i], room.real, PARTNER, slots)
    loss += cost
    for kind in (QUERY, USER):
        table = tables[0] if kind == QUERY else tables[2]
        products(room.product, kind, room.g, j, table, room.negative, kind, negatives, dims, slots)
        for k in range(negatives):
            room.product[kind, k] += room.own[kind, k]
        clear_row(room.here, kind, slots)
    by_query, cost = add_sigmoids(room.here, QUERY, room.product, QUERY, room.g_user[j], room.real, QUERY, slots)
    loss += cost
    by_user, cost = add_sigmoids(room.here, USER, room.product, USER, both, room.real, USER, slots)
    loss += cost
    pair = p + by_user
    add_row(room.f_gradient, i, -pair, room.g, j, dims)
    add_row(room.g_gradient, j, -pair, room.f, i, dims)
    add_row(room.g_gradient, j, -(p + by_query), room.h, 0, dims)
    add_row(tape.vector, mine, -(p + by_query), room.g, j, dims)
    for k in range(negatives):
        b, c = room.here[QUERY, k], room.here[USER, k]
        room.weight[QUERY, k] += b
        room.weight[USER, k] += c
        add_row(room.g_gradient, j, -b, tables[0], room.negative[QUERY, k], dims)
        add_row(room.g_gradient, j, -c, tables[2], room.negative[USER, k], dims)
        add_row(tape.vector, queries + k, -b, room.g, j, dims)
        add_row(tape.vector, others + k, -c, room.g, j, dims)
    return p, loss


@compiled(inline="always")
def _finish_group(tables, room, tape, at, i, user, p, settings, dims):
    """Write down the changes of a group's negatives and of the user; all partners have been compared."""
    negatives = settings.negatives
    queries, others, mine = at + negatives, at + 2 * negatives, at + 3 * negatives
    total = p
    for k in range(negatives):
        a, b, c = room.weight[PARTNER, k], room.weight[QUERY, k], room.weight[USER, k]
        total += a
        partner, query, other = room.negative[PARTNER, k], room.negative[QUERY, k], room.negative[USER, k]
        add_row(tape.vector, at + k, -a, room.f, i, dims)
        add_row(tape.vector, at + k, -a, room.h, 0, dims)
        add_row(tape.vector, queries + k, -b, room.h, 0, dims)
        add_row(tape.vector, others + k, -c, room.f, i, dims)
        add_row(room.f_gradient, i, -a, tables[1], partner, dims)
        add_row(room.f_gradient, i, -c, tables[2], other, dims)
        add_row(tape.vector, mine, -a, tables[1], partner, dims)
        add_row(tape.vector, mine, -b, tables[0], query, dims)
        tape.table[at + k], tape.row[at + k] = 1, partner
        tape.table[queries + k], tape.row[queries + k] = 0, query
        tape.table[others + k], tape.row[others + k] = 2, other
    add_row(room.f_gradient, i, -total, room.h, 0, dims)
    add_row(tape.vector, mine, -total, room.f, i, dims)
    tape.table[mine], tape.row[mine] = 2, user


@compiled(fastmath=RELAXED)
def triple2vec_unit(tables, shard, draws, settings, unit, first_pair, last_pair, room, tape, n, dims, slots, near):
    """Write down what a unit asks for; of its pairs only those numbered from `first_pair` to `last_pair`."""
    window, negatives = settings.window, settings.negatives
    low, count, start, stop = bounds(shard, unit, window)
    basket = shard.basket[unit]
    user = shard.users[basket]
    _gather(tables, shard, low, count, room, user, dims)
    groups = 1 if settings.shared else 2 * window
    key = basket_key(draws.seed, shard.number[basket])
    seen, pairs, loss = 0, 0.0, 0.0
    at = tape.start[n]
    for i in range(start, stop):
        for g in range(groups):
            partners = 0
            for place in range(2 * window):
                partners += _partner(room, i, count, g, place, settings) >= 0
            seen += partners
            if partners == 0 or not (settings.shared or first_pair < seen <= last_pair):
                continue
            number = (low + i - shard.offsets[basket]) * groups + g
            _negatives(tables, room, i, count, number, key, user, draws, settings, dims, slots)
            for change in range(at, at + 3 * negatives + 1):
                clear_row(tape.vector, change, dims)
                tape.slope[change] = f32(0)
            total = f32(0)
            for place in range(2 * window):
                j = _partner(room, i, count, g, place, settings)
                if j >= 0:
                    p, cost = _compare(tables, room, tape, at, i, j, settings, dims, slots)
                    total += p
                    loss += cost
            pairs += partners
            _finish_group(tables, room, tape, at, i, user, total, settings, dims)
            at += 3 * negatives + 1
    for which in range(2):
        gradient = room.f_gradient if which == 0 else room.g_gradient
        for i in range(count):
            if dot(gradient, i, gradient, i, dims) > f32(0):
                copy_row(tape.vector, at, gradient, i, dims)
                tape.table[at], tape.row[at], tape.slope[at] = which, room.item[0, i], f32(0)
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
    tables: tuple[Table, ...], shard: Shard, draws: Draws, settings: Settings, first: int, last: int, threads: int = 1
) -> Tally:
    """Cohesion of query, partner and user; tables: (queries, partners, users)."""
    return run(WAYS, tables, shard, draws, settings, first, last, threads)
