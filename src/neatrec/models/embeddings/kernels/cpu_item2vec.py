"""Skip-gram with negative sampling on a CPU: `reference.item2vec` says what is computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32

from neatrec.compiled import RELAXED, compiled
from neatrec.models.embeddings.kernels.arguments import KernelSettings, groups_of
from neatrec.models.embeddings.kernels.cpu_common import (
    Query,
    UnitWorkspace,
    adagrad_step,
    add_entry,
    copy_items,
    draw_candidates,
    draw_unit_bits,
    finish_unit,
    group_count,
    is_pair,
    partner_range,
    replace_refused,
    unit_lines,
    unit_workspace,
    write_lines,
)
from neatrec.models.embeddings.kernels.cpu_kernel import CompiledKernel
from neatrec.models.embeddings.kernels.cpu_rows import (
    Floats,
    Line,
    RowWeights,
    add_row,
    add_rows,
    clear_row,
    copy_row,
    dot,
    dots,
    exchange,
    set_row,
    sigmoids,
)
from neatrec.models.embeddings.kernels.layout import new_table

NO_PAIR = -100.0
"""The score of two lines that are no pair, and of a negative that is left out: its sigmoid is below `TINY`."""
TINY = 1e-30


class SkipGramWorkspace(NamedTuple):
    """The lines of a unit (lines, ...), its pairs, of lines i and i + 1 + o (lines, window), and its negatives."""

    unit: UnitWorkspace
    f: Floats  # (lines, at least width) input rows as they were
    g: Floats  # (lines, at least width) output rows
    f_gradient: Floats  # (lines, at least width) minus the gradient
    g_gradient: Floats  # (lines, at least width)
    norm: Floats  # (lines,) squared length of f
    forward: Floats  # (lines, window) 1 - sigmoid(f_i . g_j) of line i and line j = i + 1 + o
    forwards: Floats  # the same numbers, flat
    backward: Floats  # (lines, window) 1 - sigmoid(f_j . g_i)
    backwards: Floats  # the same numbers, flat
    forward_loss: Floats  # (lines, window)
    forward_losses: Floats  # the same numbers, flat
    backward_loss: Floats  # (lines, window)
    backward_losses: Floats  # the same numbers, flat
    sigmoid: Floats  # (groups, negatives) of f_i . g_k
    flat_sigmoid: Floats  # the same numbers, flat
    flat_loss: Floats  # (groups x negatives,)
    step: Floats  # (negatives,) of the group at hand
    partners: Floats  # (groups,)
    partner: npt.NDArray[np.int64]  # (2 window,) lines that draw the line at hand
    weight: Floats  # (2 window,) and how strongly


class Attraction(NamedTuple):
    """What draws the lines of a unit: their gradients, the rows of their partners, and weights as in `forward`."""

    gradient: Floats
    rows: Floats
    ahead: Floats
    behind: Floats


def new_workspace(lines: int, settings: KernelSettings) -> SkipGramWorkspace:
    """A workspace for `lines` lines."""
    groups = lines * groups_of(settings)

    def zeros(*shape: int) -> Floats:
        return np.zeros(shape, dtype=np.float32)

    forward, backward, forward_loss, backward_loss = (zeros(lines, settings.window) for _ in range(4))
    sigmoid = zeros(groups, settings.negatives)
    return SkipGramWorkspace(
        unit=unit_workspace(lines, settings),
        f=new_table(lines, settings.dim),
        g=new_table(lines, settings.dim),
        f_gradient=new_table(lines, settings.dim),
        g_gradient=new_table(lines, settings.dim),
        norm=zeros(lines),
        forward=forward,
        forwards=forward.reshape(-1),
        backward=backward,
        backwards=backward.reshape(-1),
        forward_loss=forward_loss,
        forward_losses=forward_loss.reshape(-1),
        backward_loss=backward_loss,
        backward_losses=backward_loss.reshape(-1),
        sigmoid=sigmoid,
        flat_sigmoid=sigmoid.reshape(-1),
        flat_loss=zeros(groups * settings.negatives),
        step=zeros(settings.negatives),
        partners=zeros(groups),
        partner=np.zeros(2 * settings.window, np.int64),
        weight=zeros(2 * settings.window),
    )


@compiled(inline="always")
def _gather(data, work, low, count):
    """Copy `count` lines from `low` on, and what the tables hold of them, into the workspace."""
    dims = data.dims
    copy_items(data.shard, low, count, work.unit)
    for i in range(count):
        row = work.unit.item[i]
        copy_row(work.f, i, data.tables[0], row, dims)
        copy_row(work.g, i, data.tables[1], row, dims)
        clear_row(work.f_gradient, i, dims)
        clear_row(work.g_gradient, i, dims)
        work.norm[i] = dot(work.f, i, work.f, i, dims)


@compiled(inline="always")
def _compare_pairs(data, work, count, start, stop):
    """Sigmoids and losses of all pairs within the window, in both directions; only queries' directions count."""
    window, dims = data.settings.window, data.dims
    for i in range(count):
        for o in range(min(window, count - 1 - i)):
            j = i + 1 + o
            pair = is_pair(work.unit, i, j)
            work.forward[i, o] = -dot(work.f, i, work.g, j, dims) if pair and start <= i < stop else f32(NO_PAIR)
            work.backward[i, o] = -dot(work.f, j, work.g, i, dims) if pair and start <= j < stop else f32(NO_PAIR)
    sigmoids(work.forwards[: count * window], work.forward_losses)
    sigmoids(work.backwards[: count * window], work.backward_losses)


