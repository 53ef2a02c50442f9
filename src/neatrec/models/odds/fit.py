"""Two logistic regressions: the odds that other baskets show a pair as strong, or as dependent.

The training baskets are split. Pairs of one part, described by its features, are strong
or dependent in the other part, or not. Each regression starts from the best statistic for
its outcome and corrects it as far as the data pay for: with few pairs the statistic ranks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from neatrec.cooccurrence import CountOptions
from neatrec.cooccurrence.count_book import CountBook
from neatrec.cooccurrence.expected_counts import unexplained
from neatrec.data.baskets import Baskets, customers_return
from neatrec.data.counts import Floats, Mask
from neatrec.data.counts import Int64 as Keys
from neatrec.data.splits import moment_of_share, uniform_of_ids
from neatrec.memory import one_blas_thread
from neatrec.models.counts import PairCounts
from neatrec.models.odds.features import CHANCE_PSEUDO, REPEATED, WORDS, PairFeatures
from neatrec.models.odds.similarity import Codes

SALT, LEARNED_SHARE = "odds", 2 / 3
"""Of the hash that halves the baskets; share of the time that features are made of."""
RIDGES = 30.0, 300.0
"""Penalties of the standardised features of a strong and of a dependent pair."""
ANCHOR, LEVEL = 1.0, 0.01
"""Penalties of the statistic's factor away from 1, and of the level."""
STRONG_COUNT, STRONG_LIFT, SIGNIFICANT = 5, 4.0, 1.96
DEPENDENT_P = 1e-5
MAX_QUERIES = 3_000
"""The most queries of a part that are learned from."""
BY_COUNT, BY_LIFT = 200, 100
"""Candidates of a query: its most frequent partners, and its best by shrunk lift."""
FIRST = 10
CONVERGED = 1e-4
"""The length of the gradient at which a regression ends."""


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

    @classmethod
    def of(cls, book: CountBook, counting: CountOptions, strata: tuple[str, ...]) -> Outcome:
        """The strong and the dependent pairs of a book.

        Strong: often, and significantly above four times chance with the query first, or above
        twice chance where carts have no order. Dependent: more often than chance explains, once per
        customer where customers return.
        """
        baskets = book.baskets
        counting = replace(counting, directed=baskets.ordered)
        key, times, expected = shown_pairs(book, counting, strata)
        bar = expected * STRONG_LIFT / 2  # chance puts either item first half of the time
        strong = key[(times >= STRONG_COUNT) & (times > bar + SIGNIFICANT * np.sqrt(bar))]
        if customers_return(baskets):
            once = replace(counting, once_per_customer=True)
            key, times, expected = shown_pairs(book, once, strata)
        chance = np.maximum(expected / 2 if baskets.ordered else expected, 1e-12)
        dependent = key[(times > chance) & (special.pdtrc(times - 1, chance) <= DEPENDENT_P)]
        return cls(np.sort(strong), np.sort(dependent))


def shown_pairs(
    book: CountBook, counting: CountOptions, strata: tuple[str, ...]
) -> tuple[Keys, Floats, Floats]:
    """Key, count and expected count of repeated pairs; unordered ones in both ways."""
    pairs = book.count("all", replace(counting, min_count=REPEATED))
    pairs = pairs if counting.directed else pairs.symmetric()
    within = unexplained(book.baskets, strata, counting)
    times = pairs.count
    if within is not None:
        times = within.lowered(times, pairs.query, pairs.item)
    total = pairs.margins.first.astype(np.float64)
    if counting.directed:
        total = total + pairs.margins.second
    often = times >= REPEATED
    query, item = pairs.query[often].astype(np.int64), pairs.item[often]
    expected = total[query] * total[item] / max(total.sum(), 1)
    return query * len(total) + item, times[often].astype(np.float64), expected


