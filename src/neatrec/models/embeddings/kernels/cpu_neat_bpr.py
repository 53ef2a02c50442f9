"""NEAT+bpr on a CPU: `reference.neat_bpr` says what is computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32
from numpy import uint64 as u64

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.arguments import KernelSettings
from neatrec.models.embeddings.kernels.cpu_common import (
    CompiledKernel,
    UnitWorkspace,
    add_entry,
    basket_key,
    draw_bits,
    draw_candidates,
    finish_unit,
    group_count,
    is_pair,
    partner_range,
    replace_refused,
    unit_lines,
)
from neatrec.models.embeddings.kernels.cpu_neat import (
    GaussianWorkspace,
    compare_negatives,
    compare_pairs,
    gather,
    hinges,
    new_workspace,
    take_groups,
    write_lines,
    write_negative,
)
from neatrec.models.embeddings.kernels.cpu_rows import (
    RELAXED,
    add_row,
    add_rows,
    clear_row,
    copy_row,
    dot,
    prefetch_row,
    set_row,
    sigmoid_and_loss,
)
from neatrec.models.embeddings.kernels.draws import mixed
from neatrec.models.embeddings.kernels.layout import width

Floats = npt.NDArray[np.float32]
WORSE, OTHER = 0, 1
"""Rows of the arrays about what a user did not buy: in place of the partner, in place of the query."""


class UserWorkspace(NamedTuple):
    """A unit and its user."""

    unit: UnitWorkspace
    items: GaussianWorkspace
    user: Floats  # (1, width) theta_u
    liking: Floats  # (lines,) theta_u . mu of each line
    product: Floats  # (2, negatives) theta_u . mu' of each negative
    real: Floats  # (2, negatives) 1 for a negative, 0 for one that is left out
    weight: Floats  # (2, negatives) minus how strongly it is pushed


def _new_workspace(lines: int, settings: KernelSettings) -> UserWorkspace:
    items = new_workspace(lines, settings, kinds=2)
    shapes = ((1, width(settings.dim)), (lines,), *[(2, settings.negatives)] * 3)
    return UserWorkspace(items.unit, items, *(np.zeros(shape, np.float32) for shape in shapes))


@compiled(inline="always")
def _rank(work, kind, liking, times, settings):
    """The user prefers what has this liking to each negative of a kind: how strongly it is drawn, and what that costs.

    With s = sigmoid(liking - product) the weight of a negative is s (1 - s), or 1 - s where the loss is logistic.
    """
    drawn, loss = f32(0), f32(0)
    for k in range(settings.negatives):
        # 1 - s = sigmoid(-x) and -log s = log(1 + e^-x)
        miss, cost = sigmoid_and_loss(work.product[kind, k] - liking)
        counted = work.real[kind, k] * times
        weight = (miss if settings.logistic else miss * (f32(1) - miss)) * counted
        work.weight[kind, k] -= weight
        drawn += weight
        loss += (cost if settings.logistic else miss) * counted
    return drawn, loss


@compiled(inline="always")
def _rank_line(work, j, kind, times, buffer, mine, settings, dims):
    """The user prefers line j to each negative of a kind; what that costs. The user's gradient is entry `mine`."""
    drawn, loss = _rank(work, kind, work.liking[j], times, settings)
    add_row(work.items.gradient, j, drawn, work.user, 0, dims)
    add_row(buffer.vector, mine, drawn, work.items.x, j, dims)
    return loss


@compiled(inline="always")
def _rank_group(table, work, buffer, mine, i, g, count, n, other, partners, settings, dims):
    """The user prefers each partner to the worse ones, and line i to the other queries; what that costs."""
    unit, loss = work.unit, f32(0)
    for k in range(settings.negatives):
        for kind in range(2):
            row = unit.negative[n if kind == WORSE else other, k]
            work.real[kind, k] = f32(row != unit.item[i])
            work.product[kind, k] = dot(work.user, 0, table, row, dims)
            work.weight[kind, k] = f32(0)
    first, last, begin, end = partner_range(i, count, g, settings)
    for o in range(first, last):
        if is_pair(unit, i, i + 1 + o):
            loss += _rank_line(work, i + 1 + o, WORSE, f32(1), buffer, mine, settings, dims)
    for o in range(begin, end):
        if is_pair(unit, i, i - 1 - o):
            loss += _rank_line(work, i - 1 - o, WORSE, f32(1), buffer, mine, settings, dims)
    return loss + _rank_line(work, i, OTHER, f32(partners), buffer, mine, settings, dims)


