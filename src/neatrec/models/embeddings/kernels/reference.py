"""What the kernels mean: the same names and arguments, in plain NumPy, one step after the other.

Every line of a unit (a basket) is a query in turn; its partners are the lines within the window that are of another
category; its negatives are drawn, never from the unit itself (`reference_draws`). Gradients (`formulas`) make a list of
changes, each a row and a way down, which are then applied one by one:

- `settings.block` = n: the gradients of n units are taken at the same tables, then applied; row-wise Adagrad;
- `settings.block` = 0: n = 1, except that the quick kernels push a negative that was drawn twice in one unit the second
  time from where the first push left it;
- `settings.batch` = n: the gradients of n pairs are taken at the same tables, added up and applied; plain descent.

At rate 0 a kernel only looks: nothing changes, not even the sums of squares. One thread is all it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.models.embeddings.kernels import formulas
from neatrec.models.embeddings.kernels.arguments import Draws, KernelSettings, Shard, StepStats
from neatrec.models.embeddings.kernels.formulas import Gaussians, Triple
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, SQUARES, VARIANCE_SQUARES, Table, width
from neatrec.models.embeddings.kernels.reference_draws import Group, groups

Array = npt.NDArray[np.float64]
Tables = tuple[Table, ...]
NOTHING = np.zeros(0)
TINY = 1e-10
LARGEST_STEP = 0.3
"""A log-variance moves by at most this much at a time."""


class Change(NamedTuple):
    """A way down for one row: for its vector, and for its log-variance where it has one."""

    table: int
    row: int
    vector: Array
    spread: Array = NOTHING


class Asked(NamedTuple):
    """What a group asks for: changes of its negatives and users; of lines (table, line, change); and what it saw."""

    changes: list[Change]
    lines: list[tuple[int, Change]]
    tally: StepStats


Ask = Callable[[Tables, Group, KernelSettings], Asked]


# ---- rows


def _vector(table: Table, row: int, dim: int) -> Array:
    return table[row, :dim].astype(np.float64)


def _vectors(table: Table, rows: list[int], dim: int) -> Array:
    return table[rows, :dim].astype(np.float64).reshape(len(rows), dim)


def _spread(dim: int) -> slice:
    """Where a row's log-variance lies."""
    start = width(dim) + LOG_VARIANCE
    return slice(start, start + 1)


def _gaussians(table: Table, rows: list[int], dim: int) -> Gaussians:
    spread = table[rows, _spread(dim)]
    return Gaussians(_vectors(table, rows, dim), spread.astype(np.float64).reshape(len(rows), 1))


def _gaussian(table: Table, row: int, dim: int) -> Gaussians:
    found = _gaussians(table, [row], dim)
    return Gaussians(found.mean[0], found.log_variance[0])


# ---- what a group asks for


class Hinges(NamedTuple):
    """The max-margin part of a group: ways down, and how often each negative is in an active hinge."""

    query: Gaussians
    partners: Gaussians
    negatives: Gaussians
    active: npt.NDArray[np.int64]
    tally: StepStats


def _hinges(table: Table, group: Group, settings: KernelSettings) -> Hinges:
    query, partners, negatives = (
        _gaussian(table, group.query, settings.dim),
        _gaussians(table, group.partners, settings.dim),
        _gaussians(table, group.negatives, settings.dim),
    )
    heights = formulas.hinges(query, partners, negatives, settings.margin)  # (partners, negatives)
    gradients = formulas.max_margin_gradients(query, partners, negatives, settings.margin)
    tally = StepStats(len(group.partners), float(np.maximum(heights, 0).sum()), int((heights > 0).sum()))
    query, partners, negatives = (Gaussians(-g.mean, -g.log_variance) for g in gradients)
    return Hinges(query, partners, negatives, (heights > 0).sum(axis=0), tally)


def _neat(tables: Tables, group: Group, settings: KernelSettings) -> Asked:
    found = _hinges(tables[0], group, settings)
    changes = [
        Change(0, row, found.negatives.mean[k], found.negatives.log_variance[k])
        for k, row in enumerate(group.negatives)
        if found.active[k]
    ]
    return Asked(changes, _pulled(group, found), found.tally)


def _pulled(group: Group, found: Hinges) -> list[tuple[int, Change]]:
    lines = [(group.line, Change(0, group.query, found.query.mean, found.query.log_variance))]
    for n, (line, row) in enumerate(zip(group.partner_lines, group.partners, strict=True)):
        lines.append((line, Change(0, row, found.partners.mean[n], found.partners.log_variance[n])))
    return lines


