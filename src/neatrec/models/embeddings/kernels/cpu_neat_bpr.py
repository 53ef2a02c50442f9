"""NEAT+bpr on a CPU: `reference.neat_bpr` says what is computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import float32 as f32

from neatrec.compiled import RELAXED, compiled
from neatrec.models.embeddings.kernels.arguments import KernelSettings
from neatrec.models.embeddings.kernels.cpu_common import (
    UnitWorkspace,
    add_entry,
    finish_unit,
    group_count,
    is_pair,
    line_at,
    places,
    unit_lines,
)
from neatrec.models.embeddings.kernels.cpu_kernel import CompiledKernel
from neatrec.models.embeddings.kernels.cpu_neat import (
    GaussianWorkspace,
    Negative,
    compare_unit,
    hinges,
    new_workspace,
    write_gaussians,
    write_negative,
)
from neatrec.models.embeddings.kernels.cpu_rows import (
    Floats,
    RowWeights,
    add_row,
    add_rows,
    clear_row,
    copy_row,
    dot,
    prefetch_row,
    set_row,
    sigmoid_and_loss,
)
from neatrec.models.embeddings.kernels.layout import width

WORSE, OTHER = 0, 1
"""Rows of the arrays about what a user did not buy: in place of the partner, in place of the query."""


class UserWorkspace(NamedTuple):
    """A unit and its user."""

    unit: UnitWorkspace
    items: GaussianWorkspace
    user: Floats  # (1, width) theta_u
    user_gradient: Floats  # (1, width) of the group at hand
    liking: Floats  # (lines,) theta_u . mu of each line
    product: Floats  # (2, negatives) theta_u . mu' of each negative
    real: Floats  # (2, negatives) 1 for a negative, 0 for one that is left out
    weight: Floats  # (2, negatives) minus how strongly it is pushed


class RankedGroup(NamedTuple):
    """A group of a unit."""

    line: int
    place: int  # which of the line's groups
    worse: int  # row of the negatives in place of its partners
    other: int  # row of the negatives in place of the query
    partners: float


def _new_workspace(lines: int, settings: KernelSettings) -> UserWorkspace:
    items = new_workspace(lines, settings, kinds=2)
    shapes = (*[(1, width(settings.dim))] * 2, (lines,), *[(2, settings.negatives)] * 3)
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
def _rank_line(data, work, j, kind, times):
    """The user prefers line j to each negative of a kind; what that costs."""
    drawn, loss = _rank(work, kind, work.liking[j], times, data.settings)
    add_row(work.items.gradient, j, drawn, work.user, 0, data.dims)
    add_row(work.user_gradient, 0, drawn, work.items.x, j, data.dims)
    return loss


@compiled(inline="always")
def _rank_group(data, work, group, count):
    """The user prefers each partner to the worse ones, and the query to the other queries; what that costs."""
    unit, settings, i, loss = work.unit, data.settings, group.line, f32(0)
    clear_row(work.user_gradient, 0, data.dims)
    for k in range(settings.negatives):
        for kind in range(2):
            row = unit.negative[group.worse if kind == WORSE else group.other, k]
            work.real[kind, k] = f32(row != unit.item[i])
            work.product[kind, k] = dot(work.user, 0, data.tables[0], row, data.dims)
            work.weight[kind, k] = f32(0)
    first, last = places(group.place, settings)
    for place in range(first, last):
        j, _ = line_at(i, place, settings.window)
        if 0 <= j < count and is_pair(unit, i, j):
            loss += _rank_line(data, work, j, WORSE, f32(1))
    return loss + _rank_line(data, work, i, OTHER, f32(group.partners))


@compiled(inline="always")
def _write_group(data, work, buffer, at, group, user):
    """Write the gradients of the group's negatives and of its user; a negative that is left out is no change."""
    unit, negatives, table, dims = work.unit, data.settings.negatives, data.tables[0], data.dims
    mine = at + 2 * negatives
    for k in range(negatives):
        if work.real[WORSE, k] > f32(0):
            write_negative(data, work.items, buffer, at + k, Negative(group.line, group.worse, k))
            add_row(buffer.vector, at + k, work.weight[WORSE, k], work.user, 0, dims)
        else:
            add_entry(buffer, at + k, 0, unit.negative[group.worse, k])
            clear_row(buffer.vector, at + k, dims)
        add_entry(buffer, at + negatives + k, 0, unit.negative[group.other, k])
        set_row(buffer.vector, at + negatives + k, work.weight[OTHER, k], work.user, 0, dims)
    add_entry(buffer, mine, 1, user)
    copy_row(buffer.vector, mine, work.user_gradient, 0, dims)
    worse = RowWeights(unit.negative[group.worse], work.weight[WORSE], negatives)
    other = RowWeights(unit.negative[group.other], work.weight[OTHER], negatives)
    add_rows(buffer.vector, mine, table, worse, dims)
    add_rows(buffer.vector, mine, table, other, dims)
    return mine + 1


@compiled(forceinline=True, fastmath=RELAXED)
def neat_bpr_gradients(data, work, buffer, slot, unit, pairs):
    """Write a unit's gradients to the buffer, of its pairs only those of a `PairRange`."""
    lines, items, groups = unit_lines(data, unit), work.items, group_count(data.settings)
    user = data.shard.users[data.shard.basket[unit]]
    prefetch_row(data.tables[1], user, data.dims)
    compare_unit(data, items, lines, pairs, user, 2)
    copy_row(work.user, 0, data.tables[1], user, data.dims)
    for i in range(lines.loaded):
        work.liking[i] = dot(work.user, 0, items.x, i, data.dims)
    found, loss, active = 0.0, 0.0, 0.0
    at = buffer.start[slot]
    for n in range(lines.groups):
        if items.taken[n]:
            i, g = lines.start + n // groups, n % groups
            p, e, a = hinges(items, n, i, g, lines.loaded, data.settings)
            group = RankedGroup(i, g, n, lines.groups + n, p)
            loss += e + _rank_group(data, work, group, lines.loaded)
            found += p
            active += a
            at = _write_group(data, work, buffer, at, group, user)
    at = write_gaussians(data, items, buffer, at, lines.loaded)
    finish_unit(buffer, slot, at, found, loss, active)


neat_bpr = CompiledKernel("neat_bpr", _new_workspace, neat_bpr_gradients, negative_kinds=2)
"""NEAT with ranking losses of users; tables: (items, users)."""
