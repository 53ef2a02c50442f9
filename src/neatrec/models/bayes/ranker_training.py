"""How a `Ranking` is learned: which pairs that one part of the baskets puts first are surely strong in another part."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from neatrec.models.bayes.features import PairFeatures
from neatrec.models.bayes.prior import Weights
from neatrec.models.bayes.prior_tuning import allowed, gains, higher_ranked
from neatrec.models.bayes.ranker import Ranking, hints
from neatrec.models.bayes.rows import score_rows
from neatrec.models.counts import PairCounts, frequent_pairs
from neatrec.models.tuned_lift import MIN_STRONG_PAIRS, STRONG_COUNT

SURE = 1.96
"""Standard deviations that a count must lie above `strong_lift` times chance."""
QUERIES = 1_500
"""More queries than this are sampled."""
FIRST = 150
"""Best-ranked items of each query that are learned from: what does not come near the top is not to be told apart."""
PENALTY = 50.0
"""For each squared weight of a hint of standard deviation 1."""
ROUNDS = 30
DOUBT = 0.5
"""Standard errors that the gain over the posterior lift must exceed: what gains nothing must not pass by luck."""

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
log = logging.getLogger(__name__)


class Judge(NamedTuple):
    """Counts of baskets that judge; `directed` where carts have an order."""

    counts: PairCounts
    directed: sparse.csr_matrix | None
    recount: Callable[[Codes, Codes], npt.NDArray[np.int64]] | None = None
    """Times together of chosen pairs, those that were left out too; None: none were."""


@dataclass(frozen=True)
class Exercise:
    """Pairs in blocks of one query each, what hints at them, and which were surely strong."""

    start: npt.NDArray[np.int64]
    """Where each query's pairs start, and the end of all."""
    hints: Floats
    strong: npt.NDArray[np.bool_]

    def value(self, score: Floats) -> Floats:
        """What each strong pair gains under `score`: a hit among the first ten plus its discounted gain."""
        places = np.flatnonzero(self.strong)
        return gains(higher_ranked(score, self.start, places))

    def by_query(self, values: Floats) -> Floats:
        """Sums of `values` (strong pairs,) over the pairs of each query, shape (queries,)."""
        query = np.searchsorted(self.start, np.flatnonzero(self.strong), side="right") - 1
        return np.bincount(query, weights=values, minlength=len(self.start) - 1).astype(np.float64)

    def of_queries(self, chosen: npt.NDArray[np.bool_]) -> Exercise:
        sizes = np.diff(self.start)
        kept = np.repeat(chosen, sizes)
        start = np.concatenate([[0], np.cumsum(sizes[chosen])]).astype(np.int64)
        return Exercise(start, self.hints[kept], self.strong[kept])

    @classmethod
    def of(cls, queries: Codes, items: Codes, hints: Floats, strong: tuple[Codes, Codes], size: int) -> Exercise:
        """Pairs, query after query, with their hints; `strong` pairs are among all pairs of `size` items."""
        start = np.append(np.unique(queries, return_index=True)[1], len(queries)).astype(np.int64)
        known = strong[0].astype(np.int64) * size + strong[1]
        return cls(start, hints, np.isin(queries.astype(np.int64) * size + items, known))

    @classmethod
    def joined(cls, parts: Sequence[Exercise]) -> Exercise:
        sizes = np.concatenate([np.diff(part.start) for part in parts])
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(start, *(np.concatenate([getattr(part, name) for part in parts]) for name in ("hints", "strong")))


