"""NEAT+bpr on a CPU: NEAT, and a user u with a vector theta; see `reference.neat_bpr`.

Beside the hinges of `neat`, a query q with its partners v, negatives v' and other queries q' costs

    sum over v of [sum over v' of L(theta . (mu_v - mu_v'))
                   + sum over q' of L(theta . (mu_q - mu_q'))]

with L(x) = 1 - sigmoid(x) as the paper prints it, or -log sigmoid(x). With w(x) = -L'(x), each
term moves

    the better row by w theta, the worse row by -w theta, and theta by w (mu_better - mu_worse).

Tables: items, users, (rows, row) each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import float32 as f32

from neatrec.models.embeddings.kernels.arguments import LANES, KernelSettings, new_table
from neatrec.models.embeddings.kernels.cpu import neat, shared
from neatrec.models.embeddings.kernels.cpu.shared import CpuKernel, Floats, LineGroup, loop, part

WORSE, OTHER = 0, 1  # kinds of negatives: of the partner, of the query


class RankingWorkspace(NamedTuple):
    """Numbers of a unit and its user."""

    items: neat.NeatWorkspace
    user: Floats  # (1, row) theta as it was
    user_way: Floats  # (1, row) direction of theta, of the current group
    way: Floats  # (1, row) direction of the current negative
    liking: Floats  # (lines,) theta . mu of each line
    product: Floats  # (2, negatives) theta . mu of each negative
    weight: Floats  # (2, negatives) sum of w of each negative


def workspace(settings: KernelSettings) -> RankingWorkspace:
    """The workspace of one thread."""
    items = neat.workspace(settings, kinds=2)
    user, user_way, way = (new_table(1, settings.dim) for _ in range(3))
    product, weight = np.zeros((2, 2, settings.negatives), dtype=np.float32)
    return RankingWorkspace(items, user, user_way, way, items.slope.copy(), product, weight)


@part
def prefer(data, work, group, j, kind, drawn):
    """The loss of preferring line j to each negative of a kind, the query once per partner."""
    towards, loss, log = f32(0), f32(0), data.settings.logistic
    times = f32(group.partners if kind == OTHER else 1)
    for k in range(len(work.product[kind])):
        if drawn[kind, k] >= 0:
            miss, a, b = shared.logistic(work.product[kind, k] - work.liking[j])  # 1 - sigmoid(x)
            weight = times * (miss if log else miss * (f32(1) - miss))
            work.weight[kind, k] += weight
            towards += weight
            loss += times * (a + np.log(b) if log else miss)
    shared.add(work.items.gradient[j], towards, work.user[0], data.dims)
    shared.add(work.user_way[0], towards, data.tables[0][group.rows[j]], data.dims)
    return loss


@part
def rank(data, work, group, drawn):
    """The loss of all preferences of a group; drawn: (2, negatives)."""
    shared.clear(work.user_way[0], data.dims)
    for kind in range(2):
        for k in range(drawn.shape[1]):
            work.weight[kind, k] = f32(0)
            if drawn[kind, k] >= 0:
                row = data.tables[0][drawn[kind, k]]
                work.product[kind, k] = shared.dot(work.user[0], row, data.dims)
    loss = prefer(data, work, group, group.line, OTHER, drawn)
    for p in range(group.partners):
        loss += prefer(data, work, group, work.items.partners[p], WORSE, drawn)
    return loss


@part
def push_worse(data, work, group, drawn):
    """Push the negatives of a line away from it and from the user."""
    items, half, user, way = work.items, f32(0.5 * data.settings.dim), work.user[0], work.way[0]
    query, gradient = data.tables[0][group.rows[group.line]], items.gradient[group.line]
    for k in range(len(drawn)):
        if drawn[k] >= 0:
            row, force = data.tables[0][drawn[k]], items.hits[k] * items.sharp[k]
            weight = work.weight[WORSE, k]
            shared.add(work.user_way[0], -weight, row, data.dims)
            for d in range(LANES * len(data.dims)):
                z = force * (query[d] - row[d])
                gradient[d] += z
                way[d] = -z - weight * user[d]
            shared.descend(data, row, way, group.rate)
            if force > f32(0):
                slope = force * (half - f32(0.5) * items.far[k] * items.sharp[k])
                items.slope[group.line] += slope
                shared.move_variance(data, row, slope * neat.variance_of(data, row), group.rate)


@part
def push_other(data, work, group, drawn):
    """Push the other queries away from the user."""
    for k in range(len(drawn)):
        if drawn[k] >= 0:
            row = data.tables[0][drawn[k]]
            shared.add(work.user_way[0], -work.weight[OTHER, k], row, data.dims)
            shared.assign(work.way[0], -work.weight[OTHER, k], work.user[0], data.dims)
            shared.descend(data, row, work.way[0], group.rate)


@loop
def train(data, work, first, last):
    """Visit units `first` to `last`: (pairs, loss, active hinges)."""
    pairs, loss, active, items = 0, 0.0, 0.0, work.items
    both = (data.tables[0], data.tables[0])
    groups, count = shared.group_count(data.settings), data.settings.negatives
    shared.prepare(data, items.negatives, first, data.tables[:1], both)
    for unit in range(first, last):
        shared.prepare(data, items.negatives, min(unit + 1, last - 1), data.tables[:1], both)
        rate = shared.rate_at(data.settings, unit, first, last)
        lines = shared.unit_lines(data, unit)
        rows = lines.rows
        user = data.tables[1][lines.user]
        neat.compare_pairs(data, items, rows)
        shared.assign(work.user[0], f32(1), user, data.dims)
        for i in range(len(rows)):
            work.liking[i] = shared.dot(user, data.tables[0][rows[i]], data.dims)
        for n in range((lines.stop - lines.start) * groups):
            i, at = lines.start + n // groups, n * count
            drawn = items.negatives[unit % 2, :, at : at + count]
            partners = shared.find_partners(items.partners, data, rows, i, n % groups)
            if partners:
                group = LineGroup(rows, i, partners, rate)
                neat.compare_negatives(data, items, rows, i, drawn[WORSE])
                cost, hits = neat.count_hits(items, i, partners)
                loss += cost + rank(data, work, group, drawn)
                push_worse(data, work, group, drawn[WORSE])
                push_other(data, work, group, drawn[OTHER])
                shared.descend(data, user, work.user_way[0], rate)
                pairs += partners
                active += hits
        neat.pull(data, items, rows)
        neat.settle(data, items, rows, rate)
    return pairs, loss, active


neat_bpr = CpuKernel(train, workspace)
