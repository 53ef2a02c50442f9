"""Skip-gram with negative sampling on a CPU; `reference.item2vec` states the same plainly.

Each item has an input vector f and an output vector g. A query q with its partners v and negatives
v' costs

    sum over v of [log(1 + e^(-f_q . g_v)) + sum over v' of log(1 + e^(f_q . g_v'))]

and the directions of descent are, with sigmoid(x) = 1 / (1 + e^-x) and n partners,

    of f_q:   sigmoid(-f_q . g_v) g_v - n sigmoid(f_q . g_v') g_v'
    of g_v:   sigmoid(-f_q . g_v) f_q
    of g_v':  -n sigmoid(f_q . g_v') f_q

Output rows of the basket move at its end, those of negatives at once. Tables: input, output,
(items, row) each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import float32 as f32

from neatrec.models.embeddings.kernels.arguments import LANES, LONGEST, KernelSettings, new_table
from neatrec.models.embeddings.kernels.cpu import shared
from neatrec.models.embeddings.kernels.cpu.shared import CpuKernel, Floats, Rows, loop, part


class SkipGramWorkspace(NamedTuple):
    """Numbers of a unit."""

    negatives: Rows  # (2, 1, groups x negatives)
    partners: Rows  # (2 window,) lines
    score: Floats  # (negatives or partners,) of the current group, then their sigmoids
    f_way: Floats  # (1, row) direction of f of the current line
    g_way: Floats  # (lines, row) direction of g


def workspace(settings: KernelSettings) -> SkipGramWorkspace:
    """The workspace of one thread."""
    lines = LONGEST + 2 * settings.window
    return SkipGramWorkspace(
        shared.negatives_of(settings),
        np.zeros(2 * settings.window, dtype=np.int64),
        np.zeros(max(2 * settings.window, settings.negatives), dtype=np.float32),
        new_table(1, settings.dim),
        new_table(lines, settings.dim),
    )


@part
def sigmoids(score):
    """Set score = sigmoid(score); return the sum of log(1 + e^score), by one logarithm."""
    loss, product = f32(0), 1.0
    for k in range(len(score)):
        score[k], a, b = shared.logistic(score[k])
        loss += a
        product *= b
    return loss + np.log(product)


@part
def attract(data, work, rows, f, partners):
    """Pull a query and its partners towards each other, and return their loss."""
    table = data.tables[1]
    for p in range(partners):
        work.score[p] = -shared.dot(f, table[rows[work.partners[p]]], data.dims)
    loss = sigmoids(work.score[:partners])
    for p in range(partners):
        j = work.partners[p]
        shared.add(work.f_way[0], work.score[p], table[rows[j]], data.dims)
        shared.add(work.g_way[j], work.score[p], f, data.dims)
    return loss


@part
def repel(data, work, f, drawn, partners, rate):
    """Push a query and its negatives apart, once per partner, and return their loss."""
    table, way, length = data.tables[1], work.f_way[0], shared.dot(f, f, data.dims)
    for k in range(len(drawn)):
        work.score[k] = shared.dot(f, table[drawn[k]], data.dims) if drawn[k] >= 0 else f32(-100)
    loss = sigmoids(work.score[: len(drawn)])
    for k in range(len(drawn)):
        if drawn[k] >= 0:
            g, weight = table[drawn[k]], partners * work.score[k]
            step = weight * shared.step_length(data, g, weight * weight * length, rate)
            for d in range(LANES * len(data.dims)):
                here = g[d]
                way[d] -= weight * here
                g[d] = here - step * f[d]
    return partners * loss


@loop
def train(data, work, first, last):
    """Visit units `first` to `last`: (pairs, loss, 0)."""
    pairs, loss = 0, 0.0
    groups, count = shared.group_count(data.settings), data.settings.negatives
    shared.prepare(data, work.negatives, first, data.tables, data.tables[1:])
    for unit in range(first, last):
        shared.prepare(data, work.negatives, min(unit + 1, last - 1), data.tables, data.tables[1:])
        rate = shared.rate_at(data.settings, unit, first, last)
        lines = shared.unit_lines(data, unit)
        rows = lines.rows
        for i in range(len(rows)):
            shared.clear(work.g_way[i], data.dims)
        for i in range(lines.start, lines.stop):
            f = data.tables[0][rows[i]]
            shared.clear(work.f_way[0], data.dims)
            for g in range(groups):
                partners = shared.find_partners(work.partners, data, rows, i, g)
                if partners:
                    at = ((i - lines.start) * groups + g) * count
                    drawn = work.negatives[unit % 2, 0, at : at + count]
                    loss += attract(data, work, rows, f, partners)
                    loss += repel(data, work, f, drawn, f32(partners), rate)
                    pairs += partners
            shared.descend(data, f, work.f_way[0], rate)
        for i in range(len(rows)):
            shared.descend(data, data.tables[1][rows[i]], work.g_way[i], rate)
    return pairs, loss, 0


item2vec = CpuKernel(train, workspace)