def _neat_bpr(tables: Tables, group: Group, settings: KernelSettings) -> Asked:
    """What NEAT asks for, and ranking losses: of v over each v', and of q over each q' once for every partner."""
    found, dim, logistic = _hinges(tables[0], group, settings), settings.dim, settings.logistic
    user = _vector(tables[1], group.user, dim)
    query, partners = _vector(tables[0], group.query, dim), _vectors(tables[0], group.partners, dim)
    worse, other = _vectors(tables[0], group.negatives, dim), _vectors(tables[0], group.other_queries, dim)
    a = formulas.ranking_weight(user, partners[:, None], worse[None], logistic)  # (partners, negatives)
    b = len(partners) * formulas.ranking_weight(user, query, other, logistic)  # (other queries,)
    loss = formulas.ranking(user, partners[:, None], worse[None], logistic).sum()
    loss += len(partners) * formulas.ranking(user, query, other, logistic).sum()
    flat = np.zeros_like(found.query.log_variance)
    changes = [
        Change(0, row, found.negatives.mean[k] - a[:, k].sum() * user, found.negatives.log_variance[k])
        for k, row in enumerate(group.negatives)
    ]
    changes += [Change(0, row, -b[k] * user, flat) for k, row in enumerate(group.other_queries)]
    towards = a.sum(axis=1) @ partners - a.sum(axis=0) @ worse + b.sum() * query - b @ other
    changes.append(Change(1, group.user, towards))
    lines = [*_pulled(group, found), (group.line, Change(0, group.query, b.sum() * user, flat))]
    for n, (line, row) in enumerate(zip(group.partner_lines, group.partners, strict=True)):
        lines.append((line, Change(0, row, a[n].sum() * user, flat)))
    return Asked(changes, lines, found.tally._replace(loss=found.tally.loss + float(loss)))


def _item2vec(tables: Tables, group: Group, settings: KernelSettings) -> Asked:
    dim = settings.dim
    query = _vector(tables[0], group.query, dim)
    partners, negatives = _vectors(tables[1], group.partners, dim), _vectors(tables[1], group.negatives, dim)
    by_query, by_partners, by_negatives = formulas.skip_gram_gradients(query, partners, negatives)
    changes = [Change(1, row, -by_negatives[k]) for k, row in enumerate(group.negatives)]
    lines = [(group.line, Change(0, group.query, -by_query))]
    for n, (line, row) in enumerate(zip(group.partner_lines, group.partners, strict=True)):
        lines.append((line, Change(1, row, -by_partners[n])))
    return Asked(changes, lines, StepStats(len(partners), formulas.skip_gram(query, partners, negatives), 0))


def _triple2vec(tables: Tables, group: Group, settings: KernelSettings) -> Asked:
    dim = settings.dim
    triple = Triple(
        _vector(tables[0], group.query, dim),
        _vectors(tables[1], group.partners, dim),
        _vector(tables[2], group.user, dim),
        _vectors(tables[0], group.other_queries, dim),
        _vectors(tables[1], group.negatives, dim),
        _vectors(tables[2], group.other_users, dim),
    )
    by = formulas.triplets_gradients(triple)
    changes = [Change(1, row, -by.other_partners[k]) for k, row in enumerate(group.negatives)]
    changes += [Change(0, row, -by.other_queries[k]) for k, row in enumerate(group.other_queries)]
    changes += [Change(2, row, -by.other_users[k]) for k, row in enumerate(group.other_users)]
    changes.append(Change(2, group.user, -by.user))
    lines = [(group.line, Change(0, group.query, -by.query))]
    for n, (line, row) in enumerate(zip(group.partner_lines, group.partners, strict=True)):
        lines.append((line, Change(1, row, -by.partners[n])))
    return Asked(changes, lines, StepStats(len(group.partners), formulas.triplets(triple), 0))


# ---- applying changes


def _descend(tables: Tables, change: Change, settings: KernelSettings, rate: float) -> None:
    """Row-wise Adagrad: a row's step is divided by the root of the sum of the mean squares of its directions so far."""
    table, dim = tables[change.table], settings.dim
    if not change.vector.any():
        return
    tail = width(dim)
    table[change.row, tail + SQUARES] += (change.vector**2).mean()
    table[change.row, :dim] += rate / np.sqrt(table[change.row, tail + SQUARES] + TINY) * change.vector
    if len(change.spread):
        _descend_spread(table, change, settings, rate)


def _descend_spread(table: Table, change: Change, settings: KernelSettings, rate: float) -> None:
    tail, place = width(settings.dim), _spread(settings.dim)
    table[change.row, tail + VARIANCE_SQUARES] += (change.spread**2).mean()
    root = np.sqrt(table[change.row, tail + VARIANCE_SQUARES] + TINY)
    step = np.clip(rate * settings.variance_rate * change.spread / root, -LARGEST_STEP, LARGEST_STEP)
    table[change.row, place] = np.clip(table[change.row, place] + step, settings.low, settings.high)


def _descend_together(tables: Tables, changes: list[Change], settings: KernelSettings, rate: float) -> None:
    """Plain gradient descent: all changes added up, log-variances kept between their bounds at the end."""
    for change in changes:
        table = tables[change.table]
        table[change.row, : settings.dim] += rate * change.vector
        if len(change.spread):
            table[change.row, _spread(settings.dim)] += rate * settings.variance_rate * change.spread
    for change in changes:
        if len(change.spread):
            place = _spread(settings.dim)
            row = tables[change.table][change.row]
            row[place] = np.clip(row[place], settings.low, settings.high)


