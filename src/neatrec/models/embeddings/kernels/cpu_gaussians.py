"""What the Gaussian kernels share: room for a unit, the comparison of its pairs and of its negatives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.arguments import KernelSettings, groups_of
from neatrec.models.embeddings.kernels.cpu_negatives import SEEN_WORDS, enter
from neatrec.models.embeddings.kernels.gaussians import far_likelihoods, near_likelihoods
from neatrec.models.embeddings.kernels.lanes import exponentials
from neatrec.models.embeddings.kernels.layout import LANES, LOG_VARIANCE, width
from neatrec.models.embeddings.kernels.rows import clear_row, copy_row

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


class GaussianWorkspace(NamedTuple):
    """Working space for the lines of a unit and their groups of negatives.

    near: about line i and line i + 1 + o, shape (lines, window padded to eights)
    far: about the negatives of a group, shape (groups, negatives padded to eights)
    """

    item: npt.NDArray[np.int32]  # (1, lines and a window more)
    category: npt.NDArray[np.int32]  # the same
    seen: npt.NDArray[np.uint64]  # see `enter`
    variance: Floats  # the same
    variances: Floats  # the same numbers, (n, 8)
    log_variances: Floats  # (n, 8)
    x: Floats  # (lines, width) the rows as they were
    gradient: Floats  # (lines, width) the way down
    slope: Floats  # (lines,) the way down for the log-variance, still to be multiplied by the variance
    near_distance: Floats
    near_precision: Floats
    bar: Floats  # near: what a negative's likelihood must pass
    forth: Floats  # near: how many negatives of line i pass it
    back: Floats  # near: how many of line i + 1 + o
    weight: Floats  # near: of the one row in the other's gradient
    bend: Floats  # near: of the pair in the slopes
    negative: Integers  # (groups, negatives)
    distance: Floats  # far, and so on
    far_variance: Floats
    precision: Floats
    likelihood: Floats
    active: Floats
    dice: npt.NDArray[np.uint64]  # (groups, negatives) of the next unit
    ahead: Integers  # (groups, negatives) of the next unit


def new_room(lines: int, settings: KernelSettings, streams: int = 1) -> GaussianWorkspace:
    """GaussianWorkspace for `lines` lines and so many kinds of negatives."""
    lines = width(lines)
    groups = lines * groups_of(settings)
    near, far = (lines, width(settings.window)), (groups, width(settings.negatives))
    rows, more = (lines, width(settings.dim)), (1, lines + width(settings.window) + LANES)
    drawn = (streams * groups, settings.negatives)

    def zeros(shape: tuple[int, ...]) -> Floats:
        return np.zeros(shape, dtype=np.float32)

    variance = zeros(more)
    return GaussianWorkspace(
        item=np.zeros(more, np.int32),
        category=np.zeros(more, np.int32),
        seen=np.zeros(SEEN_WORDS, np.uint64),
        variance=variance,
        variances=variance.reshape(-1, LANES),
        log_variances=zeros((more[1] // LANES, LANES)),
        x=zeros(rows),
        gradient=zeros(rows),
        slope=zeros((lines,)),
        near_distance=zeros(near),
        near_precision=zeros(near),
        bar=zeros(near),
        forth=zeros(near),
        back=zeros(near),
        weight=zeros(near),
        bend=zeros(near),
        negative=np.zeros(drawn, np.int64),
        distance=zeros(far),
        far_variance=zeros(far),
        precision=zeros(far),
        likelihood=zeros(far),
        active=zeros(far),
        dice=np.zeros(drawn, np.uint64),
        ahead=np.zeros(drawn, np.int64),
    )


@compiled(inline="always")
def gather(tables, shard, low, count, room, dims, near):
    """Copy `count` lines from `low` on into the room."""
    table, tail = tables[0], 8 * len(dims)
    enter(shard, low, count, room)
    for i in range(count):
        row = room.item[0, i]
        copy_row(room.x, i, table, row, dims)
        clear_row(room.gradient, i, dims)
        clear_row(room.forth, i, near)
        clear_row(room.back, i, near)
        room.log_variances[i >> 3, i & 7] = table[row, tail + LOG_VARIANCE]
        room.slope[i] = f32(0)
    for eight in range((count + 7) >> 3):
        exponentials(room.variances, eight, room.log_variances, eight, (0,))


@compiled(inline="always")
def compare_pairs(room, count, settings, dims, near):
    """Likelihoods of all pairs within the window, once for both directions: the bars that negatives must pass."""
    half, margin = f32(0.5 * settings.dim), f32(settings.margin)
    for i in range(count):
        near_likelihoods(
            room.near_distance,
            room.near_precision,
            room.bar,
            i,
            min(settings.window, count - 1 - i),
            room.x,
            room.variance,
            room.item,
            room.category,
            half,
            margin,
            dims,
            near,
        )


@compiled(inline="always")
def compare_negatives(table, room, i, group, settings, dims, slots):
    """Likelihoods of the group's negatives with line i."""
    far_likelihoods(
        room.distance,
        room.far_variance,
        room.precision,
        room.likelihood,
        group,
        table,
        room.negative,
        settings.negatives,
        room.item[0, i],
        room.x,
        i,
        room.variance[0, i],
        f32(0.5 * settings.dim),
        dims,
        slots,
    )


@compiled(inline="always")
def partners_of(room, i, count, g, settings):
    """The partners that group g of line i compares with: ranges of o ahead of it and behind it."""
    window = settings.window
    if settings.shared:
        return (0, min(window, count - 1 - i)), (0, min(window, i))
    if g < window:
        there = g < count - 1 - i and room.bar[i, g] < f32(1e38)
        return (g, g + 1 if there else g), (0, 0)
    o = g - window
    there = o < i and room.bar[i - 1 - o, o] < f32(1e38)
    return (0, 0), (o, o + 1 if there else o)
