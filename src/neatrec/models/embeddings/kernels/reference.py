"""What the kernels compute, in plain NumPy with the same names and arguments, step by step.

Every line of a unit (a basket) is a query in turn. Its partners are the lines within the window
that are of another category; its negatives are drawn, never from the unit itself (`groups`).
Gradients (`formulas`) are taken at the tables before the unit. They give a list of changes, each a
row and a direction of descent, which are then applied one by one. (The compiled kernels apply those
of negatives at once, which differs only if a negative is drawn twice in one unit.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.models.embeddings.kernels import formulas
from neatrec.models.embeddings.kernels.arguments import (
    Draws,
    KernelInput,
    KernelSettings,
    StepStats,
    TrainingVisit,
)
from neatrec.models.embeddings.kernels.draws import TRIES, Words
from neatrec.models.embeddings.kernels.formulas import Gaussians, Triple
from neatrec.models.embeddings.kernels.layout import (
    LOG_VARIANCE,
    SQUARES,
    VARIANCE_SQUARES,
    Table,
    width,
)

Array = npt.NDArray[np.float64]
Tables = tuple[Table, ...]
NOTHING = np.zeros(0)
TINY = 1e-10
MAX_STEP = 0.3
"""A log-variance moves by at most this much at a time."""


# ---- the groups of a unit: queries, partners and negatives

WORD = 2**64 - 1
HALF = 2**32 - 1
PARTNERS, QUERIES, USERS = 0, 1, 2
"""Streams of draws: what stands in for the partner, for the query, for the user."""


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


def mixed(x: int) -> int:
    """`x` with every bit depending on every other."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def basket_key(seed: int, number: int) -> int:
    """The key under which the draws of a basket are counted."""
    return mixed((seed + number * 0xD1B54A32D192ED03) & WORD)


def counted(key: int, number: int) -> int:
    """Random bits number `number` under `key`."""
    return mixed((key + number * 0x9E3779B97F4A7C15) & WORD)


def picked(bits: int, alias: Words) -> int:
    """The row that random `bits` pick from an alias table."""
    slot = ((bits >> 32) * len(alias)) >> 32
    entry = int(alias[slot])
    return slot if (bits & HALF) < (entry >> 32) else entry & HALF


def holds(words: Words, a: int, b: int) -> bool:
    """Whether the filter `words` holds (a, b); an empty one holds nothing."""
    if not len(words):
        return False
    bits = mixed(((a << 32) + b) & WORD)
    mask = 1 << (bits & 63) | 1 << ((bits >> 6) & 63) | 1 << ((bits >> 12) & 63)
    return int(words[((bits >> 32) * len(words)) >> 32]) & mask == mask


def groups(data: KernelInput, unit: int) -> Iterator[Group]:
    """The groups of a unit that have partners."""
    visit, draws, settings, users = data.visit, data.draws, data.settings, len(data.tables[-1])
    basket, start, stop = int(visit.basket[unit]), int(visit.start[unit]), int(visit.stop[unit])
    begin, end = int(visit.offsets[basket]), int(visit.offsets[basket + 1])
    key = basket_key(int(draws.seed), basket)
    inside = {
        int(row)
        for row in visit.items[
            max(begin, start - settings.window) : min(end, stop + settings.window)
        ]
    }
    user = int(visit.users[basket]) if len(visit.users) else -1
    several = settings.groups
    for line in range(start, stop):
        query = int(visit.items[line])
        near = [
            *range(line + 1, line + 1 + settings.window),
            *range(line - 1, line - 1 - settings.window, -1),
        ]
        for g in range(several):
            places = near if settings.shared else [near[g]]
            partner_lines = [
                j
                for j in places
                if begin <= j < end and _is_pair(visit, query, int(visit.items[j]))
            ]
            if not partner_lines:
                continue
            draw = partial(_drawn, (line - begin) * several + g, settings.negatives)
            pick, refused = (
                partial(picked, alias=draws.alias),
                partial(_refused, draws, inside, query, user),
            )
            yield Group(
                line,
                query,
                partner_lines,
                [int(visit.items[j]) for j in partner_lines],
                draw(key, pick, refused),
                draw(mixed((key + QUERIES) & WORD), pick, refused),
                draw(
                    mixed((key + USERS) & WORD),
                    lambda bits: ((bits >> 32) * users) >> 32,
                    partial(int.__eq__, user),
                ),
                user,
            )


def _is_pair(visit: TrainingVisit, query: int, partner: int) -> bool:
    same = visit.category[query] >= 0 and visit.category[query] == visit.category[partner]
    return query != partner and not same


def _refused(draws: Draws, inside: set[int], query: int, user: int, row: int) -> bool:
    return row in inside or holds(draws.observed, query, row) or holds(draws.bought, user, row)


