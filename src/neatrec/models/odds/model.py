"""`odds`: pairs ranked by the odds that other baskets show them as strong or as dependent ones.

The training baskets are split. Pairs of one part, described by its features, are strong or
dependent in the other part, or not. Two logistic regressions, one for each outcome, start from its
best statistic and correct it as far as the data pay for: with few pairs the statistic ranks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse, special

from neatrec.cooccurrence import CountBook, CountOptions
from neatrec.cooccurrence.expected_counts import unexplained
from neatrec.data.baskets import Baskets, customers_return
from neatrec.data.counts import Floats, Int64, Mask
from neatrec.data.splits import as_generator, moment_of_share, uniform_of_ids
from neatrec.memory import blocks, one_blas_thread
from neatrec.models.base import ArraySpec, Codes, Model, Scores, matrix_specs
from neatrec.models.carts import CartRegression, same_category_pairs
from neatrec.models.counts import (
    PairCounts,
    StrataParameters,
    largest,
    matrix_arrays,
    restored_matrix,
)
from neatrec.models.odds.features import (
    CHANCE_PSEUDO,
    REPEATED,
    WORDS,
    CatalogFeatures,
    PairFeatures,
    stand_ins,
)
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run

GOALS = {"balanced": (2.0, 1.0), "lift": (1.0, 0.0), "evidence": (0.0, 1.0)}
"""Weights of the probabilities of a strong and of a dependent pair."""
BLOCK = 100_000  # pairs whose features are in memory at a time
MIXED = 4_000_000  # pairs whose stand-ins are in memory at a time
SALT = "odds"  # of the hash that halves the baskets
LEARNED_SHARE = 2 / 3  # share of the time whose baskets make the features
RIDGES = 30.0, 300.0  # penalties of the standardised features of a strong and of a dependent pair
ANCHOR, LEVEL = 1.0, 0.01  # penalties of the statistic's factor away from 1, and of the level
STRONG_COUNT, STRONG_LIFT, SIGNIFICANT = 5, 4.0, 1.96
DEPENDENT_P = 1e-5
MAX_QUERIES = 3_000  # at most as many queries of a part are learned from
FIRST = 10
CACHED_ROWS = 8_192  # of the table of a regression, small enough for the cache
CONVERGED = 1e-4  # length of the gradient at which a regression ends


@dataclass(frozen=True)
class OddsParameters(StrataParameters):
    """Parameters of `odds`."""

    rank: int = parameter(128, "Dimensions of the low-rank vectors.", low=1)
    max_pairs: int = parameter(
        25_000_000, "Pairs kept; the rarest beyond are left out, for memory.", low=1
    )
    goal: str = parameter(
        "balanced",
        "High lifts first (lift), certain pairs first (evidence), or both (balanced).",
        choices=GOALS,
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {goal: {"goal": goal} for goal in GOALS}


class Odds(Model):
    """score = w P(strong) + P(dependent), with w = 2, or by one of the two alone: see `Outcome`."""

    name: ClassVar[str] = "odds"
    kind: ClassVar[str] = "hybrid"
    description: ClassVar[str] = (
        "The odds that other baskets show a pair as strong or dependent, learned on halves."
    )
    Parameters: ClassVar[type[ModelParameters]] = OddsParameters
    min_score: ClassVar[float] = 0.0
    scores_unseen_items: ClassVar[bool] = True
    cart_ranking: CartRegression
    features: PairFeatures
    regressions: dict[str, Floats]
    """Weights by outcome: level, factor of the start, features."""
    mixture: sparse.csr_matrix
    """Shares of the items whose scores are averaged for each query; see `stand_ins`."""

    def _fit(self, baskets: Baskets, run: Run) -> None:
        rng, strata = as_generator(run.rng), self.parameters.strata_names
        counting = replace(self.parameters.counting(), max_pairs=self.parameters.max_pairs)
        book = run.book_of(baskets)
        # the largest count comes first, while there is little else in memory
        same_category = same_category_pairs(book, counting.category_of(self.catalog))
        catalog, rank = CatalogFeatures.of(self.catalog), self.parameters.rank
        given = counting, strata, catalog, rank, rng, run.threads

        def learned_from(part: int, described: Mask, shown: Mask) -> Pairs:
            outcome = Outcome.of(run.book_of(baskets.select(shown)), counting, strata)
            features = PairFeatures.of(run.book_of(baskets.select(described)), *given)
            return Pairs.of(part, features, outcome, rng)

        pairs = [learned_from(part, *masks) for part, masks in enumerate(parts_of(baskets))]
        joined = Pairs(*map(np.concatenate, zip(*pairs, strict=True)))
        self.regressions, self.learned = learn(joined)
        self._set_features(PairFeatures.of(book, *given), same_category)

    def _set_features(self, features: PairFeatures, same_category: sparse.csr_matrix) -> None:
        self.features = features
        bought = self.item_count.astype(np.float64)
        self.cart_ranking = CartRegression(features.counts, same_category, bought)
        self.mixture = stand_ins(self.item_count, *features.catalog)

    def _score(self, queries: Codes, items: Codes) -> Scores:
        scores = np.zeros(len(queries))
        for block in blocks(len(queries), MIXED):
            shares = self.mixture[queries[block]]
            pair = np.repeat(np.arange(shares.shape[0]), np.diff(shares.indptr))
            own = self._own_scores(shares.indices, items[block][pair])
            scores[block] = np.bincount(pair, own * shares.data, minlength=shares.shape[0])
        return scores

    def _score_all(self, queries: Codes) -> Scores:
        size = len(self.catalog)
        items = np.tile(np.arange(size, dtype=np.int32), len(queries))
        return self._score(np.repeat(queries, size), items).reshape(len(queries), size)

    def _own_scores(self, queries: Codes, items: Codes) -> Scores:
        """Without stand-ins; 0 for an item with itself."""
        out, order = np.zeros(len(queries)), np.argsort(queries, kind="stable")
        for first in range(0, len(order), BLOCK):
            block = order[first : first + BLOCK]
            design, count, expected = self.features.design(queries[block], items[block])
            for name, goal in zip(STARTS, GOALS[self.parameters.goal], strict=True):
                level, factor, *rest = self.regressions[name]
                # einsum: threads of BLAS would cost more than this product
                odds = level + factor * STARTS[name](count, expected)
                odds += np.einsum("pf,f->p", design, rest)
                out[block] += goal * special.expit(odds)
        return np.where(queries == items, 0.0, out)

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        of, learned = self.features, json.dumps(self.learned).encode()
        return {
            **matrix_arrays("pair", of.counts.matrix),
            **matrix_arrays("same_category", self.cart_ranking.same_category),
            **matrix_arrays("neighbours", of.neighbours, ""),
            **matrix_arrays("names", of.catalog.names, ""),
            "pair_total": of.counts.total,
            "vectors": of.vectors,
            "signs": of.signs,
            "category": of.catalog.category,
            "category_order": of.category_order,
            **{f"odds_{name}": weights for name, weights in self.regressions.items()},
            "learned": np.frombuffer(learned, dtype=np.uint8),
        }

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        """The arrays of a bundle."""
        return {
            **matrix_specs("pair"),
            **matrix_specs("same_category"),
            **matrix_specs("neighbours", ""),
            **matrix_specs("names", ""),
            "pair_total": ArraySpec("i", low=0),
            "vectors": ArraySpec("f", ("items", "rank")),
            "signs": ArraySpec("f", ("rank",)),
            "category_order": ArraySpec("f", ("categories", "categories")),
            "category": ArraySpec("i", low=-1, high="categories"),
            **{f"odds_{name}": ArraySpec("f", ("features",)) for name in STARTS},
        }

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        size = len(self.catalog)
        self.regressions = {name: arrays[f"odds_{name}"] for name in STARTS}
        if len(arrays["odds_strong"]) != 2 + len(WORDS):
            raise ValueError("`odds_strong` must have a weight per feature")
        self.learned = json.loads(arrays["learned"].tobytes())
        features = PairFeatures(
            PairCounts(restored_matrix(arrays, "pair", size), arrays["pair_total"]),
            CatalogFeatures(arrays["category"], restored_matrix(arrays, "names", size, "")),
            arrays["vectors"],
            arrays["signs"],
            restored_matrix(arrays, "neighbours", size, ""),
            arrays["category_order"],
        )
        self._set_features(features, restored_matrix(arrays, "same_category", size))


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
    """Pairs that some baskets show as strong or as dependent: query * items + item, ascending.

    Strong: at least five times, and significantly above four times chance with the query first, or
    above twice chance where carts have no order. Dependent: more often than chance explains, once
    per customer where customers return.
    """

    strong: Int64
    dependent: Int64

    @classmethod
    def of(cls, book: CountBook, counting: CountOptions, strata: tuple[str, ...]) -> Outcome:
        """The pairs that the baskets of a book show."""
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
) -> tuple[Int64, Floats, Floats]:
    """Key, count and expected count of repeated pairs; unordered ones in both ways."""
    pairs = book.count("all", replace(counting, min_count=REPEATED), keep=False)
    pairs = pairs if counting.directed else pairs.symmetric()
    times = pairs.count
    if (within := unexplained(book.baskets, strata, counting)) is not None:
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
    group: Int64  # part and query, ascending: pairs of one group are ranked together
    design: npt.NDArray[np.float32]  # (pairs, WORDS)
    starts: Floats  # (pairs, STARTS)
    outcomes: Mask  # (pairs, STARTS)

    @classmethod
    def of(
        cls, part: int, features: PairFeatures, outcome: Outcome, rng: np.random.Generator
    ) -> Pairs:
        """All candidates of the queries that have a strong or dependent pair."""
        items = len(features.counts.total)
        queries = np.unique(np.concatenate(outcome) // items)
        queries = queries[features.counts.total[queries] > 0]
        if len(queries) > MAX_QUERIES:
            queries = np.sort(rng.choice(queries, MAX_QUERIES, replace=False))
        query, item = features.counts.candidates(queries.astype(np.int32))
        design, times, expected = features.design(query, item)
        key = query.astype(np.int64) * items + item
        return cls(
            query,
            query + np.int64(part) * items,
            design,
            np.column_stack([start(times, expected) for start in STARTS.values()]),
            np.column_stack([np.isin(key, shown) for shown in outcome]),
        )


def start_strong(times: Floats, expected: Floats) -> Floats:
    """Log of the shrunk lift."""
    return np.log((times + CHANCE_PSEUDO) / (expected + 1.0))


def start_dependent(times: Floats, expected: Floats) -> Floats:
    """log(1 + G^2) of a count above its expectation, else 0."""
    g2 = 2.0 * special.kl_div(times, np.maximum(expected, 1e-12))
    return np.log1p(np.where(times > expected, g2, 0.0))


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
        total = np.diag(penalty)
        for rows in np.array_split(table, len(table) // CACHED_ROWS + 1):
            chance = special.expit(rows @ weights)
            slope = np.sqrt(chance * (1 - chance))[:, None] * rows
            total += slope.T @ slope
        return total

    how: dict[str, Any] = {"method": "trust-exact", "options": {"gtol": CONVERGED}}
    return np.asarray(optimize.minimize(loss, first, jac=True, hess=curvature, **how).x)


def learn(pairs: Pairs) -> tuple[dict[str, Floats], dict[str, Any]]:
    """The weights of each outcome, and its `gain_of` with standardised weights.

    The gain is out of fold: each half of the queries is ranked by the weights of the other half.
    """
    regressions, learned = {}, {}
    table = np.column_stack([np.ones((len(pairs.design), 2)), pairs.design])
    mean, scale = np.zeros(len(WORDS)), np.ones(len(WORDS))
    if len(table):  # else there is nothing to learn from: the statistics rank
        mean = table[:, 2:].mean(axis=0)
        table[:, 2:] -= mean
        deviation = np.sqrt(np.einsum("pf,pf->f", table[:, 2:], table[:, 2:]) / len(table))
        scale = np.where(deviation > 1e-6, deviation, 1.0)
        table[:, 2:] /= scale
    even = pairs.query % 2 == 0
    for number, (name, ridge) in enumerate(zip(STARTS, RIDGES, strict=True)):
        start, outcome = pairs.starts[:, number], pairs.outcomes[:, number]
        table[:, 1] = start
        with one_blas_thread():
            # a tenth of the pairs comes close at a tenth of the cost
            first = regress(table[::10], outcome[::10], ridge, np.eye(table.shape[1])[1])
            odds = np.empty(len(start))
            for half in (even, ~even):
                first = regress(table[~half], outcome[~half], ridge, first)
                odds[half] = table[half] @ first
            fitted = regress(table, outcome, ridge, first)
        rest = fitted[2:] / scale
        regressions[name] = np.concatenate([[fitted[0] - rest @ mean, fitted[1]], rest])
        weights = zip(WORDS, fitted[2:].round(3).tolist(), strict=True)
        by_size = dict(sorted(weights, key=lambda weight: -abs(weight[1])))
        learned[name] = {**gain_of(pairs, outcome, odds, start), "weights": by_size}
    return regressions, learned


def gain_of(pairs: Pairs, outcome: Mask, odds: Floats, start: Floats) -> dict[str, Any]:
    """Shares of an outcome's pairs among the first ten of their query, by odds and by start.

    `more`: the 95 % interval of their difference.
    """
    of_query = np.bincount(pairs.query, outcome)
    ends = np.flatnonzero(np.diff(pairs.group)) + 1
    rows, number = np.concatenate([[0], ends, [len(odds)]]), max(of_query.sum(), 1)
    hits = []
    for score in (odds, start):
        among = largest(rows, score, FIRST)
        hits.append(np.bincount(pairs.query[among], outcome[among], minlength=len(of_query)))
    share, start_share = (each.sum() / number for each in hits)
    more = share - start_share
    margin = 1.96 * np.sqrt(((hits[0] - hits[1] - more * of_query) ** 2).sum()) / number
    return {
        "pairs": int(of_query.sum()),
        "hit_rate": round(float(share), 4),
        "start_hit_rate": round(float(start_share), 4),
        "more": np.round([more - margin, more + margin], 4).tolist(),
    }