class Pairs(NamedTuple):
    """Candidate pairs of a part: their features in it, and their outcomes in the other."""

    query: Codes
    group: Keys
    """Part and query, ascending: pairs of one group are ranked together."""
    design: Floats
    """(pairs, WORDS)"""
    starts: Floats
    """(pairs, STARTS)"""
    outcomes: Mask
    """(pairs, STARTS)"""

    @classmethod
    def of(
        cls, part: int, features: PairFeatures, outcome: Outcome, rng: np.random.Generator
    ) -> Pairs:
        """The candidates of queries that have a strong or dependent pair.

        No pair is a candidate because its outcome is known.
        """
        items = len(features.counts.total)
        queries = np.unique(np.concatenate(outcome) // items)
        queries = queries[features.counts.total[queries] > 0]
        if len(queries) > MAX_QUERIES:
            queries = np.sort(rng.choice(queries, MAX_QUERIES, replace=False))
        query, item = candidates(features.counts, queries)
        design, times, expected = features.design(query, item)
        key = query.astype(np.int64) * items + item
        return cls(
            query,
            query + np.int64(part) * items,
            design,
            np.column_stack([start(times, expected) for start in STARTS.values()]),
            np.column_stack([np.isin(key, shown) for shown in outcome]),
        )


def candidates(counts: PairCounts, queries: npt.NDArray[Any]) -> tuple[Codes, Codes]:
    """Query and item of the candidates of each query, ascending."""
    rows = [np.zeros(0, dtype=np.int32)]
    for query in queries.tolist():
        items, times = counts.row(query)
        if len(items) > BY_COUNT:
            lift = times / (counts.expected(counts.total[query], counts.total[items]) + 1.0)
            by_count = np.argpartition(-times, BY_COUNT - 1)[:BY_COUNT]
            items = items[np.union1d(by_count, np.argpartition(-lift, BY_LIFT - 1)[:BY_LIFT])]
        rows.append(items.astype(np.int32))
    sizes = [len(row) for row in rows[1:]]
    return np.repeat(queries, sizes).astype(np.int32), np.concatenate(rows)


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


def regress(table: Floats, outcome: Mask, ridge: float, first: Floats) -> Floats:
    """Weights of a ridge logistic regression on (1, start, *standardised features).

    `first`: the weights to begin with.
    """
    size = table.shape[1]
    origin, penalty = np.eye(size)[1], np.array([LEVEL, ANCHOR] + [ridge] * (size - 2))

    def loss(weights: Floats) -> tuple[float, Floats]:
        odds, away = table @ weights, weights - origin
        value = np.logaddexp(0, odds).sum() - odds[outcome].sum() + (penalty * away**2).sum() / 2
        return value, (special.expit(odds) - outcome) @ table + penalty * away

    def curvature(weights: Floats) -> Floats:
        chance = special.expit(table @ weights)
        slope = np.sqrt(chance * (1 - chance))[:, None] * table
        return np.asarray(slope.T @ slope + np.diag(penalty))

    how: dict[str, Any] = {"method": "trust-exact", "options": {"gtol": CONVERGED}}
    return np.asarray(optimize.minimize(loss, first, jac=True, hess=curvature, **how).x)


def learn(pairs: Pairs) -> tuple[dict[str, Floats], dict[str, Any]]:
    """The weights of each outcome, and facts of the fit.

    The facts are the pairs, their share among a query's first ten by the odds and by the start, the
    interval of the difference, and standardised weights. The shares are out of fold: each half of
    the queries is ranked by the weights of the other half.
    """
    regressions, learned = {}, {}
    mean, scale = np.zeros(len(WORDS)), np.ones(len(WORDS))
    if len(pairs.design):  # else there is nothing to learn from: the statistics rank
        mean, scale = pairs.design.mean(axis=0), pairs.design.std(axis=0)
        scale = np.where(scale > 1e-9, scale, 1.0)
    table = np.column_stack([np.ones((len(pairs.design), 2)), (pairs.design - mean) / scale])
    even = pairs.query % 2 == 0
    for number, (name, ridge) in enumerate(zip(STARTS, RIDGES, strict=True)):
        start, outcome = pairs.starts[:, number], pairs.outcomes[:, number]
        table[:, 1] = start
        with one_blas_thread():
            fitted = regress(table, outcome, ridge, np.eye(table.shape[1])[1])
            odds = np.empty(len(start))
            for half in (even, ~even):
                odds[half] = table[half] @ regress(table[~half], outcome[~half], ridge, fitted)
        rest = fitted[2:] / scale
        regressions[name] = np.concatenate([[fitted[0] - rest @ mean, fitted[1]], rest])
        weights = dict(zip(WORDS, fitted[2:].round(3).tolist(), strict=True))
        order = sorted(weights, key=lambda key: -abs(weights[key]))
        learned[name] = {
            **gain_of(pairs, outcome, odds, start),
            "weights": {key: weights[key] for key in order},
        }
    return regressions, learned


def gain_of(pairs: Pairs, outcome: Mask, odds: Floats, start: Floats) -> dict[str, Any]:
    """The shares of an outcome's pairs among the first ten of their query, by both scores.

    The 95 % interval of their difference stands beside them.
    """
    of_query = np.bincount(pairs.query, outcome)
    first, number = np.searchsorted(pairs.group, pairs.group), max(of_query.sum(), 1)
    hits = []
    for score in (odds, start):
        order = np.lexsort((-score, pairs.group))
        among = order[np.arange(len(order)) - first < FIRST]
        hits.append(np.bincount(pairs.query[among], outcome[among], minlength=len(of_query)))
    share, start_share = (each.sum() / number for each in hits)
    rest = hits[0] - hits[1] - (share - start_share) * of_query
    margin = 1.96 * np.sqrt((rest**2).sum()) / number
    more = share - start_share
    return {
        "pairs": int(of_query.sum()),
        "hit_rate": round(float(share), 4),
        "start_hit_rate": round(float(start_share), 4),
        "more": np.round([more - margin, more + margin], 4).tolist(),
    }
