"""The computation of the kernels in plain NumPy, with the same names and arguments, step by step.

Every line of a unit (a basket) is a query in turn. Its partners are the lines within the window
that are of another category; its negatives are drawn, never from the unit itself (`groups`).
Gradients (`formulas`) are taken at the tables before the unit. They give a list of changes, each a
row and a direction of descent, which are then applied one by one. (The compiled kernels apply those
of negatives at once, which differs only if a negative is drawn twice in one unit.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.compiled import splitmix64
from neatrec.models.embeddings.kernels import formulas
from neatrec.models.embeddings.kernels.arguments import (
    LOG_VARIANCE,
    SQUARES,
    VARIANCE_SQUARES,
    Draws,
    KernelInput,
    KernelSettings,
    StepStats,
    Table,
    TrainingVisit,
    width,
)
from neatrec.models.embeddings.kernels.draws import (
    TRIES,
    basket_key,
    counted,
    holds,
    picked,
    scaled,
)
from neatrec.models.embeddings.kernels.formulas import Gaussians, Triple

Array = npt.NDArray[np.float64]
Tables = tuple[Table, ...]
NOTHING = np.zeros(0)
TINY = 1e-10
MAX_STEP = 0.3
"""A log-variance moves by at most this much at a time."""


# ---- the groups of a unit: queries, partners and negatives

QUERIES, USERS = np.uint64(1), np.uint64(2)
"""Streams of draws beside that for partners: of negatives of the query, and of the user."""


class Group(NamedTuple):
    """A query line, the partners that share its negatives, and the rows of these negatives."""

    line: int
    query: int
    partner_lines: list[int]
    partners: list[int]
    negatives: list[int]
    other_queries: list[int]
    other_users: list[int]
    user: int


def groups(data: KernelInput, unit: int) -> Iterator[Group]:
    """The groups of a unit that have partners."""
    visit, draws, settings, users = data.visit, data.draws, data.settings, len(data.tables[-1])
    basket, start, stop = int(visit.basket[unit]), int(visit.start[unit]), int(visit.stop[unit])
    begin, end = int(visit.offsets[basket]), int(visit.offsets[basket + 1])
    low, high = max(begin, start - settings.window), min(end, stop + settings.window)
    inside = {int(row) for row in visit.items[low:high]}
    key = np.uint64(basket_key(draws.seed, basket))
    user = int(visit.users[basket]) if len(visit.users) else -1
    pick = partial(picked, alias=draws.alias)
    pick_user, refuse_user = partial(scaled, size=users), partial(operator.eq, user)
    for line in range(start, stop):
        query = int(visit.items[line])
        after = range(line + 1, line + 1 + settings.window)
        before = range(line - 1, line - 1 - settings.window, -1)
        near = [*after, *before]
        refuse = partial(_refused, draws, inside, query, user)
        for number in range(settings.groups):
            partner_lines = [
                j
                for j in (near if settings.shared else [near[number]])
                if begin <= j < end and _is_pair(visit, query, int(visit.items[j]))
            ]
            if not partner_lines:
                continue
            first = ((line - begin) * settings.groups + number) * settings.negatives
            numbers = range(first, first + settings.negatives)
            yield Group(
                line,
                query,
                partner_lines,
                [int(visit.items[j]) for j in partner_lines],
                _drawn(key, numbers, pick, refuse),
                _drawn(splitmix64(key + QUERIES), numbers, pick, refuse),
                _drawn(splitmix64(key + USERS), numbers, pick_user, refuse_user),
                user,
            )


def _is_pair(visit: TrainingVisit, query: int, partner: int) -> bool:
    same = visit.category[query] >= 0 and visit.category[query] == visit.category[partner]
    return query != partner and not same


def _refused(draws: Draws, inside: set[int], query: int, user: int, row: int) -> bool:
    observed = len(draws.observed) and holds(draws.observed, query, row)
    return row in inside or bool(observed or (len(draws.bought) and holds(draws.bought, user, row)))


def _drawn(
    key: Any, numbers: range, pick: Callable[..., int], refuse: Callable[[int], bool]
) -> list[int]:
    """For each number the first of some draws that is not refused, if there is one."""
    rows = []
    for number in numbers:
        bits = np.uint64(counted(np.uint64(key), np.uint64(number)))
        for _ in range(TRIES):
            if not refuse(row := int(pick(bits))):
                rows.append(row)
                break
            bits = np.uint64(splitmix64(bits + np.uint64(1)))
    return rows


# ---- changes of a group


class Change(NamedTuple):
    """A direction of descent for a row's vector, and for its log-variance where it has one."""

    table: int
    row: int
    vector: Array
    spread: Array = NOTHING
    line: int = -1
    """The line of the unit whose changes are summed; -1: the change is applied by itself."""