def _drawn(
    number: int,
    negatives: int,
    key: int,
    pick: Callable[[int], int],
    refused: Callable[[int], bool],
) -> list[int]:
    """The negatives of group `number`: of each, the first of some draws that is not refused."""
    out = []
    for k in range(negatives):
        bits = counted(key, number * negatives + k)
        for _ in range(TRIES):
            if not refused(row := pick(bits)):
                out.append(row)
                break
            bits = mixed((bits + 1) & WORD)
    return out


# ---- changes of a group


class Change(NamedTuple):
    """A direction of descent for a row's vector, and for its log-variance where it has one."""

    table: int
    row: int
    vector: Array
    spread: Array = NOTHING


class GroupGradients(NamedTuple):
    """Changes of a group's negatives and users; changes of lines (line, change); statistics."""

    changes: list[Change]
    lines: list[tuple[int, Change]]
    stats: StepStats


GradientFunction = Callable[[Tables, Group, KernelSettings], GroupGradients]


# ---- rows


def _vector(table: Table, row: int, dim: int) -> Array:
    return table[row, :dim].astype(np.float64)


def _vectors(table: Table, rows: list[int], dim: int) -> Array:
    return table[rows, :dim].astype(np.float64).reshape(len(rows), dim)


def _spread(dim: int) -> slice:
    """Columns of a row's log-variance."""
    start = width(dim) + LOG_VARIANCE
    return slice(start, start + 1)


def _gaussians(table: Table, rows: list[int], dim: int) -> Gaussians:
    spread = table[rows, _spread(dim)]
    return Gaussians(_vectors(table, rows, dim), spread.astype(np.float64).reshape(len(rows), 1))


# ---- gradients of a group


class Hinges(NamedTuple):
    """The max-margin part of a group: directions, and active hinges of each negative."""

    query: Gaussians
    partners: Gaussians
    negatives: Gaussians
    active: npt.NDArray[np.int64]
    stats: StepStats


def _hinges(table: Table, group: Group, settings: KernelSettings) -> Hinges:
    rows = [group.query], group.partners, group.negatives
    alone, partners, negatives = (_gaussians(table, of, settings.dim) for of in rows)
    query = Gaussians(alone.mean[0], alone.log_variance[0])
    heights = formulas.hinges(query, partners, negatives, settings.margin)  # (partners, negatives)
    gradients = formulas.max_margin_gradients(query, partners, negatives, settings.margin)
    stats = StepStats(
        len(group.partners), float(np.maximum(heights, 0).sum()), int((heights > 0).sum())
    )
    query, partners, negatives = (Gaussians(-g.mean, -g.log_variance) for g in gradients)
    return Hinges(query, partners, negatives, (heights > 0).sum(axis=0), stats)


def _neat(tables: Tables, group: Group, settings: KernelSettings) -> GroupGradients:
    found = _hinges(tables[0], group, settings)
    changes = [
        Change(0, row, found.negatives.mean[k], found.negatives.log_variance[k])
        for k, row in enumerate(group.negatives)
        if found.active[k]
    ]
    return GroupGradients(changes, _pulled(group, found), found.stats)


def _pulled(group: Group, found: Hinges) -> list[tuple[int, Change]]:
    spreads = list(found.partners.log_variance)
    query = Change(0, group.query, found.query.mean, found.query.log_variance)
    return [(group.line, query), *_of_partners(group, 0, found.partners.mean, spreads)]


def _of_partners(
    group: Group, table: int, vectors: Array, spreads: list[Array]
) -> list[tuple[int, Change]]:
    """The changes of a group's partners in a table; without log-variances `spreads` is empty."""
    places = enumerate(zip(group.partner_lines, group.partners, strict=True))
    return [
        (line, Change(table, row, vectors[n], spreads[n] if spreads else NOTHING))
        for n, (line, row) in places
    ]


def _neat_bpr(tables: Tables, group: Group, settings: KernelSettings) -> GroupGradients:
    """NEAT, and ranking losses: of v over each v', and of q over each q' once per partner."""
    found, dim, logistic = _hinges(tables[0], group, settings), settings.dim, settings.logistic
    user = _vector(tables[1], group.user, dim)
    query, partners = _vector(tables[0], group.query, dim), _vectors(tables[0], group.partners, dim)
    worse, other = (
        _vectors(tables[0], group.negatives, dim),
        _vectors(tables[0], group.other_queries, dim),
    )
    a = formulas.ranking_weight(
        user, partners[:, None], worse[None], logistic
    )  # (partners, negatives)
    b = len(partners) * formulas.ranking_weight(user, query, other, logistic)  # (other queries,)
    loss = formulas.ranking(user, partners[:, None], worse[None], logistic).sum()
    loss += len(partners) * formulas.ranking(user, query, other, logistic).sum()
    flat = np.zeros_like(found.query.log_variance)
    changes = [
        Change(
            0, row, found.negatives.mean[k] - a[:, k].sum() * user, found.negatives.log_variance[k]
        )
        for k, row in enumerate(group.negatives)
    ]
    changes += [Change(0, row, -b[k] * user, flat) for k, row in enumerate(group.other_queries)]
    towards = a.sum(axis=1) @ partners - a.sum(axis=0) @ worse + b.sum() * query - b @ other
    changes.append(Change(1, group.user, towards))
    lines = [*_pulled(group, found), (group.line, Change(0, group.query, b.sum() * user, flat))]
    lines += _of_partners(group, 0, a.sum(axis=1)[:, None] * user, [flat] * len(partners))
    return GroupGradients(changes, lines, found.stats._replace(loss=found.stats.loss + float(loss)))


