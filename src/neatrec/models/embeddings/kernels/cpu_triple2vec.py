"""Triple2Vec on a CPU: `reference.triple2vec` says what is computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32
from numpy import uint64 as u64

from neatrec.compiled import RELAXED, compiled, splitmix64
from neatrec.models.embeddings.kernels.arguments import KernelSettings
from neatrec.models.embeddings.kernels.cpu_common import (
    Query,
    UnitWorkspace,
    add_entry,
    copy_items,
    draw_candidates,
    draw_other_users,
    draw_unit_bits,
    finish_unit,
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

PARTNER, QUERY, USER = 0, 1, 2
"""Kinds of negatives, and rows of the arrays about them: in place of the partner, of the query, of the user."""
KINDS = 3


class TripleWorkspace(NamedTuple):
    """A unit and its user. Weights are minus the derivatives of the loss."""

    unit: UnitWorkspace  # negatives: one row for each group, kind by kind
    f: Floats  # (lines, width) rows as queries, as they were
    g: Floats  # (lines, width) rows as partners
    f_gradient: Floats  # (lines, width) minus the gradient
    g_gradient: Floats  # (lines, width)
    f_user: Floats  # (lines,) f . h_u
    g_user: Floats  # (lines,) g . h_u
    h: Floats  # (1, width) h_u
    real: Floats  # (kinds, negatives) 1 for a negative, 0 for one that is left out
    shared: Floats  # (kinds, negatives) the part of s that all partners share
    partner: npt.NDArray[np.int64]  # (2 window,) lines of the partners at hand
    near: Floats  # (2 window,) weight of the triple with each of them
    pair: Floats  # (2 window,) of f_q . g_v
    with_user: Floats  # (2 window,) of g_v . h_u
    of_query: Floats  # (negatives, 2 window) of other queries with each of them
    of_user: Floats  # (negatives, 2 window) of other users
    here_query: Floats  # (2 window, negatives) the same, by partner
    here_user: Floats  # (2 window, negatives)
    weight: Floats  # (kinds, negatives) over all partners


class TripleGroup(NamedTuple):
    """A group of a unit: the rows of its negatives, by kind."""

    line: int
    user: int
    partner: int
    query: int
    others: int


def _new_workspace(lines: int, settings: KernelSettings) -> TripleWorkspace:
    def zeros(*shape: int) -> Floats:
        return np.zeros(shape, dtype=np.float32)

    dim, partners, negatives = width(settings.dim), 2 * settings.window, settings.negatives
    return TripleWorkspace(
        unit=unit_workspace(lines, settings, KINDS),
        f=zeros(lines, dim),
        g=zeros(lines, dim),
        f_gradient=zeros(lines, dim),
        g_gradient=zeros(lines, dim),
        f_user=zeros(lines),
        g_user=zeros(lines),
        h=zeros(1, dim),
        real=zeros(KINDS, negatives),
        shared=zeros(KINDS, negatives),
        partner=np.zeros(partners, np.int64),
        near=zeros(partners),
        pair=zeros(partners),
        with_user=zeros(partners),
        of_query=zeros(negatives, partners),
        of_user=zeros(negatives, partners),
        here_query=zeros(partners, negatives),
        here_user=zeros(partners, negatives),
        weight=zeros(KINDS, negatives),
    )


@compiled(inline="always")
def _gather(data, work, low, count, user):
    tables, dims = data.tables, data.dims
    copy_items(data.shard, low, count, work.unit)
    copy_row(work.h, 0, tables[2], user, dims)
    for i in range(count):
        row = work.unit.item[i]
        copy_row(work.f, i, tables[0], row, dims)
        copy_row(work.g, i, tables[1], row, dims)
        clear_row(work.f_gradient, i, dims)
        clear_row(work.g_gradient, i, dims)
        work.f_user[i] = dot(work.f, i, work.h, 0, dims)
        work.g_user[i] = dot(work.g, i, work.h, 0, dims)


@compiled(inline="always")
def _find_partners(work, i, count, g, settings):
    """Lines of the partners of group g of line i into `work.partner`; how many there are."""
    partners = 0
    first, last = places(g, settings)
    for place in range(first, last):
        j, _ = line_at(i, place, settings.window)
        if 0 <= j < count and is_pair(work.unit, i, j):
            work.partner[partners] = j
            partners += 1
    return partners


@compiled(inline="always")
def _draw_negatives(data, work, lines, user):
    """Random bits for what stands in for partners and queries of all groups; other users at once."""
    table, negative = data.tables[2], work.unit.negative
    draw_unit_bits(data, work.unit, lines, PARTNER)
    draw_unit_bits(data, work.unit, lines, QUERY)
    key = splitmix64(lines.key + u64(USER))
    for n in range(lines.groups):
        row = USER * lines.groups + n
        draw_other_users(key, lines.place + n, negative, row, len(table), user)
        for k in range(data.settings.negatives):
            prefetch_row(table, negative[row, k], data.dims)


@compiled(inline="always")
def _prepare_negatives(data, work, group, count):
    """The negatives of a group, and the part of s that all its partners share."""
    tables, settings, dims = data.tables, data.settings, data.dims
    unit, i, query = work.unit, group.line, work.unit.item[group.line]
    replace_refused(data, unit, unit.negative, group.partner, Query(query, group.user, count))
    replace_refused(data, unit, unit.negative, group.query, Query(query, group.user, count))
    for k in range(settings.negatives):
        partner, other = unit.negative[group.partner, k], unit.negative[group.query, k]
        other_user = unit.negative[group.others, k]
        work.real[PARTNER, k] = f32(partner != query)
        work.real[QUERY, k] = f32(other != query)
        work.real[USER, k] = f32(other_user != group.user)
        by_query, by_user = dot(work.f, i, tables[1], partner, dims), dot(work.h, 0, tables[1], partner, dims)
        work.shared[PARTNER, k] = by_query + by_user + work.f_user[i]
        work.shared[QUERY, k] = dot(work.h, 0, tables[0], other, dims)
        work.shared[USER, k] = dot(work.f, i, tables[2], other_user, dims)
        for kind in range(KINDS):
            work.weight[kind, k] = f32(0)


@compiled(inline="always")
def _compare(data, work, group, n):
    """Compare the triple of a group's query and its partner number n with its negatives; what it costs."""
    tables, dims = data.tables, data.dims
    i, j, unit = group.line, work.partner[n], work.unit
    both = dot(work.f, i, work.g, j, dims)
    miss, cost = sigmoid_and_loss(-(both + work.f_user[i] + work.g_user[j]))
    near, loss = f32(3) * miss, f32(3) * cost
    work.near[n], work.pair[n], work.with_user[n] = near, near, near
    for k in range(data.settings.negatives):
        here, cost = sigmoid_and_loss(work.shared[PARTNER, k])
        loss += cost * work.real[PARTNER, k]
        work.weight[PARTNER, k] -= here * work.real[PARTNER, k]
        by_query = dot(work.g, j, tables[0], unit.negative[group.query, k], dims)
        here, cost = sigmoid_and_loss(by_query + work.shared[QUERY, k] + work.g_user[j])
        here *= work.real[QUERY, k]
        loss += cost * work.real[QUERY, k]
        work.here_query[n, k], work.of_query[k, n] = -here, -here
        work.weight[QUERY, k] -= here
        work.with_user[n] -= here
        by_user = dot(work.g, j, tables[2], unit.negative[group.others, k], dims)
        here, cost = sigmoid_and_loss(by_user + work.shared[USER, k] + both)
        here *= work.real[USER, k]
        loss += cost * work.real[USER, k]
        work.here_user[n, k], work.of_user[k, n] = -here, -here
        work.weight[USER, k] -= here
        work.pair[n] -= here
    return loss