@compiled(inline="always")
def _partners(work, i, count, g, settings):
    """How many pairs group g of line i has, and the sum of their losses."""
    pairs, loss = 0, f32(0)
    first, last, begin, end = partner_range(i, count, g, settings)
    for o in range(first, last):
        if is_pair(work.unit, i, i + 1 + o):
            pairs += 1
            loss += work.forward_loss[i, o]
    for o in range(begin, end):
        if is_pair(work.unit, i, i - 1 - o):
            pairs += 1
            loss += work.backward_loss[i - 1 - o, o]
    return pairs, loss


@compiled(inline="always")
def _compare(data, work, count, start, stop):
    """Compare all pairs of the unit: (pairs, loss, 0)."""
    groups, pairs, loss = group_count(data.settings), 0.0, 0.0
    _compare_pairs(data, work, count, start, stop)
    for n in range(stop - start):
        for g in range(groups):
            partners, cost = _partners(work, start + n, count, g, data.settings)
            work.partners[n * groups + g] = partners
            pairs += partners
            loss += cost
    return pairs, loss, 0.0


@compiled(inline="always")
def _compare_negatives(data, work, i, first, last):
    """Weights (minus sigmoids) of the negatives of groups `first` to `last` of line i; what they cost."""
    negatives, query, loss = data.settings.negatives, work.unit.item[i], f32(0)
    for n in range(first, last):
        if work.partners[n] > f32(0):
            dots(work.sigmoid[n], work.f, i, data.tables[1], work.unit.negative[n], data.dims)
            for k in range(negatives):
                if work.unit.negative[n, k] == query:
                    work.sigmoid[n, k] = f32(NO_PAIR)
    begin, end = first * negatives, last * negatives
    sigmoids(work.flat_sigmoid[begin:end], work.flat_loss[begin:end])
    for n in range(first, last):
        if work.partners[n] > f32(0):
            for k in range(negatives):
                used = f32(work.unit.negative[n, k] != query) * work.partners[n]
                work.sigmoid[n, k] *= -used
                loss += used * work.flat_loss[n * negatives + k]
    return loss


@compiled(inline="always")
def _push(data, work, i, first, unit, rate):
    """Compare line i with the negatives of its groups and push them away; what that cost."""
    table, settings, line = data.tables[1], data.settings, Line(work.f, work.f_gradient, i)
    last = first + group_count(settings)
    loss = _compare_negatives(data, work, i, first, last)
    for n in range(first, last):
        if work.partners[n] > f32(0):
            for k in range(settings.negatives):
                row, weight = work.unit.negative[n, k], work.sigmoid[n, k]
                work.step[k] = weight * adagrad_step(data, table, row, weight * weight * work.norm[i], rate)
            exchange(table, work.unit.negative[n], line, work.sigmoid[n], work.step, data.dims)
    return loss