def _item2vec(tables: Tables, group: Group, settings: KernelSettings) -> GroupGradients:
    dim = settings.dim
    query = _vector(tables[0], group.query, dim)
    partners, negatives = (
        _vectors(tables[1], group.partners, dim),
        _vectors(tables[1], group.negatives, dim),
    )
    by_query, by_partners, by_negatives = formulas.skip_gram_gradients(query, partners, negatives)
    changes = [Change(1, row, -by_negatives[k]) for k, row in enumerate(group.negatives)]
    lines = [
        (group.line, Change(0, group.query, -by_query)),
        *_of_partners(group, 1, -by_partners, []),
    ]
    return GroupGradients(
        changes, lines, StepStats(len(partners), formulas.skip_gram(query, partners, negatives), 0)
    )


def _triple2vec(tables: Tables, group: Group, settings: KernelSettings) -> GroupGradients:
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
    lines = [
        (group.line, Change(0, group.query, -by.query)),
        *_of_partners(group, 1, -by.partners, []),
    ]
    return GroupGradients(
        changes, lines, StepStats(len(group.partners), formulas.triplets(triple), 0)
    )


# ---- applying changes


def _descend(tables: Tables, change: Change, settings: KernelSettings, rate: float) -> None:
    """Row-wise Adagrad: the rate is divided by the root of the sum of a row's mean squares so far.

    Without it (`settings.adagrad`) every step is the rate.
    """
    table, dim = tables[change.table], settings.dim
    if not change.vector.any():
        return
    tail, root = width(dim), 1.0
    if settings.adagrad:
        table[change.row, tail + SQUARES] += (change.vector**2).mean()
        root = np.sqrt(table[change.row, tail + SQUARES] + TINY)
    table[change.row, :dim] += rate / root * change.vector
    if not len(change.spread):
        return
    place, root = _spread(dim), 1.0
    if settings.adagrad:
        table[change.row, tail + VARIANCE_SQUARES] += (change.spread**2).mean()
        root = np.sqrt(table[change.row, tail + VARIANCE_SQUARES] + TINY)
    step = rate * settings.variance_rate / root * change.spread
    moved = table[change.row, place] + np.clip(step, -MAX_STEP, MAX_STEP)
    table[change.row, place] = np.clip(moved, settings.low, settings.high)


# ---- visiting units


def _gathered(lines: list[tuple[int, Change]]) -> list[Change]:
    """One change for each table and line, in the order of tables and lines."""
    sums: dict[tuple[int, int], Change] = {}
    for line, change in lines:
        key = change.table, line
        if key in sums:
            vector, spread = sums[key].vector + change.vector, sums[key].spread + change.spread
            sums[key] = change._replace(vector=vector, spread=spread)
        else:
            sums[key] = change
    return [sums[key] for key in sorted(sums)]


def _train(
    gradients_of: GradientFunction, data: KernelInput, first: int, last: int, threads: int = 1
) -> StepStats:
    """Visit units `first` to `last`, always with one thread."""
    pairs, loss, active = 0, 0.0, 0
    for unit in range(first, last):
        found = [gradients_of(data.tables, group, data.settings) for group in groups(data, unit)]
        changes = [change for group in found for change in group.changes]
        changes += _gathered([line for group in found for line in group.lines])
        for change in changes:
            _descend(data.tables, change, data.settings, data.settings.rate_at(unit, first, last))
        pairs += sum(group.stats.pairs for group in found)
        loss += sum(group.stats.loss for group in found)
        active += sum(group.stats.active for group in found)
    return StepStats(pairs, loss, active)


# ---- the kernels


neat = partial(_train, _neat)
"""Gaussian items by the max-margin loss on their log expected likelihood; tables: (items,)."""
neat_bpr = partial(_train, _neat_bpr)
"""NEAT with ranking losses of users; tables: (items, users)."""
item2vec = partial(_train, _item2vec)
"""Skip-gram with negative sampling; tables: (input, output)."""
triple2vec = partial(_train, _triple2vec)
"""Cohesion of query, partner and user; tables: (queries, partners, users)."""