@compiled(inline="always")
def _write_group(data, work, buffer, at, group, count):
    """Write the gradients of a group of `count` partners, and add to those of its lines; the next free entry."""
    tables, negatives, dims, i = data.tables, data.settings.negatives, data.dims, group.line
    queries, others, mine = at + negatives, at + 2 * negatives, at + 3 * negatives
    partner, query = work.unit.negative[group.partner], work.unit.negative[group.query]
    users = work.unit.negative[group.others]
    add_entry(buffer, mine, 2, group.user)
    clear_row(buffer.vector, mine, dims)
    total = f32(0)  # weight of f_q . h_u
    for n in range(count):
        j = work.partner[n]
        total += work.near[n]
        add_row(work.g_gradient, j, work.pair[n], work.f, i, dims)
        add_row(work.g_gradient, j, work.with_user[n], work.h, 0, dims)
        add_rows(work.g_gradient, j, tables[0], RowWeights(query, work.here_query[n], negatives), dims)
        add_rows(work.g_gradient, j, tables[2], RowWeights(users, work.here_user[n], negatives), dims)
    for k in range(negatives):
        a, b, c = work.weight[PARTNER, k], work.weight[QUERY, k], work.weight[USER, k]
        total += a
        add_entry(buffer, at + k, 1, partner[k])
        set_row(buffer.vector, at + k, a, work.f, i, dims)
        add_row(buffer.vector, at + k, a, work.h, 0, dims)
        add_entry(buffer, queries + k, 0, query[k])
        set_row(buffer.vector, queries + k, b, work.h, 0, dims)
        add_rows(buffer.vector, queries + k, work.g, RowWeights(work.partner, work.of_query[k], count), dims)
        add_entry(buffer, others + k, 2, users[k])
        set_row(buffer.vector, others + k, c, work.f, i, dims)
        add_rows(buffer.vector, others + k, work.g, RowWeights(work.partner, work.of_user[k], count), dims)
    by_partner = RowWeights(partner, work.weight[PARTNER], negatives)
    add_row(work.f_gradient, i, total, work.h, 0, dims)
    add_rows(work.f_gradient, i, work.g, RowWeights(work.partner, work.pair, count), dims)
    add_rows(work.f_gradient, i, tables[1], by_partner, dims)
    add_rows(work.f_gradient, i, tables[2], RowWeights(users, work.weight[USER], negatives), dims)
    add_row(buffer.vector, mine, total, work.f, i, dims)
    add_rows(buffer.vector, mine, work.g, RowWeights(work.partner, work.with_user, count), dims)
    add_rows(buffer.vector, mine, tables[1], by_partner, dims)
    add_rows(buffer.vector, mine, tables[0], RowWeights(query, work.weight[QUERY], negatives), dims)
    return mine + 1


