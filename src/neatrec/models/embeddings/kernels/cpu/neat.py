"""NEAT on a CPU: each item is a Gaussian N(mu, s I); `reference.neat` states the same plainly.

A query q with its partners v and negatives v' costs

    sum over v, v' of max(0, margin - log E(q, v) + log E(q, v'))
    log E(a, b) = -dim/2 log(s_a + s_b) - |mu_a - mu_b|^2 / (2 (s_a + s_b)) + constant

With h(a, b) the number of active hinges of the pair (a, b), the directions of descent are

    of mu_q:      h(q, v) (mu_v - mu_q) / (s_q + s_v), and for mu_v the opposite
    of mu_q:      h(q, v') (mu_q - mu_v') / (s_q + s_v'), and for mu_v' the opposite
    of log s_a:   -+ h(a, b) s_a (dim/2 - |mu_a - mu_b|^2 / (2 (s_a + s_b))) / (s_a + s_b),
                  - for a pair, + for a negative

Two lines of a basket are compared once for both directions. Rows of the basket move at its end,
those of negatives at once. Shapes: table (items, row), see `arguments`; numbers of a pair
(lines, window), of line i and line i + 1 + o.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import float32 as f32

from neatrec.models.embeddings.kernels.arguments import (
    LANES,
    LOG_VARIANCE,
    LONGEST,
    KernelSettings,
    new_table,
)
from neatrec.models.embeddings.kernels.cpu import shared
from neatrec.models.embeddings.kernels.cpu.shared import CpuKernel, Floats, Rows, loop, part

NEVER = -3e38  # log E of a negative that is left out


class NeatWorkspace(NamedTuple):
    """Numbers of a unit: its lines, its pairs, and the negatives of the group at hand."""

    negatives: Rows  # (2, 1, groups x negatives)
    partners: Rows  # (2 window,) lines
    variance: Floats  # (lines,) s
    gradient: Floats  # (lines, row) direction of mu
    slope: Floats  # (lines,) direction of log s, still to be multiplied by s
    distance: Floats  # (lines, window) |mu_a - mu_b|^2
    precision: Floats  # (lines, window) 1 / (s_a + s_b)
    bar: Floats  # (lines, window) log E - margin, which negatives must not pass
    pulls: Floats  # (lines, window) h of both directions
    far: Floats  # (negatives,) |mu_q - mu_v'|^2
    sharp: Floats  # (negatives,) 1 / (s_q + s_v')
    likely: Floats  # (negatives,) log E
    hits: Floats  # (negatives,) h


def workspace(settings: KernelSettings, kinds: int = 1) -> NeatWorkspace:
    """The workspace of one thread."""
    lines = LONGEST + 2 * settings.window
    pairs = [np.zeros((lines, settings.window), dtype=np.float32) for _ in range(4)]
    drawn = [np.zeros(settings.negatives, dtype=np.float32) for _ in range(4)]
    return NeatWorkspace(
        shared.negatives_of(settings, kinds),
        np.zeros(2 * settings.window, dtype=np.int64),
        np.zeros(lines, dtype=np.float32),
        new_table(lines, settings.dim),
        np.zeros(lines, dtype=np.float32),
        *pairs,
        *drawn,
    )


@part
def variance_of(data, row):
    """The variance s of a row of the table."""
    return np.exp(row[LANES * len(data.dims) + LOG_VARIANCE])


@part
def compare_pairs(data, work, rows):
    """Compare the lines of a unit; directions are cleared."""
    table, dims, settings = data.tables[0], data.dims, data.settings
    half, margin = f32(0.5 * settings.dim), f32(settings.margin)
    for i in range(len(rows)):
        work.variance[i] = variance_of(data, table[rows[i]])
        work.slope[i] = f32(0)
        shared.clear(work.gradient[i], dims)
    for i in range(len(rows)):
        for o in range(min(settings.window, len(rows) - i - 1)):
            work.pulls[i, o] = f32(0)
            if shared.is_pair(data, rows, i, i + 1 + o):
                both = work.variance[i] + work.variance[i + 1 + o]
                distance = shared.square_distance(table[rows[i]], table[rows[i + 1 + o]], dims)
                work.distance[i, o], work.precision[i, o] = distance, f32(1) / both
                work.bar[i, o] = -half * np.log(both) - f32(0.5) * distance / both - margin


@part
def compare_negatives(data, work, rows, i, drawn):
    """Compare line i with negatives; hits are cleared."""
    table, half = data.tables[0], f32(0.5 * data.settings.dim)
    for k in range(len(drawn)):
        work.hits[k], work.likely[k] = f32(0), f32(NEVER)
        if drawn[k] >= 0:
            both = work.variance[i] + variance_of(data, table[drawn[k]])
            distance = shared.square_distance(table[rows[i]], table[drawn[k]], data.dims)
            work.far[k], work.sharp[k] = distance, f32(1) / both
            work.likely[k] = -half * np.log(both) - f32(0.5) * distance / both


@part
def count_hits(work, i, partners):
    """Count negatives that pass the bars of line i's partners: (loss, active hinges)."""
    loss, active = f32(0), f32(0)
    for p in range(partners):
        j = work.partners[p]
        a, o = min(i, j), abs(i - j) - 1
        passed = f32(0)
        for k in range(len(work.likely)):
            above = work.likely[k] - work.bar[a, o]
            hit = f32(above > f32(0))
            work.hits[k] += hit
            passed += hit
            loss += max(above, f32(0))
        work.pulls[a, o] += passed
        active += passed
    return loss, active