# ---- visiting units


def _added(a: StepStats, b: StepStats) -> StepStats:
    return StepStats(a.pairs + b.pairs, a.loss + b.loss, a.active + b.active)


def _gathered(lines: list[tuple[int, Change]]) -> list[Change]:
    """One change for each table and line, in the order of tables and lines."""
    sums: dict[tuple[int, int], Change] = {}
    for line, change in lines:
        known = sums.get((change.table, line))
        if known is not None:
            change = change._replace(vector=known.vector + change.vector, spread=known.spread + change.spread)
        sums[change.table, line] = change
    return [sums[key] for key in sorted(sums)]


def _unit(
    ask: Ask,
    tables: Tables,
    shard: Shard,
    draws: Draws,
    settings: KernelSettings,
    unit: int,
    pairs: range | None = None,
) -> tuple[list[Change], StepStats]:
    changes: list[Change] = []
    lines: list[tuple[int, Change]] = []
    tally = StepStats(0, 0.0, 0)
    for group in groups(shard, draws, settings, unit, pairs, len(tables[-1])):
        asked = ask(tables, group, settings)
        changes += asked.changes
        lines += asked.lines
        tally = _added(tally, asked.tally)
    return changes + _gathered(lines), tally


def _in_blocks(
    ask: Ask, tables: Tables, shard: Shard, draws: Draws, settings: KernelSettings, first: int, last: int
) -> StepStats:
    tally, size = StepStats(0, 0.0, 0), max(1, settings.block)
    for start in range(first, last, size):
        units = range(start, min(start + size, last))
        found = [_unit(ask, tables, shard, draws, settings, unit) for unit in units]
        for unit, (changes, seen) in zip(units, found, strict=True):
            tally = _added(tally, seen)
            for change in changes if _learns(settings) else []:
                _descend(tables, change, settings, _rate(settings, unit, first, last))
    return tally


def _in_batches(
    ask: Ask, tables: Tables, shard: Shard, draws: Draws, settings: KernelSettings, first: int, last: int
) -> StepStats:
    """Batches of exactly `settings.batch` pairs, cut wherever they fall; the rate is that of the batch's last unit."""
    tally, room = StepStats(0, 0.0, 0), settings.batch
    changes: list[Change] = []
    scale = 1 / settings.batch if settings.average else 1.0
    for unit in range(first, last):
        rate = _rate(settings, unit, first, last) * scale
        done = 0
        while True:
            asked, seen = _unit(ask, tables, shard, draws, settings, unit, range(done, done + room))
            changes += asked
            tally = _added(tally, seen)
            done, room = done + seen.pairs, room - seen.pairs
            if room:
                break
            _descend_together(tables, changes, settings, rate)
            changes, room = [], settings.batch
    _descend_together(tables, changes, settings, _rate(settings, last - 1, first, last) * scale)
    return tally


def _rate(settings: KernelSettings, unit: int, first: int, last: int) -> float:
    return settings.rate + (settings.last_rate - settings.rate) * (unit - first) / (last - first)


def _learns(settings: KernelSettings) -> bool:
    return settings.rate != 0 or settings.last_rate != 0


# ---- the kernels


def neat(
    tables: Tables, shard: Shard, draws: Draws, settings: KernelSettings, first: int, last: int, threads: int = 1
) -> StepStats:
    """Gaussian items by the max-margin loss on their log expected likelihood; tables: (items,)."""
    return _train(_neat, tables, shard, draws, settings, first, last)


def neat_bpr(
    tables: Tables, shard: Shard, draws: Draws, settings: KernelSettings, first: int, last: int, threads: int = 1
) -> StepStats:
    """NEAT with ranking losses of users; tables: (items, users)."""
    return _train(_neat_bpr, tables, shard, draws, settings, first, last)


def item2vec(
    tables: Tables, shard: Shard, draws: Draws, settings: KernelSettings, first: int, last: int, threads: int = 1
) -> StepStats:
    """Skip-gram with negative sampling; tables: (input, output)."""
    return _train(_item2vec, tables, shard, draws, settings, first, last)


def triple2vec(
    tables: Tables, shard: Shard, draws: Draws, settings: KernelSettings, first: int, last: int, threads: int = 1
) -> StepStats:
    """Cohesion of query, partner and user; tables: (queries, partners, users)."""
    return _train(_triple2vec, tables, shard, draws, settings, first, last)


def _train(
    ask: Ask, tables: Tables, shard: Shard, draws: Draws, settings: KernelSettings, first: int, last: int
) -> StepStats:
    visit = _in_batches if settings.batch else _in_blocks
    return visit(ask, tables, shard, draws, settings, first, last)
