"""Parts shared by the CPU kernels: the lines of a unit, draws, sums over rows, Adagrad, threads.

Rows are float32 and padded with zeros to full registers of `LANES` floats. The type of the tuple
`data.dims` holds their number: a loop whose length is known when it is compiled takes a fifth less
time in item2vec, a tenth in neat.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32
from numpy import int64 as i64
from numpy import uint64 as u64
from numpy.random import Generator

from neatrec.compiled import RELAXED, compiled, prefetch, splitmix64
from neatrec.models.embeddings.kernels import draws
from neatrec.models.embeddings.kernels.arguments import (
    CACHE_LINE,
    LANES,
    LOG_VARIANCE,
    LONGEST,
    SQUARES,
    VARIANCE_SQUARES,
    KernelInput,
    KernelSettings,
    StepStats,
    TrainingVisit,
    width,
)

loop = partial(compiled, fastmath=RELAXED, _nrt=False)
"""Compiles the loop of a kernel. `_nrt=False`: arrays are the caller's, and counting references to
them would take more time than the arithmetic."""
part = partial(loop, forceinline=True)
"""Compiles a part of a loop, into that loop: see `neatrec.compiled.RELAXED`."""
Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
TINY = 1e-10
MAX_STEP = 0.3  # of a log-variance


class UnitLines(NamedTuple):
    """Lines of a unit: those of its queries, and up to a window beyond them."""

    rows: npt.NDArray[np.int32]  # (lines,) row of the item of each
    start: int  # first query among them
    stop: int  # one past the last query
    before: int  # lines of the basket before the first query
    basket: int
    user: int  # row of the user; -1 where the model has none


class LineGroup(NamedTuple):
    """A line of a unit, and the partners that share negatives."""

    rows: npt.NDArray[np.int32]  # (lines,) row of each item of the unit
    line: int
    partners: int
    rate: float


@part
def unit_lines(data, unit):
    """The `UnitLines` of a unit."""
    visit, window = data.visit, data.settings.window
    basket, start, stop = visit.basket[unit], visit.start[unit], visit.stop[unit]
    begin, end = visit.offsets[basket], visit.offsets[basket + 1]
    low, user = max(begin, start - window), visit.users[basket] if len(visit.users) > 0 else -1
    rows = visit.items[low : min(end, stop + window)]
    return UnitLines(rows, start - low, stop - low, start - begin, basket, user)


@part
def group_count(settings):
    """`KernelSettings.groups`."""
    return 1 if settings.shared else 2 * settings.window


@part
def line_at(line, position, window):
    """The line at a position in the window: those after `line` come first, the nearest first."""
    return line + 1 + position if position < window else line - 1 - (position - window)


@part
def is_pair(data, rows, i, j):
    """Whether lines i and j are of different items and categories; below 0 is no category."""
    category = data.visit.category
    same = category[rows[i]] >= 0 and category[rows[i]] == category[rows[j]]
    return not (same or rows[i] == rows[j])


@part
def find_partners(partners, data, rows, line, group):
    """Write the partner lines of a group of a line to `partners`, and return their number."""
    count, window = 0, data.settings.window
    first, last = (0, 2 * window) if data.settings.shared else (group, group + 1)
    for position in range(first, last):
        j = line_at(line, position, window)
        if 0 <= j < len(rows) and is_pair(data, rows, line, j):
            partners[count] = j
            count += 1
    return count


@part
def rate_at(settings, unit, first, last):
    """`KernelSettings.rate_at`."""
    share = (unit - first) / (last - first)
    return f32(settings.rate + (settings.last_rate - settings.rate) * share)


def negatives_of(settings: KernelSettings, kinds: int = 1) -> Rows:
    """Space for the negatives of two units in turn: (2, kinds, groups x negatives)."""
    shape = (2, kinds, LONGEST * settings.groups * settings.negatives)
    return np.empty(shape, dtype=np.int64)


@part
def prefetch_row(table, row, dims):
    """Prefetch a row of a table with its tail."""
    start = i64(row) * table.shape[1]
    for line in range(0, LANES * (len(dims) + 1), CACHE_LINE):
        prefetch(table, start + line)


@loop
def draw_item(source, bits, rows, query, user):
    """The first accepted draw; -1 if there is none."""
    for _ in range(draws.TRIES):
        row, refused = i64(draws.picked(bits, source.alias)), False
        for other in rows:
            refused |= other == row
        if len(source.observed) > 0:
            refused |= draws.holds(source.observed, query, row)
        if len(source.bought) > 0:
            refused |= draws.holds(source.bought, user, row)
        if not refused:
            return row
        bits = splitmix64(bits + u64(1))
    return i64(-1)


@part
def draw_items(negatives, data, unit, kind, table):
    """Draw the negatives of one kind for all groups of a unit (-1: none), and prefetch them."""
    settings, source, lines = data.settings, data.draws, unit_lines(data, unit)
    groups, rows, alias = group_count(settings), lines.rows, source.alias
    key, size = draws.basket_key(source.seed, lines.basket), groups * settings.negatives
    if kind > 0:
        key = splitmix64(key + u64(kind))
    drawn = negatives[kind, : (lines.stop - lines.start) * size]
    for n in range(len(drawn)):  # all random bits first, while the alias table is fetched
        bits = draws.counted(key, u64(lines.before * size + n))
        drawn[n] = i64(bits)
        prefetch(alias, draws.scaled(bits, len(alias)))
    n = 0
    for line in range(lines.start, lines.stop):
        for g in range(groups):
            if settings.shared or 0 <= line_at(line, g, settings.window) < len(rows):
                for k in range(n, n + settings.negatives):
                    drawn[k] = draw_item(source, u64(drawn[k]), rows, rows[line], lines.user)
                    if drawn[k] >= 0:
                        prefetch_row(table, drawn[k], data.dims)
            n += settings.negatives


@part
def draw_users(negatives, data, unit, kind, table):
    """Draw other users for all groups of a unit (-1: none), and prefetch their rows."""
    lines = unit_lines(data, unit)
    size = group_count(data.settings) * data.settings.negatives
    key = splitmix64(draws.basket_key(data.draws.seed, lines.basket) + u64(kind))
    for n in range((lines.stop - lines.start) * size):
        bits = draws.counted(key, u64(lines.before * size + n))
        negatives[kind, n] = -1
        for _ in range(draws.TRIES):
            user = i64(draws.scaled(bits, len(table)))
            if user != lines.user:
                negatives[kind, n] = user
                prefetch_row(table, user, data.dims)
                break
            bits = splitmix64(bits + u64(1))


@part
def prepare(data, negatives, unit, tables, drawn_from):
    """Prefetch the rows of a unit in `tables` and of its user; draw negatives of each kind."""
    lines = unit_lines(data, unit)
    for table in tables:
        for row in lines.rows:
            prefetch_row(table, row, data.dims)
    if lines.user >= 0:
        prefetch_row(data.tables[-1], lines.user, data.dims)
    for kind in range(len(drawn_from)):
        draw_items(negatives[unit % 2], data, unit, kind, drawn_from[kind])


@part
def dot(a, b, dims):
    """The sum of a b."""
    total = f32(0)
    for d in range(LANES * len(dims)):
        total += a[d] * b[d]
    return total


@part
def square_distance(a, b, dims):
    """The sum of (a - b)^2."""
    total = f32(0)
    for d in range(LANES * len(dims)):
        z = a[d] - b[d]
        total += z * z
    return total


@part
def assign(to, scale, source, dims):
    """Set to = scale source."""
    for d in range(LANES * len(dims)):
        to[d] = scale * source[d]


@part
def clear(to, dims):
    """Set to = 0."""
    for d in range(LANES * len(dims)):
        to[d] = f32(0)


@part
def add(to, scale, source, dims):
    """Set to += scale source."""
    for d in range(LANES * len(dims)):
        to[d] += scale * source[d]


@part
def logistic(x):
    """sigmoid(x) = 1 / (1 + e^-x), and a and b of log(1 + e^x) = a + log(b)."""
    small = np.exp(-abs(x))
    b = f32(1) + small
    return (f32(1) if x > f32(0) else small) / b, max(x, f32(0)), b


@part
def step_length(data, row, squared, rate):
    """The step of row-wise Adagrad for a direction with this sum of squares; for SGD the rate."""
    if not data.settings.adagrad:
        return rate
    position = LANES * len(data.dims) + SQUARES
    row[position] += squared * f32(1.0 / data.settings.dim)
    return rate / np.sqrt(row[position] + f32(TINY))


@part
def move_variance(data, row, slope, rate):
    """Move a log-variance: at most MAX_STEP at a time, between its bounds."""
    settings, tail = data.settings, LANES * len(data.dims)
    step = rate * f32(settings.variance_rate) * slope
    if settings.adagrad:
        row[tail + VARIANCE_SQUARES] += slope * slope
        step /= np.sqrt(row[tail + VARIANCE_SQUARES] + f32(TINY))
    moved = row[tail + LOG_VARIANCE] + min(max(step, f32(-MAX_STEP)), f32(MAX_STEP))
    row[tail + LOG_VARIANCE] = min(max(moved, f32(settings.low)), f32(settings.high))


@part
def descend(data, row, way, rate):
    """Move a row along its direction of descent."""
    squared = dot(way, way, data.dims)
    if squared > f32(0):
        add(row, step_length(data, row, squared, rate), way, data.dims)


class CpuDevice:
    """The arrays of a fit, which stay where they are; `GpuDevice` has the same methods."""

    units_per_call = 2**14  # between two reports of progress

    def put(self, data: KernelInput) -> KernelInput:
        """The arrays of a fit as the kernel reads them."""
        return data

    def shuffled(self, visit: TrainingVisit, ordered: bool, rng: Generator) -> TrainingVisit:
        """A visit of the units in a random order, of the lines of unordered baskets too."""
        order, items = rng.permutation(len(visit.start)), visit.items
        if not ordered:
            items = items.copy()
            draws.shuffle_lines(items, visit.offsets, np.uint64(rng.integers(2**63)))
        basket, start, stop = visit.basket[order], visit.start[order], visit.stop[order]
        return visit._replace(items=items, basket=basket, start=start, stop=stop)

    def get(self, tables: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        """Copy trained tables into `out`: here they are the same."""


class CpuKernel:
    """A compiled loop and its workspace; it trains the tables in place."""

    def __init__(self, train: Callable[..., Any], workspace: Callable[..., Any]) -> None:
        self.train, self.workspace = train, workspace

    def __call__(self, data: KernelInput, first: int, last: int, threads: int = 1) -> StepStats:
        """Each thread trains on a part of the units and does not wait for the others (Hogwild)."""
        data = data._replace(dims=(0,) * (width(data.settings.dim) // LANES))
        ends = sorted({first + (last - first) * n // threads for n in range(threads + 1)})

        def work(span: tuple[int, int]) -> Any:
            return self.train(data, self.workspace(data.settings), *span)

        with ThreadPoolExecutor(threads) as pool:
            sums = [StepStats(0, 0.0, 0), *pool.map(work, pairwise(ends))]
        pairs, loss, active = (sum(column) for column in zip(*sums, strict=True))
        return StepStats(int(pairs), float(loss), int(active))