@compiled(inline="always")
def _add_partners(data, work, attraction, i, count):
    """Add the weighted rows of the partners of line i to its gradient, whose sum of squares comes back."""
    partners, window = 0, data.settings.window
    for o in range(min(window, count - 1 - i)):
        if attraction.ahead[i, o] > f32(TINY):
            work.partner[partners], work.weight[partners] = i + 1 + o, attraction.ahead[i, o]
            partners += 1
    for o in range(min(window, i)):
        if attraction.behind[i - 1 - o, o] > f32(TINY):
            work.partner[partners], work.weight[partners] = i - 1 - o, attraction.behind[i - 1 - o, o]
            partners += 1
    weights = RowWeights(work.partner, work.weight, partners)
    return add_rows(attraction.gradient, i, attraction.rows, weights, data.dims)


@compiled(inline="always")
def _draw_to_partners(data, work, i, count):
    """Finish the gradients of line i; their sums of squares come back."""
    of_f = Attraction(work.f_gradient, work.g, work.forward, work.backward)
    of_g = Attraction(work.g_gradient, work.f, work.backward, work.forward)
    return _add_partners(data, work, of_f, i, count), _add_partners(data, work, of_g, i, count)


@compiled(inline="always")
def _settle(data, work, count, rate):
    """Change the rows of each line by their gradients."""
    f_table, g_table, dims = data.tables[0], data.tables[1], data.dims
    for i in range(count):
        row = work.unit.item[i]
        f, g = _draw_to_partners(data, work, i, count)
        if f > f32(0):
            add_row(f_table, row, adagrad_step(data, f_table, row, f, rate), work.f_gradient, i, dims)
        if g > f32(0):
            add_row(g_table, row, adagrad_step(data, g_table, row, g, rate), work.g_gradient, i, dims)


@compiled(forceinline=True, fastmath=RELAXED)
def item2vec_gradients(data, work, buffer, slot, unit, pairs):
    """Write a unit's gradients to the buffer, of its pairs only those of a `PairRange`."""
    settings, dims, table, of_unit = data.settings, data.dims, data.tables[1], work.unit
    lines, window, groups = unit_lines(data, unit), settings.window, group_count(settings)
    draw_unit_bits(data, of_unit, lines, 0)
    _gather(data, work, lines.low, lines.loaded)
    for n in range(lines.groups):
        draw_candidates(data, table, of_unit.random_bits, of_unit.negative, n)
    _compare_pairs(data, work, lines.loaded, lines.start, lines.stop)
    seen, found, loss = 0, 0.0, 0.0
    at = buffer.start[slot]
    for n in range(lines.groups):
        i, g = lines.start + n // groups, n % groups
        partners, cost = _partners(work, i, lines.loaded, g, settings)
        work.partners[n] = partners
        if partners == 0:
            continue
        seen += 1
        if not (settings.shared or pairs.first < seen <= pairs.last):
            if g < window:
                work.forward[i, g] = f32(0)
            else:
                work.backward[i - 1 - (g - window), g - window] = f32(0)
            continue
        replace_refused(data, of_unit, of_unit.negative, n, Query(of_unit.item[i], -1, lines.loaded))
        found += partners
        loss += cost + _compare_negatives(data, work, i, n, n + 1)
        for k in range(settings.negatives):
            weight, row = work.sigmoid[n, k], of_unit.negative[n, k]
            if weight != f32(0):
                add_entry(buffer, at, 1, row)
                set_row(buffer.vector, at, weight, work.f, i, dims)
                add_row(work.f_gradient, i, weight, table, row, dims)
                at += 1
    for i in range(lines.loaded):
        _draw_to_partners(data, work, i, lines.loaded)
    at = write_lines(data, work, buffer, at, lines.loaded)
    finish_unit(buffer, slot, at, found, loss, 0.0)


item2vec = CompiledKernel(
    "item2vec",
    new_workspace,
    item2vec_gradients,
    fast={"gather": _gather, "compare": _compare, "push": _push, "settle": _settle},
    line_tables=2,
)
"""Skip-gram with negative sampling; tables: (input, output)."""
