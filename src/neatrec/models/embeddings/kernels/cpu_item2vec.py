"""Skip-gram with negative sampling on a CPU: `reference.item2vec` says what is computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.arguments import KernelSettings, groups_of
from neatrec.models.embeddings.kernels.cpu_common import (
    CompiledKernel,
    UnitWorkspace,
    adagrad_step,
    add_entry,
    basket_key,
    copy_items,
    draw_bits,
    draw_candidates,
    finish_unit,
    group_count,
    is_pair,
    partner_range,
    replace_refused,
    unit_lines,
    unit_workspace,
)
from neatrec.models.embeddings.kernels.cpu_rows import (
    RELAXED,
    add_row,
    add_rows,
    clear_row,
    copy_row,
    dot,
    exchange,
    set_row,
    sigmoids,
)
from neatrec.models.embeddings.kernels.layout import width

NO_PAIR = -100.0
"""The score of two lines that are no pair, and of a negative that is left out: its sigmoid is below `TINY`."""
TINY = 1e-30
Floats = npt.NDArray[np.float32]


class SkipGramWorkspace(NamedTuple):
    """The lines of a unit (lines, ...), its pairs, of lines i and i + 1 + o (lines, window), and its negatives."""

    unit: UnitWorkspace
    f: Floats  # (lines, width) input rows as they were
    g: Floats  # (lines, width) output rows
    f_gradient: Floats  # (lines, width) minus the gradient
    g_gradient: Floats  # (lines, width)
    norm: Floats  # (lines,) squared length of f, then of the gradient of g
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
    partners: Floats  # (groups,)
    partner: npt.NDArray[np.int64]  # (2 window,) lines that draw the line at hand
    weight: Floats  # (2 window,) and how strongly


def new_workspace(lines: int, settings: KernelSettings) -> SkipGramWorkspace:
    """A workspace for `lines` lines."""
    groups = lines * groups_of(settings)

    def zeros(*shape: int) -> Floats:
        return np.zeros(shape, dtype=np.float32)

    forward, backward, forward_loss, backward_loss = (zeros(lines, settings.window) for _ in range(4))
    sigmoid = zeros(groups, settings.negatives)
    return SkipGramWorkspace(
        unit=unit_workspace(lines, settings),
        f=zeros(lines, width(settings.dim)),
        g=zeros(lines, width(settings.dim)),
        f_gradient=zeros(lines, width(settings.dim)),
        g_gradient=zeros(lines, width(settings.dim)),
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
def _compare_pairs(work, count, start, stop, settings, dims):
    """Sigmoids and losses of all pairs within the window, in both directions; only queries' directions count."""
    window = settings.window
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
    _compare_pairs(work, count, start, stop, data.settings, data.dims)
    for n in range((stop - start) * groups):
        partners, cost = _partners(work, start + n // groups, count, n % groups, data.settings)
        work.partners[n] = partners
        pairs += partners
        loss += cost
    return pairs, loss, 0.0


@compiled(inline="always")
def _compare_negatives(table, work, i, first, last, settings, dims):
    """Weights (minus sigmoids) of the negatives of groups `first` to `last` of line i; what they cost."""
    negatives, query, loss = settings.negatives, work.unit.item[i], f32(0)
    for n in range(first, last):
        if work.partners[n] > f32(0):
            for k in range(negatives):
                row = work.unit.negative[n, k]
                score = dot(work.f, i, table, row, dims)
                work.sigmoid[n, k] = f32(NO_PAIR) if row == query else score
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
def _push(data, work, i, first, last, unit, rate):
    """Compare line i with the negatives of its groups and push them away; what that cost."""
    table, settings, dims = data.tables[1], data.settings, data.dims
    loss = _compare_negatives(table, work, i, first, last, settings, dims)
    for n in range(first, last):
        if work.partners[n] > f32(0):
            for k in range(settings.negatives):
                row, weight = work.unit.negative[n, k], work.sigmoid[n, k]
                step = weight * adagrad_step(table, row, weight * weight * work.norm[i], rate, settings, dims)
                exchange(table, row, work.f, i, work.f_gradient, weight, step, dims)
    return loss


@compiled(inline="always")
def _add_partners(gradient, i, rows, work, ahead, behind, count, settings, dims):
    """gradient[i] += rows of the partners of line i, weighted; its sum of squares comes back."""
    partners = 0
    for o in range(min(settings.window, count - 1 - i)):
        if ahead[i, o] > f32(TINY):
            work.partner[partners], work.weight[partners] = i + 1 + o, ahead[i, o]
            partners += 1
    for o in range(min(settings.window, i)):
        if behind[i - 1 - o, o] > f32(TINY):
            work.partner[partners], work.weight[partners] = i - 1 - o, behind[i - 1 - o, o]
            partners += 1
    return add_rows(gradient, i, work.weight, rows, work.partner, partners, dims)


@compiled(inline="always")
def _draw_to_partners(work, i, count, settings, dims):
    """Finish the gradients of line i; their sums of squares come back."""
    f = _add_partners(work.f_gradient, i, work.g, work, work.forward, work.backward, count, settings, dims)
    g = _add_partners(work.g_gradient, i, work.f, work, work.backward, work.forward, count, settings, dims)
    return f, g


@compiled(inline="always")
def _move(table, row, gradient, i, squared, settings, rate, dims):
    if squared > f32(0):
        add_row(table, row, adagrad_step(table, row, squared, rate, settings, dims), gradient, i, dims)


@compiled(inline="always")
def _settle(data, work, count, rate):
    """Change the rows of each line by their gradients."""
    settings, dims = data.settings, data.dims
    for i in range(count):
        f, g = _draw_to_partners(work, i, count, settings, dims)
        _move(data.tables[0], work.unit.item[i], work.f_gradient, i, f, settings, rate, dims)
        _move(data.tables[1], work.unit.item[i], work.g_gradient, i, g, settings, rate, dims)


@compiled(fastmath=RELAXED)
def item2vec_gradients(data, work, buffer, slot, unit, first_pair, last_pair):
    """Write a unit's gradients to the buffer; of its pairs only those numbered from `first_pair` to `last_pair`."""
    tables, shard, draws, settings, dims = data
    table, window, negatives, groups = tables[1], settings.window, settings.negatives, group_count(settings)
    low, count, start, stop = unit_lines(shard, unit, window)
    basket, every = shard.basket[unit], (stop - start) * groups
    key = basket_key(draws.seed, shard.number[basket])
    place = (shard.start[unit] - shard.offsets[basket]) * groups
    for n in range(every):
        draw_bits(draws.alias, key, place + n, work.unit.random_bits, n, negatives)
    _gather(data, work, low, count)
    for n in range(every):
        draw_candidates(table, draws.alias, work.unit.random_bits, work.unit.negative, n, negatives, dims)
    _compare_pairs(work, count, start, stop, settings, dims)
    seen, pairs, loss = 0, 0.0, 0.0
    at = buffer.start[slot]
    for n in range(every):
        i, g = start + n // groups, n % groups
        partners, cost = _partners(work, i, count, g, settings)
        work.partners[n] = partners
        if partners == 0:
            continue
        seen += 1
        if not (settings.shared or first_pair < seen <= last_pair):
            if g < window:
                work.forward[i, g] = f32(0)
            else:
                work.backward[i - 1 - (g - window), g - window] = f32(0)
            continue
        replace_refused(work.unit, n, negatives, count, work.unit.item[i], -1, draws)
        pairs += partners
        loss += cost + _compare_negatives(table, work, i, n, n + 1, settings, dims)
        for k in range(negatives):
            weight, row = work.sigmoid[n, k], work.unit.negative[n, k]
            if weight != f32(0):
                add_entry(buffer, at, 1, row)
                set_row(buffer.vector, at, weight, work.f, i, dims)
                add_row(work.f_gradient, i, weight, table, row, dims)
                at += 1
    for which in range(2):
        for i in range(count):
            squared = work.norm[i]
            if which == 0:
                squared, work.norm[i] = _draw_to_partners(work, i, count, settings, dims)
            if squared > f32(0):
                add_entry(buffer, at, which, work.unit.item[i])
                copy_row(buffer.vector, at, work.f_gradient if which == 0 else work.g_gradient, i, dims)
                at += 1
    finish_unit(buffer, slot, at, pairs, loss, 0.0)


item2vec = CompiledKernel(
    "item2vec",
    new_workspace,
    item2vec_gradients,
    fast={"gather": _gather, "compare": _compare, "push": _push, "settle": _settle},
    line_tables=2,
)
"""Skip-gram with negative sampling; tables: (input, output)."""
