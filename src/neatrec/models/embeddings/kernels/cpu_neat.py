"""NEAT on a CPU: `reference.neat` says what is computed.

A unit (a basket) at a time: its rows are copied, the distance of each pair is computed once for both directions, each
line compares its partners with its own negatives, and each row of the basket is changed once.
"""

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
    has_partner,
    is_pair,
    partner_range,
    replace_refused,
    unit_lines,
    unit_workspace,
    variance_step,
)
from neatrec.models.embeddings.kernels.cpu_rows import (
    RELAXED,
    add_row,
    add_rows,
    clear_row,
    copy_row,
    exponentials,
    logarithms,
    repel,
    set_row,
    square_distance,
)
from neatrec.models.embeddings.kernels.intrinsics import LANES
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, VISITOR, width

NO_PAIR = 3e38
"""The threshold of two lines that are no pair: no negative passes it."""
NEVER = 1e37
"""The square distance of a negative that is left out: it passes no threshold."""
Floats = npt.NDArray[np.float32]


class GaussianWorkspace(NamedTuple):
    """The lines of a unit (lines, ...), its pairs, of lines i and i + 1 + o (lines, window), and its negatives."""

    unit: UnitWorkspace
    variance: Floats  # (lines,)
    x: Floats  # (lines, width) the means as they were
    gradient: Floats  # (lines, width) minus the gradient
    slope: Floats  # (lines,) the same by the log-variance, still to be multiplied by the variance
    pair_distance: Floats  # (lines, window) square distance, and so on
    pair_log: Floats  # log of both variances
    pair_logs: Floats  # the same numbers, flat
    pair_precision: Floats
    threshold: Floats  # what a negative's likelihood must pass
    forward: Floats  # how many negatives of line i pass it
    backward: Floats  # how many of line i + 1 + o
    taken: npt.NDArray[np.bool_]  # (groups,) whether the group is to be compared
    distance: Floats  # (groups, negatives) square distance, and so on
    negative_variance: Floats
    negative_variances: Floats  # the same numbers, flat
    precision: Floats
    likelihood: Floats
    likelihoods: Floats  # the same numbers, flat
    active: Floats  # thresholds that the negative passes
    partner: npt.NDArray[np.int64]  # (2 window,) lines that draw the line at hand
    weight: Floats  # (2 window,) and how strongly


def new_workspace(lines: int, settings: KernelSettings, kinds: int = 1) -> GaussianWorkspace:
    """A workspace for `lines` lines and so many kinds of negatives."""
    groups = lines * groups_of(settings)

    def zeros(*shape: int) -> Floats:
        return np.zeros(shape, dtype=np.float32)

    pair, negative = (lines, settings.window), (groups, settings.negatives)
    pair_log, variance, likelihood = zeros(*pair), zeros(*negative), zeros(*negative)
    return GaussianWorkspace(
        unit=unit_workspace(lines, settings, kinds),
        variance=zeros(lines),
        x=zeros(lines, width(settings.dim)),
        gradient=zeros(lines, width(settings.dim)),
        slope=zeros(lines),
        pair_distance=zeros(*pair),
        pair_log=pair_log,
        pair_logs=pair_log.reshape(-1),
        pair_precision=zeros(*pair),
        threshold=zeros(*pair),
        forward=zeros(*pair),
        backward=zeros(*pair),
        taken=np.zeros(groups, np.bool_),
        distance=zeros(*negative),
        negative_variance=variance,
        negative_variances=variance.reshape(-1),
        precision=zeros(*negative),
        likelihood=likelihood,
        likelihoods=likelihood.reshape(-1),
        active=zeros(*negative),
        partner=np.zeros(2 * settings.window, np.int64),
        weight=zeros(2 * settings.window),
    )


@compiled(inline="always")
def gather(data, work, low, count):
    """Copy `count` lines from `low` on, and what the table holds of them, into the workspace."""
    table, dims = data.tables[0], data.dims
    copy_items(data.shard, low, count, work.unit)
    for i in range(count):
        row = work.unit.item[i]
        copy_row(work.x, i, table, row, dims)
        clear_row(work.gradient, i, dims)
        for o in range(data.settings.window):
            work.forward[i, o] = f32(0)
            work.backward[i, o] = f32(0)
        work.variance[i] = table[row, LANES * len(dims) + LOG_VARIANCE]
        work.slope[i] = f32(0)
    exponentials(work.variance[:count])


@compiled(inline="always")
def compare_pairs(work, count, settings, dims):
    """Likelihoods of all pairs within the window, once for both directions: the thresholds that negatives must pass."""
    half, margin, window = f32(0.5 * settings.dim), f32(settings.margin), settings.window
    for i in range(count):
        for o in range(min(window, count - 1 - i)):
            work.pair_distance[i, o] = square_distance(work.x, i, work.x, i + 1 + o, dims)
            work.pair_log[i, o] = work.variance[i] + work.variance[i + 1 + o]
            work.pair_precision[i, o] = f32(1) / work.pair_log[i, o]
    logarithms(work.pair_logs[: count * window])
    for i in range(count):
        for o in range(min(window, count - 1 - i)):
            nearness = f32(-0.5) * work.pair_distance[i, o] * work.pair_precision[i, o]
            likelihood = nearness - half * work.pair_log[i, o]
            work.threshold[i, o] = likelihood - margin if is_pair(work.unit, i, i + 1 + o) else f32(NO_PAIR)