def sure_pairs(judge: Judge, strong_lift: float) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Query and item of the pairs that were bought together, in this order where there is one, surely often enough.

    At least STRONG_COUNT times, and SURE standard deviations more often than `strong_lift` times chance.
    """
    counts = judge.counts
    query, item, count = frequent_pairs(counts.matrix if judge.directed is None else judge.directed, STRONG_COUNT)
    # with an order, chance puts either item first, half the time each; without one half the lift is asked for, as the
    # paper's labels do
    bar = strong_lift * counts.expected(counts.total[query], counts.total[item]) / 2
    sure = count > bar + SURE * np.sqrt(bar)
    return query[sure], item[sure]


def exercise(
    evidence: PairFeatures,
    judge: Judge,
    weights: Weights,
    category: npt.NDArray[np.int32],
    strong_lift: float,
    rng: np.random.Generator,
    block: int,
) -> Exercise | None:
    """The first answers of `evidence` to queries that have sure pairs in `judge`; None when there are none."""
    query, item = sure_pairs(judge, strong_lift)
    queries = np.unique(query[evidence.counts.total[query] > 0])
    if len(queries) > QUERIES:
        queries = np.sort(rng.choice(queries, QUERIES, replace=False))
    if not len(queries):
        return None
    found = [
        _first_answers(evidence, weights, category, queries[first : first + block])
        for first in range(0, len(queries), block)
    ]
    asked, answers, lift = (np.concatenate(part) for part in zip(*found, strict=True))
    return Exercise.of(asked, answers, hints(evidence, asked, answers, lift), (query, item), len(category))


def _first_answers(
    evidence: PairFeatures, weights: Weights, category: npt.NDArray[np.int32], queries: npt.NDArray[np.int32]
) -> tuple[Any, Any, Any]:
    """Query, item and posterior lift of the best-ranked pairs, query after query."""
    lift = np.where(allowed(evidence, category, queries), score_rows(evidence, weights, queries), -np.inf)
    most = min(FIRST, lift.shape[1])
    items = np.argpartition(-lift, most - 1, axis=1)[:, :most].astype(np.int32)
    best = np.take_along_axis(lift, items, axis=1)
    real = np.isfinite(best)
    return np.broadcast_to(queries[:, None], items.shape)[real], items[real], best[real]


def learn_ranking(
    parts: Sequence[Exercise | None], against: int = 0, *, model: str = "bayes", by: str = "posterior lift"
) -> tuple[Ranking | None, float, float]:
    """The ranking, and the mean gains of it and of one hint alone on queries they were not learned from.

    `against` says which hint; the first is the posterior lift. None where the ranking does not gain clearly (DOUBT), or
    where there is too little to learn from (gains are 0 then).
    """
    there = [part for part in parts if part is not None]
    if sum(int(part.strong.sum()) for part in there) < MIN_STRONG_PAIRS:
        return None, 0.0, 0.0
    whole = Exercise.joined(there)
    half = np.arange(len(whole.start) - 1) % 2 == 0
    ranked, lifted, more = [], [], []
    for learned, judge in ((half, ~half), (~half, half)):
        exam = whole.of_queries(judge)
        gain = [
            exam.value(exam.hints @ fitted_ranking(whole.of_queries(learned)).weights),
            exam.value(exam.hints[:, against]),
        ]
        ranked.append(gain[0])
        lifted.append(gain[1])
        more.append(exam.by_query(gain[0] - gain[1]))
    with_hints, without = (float(np.concatenate(part).mean()) for part in (ranked, lifted))
    better = _surely_more(np.concatenate(more))
    log.info(
        "%s: on queries not learned from its odds gained %.4f, %s %.4f; it ranks by %s",
        *(model, with_hints, by, without, "odds" if better else by),
    )
    return (fitted_ranking(whole) if better else None), with_hints, without


def _surely_more(differences: Floats) -> bool:
    """Whether the sum is above DOUBT standard errors; `differences` are sums of one query each."""
    return bool(differences.sum() > DOUBT * np.sqrt(np.square(differences).sum()))


def fitted_ranking(lesson: Exercise) -> Ranking:
    """Logistic regression with a ridge, by Newton's method."""
    middle, spread = lesson.hints.mean(axis=0), lesson.hints.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    columns = np.column_stack([np.ones(len(lesson.hints)), (lesson.hints - middle) / spread])
    found = _logistic(columns, lesson.strong.astype(np.float64))
    weights = found[1:] / spread
    return Ranking(float(found[0] - weights @ middle), weights)


def _logistic(columns: Floats, strong: Floats) -> Floats:
    """Level and weights; steps are halved until they gain, as strong pairs are rare and whole steps overshoot."""
    penalty = np.full(columns.shape[1], PENALTY)
    penalty[0] = 0.0
    share = np.clip(strong.mean(), 1e-6, 1 - 1e-6)
    point = np.zeros(columns.shape[1])
    point[0] = np.log(share / (1 - share))

    def loss(at: Floats) -> float:
        margin = columns @ at
        return float((np.logaddexp(0.0, margin) - strong * margin).sum() + 0.5 * (penalty * at * at).sum())

    best = loss(point)
    for _ in range(ROUNDS):
        chance = special.expit(columns @ point)
        slope = columns.T @ (strong - chance) - penalty * point
        bend = (columns * (chance * (1 - chance))[:, None]).T @ columns + np.diag(penalty)
        step = np.linalg.solve(bend, slope)
        while loss(point + step) > best and np.abs(step).max() > 1e-6:
            step /= 2
        gained = best - loss(point + step)
        if gained < 1e-6 * abs(best):
            break
        point, best = point + step, best - gained
    return point
