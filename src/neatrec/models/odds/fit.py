"""Two logistic regressions: the odds that other baskets show a pair as strong, or as dependent.

The training baskets are parted. Pairs of one part, described by what it knows of them, are strong
or dependent in the other part, or not. Each regression starts from the statistic that is best for
its outcome and corrects it as far as the data pay for: with few pairs the statistic ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from neatrec.cooccurrence import CountOptions
from neatrec.cooccurrence.count_book import CountBook
from neatrec.cooccurrence.expected_counts import unexplained
from neatrec.data.baskets import Baskets, customers_return
from neatrec.data.splits import moment_of_share, uniform_of_ids
from neatrec.models.counts import PairCounts
from neatrec.models.odds.features import CHANCE_PSEUDO, CURVE, FEATURES, PairFeatures
from neatrec.models.odds.similarity import Codes, Vectors
from neatrec.statistics.blas import one_blas_thread

Floats = npt.NDArray[np.float64]
Keys = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SALT, LEARNED_SHARE = "odds", 2 / 3
"""Of the hash that halves the baskets; share of the time that features are made of."""
RIDGE = {"strong": 30.0, "dependent": 100.0}
ANCHOR, LEVEL = 1.0, 0.01
"""Penalties: of standardised features, of the statistic's factor away from 1, of the level."""
STRONG_COUNT, STRONG_LIFT, SIGNIFICANT = 5, 4.0, 1.96
DEPENDENT_COUNT, DEPENDENT_P = 2, 1e-5
MAX_QUERIES = 3_000
"""The most queries of a part that are learned from."""
BY_COUNT, BY_LIFT = 200, 100
"""Candidates of a query: its most frequent partners, and its best by shrunk lift."""
FIRST = 10
BLOCK_ROWS, MAX_STEPS, CONVERGED = 20_000, 100, 1e-6
"""Pairs per product, Newton steps, and how little a last step may still lower the loss."""


def parts_of(baskets: Baskets) -> list[tuple[Mask, Mask]]:
    """Baskets to learn from and baskets that show the outcome: two random halves, both ways.

    Where customers return and times are known, the first two thirds of the time and the last third.
    """
    if customers_return(baskets) and baskets.times is not None and np.ptp(baskets.times) > 0:
        earlier: Mask = baskets.times < moment_of_share(baskets.times, LEARNED_SHARE)
        return [(earlier, ~earlier)]
    half: Mask = uniform_of_ids(baskets.ids, SALT) < 0.5
    return [(half, ~half), (~half, half)]


class Outcome(NamedTuple):
    """Pairs that some baskets show as strong or as dependent: query * items + item, ascending."""

    strong: Keys
    dependent: Keys
    items: int

    @classmethod
    def of(cls, book: CountBook, counting: CountOptions, strata: tuple[str, ...]) -> Outcome:
        """Strong: often, and significantly above four times chance with the query first, or above
        twice chance where carts have no order.

        Dependent: more often than chance explains, once per customer where customers return.
        """
        baskets = book.baskets
        counting = replace(counting, directed=baskets.ordered)
        key, times, expected = shown_pairs(book, counting, strata)
        bar = expected * STRONG_LIFT / 2  # chance puts either item first half of the time
        strong = (times >= STRONG_COUNT) & (times > bar + SIGNIFICANT * np.sqrt(bar))
        strong_keys = np.sort(key[strong])
        if customers_return(baskets) and not counting.once_per_customer:
            once = replace(counting, once_per_customer=True)
            key, times, expected = shown_pairs(book, once, strata)
        chance = np.maximum(expected / 2 if baskets.ordered else expected, 1e-12)
        tail = special.pdtrc(times - 1, chance)
        dependent = (times > chance) & (tail <= DEPENDENT_P)
        return cls(strong_keys, np.sort(key[dependent]), len(baskets.catalog))