@compiled(inline="always")
def compare_negatives(table, work, start, groups, count, settings, dims):
    """Likelihoods of the negatives of the first `count` groups, `groups` of them for each line from `start` on."""
    half, negatives, tail = f32(0.5 * settings.dim), settings.negatives, LANES * len(dims)
    for n in range(count):
        if work.taken[n]:
            i = start + n // groups
            query = work.unit.item[i]
            for k in range(negatives):
                row = work.unit.negative[n, k]
                apart = square_distance(work.x, i, table, row, dims)
                work.distance[n, k] = f32(NEVER) if row == query else apart
                work.negative_variance[n, k] = table[row, tail + LOG_VARIANCE]
    exponentials(work.negative_variances[: count * negatives])
    for n in range(count):
        for k in range(negatives):
            both = work.negative_variance[n, k] + work.variance[start + n // groups]
            work.likelihood[n, k] = both
            work.precision[n, k] = f32(1) / both
    logarithms(work.likelihoods[: count * negatives])
    for n in range(count):
        for k in range(negatives):
            nearness = f32(-0.5) * work.distance[n, k] * work.precision[n, k]
            work.likelihood[n, k] = nearness - half * work.likelihood[n, k]


@compiled(inline="always")
def pass_threshold(work, n, threshold, negatives):
    """How many negatives of group n pass the threshold of a pair, and the sum of what they are above it."""
    hits, loss = f32(0), f32(0)
    for k in range(negatives):
        above = work.likelihood[n, k] - threshold
        hit = f32(above > f32(0))
        work.active[n, k] += hit
        hits += hit
        loss += max(above, f32(0))
    return hits, loss


@compiled(inline="always")
def hinges(work, n, i, g, count, settings):
    """Which negatives of group n, the g-th of line i, pass the thresholds of its pairs: (pairs, loss, passes)."""
    pairs, loss, active, negatives = 0.0, f32(0), f32(0), settings.negatives
    for k in range(negatives):
        work.active[n, k] = f32(0)
    first, last, begin, end = partner_range(i, count, g, settings)
    for o in range(first, last):
        if work.threshold[i, o] < f32(NO_PAIR):
            hits, cost = pass_threshold(work, n, work.threshold[i, o], negatives)
            work.forward[i, o] = hits
            pairs += 1.0
            loss += cost
            active += hits
    for o in range(begin, end):
        if work.threshold[i - 1 - o, o] < f32(NO_PAIR):
            hits, cost = pass_threshold(work, n, work.threshold[i - 1 - o, o], negatives)
            work.backward[i - 1 - o, o] = hits
            pairs += 1.0
            loss += cost
            active += hits
    return pairs, loss, active


@compiled(inline="always")
def _compare(data, work, count, start, stop):
    """Compare all pairs of the unit and all negatives of its lines: (pairs, loss, active hinges)."""
    settings, dims = data.settings, data.dims
    groups = group_count(settings)
    pairs, loss, active = 0.0, 0.0, 0.0
    compare_pairs(work, count, settings, dims)
    for n in range((stop - start) * groups):
        work.taken[n] = has_partner(work.unit, start + n // groups, count, n % groups, settings)
    compare_negatives(data.tables[0], work, start, groups, (stop - start) * groups, settings, dims)
    for n in range((stop - start) * groups):
        if work.taken[n]:
            p, e, a = hinges(work, n, start + n // groups, n % groups, count, settings)
            pairs += p
            loss += e
            active += a
    return pairs, loss, active


@compiled(inline="always")
def _push(data, work, i, first, last, unit, rate):
    """Push the active negatives of line i's groups away from it."""
    table, settings, dims = data.tables[0], data.settings, data.dims
    half, visitor = f32(0.5 * settings.dim), LANES * len(dims) + VISITOR
    total = f32(0)
    for n in range(first, last):
        if not work.taken[n]:
            continue
        for k in range(settings.negatives):
            if work.active[n, k] > f32(0):
                row, precision, distance = work.unit.negative[n, k], work.precision[n, k], work.distance[n, k]
                force = work.active[n, k] * precision
                if table[row, visitor] == f32(unit + 1):
                    # drawn before in this unit and pushed since: from where it stands now
                    distance = square_distance(work.x, i, table, row, dims)
                table[row, visitor] = f32(unit + 1)
                step = force * adagrad_step(table, row, force * force * distance, rate, settings, dims)
                repel(table, row, work.x, i, work.gradient, force, step, dims)
                slope = force * (half - f32(0.5) * distance * precision)
                total += slope
                variance_step(table, row, slope * work.negative_variance[n, k], rate, settings, dims)
    work.slope[i] += total
    return f32(0)


@compiled(inline="always")
def draw_to_partners(work, i, count, settings, dims):
    """Finish the gradient of line i: it is drawn to its partners. Its sum of squares and its slope come back."""
    half, window = f32(0.5 * settings.dim), settings.window
    partners, drawn, slope = 0, f32(0), work.slope[i]
    for side in range(2):
        for o in range(min(window, count - 1 - i) if side == 0 else min(window, i)):
            first = i if side == 0 else i - 1 - o
            precision = work.pair_precision[first, o]
            weight = (work.forward[first, o] + work.backward[first, o]) * precision
            if weight > f32(0):
                work.partner[partners] = i + 1 + o if side == 0 else i - 1 - o
                work.weight[partners] = weight
                partners += 1
                drawn += weight
                slope += weight * (f32(0.5) * work.pair_distance[first, o] * precision - half)
    add_row(work.gradient, i, -drawn, work.x, i, dims)
    squared = add_rows(work.gradient, i, work.weight, work.x, work.partner, partners, dims)
    return squared, slope * work.variance[i]


@compiled(inline="always")
def _settle(data, work, count, rate):
    """Change the row of each line by its gradient."""
    table, settings, dims = data.tables[0], data.settings, data.dims
    for i in range(count):
        squared, slope = draw_to_partners(work, i, count, settings, dims)
        if squared > f32(0):
            row = work.unit.item[i]
            add_row(table, row, adagrad_step(table, row, squared, rate, settings, dims), work.gradient, i, dims)
            variance_step(table, row, slope, rate, settings, dims)


@compiled(inline="always")
def write_negative(table, work, buffer, at, n, k, i, settings, dims):
    """Write the gradient of negative k of group n, of line i, to entry `at`; the line's gradient gets its part."""
    row, precision = work.unit.negative[n, k], work.precision[n, k]
    force = work.active[n, k] * precision
    add_entry(buffer, at, 0, row)
    set_row(buffer.vector, at, force, table, row, dims)
    add_row(buffer.vector, at, -force, work.x, i, dims)
    add_row(work.gradient, i, f32(-1), buffer.vector, at, dims)
    slope = force * (f32(0.5 * settings.dim) - f32(0.5) * work.distance[n, k] * precision)
    work.slope[i] += slope
    buffer.slope[at] = slope * work.negative_variance[n, k]


@compiled(inline="always")
def write_lines(work, buffer, at, count, settings, dims):
    """Write the gradient of each line of the unit from entry `at` on; the next free entry comes back."""
    for i in range(count):
        squared, slope = draw_to_partners(work, i, count, settings, dims)
        if squared > f32(0):
            add_entry(buffer, at, 0, work.unit.item[i])
            copy_row(buffer.vector, at, work.gradient, i, dims)
            buffer.slope[at] = slope
            at += 1
    return at


@compiled(inline="always")
def take_groups(work, count, start, groups, every, first_pair, last_pair, settings):
    """Note which of `every` groups have partners and, where each has one pair, are in the range of pairs asked for."""
    seen = 0
    for n in range(every):
        found = has_partner(work.unit, start + n // groups, count, n % groups, settings)
        seen += found
        work.taken[n] = found and (settings.shared or first_pair < seen <= last_pair)


@compiled(fastmath=RELAXED)
def neat_gradients(data, work, buffer, slot, unit, first_pair, last_pair):
    """Write a unit's gradients to the buffer; of its pairs only those numbered from `first_pair` to `last_pair`."""
    tables, shard, draws, settings, dims = data
    table, negatives, groups = tables[0], settings.negatives, group_count(settings)
    low, count, start, stop = unit_lines(shard, unit, settings.window)
    basket, every = shard.basket[unit], (stop - start) * groups
    key = basket_key(draws.seed, shard.number[basket])
    place = (shard.start[unit] - shard.offsets[basket]) * groups
    for n in range(every):
        draw_bits(draws.alias, key, place + n, work.unit.random_bits, n, negatives)
    gather(data, work, low, count)
    for n in range(every):
        draw_candidates(table, draws.alias, work.unit.random_bits, work.unit.negative, n, negatives, dims)
    compare_pairs(work, count, settings, dims)
    take_groups(work, count, start, groups, every, first_pair, last_pair, settings)
    for n in range(every):
        if work.taken[n]:
            replace_refused(work.unit, n, negatives, count, work.unit.item[start + n // groups], -1, draws)
    compare_negatives(table, work, start, groups, every, settings, dims)
    pairs, loss, active = 0.0, 0.0, 0.0
    at = buffer.start[slot]
    for n in range(every):
        if work.taken[n]:
            i = start + n // groups
            p, e, a = hinges(work, n, i, n % groups, count, settings)
            pairs += p
            loss += e
            active += a
            for k in range(negatives):
                if work.active[n, k] > f32(0):
                    write_negative(table, work, buffer, at, n, k, i, settings, dims)
                    at += 1
    at = write_lines(work, buffer, at, count, settings, dims)
    finish_unit(buffer, slot, at, pairs, loss, active)


neat = CompiledKernel(
    "neat",
    new_workspace,
    neat_gradients,
    fast={"gather": gather, "compare": _compare, "push": _push, "settle": _settle},
)
"""Gaussian items by the max-margin loss on their log expected likelihood; tables: (items,)."""