Gradients = Callable[[Tables, Group, KernelSettings], tuple[list[Change], StepStats]]


def _changes(
    table: int,
    rows: list[int],
    vectors: Array,
    spreads: Array | None = None,
    lines: Sequence[int] = (),
) -> list[Change]:
    """One change per row of `vectors`."""
    return [
        Change(
            table,
            row,
            vectors[n],
            NOTHING if spreads is None else spreads[n],
            lines[n] if lines else -1,
        )
        for n, row in enumerate(rows)
    ]


def _vectors(table: Table, rows: list[int], dim: int) -> Array:
    return table[rows, :dim].astype(np.float64).reshape(len(rows), dim)


def _vector(table: Table, row: int, dim: int) -> Array:
    return table[row, :dim].astype(np.float64)


def _gaussians(table: Table, rows: list[int], dim: int) -> Gaussians:
    spread = table[rows, width(dim) + LOG_VARIANCE].astype(np.float64)
    return Gaussians(_vectors(table, rows, dim), spread.reshape(len(rows), 1))


class Hinges(NamedTuple):
    """Directions of the max-margin part of a group, and its statistics."""

    query: Gaussians
    partners: Gaussians
    negatives: Gaussians
    stats: StepStats

    def changes(self, group: Group) -> list[Change]:
        """The directions as changes."""
        query, partners, negatives, _ = self
        return [
            Change(0, group.query, query.mean, query.log_variance, group.line),
            *_changes(0, group.partners, *partners, group.partner_lines),
            *_changes(0, group.negatives, *negatives),
        ]


def _hinges(table: Table, group: Group, settings: KernelSettings) -> Hinges:
    rows = [group.query], group.partners, group.negatives
    alone, partners, negatives = (_gaussians(table, of, settings.dim) for of in rows)
    query = Gaussians(alone.mean[0], alone.log_variance[0])
    heights = formulas.hinges(query, partners, negatives, settings.margin)  # (partners, negatives)
    gradients = formulas.max_margin_gradients(query, partners, negatives, settings.margin)
    loss, active = float(np.maximum(heights, 0).sum()), int((heights > 0).sum())
    query, partners, negatives = (Gaussians(-g.mean, -g.log_variance) for g in gradients)
    return Hinges(query, partners, negatives, StepStats(len(group.partners), loss, active))


def _neat(tables: Tables, group: Group, settings: KernelSettings) -> tuple[list[Change], StepStats]:
    hinges = _hinges(tables[0], group, settings)
    return hinges.changes(group), hinges.stats


def _neat_bpr(
    tables: Tables, group: Group, settings: KernelSettings
) -> tuple[list[Change], StepStats]:
    """NEAT, and ranking losses: of v over each v', and of q over each q' once per partner."""
    hinges, dim, logistic = _hinges(tables[0], group, settings), settings.dim, settings.logistic
    user, query = _vector(tables[1], group.user, dim), _vector(tables[0], group.query, dim)
    partners = _vectors(tables[0], group.partners, dim)
    worse = _vectors(tables[0], group.negatives, dim)
    other = _vectors(tables[0], group.other_queries, dim)
    pairs = user, partners[:, None], worse[None], logistic
    a = formulas.ranking_weight(*pairs)  # (partners, negatives)
    b = len(partners) * formulas.ranking_weight(user, query, other, logistic)  # (other queries,)
    loss = formulas.ranking(*pairs).sum()
    loss += len(partners) * formulas.ranking(user, query, other, logistic).sum()
    towards = a.sum(axis=1) @ partners - a.sum(axis=0) @ worse + b.sum() * query - b @ other
    ranked = Hinges(
        hinges.query._replace(mean=hinges.query.mean + b.sum() * user),
        hinges.partners._replace(mean=hinges.partners.mean + np.outer(a.sum(axis=1), user)),
        hinges.negatives._replace(mean=hinges.negatives.mean - np.outer(a.sum(axis=0), user)),
        hinges.stats._replace(loss=hinges.stats.loss + float(loss)),
    )
    others = _changes(0, group.other_queries, -np.outer(b, user))
    return [*ranked.changes(group), *others, Change(1, group.user, towards)], ranked.stats