def shown_pairs(
    book: CountBook, counting: CountOptions, strata: tuple[str, ...]
) -> tuple[Keys, Floats, Floats]:
    """Key, count and expected count of pairs seen at least twice; unordered ones in both ways."""
    pairs = book.count("all", replace(counting, min_count=DEPENDENT_COUNT))
    within = unexplained(book.baskets, strata, counting)
    times = pairs.count
    if within is not None:
        times = within.lowered(times, pairs.query, pairs.item)
    total = pairs.margins.first.astype(np.float64)
    if counting.directed:
        total = total + pairs.margins.second
    often = np.flatnonzero(times >= DEPENDENT_COUNT)
    query, item = pairs.query[often].astype(np.int64), pairs.item[often].astype(np.int64)
    found = times[often].astype(np.float64)
    expected = total[query] * total[item] / max(total.sum(), 1)
    key = query * len(total) + item
    if counting.directed:
        return key, found, expected
    both = np.concatenate([key, item * len(total) + query])
    return both, np.tile(found, 2), np.tile(expected, 2)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Candidate pairs of one part: what it knows of them, and what they are in the other."""

    query: Codes
    """The item that a group of pairs is asked for, shape (groups,)."""
    group: Keys
    """The number of a pair's group, ascending: a query has one per part."""
    design: Floats
    """(pairs, FEATURES + CURVE)"""
    starts: dict[str, Floats]
    outcomes: dict[str, Mask]

    @classmethod
    def of(cls, features: PairFeatures, outcome: Outcome, rng: np.random.Generator) -> Pairs:
        """The candidates of queries that have a strong or dependent pair.

        No pair is a candidate because its outcome is known.
        """
        queries = np.unique(np.concatenate([outcome.strong, outcome.dependent]) // outcome.items)
        queries = queries[features.counts.total[queries] > 0]
        if len(queries) > MAX_QUERIES:
            queries = np.sort(rng.choice(queries, MAX_QUERIES, replace=False))
        asked, items = candidates(features.counts, queries)
        columns, times, expected = features.columns(asked, items)
        key = asked.astype(np.int64) * outcome.items + items
        return cls(
            queries.astype(np.int32),
            np.searchsorted(queries, asked),
            design_of(columns, times, expected),
            {name: start(times, expected) for name, start in STARTS.items()},
            {name: np.isin(key, getattr(outcome, name)) for name in STARTS},
        )

    @classmethod
    def joined(cls, parts: list[Pairs]) -> Pairs:
        groups = np.cumsum([0, *(len(part.query) for part in parts)])
        return cls(
            np.concatenate([part.query for part in parts]),
            np.concatenate([part.group + groups[n] for n, part in enumerate(parts)]),
            np.concatenate([part.design for part in parts]),
            {name: np.concatenate([part.starts[name] for part in parts]) for name in STARTS},
            {name: np.concatenate([part.outcomes[name] for part in parts]) for name in STARTS},
        )


def candidates(counts: PairCounts, queries: npt.NDArray[Any]) -> tuple[Codes, Codes]:
    """Query and item of the candidates of each query, ascending."""
    asked, found = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)]
    for query in queries.tolist():
        items, times = counts.row(query)
        chosen = np.arange(len(items))
        if len(items) > BY_COUNT:
            lift = times / (counts.expected(counts.total[query], counts.total[items]) + 1.0)
            by_count = np.argpartition(-times, BY_COUNT - 1)[:BY_COUNT]
            by_lift = np.argpartition(-lift, BY_LIFT - 1)[:BY_LIFT]
            chosen = np.union1d(by_count, by_lift)
        asked.append(np.full(len(chosen), query, dtype=np.int32))
        found.append(items[chosen].astype(np.int32))
    return np.concatenate(asked), np.concatenate(found)


def start_strong(times: Floats, expected: Floats) -> Floats:
    """Log of the shrunk lift."""
    return np.log((times + CHANCE_PSEUDO) / (expected + 1.0))


def start_dependent(times: Floats, expected: Floats) -> Floats:
    """log(1 + G^2) of a count above its expectation, else 0."""
    ratio = np.log(np.maximum(times, 1e-9) / np.maximum(expected, 1e-12))
    g2 = np.where(times > expected, 2 * (times * ratio - (times - expected)), 0.0)
    return np.log1p(np.maximum(g2, 0.0))


STARTS = {"strong": start_strong, "dependent": start_dependent}
"""The statistic that each outcome starts from."""


def design_of(columns: Vectors, times: Floats, expected: Floats) -> Floats:
    """The features and the curve of count and chance, (pairs, FEATURES + CURVE)."""
    seen, chance = np.log1p(times), np.log(expected + CHANCE_PSEUDO)
    return np.column_stack([columns, seen, chance, seen**2, seen * chance, chance**2])


def log_odds(weights: Floats, design: Floats, start: Floats) -> Floats:
    """level + factor * start + design @ rest, for weights (level, factor, *rest)."""
    odds: Floats = weights[0] + weights[1] * start + design @ weights[2:]
    return odds