@compiled(inline="always")
def _write_group(table, work, buffer, at, i, n, other, settings, dims):
    """Write the gradients of the group's negatives; one that is left out is written as no change.

    The user's entry stands after them.
    """
    unit, negatives = work.unit, settings.negatives
    mine = at + 2 * negatives
    for k in range(negatives):
        if work.real[WORSE, k] > f32(0):
            write_negative(table, work.items, buffer, at + k, n, k, i, settings, dims)
            add_row(buffer.vector, at + k, work.weight[WORSE, k], work.user, 0, dims)
        else:
            add_entry(buffer, at + k, 0, unit.negative[n, k])
            clear_row(buffer.vector, at + k, dims)
        add_entry(buffer, at + negatives + k, 0, unit.negative[other, k])
        set_row(buffer.vector, at + negatives + k, work.weight[OTHER, k], work.user, 0, dims)
    add_rows(buffer.vector, mine, work.weight[WORSE], table, unit.negative[n], negatives, dims)
    add_rows(buffer.vector, mine, work.weight[OTHER], table, unit.negative[other], negatives, dims)


@compiled(inline="always")
def _prepare(data, work, unit, low, count, every, user):
    """Draw all negatives of the unit, first `every` groups of worse partners, then as many of other queries."""
    tables, shard, draws, settings, dims = data
    lines_of, negatives, basket = work.unit, settings.negatives, shard.basket[unit]
    key = basket_key(draws.seed, shard.number[basket])
    place = (shard.start[unit] - shard.offsets[basket]) * group_count(settings)
    prefetch_row(tables[1], user, dims)
    for n in range(every):
        draw_bits(draws.alias, key, place + n, lines_of.random_bits, n, negatives)
        draw_bits(draws.alias, mixed(key + u64(1)), place + n, lines_of.random_bits, every + n, negatives)
    gather(data, work.items, low, count)
    for n in range(2 * every):
        draw_candidates(tables[0], draws.alias, lines_of.random_bits, lines_of.negative, n, negatives, dims)
    copy_row(work.user, 0, tables[1], user, dims)
    for i in range(count):
        work.liking[i] = dot(work.user, 0, work.items.x, i, dims)


@compiled(fastmath=RELAXED)
def neat_bpr_gradients(data, work, buffer, slot, unit, first_pair, last_pair):
    """Write a unit's gradients to the buffer; of its pairs only those numbered from `first_pair` to `last_pair`."""
    tables, shard, draws, settings, dims = data
    table, items, negatives, groups = tables[0], work.items, settings.negatives, group_count(settings)
    low, count, start, stop = unit_lines(shard, unit, settings.window)
    every, user = (stop - start) * groups, shard.users[shard.basket[unit]]
    _prepare(data, work, unit, low, count, every, user)
    compare_pairs(items, count, settings, dims)
    take_groups(items, count, start, groups, every, first_pair, last_pair, settings)
    for n in range(every):
        if items.taken[n]:
            query = work.unit.item[start + n // groups]
            for row in (n, every + n):
                replace_refused(work.unit, row, negatives, count, query, user, draws)
    compare_negatives(table, items, start, groups, every, settings, dims)
    pairs, loss, active = 0.0, 0.0, 0.0
    at = buffer.start[slot]
    for n in range(every):
        if items.taken[n]:
            i, g, mine = start + n // groups, n % groups, at + 2 * negatives
            p, e, a = hinges(items, n, i, g, count, settings)
            add_entry(buffer, mine, 1, user)
            clear_row(buffer.vector, mine, dims)
            loss += e + _rank_group(table, work, buffer, mine, i, g, count, n, every + n, p, settings, dims)
            pairs += p
            active += a
            _write_group(table, work, buffer, at, i, n, every + n, settings, dims)
            at = mine + 1
    at = write_lines(items, buffer, at, count, settings, dims)
    finish_unit(buffer, slot, at, pairs, loss, active)


neat_bpr = CompiledKernel("neat_bpr", _new_workspace, neat_bpr_gradients, negative_kinds=2)
"""NEAT with ranking losses of users; tables: (items, users)."""
