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
    flat_place,
    group_count,
    is_pair,
    line_at,
    places,
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
    """The lines of a unit (lines, ...), its pairs, of lines i and i + 1 + o (lines x window), and its negatives."""

    unit: UnitWorkspace
    f: Floats  # (lines, at least width) input rows as they were
    g: Floats  # (lines, at least width) output rows
    f_gradient: Floats  # (lines, at least width) minus the gradient
    g_gradient: Floats  # (lines, at least width)
    norm: Floats  # (lines,) squared length of f
    forward: Floats  # (lines x window,) 1 - sigmoid(f_i . g_j) of line i and line j = i + 1 + o
    backward: Floats  # (lines x window,) 1 - sigmoid(f_j . g_i)
    forward_loss: Floats  # (lines x window,)
    backward_loss: Floats  # (lines x window,)
    sigmoid: Floats  # (groups x negatives,) of f_i . g_k
    loss: Floats  # (groups x negatives,)
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

    def zeros(count: int) -> Floats:
        return np.zeros(count, dtype=np.float32)

    return SkipGramWorkspace(
        unit=unit_workspace(lines, settings),
        f=new_table(lines, settings.dim),
        g=new_table(lines, settings.dim),
        f_gradient=new_table(lines, settings.dim),
        g_gradient=new_table(lines, settings.dim),
        norm=zeros(lines),
        forward=zeros(lines * settings.window),
        backward=zeros(lines * settings.window),
        forward_loss=zeros(lines * settings.window),
        backward_loss=zeros(lines * settings.window),
        sigmoid=zeros(groups * settings.negatives),
        loss=zeros(groups * settings.negatives),
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
        for j in range(i + 1, min(i + 1 + window, count)):
            pair, at = is_pair(work.unit, i, j), flat_place(i, window, j - i - 1)
            work.forward[at] = -dot(work.f, i, work.g, j, dims) if pair and start <= i < stop else f32(NO_PAIR)
            work.backward[at] = -dot(work.f, j, work.g, i, dims) if pair and start <= j < stop else f32(NO_PAIR)
    sigmoids(work.forward[: count * window], work.forward_loss)
    sigmoids(work.backward[: count * window], work.backward_loss)


@compiled(inline="always")
def _partners(work, i, count, g, settings):
    """How many pairs group g of line i has, and the sum of their losses."""
    pairs, loss = 0, f32(0)
    first, last = places(g, settings)
    for place in range(first, last):
        j, at = line_at(i, place, settings.window)
        if 0 <= j < count and is_pair(work.unit, i, j):
            pairs += 1
            loss += work.forward_loss[at] if j > i else work.backward_loss[at]
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
            dots(work.sigmoid[n * negatives :], work.f, i, data.tables[1], work.unit.negative[n], data.dims)
            for k in range(negatives):
                if work.unit.negative[n, k] == query:
                    work.sigmoid[flat_place(n, negatives, k)] = f32(NO_PAIR)
    begin, end = first * negatives, last * negatives
    sigmoids(work.sigmoid[begin:end], work.loss[begin:end])
    for n in range(first, last):
        if work.partners[n] > f32(0):
            for k in range(negatives):
                used = f32(work.unit.negative[n, k] != query) * work.partners[n]
                at = flat_place(n, negatives, k)
                work.sigmoid[at] *= -used
                loss += used * work.loss[at]
    return loss


@compiled(inline="always")
def _push(data, work, i, first, unit, rate):
    """Compare line i with the negatives of its groups and push them away; what that cost."""
    table, negatives, line = data.tables[1], data.settings.negatives, Line(work.f, work.f_gradient, i)
    last = first + group_count(data.settings)
    loss = _compare_negatives(data, work, i, first, last)
    for n in range(first, last):
        if work.partners[n] > f32(0):
            weights = work.sigmoid[n * negatives :]
            for k in range(negatives):
                step = adagrad_step(data, table, work.unit.negative[n, k], weights[k] * weights[k] * work.norm[i], rate)
                work.step[k] = weights[k] * step
            exchange(table, work.unit.negative[n], line, weights, work.step, data.dims)
    return loss


@compiled(inline="always")
def _add_partners(data, work, attraction, i, count):
    """Add the weighted rows of the partners of line i to its gradient, whose sum of squares comes back."""
    partners, window = 0, data.settings.window
    for place in range(2 * window):
        j, at = line_at(i, place, window)
        if 0 <= j < count:
            weight = attraction.ahead[at] if j > i else attraction.behind[at]
            if weight > f32(TINY):
                work.partner[partners], work.weight[partners] = j, weight
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
    lines, groups = unit_lines(data, unit), group_count(settings)
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
            j, pair = line_at(i, g, settings.window)
            if j > i:
                work.forward[pair] = f32(0)
            else:
                work.backward[pair] = f32(0)
            continue
        replace_refused(data, of_unit, of_unit.negative, n, Query(of_unit.item[i], -1, lines.loaded))
        found += partners
        loss += cost + _compare_negatives(data, work, i, n, n + 1)
        for k in range(settings.negatives):
            weight, row = work.sigmoid[flat_place(n, settings.negatives, k)], of_unit.negative[n, k]
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