def regress(table: Floats, outcome: Mask, ridge: float, first: Floats) -> Floats:
    """Weights of a ridge logistic regression on (1, start, *standardised features).

    Newton's method from the weights `first`; a step that would raise the loss is halved.
    """
    size = table.shape[1]
    origin, penalty = np.eye(size)[1], np.array([LEVEL, ANCHOR] + [ridge] * (size - 2))
    blocks = [slice(at, at + BLOCK_ROWS) for at in range(0, len(table), BLOCK_ROWS)]
    wanted = outcome.astype(np.float64) @ table

    def loss(weights: Floats) -> float:
        odds = table @ weights
        value = np.maximum(odds, 0).sum() + np.log1p(np.exp(-np.abs(odds))).sum()
        return float(value - wanted @ weights + (penalty * (weights - origin) ** 2).sum() / 2)

    weights, value = first, loss(first)
    for _ in range(MAX_STEPS):
        gradient, curvature = penalty * (weights - origin) - wanted, np.diag(penalty)
        for block in blocks:
            rows = table[block]
            chance = special.expit(rows @ weights)
            gradient = gradient + chance @ rows
            curvature = curvature + rows.T @ (rows * (chance * (1 - chance))[:, None])
        step = np.linalg.solve(curvature, gradient)
        if gradient @ step < CONVERGED:
            return weights - step
        while (lower := loss(weights - step)) > value:
            step = step / 2
        weights, value = weights - step, lower
    return weights


def learn(pairs: Pairs) -> tuple[dict[str, Floats], dict[str, Any]]:
    """The weights of each outcome, and what was learned: the pairs, their share among a query's
    first ten by the odds and by the start, the interval of the difference, standardised weights.

    The shares are out of fold: each half of the queries is ranked by what the other half teaches.
    """
    regressions, learned = {}, {}
    if len(pairs.design):
        mean, scale = pairs.design.mean(axis=0), pairs.design.std(axis=0)
        scale = np.where(scale > 1e-9, scale, 1.0)
    else:  # nothing to learn from: the statistics rank
        mean, scale = np.zeros(pairs.design.shape[1]), np.ones(pairs.design.shape[1])
    table = np.column_stack([np.ones((len(pairs.design), 2)), (pairs.design - mean) / scale])
    even = pairs.query[pairs.group] % 2 == 0
    for name in STARTS:
        start, outcome, ridge = pairs.starts[name], pairs.outcomes[name], RIDGE[name]
        table[:, 1] = start
        with one_blas_thread():
            found = regress(table, outcome, ridge, np.eye(table.shape[1])[1])
            odds = np.empty(len(start))
            for half in (even, ~even):
                odds[half] = table[half] @ regress(table[~half], outcome[~half], ridge, found)
        rest = found[2:] / scale
        regressions[name] = np.concatenate([[found[0] - rest @ mean, found[1]], rest])
        weights = dict(zip((*FEATURES, *CURVE), found[2:].round(3).tolist(), strict=True))
        order = sorted(weights, key=lambda key: -abs(weights[key]))
        learned[name] = {
            **gain_of(hits_by_query(pairs, outcome, odds, start)),
            "weights": {key: weights[key] for key in order},
        }
    return regressions, learned


def gain_of(hits: Floats) -> dict[str, Any]:
    """The shares of the pairs among the first ten, and the 95 % interval of their difference."""
    pairs = max(hits[:, 0].sum(), 1)
    share, start = hits[:, 1].sum() / pairs, hits[:, 2].sum() / pairs
    rest = hits[:, 1] - hits[:, 2] - (share - start) * hits[:, 0]
    margin = 1.96 * np.sqrt((rest**2).sum()) / pairs
    more = np.array([share - start - margin, share - start + margin])
    return {
        "pairs": int(hits[:, 0].sum()),
        "hit_rate": round(float(share), 4),
        "start_hit_rate": round(float(start), 4),
        "more": more.round(4).tolist(),
    }


def hits_by_query(pairs: Pairs, outcome: Mask, *scores: Floats) -> Floats:
    """Of each query: its pairs of the outcome, and those among the first ten by each score."""
    group, query = pairs.group, pairs.query[pairs.group]
    columns, first = [np.bincount(query, outcome)], np.searchsorted(group, group)
    for score in scores:
        order = np.lexsort((-score, group))
        among = np.zeros(len(group), dtype=np.bool_)
        among[order] = np.arange(len(group)) - first < FIRST
        columns.append(np.bincount(query, among & outcome))
    return np.column_stack(columns).astype(np.float64)