@compiled(forceinline=True, fastmath=RELAXED)
def triple2vec_gradients(data, work, buffer, slot, unit, pairs):
    """Write a unit's gradients to the buffer, of its pairs only those of a `PairRange`."""
    lines, settings, groups = unit_lines(data, unit), data.settings, group_count(data.settings)
    user, of_unit = data.shard.users[data.shard.basket[unit]], work.unit
    _draw_negatives(data, work, lines, user)
    _gather(data, work, lines.low, lines.loaded, user)
    for kind in (PARTNER, QUERY):
        for n in range(kind * lines.groups, (kind + 1) * lines.groups):
            draw_candidates(data, data.tables[1 - kind], of_unit.random_bits, of_unit.negative, n)
    seen, found, loss = 0, 0.0, 0.0
    at = buffer.start[slot]
    for n in range(lines.groups):
        group = TripleGroup(lines.start + n // groups, user, n, lines.groups + n, 2 * lines.groups + n)
        partners = _find_partners(work, group.line, lines.loaded, n % groups, settings)
        seen += partners
        if partners == 0 or not (settings.shared or pairs.first < seen <= pairs.last):
            continue
        _prepare_negatives(data, work, group, lines.loaded)
        for partner in range(partners):
            loss += _compare(data, work, group, partner)
        found += partners
        at = _write_group(data, work, buffer, at, group, partners)
    at = write_lines(data, work, buffer, at, lines.loaded)
    finish_unit(buffer, slot, at, found, loss, 0.0)


triple2vec = CompiledKernel("triple2vec", _new_workspace, triple2vec_gradients, line_tables=2, negative_kinds=KINDS)
"""Cohesion of query, partner and user; tables: (queries, partners, users)."""