def _item2vec(
    tables: Tables, group: Group, settings: KernelSettings
) -> tuple[list[Change], StepStats]:
    query = _vector(tables[0], group.query, settings.dim)
    partners = _vectors(tables[1], group.partners, settings.dim)
    negatives = _vectors(tables[1], group.negatives, settings.dim)
    by_query, by_partners, by_negatives = formulas.skip_gram_gradients(query, partners, negatives)
    changes = [
        Change(0, group.query, -by_query, line=group.line),
        *_changes(1, group.partners, -by_partners, lines=group.partner_lines),
        *_changes(1, group.negatives, -by_negatives),
    ]
    return changes, StepStats(len(partners), formulas.skip_gram(query, partners, negatives), 0)


def _triple2vec(
    tables: Tables, group: Group, settings: KernelSettings
) -> tuple[list[Change], StepStats]:
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
    changes = [
        Change(0, group.query, -by.query, line=group.line),
        *_changes(1, group.partners, -by.partners, lines=group.partner_lines),
        *_changes(1, group.negatives, -by.other_partners),
        *_changes(0, group.other_queries, -by.other_queries),
        *_changes(2, group.other_users, -by.other_users),
        Change(2, group.user, -by.user),
    ]
    return changes, StepStats(len(group.partners), formulas.triplets(triple), 0)


# ---- applying changes


def _descend(table: Table, change: Change, settings: KernelSettings, rate: float) -> None:
    """Row-wise Adagrad: the rate is divided by the root of the sum of a row's mean squares so far.

    Without it (`settings.adagrad`) every step is the rate.
    """
    row, dim, tail, root = table[change.row], settings.dim, width(settings.dim), 1.0
    if not change.vector.any():
        return
    if settings.adagrad:
        row[tail + SQUARES] += (change.vector**2).mean()
        root = np.sqrt(row[tail + SQUARES] + TINY)
    row[:dim] += rate / root * change.vector
    if not len(change.spread):
        return
    slope, root = change.spread[0], 1.0
    if settings.adagrad:
        row[tail + VARIANCE_SQUARES] += slope**2
        root = np.sqrt(row[tail + VARIANCE_SQUARES] + TINY)
    step = np.clip(rate * settings.variance_rate / root * slope, -MAX_STEP, MAX_STEP)
    row[tail + LOG_VARIANCE] = np.clip(row[tail + LOG_VARIANCE] + step, settings.low, settings.high)


def _gathered(changes: list[Change]) -> list[Change]:
    """Changes without a line, then one change per table and line, in their order."""
    sums: dict[tuple[int, int], Change] = {}
    for change in changes:
        if change.line < 0:
            continue
        key = change.table, change.line
        if key in sums:
            vector, spread = sums[key].vector + change.vector, sums[key].spread + change.spread
            sums[key] = change._replace(vector=vector, spread=spread)
        else:
            sums[key] = change
    return [*(c for c in changes if c.line < 0), *(sums[key] for key in sorted(sums))]


def _train(
    gradients: Gradients, data: KernelInput, first: int, last: int, threads: int = 1
) -> StepStats:
    """Visit units `first` to `last`, always with one thread."""
    pairs, loss, active = 0, 0.0, 0
    for unit in range(first, last):
        rate, changes = data.settings.rate_at(unit, first, last), []
        for group in groups(data, unit):
            of_group, stats = gradients(data.tables, group, data.settings)
            changes += of_group
            pairs, loss, active = pairs + stats.pairs, loss + stats.loss, active + stats.active
        for change in _gathered(changes):
            _descend(data.tables[change.table], change, data.settings, rate)
    return StepStats(pairs, loss, active)


neat = partial(_train, _neat)
"""Gaussian items by the max-margin loss on their log expected likelihood; tables: (items,)."""
neat_bpr = partial(_train, _neat_bpr)
"""NEAT with ranking losses of users; tables: (items, users)."""
item2vec = partial(_train, _item2vec)
"""Skip-gram with negative sampling; tables: (input, output)."""
triple2vec = partial(_train, _triple2vec)
"""Cohesion of query, partner and user; tables: (queries, partners, users)."""