@part
def push(data, work, rows, i, drawn, rate):
    """Push the negatives of line i that passed a bar, and line i, away from each other."""
    table, half = data.tables[0], f32(0.5 * data.settings.dim)
    query, gradient = table[rows[i]], work.gradient[i]
    for k in range(len(drawn)):
        if work.hits[k] > f32(0):
            row, force = table[drawn[k]], work.hits[k] * work.sharp[k]
            step = force * shared.step_length(data, row, force * force * work.far[k], rate)
            for d in range(LANES * len(data.dims)):
                z = query[d] - row[d]
                gradient[d] += force * z
                row[d] -= step * z
            slope = force * (half - f32(0.5) * work.far[k] * work.sharp[k])
            work.slope[i] += slope
            shared.move_variance(data, row, slope * variance_of(data, row), rate)


@part
def pull(data, work, rows):
    """Pull the lines of a unit towards each other."""
    table, half = data.tables[0], f32(0.5 * data.settings.dim)
    for i in range(len(rows)):
        for o in range(min(data.settings.window, len(rows) - i - 1)):
            if work.pulls[i, o] > f32(0):
                j, weight = i + 1 + o, work.pulls[i, o] * work.precision[i, o]
                here, there = table[rows[i]], table[rows[j]]
                ours, theirs = work.gradient[i], work.gradient[j]
                for d in range(LANES * len(data.dims)):
                    z = weight * (there[d] - here[d])
                    ours[d] += z
                    theirs[d] -= z
                slope = weight * (f32(0.5) * work.distance[i, o] * work.precision[i, o] - half)
                work.slope[i] += slope
                work.slope[j] += slope


@part
def settle(data, work, rows, rate):
    """Move the rows of a unit."""
    for i in range(len(rows)):
        row = data.tables[0][rows[i]]
        if work.slope[i] != f32(0):
            shared.move_variance(data, row, work.slope[i] * work.variance[i], rate)
        shared.descend(data, row, work.gradient[i], rate)


@loop
def train(data, work, first, last):
    """Visit units `first` to `last`: (pairs, loss, active hinges)."""
    pairs, loss, active = 0, 0.0, 0.0
    groups, count = shared.group_count(data.settings), data.settings.negatives
    shared.prepare(data, work.negatives, first, data.tables, data.tables)
    for unit in range(first, last):
        shared.prepare(data, work.negatives, min(unit + 1, last - 1), data.tables, data.tables)
        rate = shared.rate_at(data.settings, unit, first, last)
        lines = shared.unit_lines(data, unit)
        rows = lines.rows
        compare_pairs(data, work, rows)
        for n in range((lines.stop - lines.start) * groups):
            i, at = lines.start + n // groups, n * count
            drawn = work.negatives[unit % 2, 0, at : at + count]
            partners = shared.find_partners(work.partners, data, rows, i, n % groups)
            if partners:
                compare_negatives(data, work, rows, i, drawn)
                cost, hits = count_hits(work, i, partners)
                push(data, work, rows, i, drawn, rate)
                pairs += partners
                loss += cost
                active += hits
        pull(data, work, rows)
        settle(data, work, rows, rate)
    return pairs, loss, active


neat = CpuKernel(train, workspace)
