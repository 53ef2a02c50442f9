"""NEAT on a CPU: `reference.neat` says what is computed.

A unit (a basket) at a time: its rows are copied, the distance of each pair is computed once for both directions, each
line compares its partners with its own negatives, and each row of the basket is changed once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32

from neatrec.compiled import FUSED, RELAXED, compiled
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
    has_partner,
    is_pair,
    line_at,
    places,
    replace_refused,
    unit_lines,
    unit_workspace,
    variance_step,
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
    exponentials,
    logarithms,
    repel,
    set_row,
    square_distance,
)
from neatrec.models.embeddings.kernels.intrinsics import LANES
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, VISITOR, new_table

NO_PAIR = 3e38
"""The threshold of two lines that are no pair: no negative passes it."""
NEVER = 1e37
"""The square distance of a negative that is left out: it passes no threshold."""


class GaussianWorkspace(NamedTuple):
    """The lines of a unit (lines, ...), its pairs, of lines i and i + 1 + o (lines x window), and its negatives."""

    unit: UnitWorkspace
    variance: Floats  # (lines,)
    x: Floats  # (lines, at least width) the means as they were
    gradient: Floats  # (lines, at least width) minus the gradient
    slope: Floats  # (lines,) the same by the log-variance, still to be multiplied by the variance
    pair_distance: Floats  # (lines x window,) square distance, and so on
    pair_log: Floats  # log of both variances
    pair_precision: Floats
    threshold: Floats  # what a negative's likelihood must pass
    forward: Floats  # how many negatives of line i pass it
    backward: Floats  # how many of line i + 1 + o
    taken: npt.NDArray[np.bool_]  # (groups,) whether the group is to be compared
    distance: Floats  # (groups x negatives,) square distance, and so on
    negative_variance: Floats
    precision: Floats
    likelihood: Floats
    active: Floats  # thresholds that the negative passes
    partner: npt.NDArray[np.int64]  # (2 window,) lines that draw the line at hand
    weight: Floats  # (2 window,) and how strongly


class Negative(NamedTuple):
    """A negative of a unit: of a line, in a group, and which of the group."""

    line: int
    group: int
    number: int


def new_workspace(lines: int, settings: KernelSettings, kinds: int = 1) -> GaussianWorkspace:
    """A workspace for `lines` lines and so many kinds of negatives."""
    groups = lines * groups_of(settings)

    def zeros(count: int) -> Floats:
        return np.zeros(count, dtype=np.float32)

    pairs, negatives = lines * settings.window, groups * settings.negatives
    return GaussianWorkspace(
        unit=unit_workspace(lines, settings, kinds),
        variance=zeros(lines),
        x=new_table(lines, settings.dim),
        gradient=new_table(lines, settings.dim),
        slope=zeros(lines),
        pair_distance=zeros(pairs),
        pair_log=zeros(pairs),
        pair_precision=zeros(pairs),
        threshold=zeros(pairs),
        forward=zeros(pairs),
        backward=zeros(pairs),
        taken=np.zeros(groups, np.bool_),
        distance=zeros(negatives),
        negative_variance=zeros(negatives),
        precision=zeros(negatives),
        likelihood=zeros(negatives),
        active=zeros(negatives),
        partner=np.zeros(2 * settings.window, np.int64),
        weight=zeros(2 * settings.window),
    )


@compiled(inline="always")
def gather(data, work, low, count):
    """Copy `count` lines from `low` on, and what the table holds of them, into the workspace."""
    table, dims, window = data.tables[0], data.dims, data.settings.window
    copy_items(data.shard, low, count, work.unit)
    for i in range(count):
        row = work.unit.item[i]
        copy_row(work.x, i, table, row, dims)
        clear_row(work.gradient, i, dims)
        for o in range(window):
            at = flat_place(i, window, o)
            work.forward[at] = f32(0)
            work.backward[at] = f32(0)
        work.variance[i] = table[row, LANES * len(dims) + LOG_VARIANCE]
        work.slope[i] = f32(0)
    exponentials(work.variance[:count])


@compiled(forceinline=True, fastmath=FUSED)
def log_likelihood(distance, precision, log_variance, half, margin):
    """Of a pair, less the margin and a constant.

    LLVM may have two versions of a loop that writes to an array, and run the one or the other by where arrays lie in
    memory. With sums in any order the two would differ in their last bits.
    """
    return f32(-0.5) * distance * precision - half * log_variance - margin


@compiled(inline="always")
def compare_pairs(data, work, count):
    """Likelihoods of all pairs within the window, once for both directions: the thresholds that negatives must pass."""
    settings, dims = data.settings, data.dims
    half, margin, window = f32(0.5 * settings.dim), f32(settings.margin), settings.window
    for i in range(count):
        for j in range(i + 1, min(i + 1 + window, count)):
            at = flat_place(i, window, j - i - 1)
            work.pair_distance[at] = square_distance(work.x, i, work.x, j, dims)
            work.pair_log[at] = work.variance[i] + work.variance[j]
            work.pair_precision[at] = f32(1) / work.pair_log[at]
    logarithms(work.pair_log[: count * window])
    for at in range(count * window):
        distance, precision = work.pair_distance[at], work.pair_precision[at]
        work.threshold[at] = log_likelihood(distance, precision, work.pair_log[at], half, margin)
    for i in range(count):
        for j in range(i + 1, min(i + 1 + window, count)):
            if not is_pair(work.unit, i, j):
                work.threshold[flat_place(i, window, j - i - 1)] = f32(NO_PAIR)


@compiled(inline="always")
def compare_negatives(data, work, start, count):
    """Likelihoods of the negatives of the first `count` groups, those of the lines from `start` on."""
    table, settings, dims = data.tables[0], data.settings, data.dims
    half, negatives, groups = f32(0.5 * settings.dim), settings.negatives, group_count(settings)
    for n in range(count):
        if work.taken[n]:
            i = start + n // groups
            query = work.unit.item[i]
            for k in range(negatives):
                row, at = work.unit.negative[n, k], flat_place(n, negatives, k)
                apart = square_distance(work.x, i, table, row, dims)
                work.distance[at] = f32(NEVER) if row == query else apart
                work.negative_variance[at] = table[row, LANES * len(dims) + LOG_VARIANCE]
    exponentials(work.negative_variance[: count * negatives])
    for n in range(count):
        for k in range(negatives):
            at = flat_place(n, negatives, k)
            both = work.negative_variance[at] + work.variance[start + n // groups]
            work.likelihood[at] = both
            work.precision[at] = f32(1) / both
    logarithms(work.likelihood[: count * negatives])
    for at in range(count * negatives):
        distance, precision = work.distance[at], work.precision[at]
        work.likelihood[at] = log_likelihood(distance, precision, work.likelihood[at], half, f32(0))


@compiled(forceinline=True, fastmath=FUSED)
def pass_threshold(work, n, threshold, negatives):
    """How many negatives of group n pass the threshold of a pair, and the sum of what they are above it."""
    hits, loss = f32(0), f32(0)
    for k in range(negatives):
        at = flat_place(n, negatives, k)
        above = work.likelihood[at] - threshold
        hit = f32(above > f32(0))
        work.active[at] += hit
        hits += hit
        loss += max(above, f32(0))
    return hits, loss


@compiled(inline="always")
def hinges(work, n, i, g, count, settings):
    """Which negatives of group n, the g-th of line i, pass the thresholds of its pairs: (pairs, loss, passes)."""
    pairs, loss, active, negatives = 0.0, f32(0), f32(0), settings.negatives
    for k in range(negatives):
        work.active[flat_place(n, negatives, k)] = f32(0)
    first, last = places(g, settings)
    for place in range(first, last):
        j, at = line_at(i, place, settings.window)
        if 0 <= j < count and work.threshold[at] < f32(NO_PAIR):
            hits, cost = pass_threshold(work, n, work.threshold[at], negatives)
            if j > i:
                work.forward[at] = hits
            else:
                work.backward[at] = hits
            pairs += 1.0
            loss += cost
            active += hits
    return pairs, loss, active


@compiled(inline="always")
def _compare(data, work, count, start, stop):
    """Compare all pairs of the unit and all negatives of its lines: (pairs, loss, active hinges)."""
    settings, groups = data.settings, group_count(data.settings)
    pairs, loss, active = 0.0, 0.0, 0.0
    compare_pairs(data, work, count)
    for n in range((stop - start) * groups):
        work.taken[n] = has_partner(work.unit, start + n // groups, count, n % groups, settings)
    compare_negatives(data, work, start, (stop - start) * groups)
    for n in range((stop - start) * groups):
        if work.taken[n]:
            p, e, a = hinges(work, n, start + n // groups, n % groups, count, settings)
            pairs += p
            loss += e
            active += a
    return pairs, loss, active


@compiled(inline="always")
def _push(data, work, i, first, unit, rate):
    """Push the active negatives of line i away from where they stand, and change them at once."""
    table, settings, dims = data.tables[0], data.settings, data.dims
    half, visitor, line = f32(0.5 * settings.dim), LANES * len(dims) + VISITOR, Line(work.x, work.gradient, i)
    total = f32(0)
    for n in range(first, first + group_count(settings)):
        if not work.taken[n]:
            continue
        for k in range(settings.negatives):
            at = flat_place(n, settings.negatives, k)
            if work.active[at] > f32(0):
                row, precision, distance = work.unit.negative[n, k], work.precision[at], work.distance[at]
                force = work.active[at] * precision
                if table[row, visitor] == f32(unit + 1):
                    # drawn before in this unit and pushed since: from where it stands now
                    distance = square_distance(work.x, i, table, row, dims)
                table[row, visitor] = f32(unit + 1)
                step = force * adagrad_step(data, table, row, force * force * distance, rate)
                repel(table, row, line, force, step, dims)
                slope = force * (half - f32(0.5) * distance * precision)
                total += slope
                variance_step(data, table, row, slope * work.negative_variance[at], rate)
    work.slope[i] += total
    return f32(0)


@compiled(inline="always")
def draw_to_partners(data, work, i, count):
    """Finish the gradient of line i: it is drawn to its partners. Its sum of squares and its slope come back."""
    half, window = f32(0.5 * data.settings.dim), data.settings.window
    partners, drawn, slope = 0, f32(0), work.slope[i]
    for place in range(2 * window):
        j, at = line_at(i, place, window)
        if 0 <= j < count:
            precision = work.pair_precision[at]
            weight = (work.forward[at] + work.backward[at]) * precision
            if weight > f32(0):
                work.partner[partners], work.weight[partners] = j, weight
                partners += 1
                drawn += weight
                slope += weight * (f32(0.5) * work.pair_distance[at] * precision - half)
    add_row(work.gradient, i, -drawn, work.x, i, data.dims)
    squared = add_rows(work.gradient, i, work.x, RowWeights(work.partner, work.weight, partners), data.dims)
    return squared, slope * work.variance[i]


@compiled(inline="always")
def _settle(data, work, count, rate):
    """Change the row of each line by its gradient."""
    table = data.tables[0]
    for i in range(count):
        squared, slope = draw_to_partners(data, work, i, count)
        if squared > f32(0):
            row = work.unit.item[i]
            add_row(table, row, adagrad_step(data, table, row, squared, rate), work.gradient, i, data.dims)
            variance_step(data, table, row, slope, rate)


@compiled(inline="always")
def write_negative(data, work, buffer, at, negative):
    """Write the gradient of a negative to entry `at`; the gradient of its line gets its part."""
    (i, n, k), dims = negative, data.dims
    row, place = work.unit.negative[n, k], flat_place(n, data.settings.negatives, k)
    precision = work.precision[place]
    force = work.active[place] * precision
    add_entry(buffer, at, 0, row)
    set_row(buffer.vector, at, force, data.tables[0], row, dims)
    add_row(buffer.vector, at, -force, work.x, i, dims)
    add_row(work.gradient, i, f32(-1), buffer.vector, at, dims)
    slope = force * (f32(0.5 * data.settings.dim) - f32(0.5) * work.distance[place] * precision)
    work.slope[i] += slope
    buffer.slope[at] = slope * work.negative_variance[place]


@compiled(inline="always")
def write_gaussians(data, work, buffer, at, count):
    """Write the gradient of each line of the unit from entry `at` on; the next free entry comes back."""
    for i in range(count):
        squared, slope = draw_to_partners(data, work, i, count)
        if squared > f32(0):
            add_entry(buffer, at, 0, work.unit.item[i])
            copy_row(buffer.vector, at, work.gradient, i, data.dims)
            buffer.slope[at] = slope
            at += 1
    return at


@compiled(inline="always")
def compare_unit(data, work, lines, pairs, user, kinds):
    """Draw the negatives of a unit, of so many kinds, and compare those of the first kind.

    `taken` are the groups that have partners and, where each has one pair, whose pair is in the range.
    """
    unit, settings, start, seen = work.unit, data.settings, lines.start, 0
    groups = group_count(settings)
    for kind in range(kinds):
        draw_unit_bits(data, unit, lines, kind)
    gather(data, work, lines.low, lines.loaded)
    for n in range(kinds * lines.groups):
        draw_candidates(data, data.tables[0], unit.random_bits, unit.negative, n)
    compare_pairs(data, work, lines.loaded)
    for n in range(lines.groups):
        i = start + n // groups
        found = has_partner(unit, i, lines.loaded, n % groups, settings)
        seen += found
        work.taken[n] = found and (settings.shared or pairs.first < seen <= pairs.last)
        if work.taken[n]:
            for kind in range(kinds):
                row = kind * lines.groups + n
                replace_refused(data, unit, unit.negative, row, Query(unit.item[i], user, lines.loaded))
    compare_negatives(data, work, start, lines.groups)


@compiled(forceinline=True, fastmath=RELAXED)
def neat_gradients(data, work, buffer, slot, unit, pairs):
    """Write a unit's gradients to the buffer, of its pairs only those of a `PairRange`."""
    lines, settings, groups = unit_lines(data, unit), data.settings, group_count(data.settings)
    compare_unit(data, work, lines, pairs, -1, 1)
    found, loss, active = 0.0, 0.0, 0.0
    at = buffer.start[slot]
    for n in range(lines.groups):
        if work.taken[n]:
            i = lines.start + n // groups
            p, e, a = hinges(work, n, i, n % groups, lines.loaded, settings)
            found += p
            loss += e
            active += a
            for k in range(settings.negatives):
                if work.active[flat_place(n, settings.negatives, k)] > f32(0):
                    write_negative(data, work, buffer, at, Negative(i, n, k))
                    at += 1
    at = write_gaussians(data, work, buffer, at, lines.loaded)
    finish_unit(buffer, slot, at, found, loss, active)


neat = CompiledKernel(
    "neat",
    new_workspace,
    neat_gradients,
    fast={"gather": gather, "compare": _compare, "push": _push, "settle": _settle},
)
"""Gaussian items by the max-margin loss on their log expected likelihood; tables: (items,)."""
