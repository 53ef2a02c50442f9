"""What `bayes` ranks by: for each goal, the ranking that wins on held-out training baskets.

`OddsRanker` gives the log-odds that new baskets show a pair as a significant high-lift pair, or as a dependent one. A
lift states how much more often than by chance two items are bought together; whether new baskets show it beyond doubt
also depends on how often they are bought, on the order in the cart, and on how similar their partners are. A logistic
regression on held-out baskets weighs these features against the posterior lift. The odds, blends of them and the
posterior lift compete with every simple statistic on queries they were not fitted on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from neatrec.models.bayes.features import RANKER_FEATURES
from neatrec.models.counts import CountModel, PairCounts
from neatrec.models.popularity import PopCo
from neatrec.models.statistics import LLR, Jaccard, Lift, ShrunkLift
from neatrec.models.tuned_lift import STRENGTHS

if TYPE_CHECKING:
    from neatrec.models.bayes.training_set import RankerTrainingSet

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MAX_LOG_ODDS = 60.0
"""Log-odds are clipped here: further out float32 cannot tell them from 0."""
RIDGE = 50.0
"""Penalty per squared weight of a feature of standard deviation 1."""
GOALS = ("balanced", "lift", "evidence")
"""What answers may be ranked for; the first is the default."""
MEASURES = {"balanced": (0, 1), "lift": (0,), "evidence": (1,)}
"""What a goal is measured by: gains by strong pairs, as `shrunk-lift-tuned` has them (0), by certain pairs (1)."""
MIN_POSITIVE = 30
"""With fewer positive pairs a measure says nothing."""
LIFT_POWER = 0.3
"""`balanced` ranks by the odds L of a high-lift pair, or by L to this power times the odds of a dependent pair to the
rest, whichever are larger."""
LIFT_WEIGHTS = (0.0, *special.expit(np.arange(-4.0, 6.5, 0.5)).round(3).tolist(), 1.0)
"""Weights of L there; the other odds weigh the rest. The ratio of the two rises in equal steps."""
POPULARITY = [list(RANKER_FEATURES).index(f"query_popularity{power}") for power in ("", "_x_query_popularity")]
"""The features that calibrate odds."""
CALIBRATION_RIDGE = 1.0
"""Hardly any: few weights, and all pairs to fit them on."""
MIN_GAIN = 0.02
"""Log-gains over the best statistic are shares of the largest one that a rich ranking attains, or of this."""
ABOUT_EQUAL = 0.1
"""Of odds whose shares differ less, those with the smallest lift weight rank: held-out baskets hold few pairs that are
only just dependent, so they show little of what a larger weight costs by calibrated labels."""
RESAMPLES = 300
CLEARLY = 0.95
"""The share of the resamples that a ranking must win over a simpler one."""
Z_95 = 1.959964
NAN = float("nan")
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class OddsRanker:
    """log-odds = level + features . weights, in the order of RANKER_FEATURES."""

    level: float
    weights: Floats

    def log_odds(self, features: Floats) -> Floats:
        """Of pairs with these features, shape (pairs,)."""
        return np.clip(self.level + features @ self.weights, -MAX_LOG_ODDS, MAX_LOG_ODDS)

    def to_array(self) -> Floats:
        return np.concatenate([[self.level], self.weights])

    @classmethod
    def from_array(cls, values: Floats) -> OddsRanker:
        """Features that are younger than the array have the weight 0."""
        return cls(float(values[0]), np.pad(values[1:], (0, len(RANKER_FEATURES) + 1 - len(values))))

    @classmethod
    def alone(cls, feature: str) -> OddsRanker:
        """Ranks as one feature does."""
        return cls(0.0, (np.array(list(RANKER_FEATURES)) == feature).astype(np.float64))

    @classmethod
    def blend(cls, lift: OddsRanker, evidence: OddsRanker, lift_power: float) -> OddsRanker:
        """The weighted mean of two log-odds."""
        rest = 1.0 - lift_power
        level, weights = lift.level * lift_power, lift.weights * lift_power
        return cls(level + rest * evidence.level, weights + rest * evidence.weights)

    def calibrated(self, features: Floats, positive: Mask) -> OddsRanker:
        """The odds that such pairs are positive whatever the query's popularity; a query's pairs keep their order."""
        columns = np.column_stack([self.log_odds(features), features[:, POPULARITY]])
        found = logistic_ranker(columns, positive, ridge=CALIBRATION_RIDGE)
        factor = found.weights[0]
        if factor <= 0:  # too few pairs to tell
            return self
        weights = factor * self.weights
        weights[POPULARITY] += found.weights[1:]
        return OddsRanker(float(found.level + factor * self.level), weights)

    def times(self, factor: float) -> OddsRanker:
        """The odds times `factor`."""
        return OddsRanker(self.level + float(np.log(factor)), self.weights)


BY_LIFT = OddsRanker.alone("log_lift")
"""Ranks by the posterior lift."""


@dataclass(frozen=True)
class GoalRanking:
    """What the answers of one goal are ranked by."""

    name: str
    """`odds`, `posterior-lift`, or a statistic of the pair counts by the name of its model: `shrunk-lift`, `llr`."""
    rankers: tuple[OddsRanker, ...] = ()
    """The score is the largest of their odds."""
    k: float | None = None
    """Of `shrunk-lift`."""
    lift_weight: float | None = None
    """Of the odds of a high-lift pair, the first of two."""

    @classmethod
    def of_odds(cls, lift: OddsRanker, evidence: OddsRanker, lift_weight: float) -> GoalRanking:
        """The larger of two odds, each times its weight."""
        weighted = (lift, lift_weight), (evidence, 1.0 - lift_weight)
        rankers = tuple(ranker.times(weight) for ranker, weight in weighted if weight > 0)
        return cls("odds", rankers, lift_weight=lift_weight)

    def odds(self, features: Floats) -> Floats:
        """The score of pairs with these features, shape (pairs,)."""
        return np.asarray(np.exp(np.max([ranker.log_odds(features) for ranker in self.rankers], axis=0)))

    @property
    def title(self) -> str:
        if self.k is not None:
            return f"{self.name}, k = {self.k:g}"
        return self.name if self.lift_weight is None else f"{self.name}, lift weight {self.lift_weight:g}"

    def statistic(self, counts: PairCounts) -> CountModel:
        """The model of the statistic that ranks."""
        kind = STATISTIC_MODELS[self.name]
        model = kind(kind.Parameters.make(self.settings()))
        model.counts = counts
        return model

    def settings(self) -> dict[str, float]:
        """The parameters of the statistic."""
        return {} if self.k is None else {"k": self.k}

    def to_dict(self) -> dict[str, Any]:
        weights = {"weights": [named(RANKER_FEATURES, ranker.weights) for ranker in self.rankers]}
        numbers = {"k": self.k, "lift_weight": self.lift_weight}
        shown = {name: round(value, 6) for name, value in numbers.items() if value is not None}
        return {"ranks_by": self.name, **shown, **(weights if self.rankers else {})}


def named(names: Any, weights: Floats | None) -> dict[str, float]:
    """Weights by name."""
    return {} if weights is None else dict(zip(names, weights.round(6).tolist(), strict=True))


STATISTIC_MODELS: dict[str, type[CountModel]] = {kind.name: kind for kind in (Lift, ShrunkLift, LLR, Jaccard, PopCo)}
"""What may rank for a goal instead of odds."""
STATISTICS = (
    *(GoalRanking("shrunk-lift", k=k) for k in STRENGTHS),
    *(GoalRanking(name) for name in ("lift", "llr", "jaccard", "popco")),
)
"""The simple rankings; the weakest shrinkage first, which wins among equals."""


def statistic_models(counts: PairCounts) -> list[CountModel]:
    """Those of STATISTICS."""
    return [ranking.statistic(counts) for ranking in STATISTICS]


def statistic_scores(models: Iterable[CountModel], count: Any, query_total: Any, item_total: Any) -> Floats:
    """The scores of pairs by each model, shape (pairs, models)."""
    return np.stack([model._value(count, query_total, item_total) for model in models], axis=1)


@dataclass(frozen=True)
class RankingComparison:
    """Mean gains (hit + NDCG) of one ranking on held-out training baskets with 95 % intervals; NaN: not measured."""

    name: str
    """A statistic, or `bayes` with its goal."""
    lift_gain: float = NAN
    """By strong pairs, weighted by the root of their G^2."""
    lift_low: float = NAN
    lift_high: float = NAN
    evidence_gain: float = NAN
    """By pairs that are dependent beyond doubt, whatever their lift."""
    evidence_low: float = NAN
    evidence_high: float = NAN

    def to_dict(self) -> dict[str, Any]:
        numbers = {name: value for name, value in asdict(self).items() if name != "name"}
        return {"name": self.name, **{n: None if np.isnan(x) else round(x, 6) for n, x in numbers.items()}}


Gains = Mapping[GoalRanking, Floats]
"""The gains of rankings by both measures, (queries, 2)."""


@dataclass(frozen=True)
class Competition:
    """Rankings, measured on the same queries of each fold; none was fitted on the query and fold it is measured on."""

    pairs: npt.NDArray[np.int64]
    """How many pairs each measure counts, (2,)."""
    weight: Floats
    """Sums of their weights by query, (queries, 2)."""
    simple: Gains
    rich: Gains

    @classmethod
    def of(cls, pairs: RankerTrainingSet, *, posterior: bool) -> Competition:
        """Statistics and, with `posterior`, the posterior lift, the odds and their blends."""
        scores = zip(STATISTICS, pairs.statistics.T, strict=True)
        simple = {ranking: pairs.gains_by_query(score) for ranking, score in scores}
        weight = np.add.reduceat(pairs.weights, pairs.start[:-1], axis=0)
        return cls((pairs.weights > 0).sum(axis=0), weight, simple, _rich_gains(pairs) if posterior else {})

    def measured(self, goal: str) -> tuple[int, ...]:
        """The goal's measures that have enough positive pairs."""
        return tuple(measure for measure in MEASURES[goal] if self.pairs[measure] >= MIN_POSITIVE)

    def winner(self, goal: str, default: Callable[[str], GoalRanking]) -> GoalRanking:
        """The ranking for a goal: a rich one if it clearly beats all statistics, else the default unless another
        statistic clearly beats that where all measures of the goal have enough pairs.

        Of two measures the worse one counts: what is balanced has much of what is attainable by either.
        """
        measures, gains = list(self.measured(goal)), {**self.simple, **self.rich}
        if not measures:
            usual = default(goal)
            log.info("goal %s: too few positive pairs to compare rankings: ranking by %s", goal, usual.title)
            return usual
        totals = {ranking: self._resampled(gains[ranking][:, measures]) for ranking in gains}
        best = np.stack(
            [max((totals[one][:, m] for one in self.simple), key=lambda t: t[0]) for m in range(len(measures))], axis=1
        )

        def log_gains(ranking: GoalRanking) -> Floats:
            """Over the best statistic by each measure, of all queries and of each resample, (resamples, measures)."""
            return np.asarray(np.log(np.maximum(totals[ranking] / best, 1e-9)))

        groups = _by_preference(self.rich, goal)
        all_measured = len(measures) == len(MEASURES[goal])
        if not all_measured:
            # the prior was tuned on the pairs of the one measure that is left: what it gains there says nothing
            groups = [group for group in groups if group[0].name == "odds"]
        attained = np.max([np.full(len(measures), MIN_GAIN), *(log_gains(one)[0] for one in chain(*groups))], axis=0)

        def best_of(rankings: Iterable[GoalRanking], margin: float = 0.0) -> list[GoalRanking]:
            """Those that are not worse than the best by more than the margin."""
            shares = {ranking: (log_gains(ranking)[0] / attained).min() for ranking in rankings}
            return [ranking for ranking, share in shares.items() if share >= max(shares.values()) - margin]

        def beats(one: GoalRanking, other: GoalRanking) -> bool:
            difference = (log_gains(one) - log_gains(other)).sum(axis=1)
            return bool(difference[0] > 0 and (difference[1:] > 0).mean() >= CLEARLY)

        statistic = best_of(self.simple)[0]
        rich = chain.from_iterable(best_of(group, ABOUT_EQUAL) for group in groups)
        taken = next((found for found in rich if beats(found, statistic)), None)
        if taken is None:
            taken = statistic if all_measured and beats(statistic, default(goal)) else default(goal)
        means = [gains[one].sum(axis=0) / np.maximum(self.weight.sum(axis=0), 1e-9) for one in (taken, statistic)]
        log.info(
            "goal %s: ranking by %s; gain by lift %.4f, by evidence %.4f (%s: %.4f, %.4f)",
            *(goal, taken.title, *means[0], statistic.title, *means[1]),
        )
        return taken

    @cached_property
    def _resamples(self) -> Floats:
        """How often each query counts: once, then as drawn with replacement, (1 + RESAMPLES, queries)."""
        queries = len(self.weight)
        drawn = np.random.default_rng(0).poisson(1.0, (RESAMPLES, queries))
        return np.concatenate([np.ones((1, queries)), drawn])

    def _resampled(self, gains: Floats) -> Floats:
        """Sums over the queries, then over each resample of them, (1 + RESAMPLES, measures)."""
        return np.asarray(np.maximum(self._resamples @ gains, 1e-9))

    def comparison(self, rankings: dict[str, GoalRanking]) -> tuple[RankingComparison, ...]:
        """The goals, then the statistics, shrunk lift with its best k."""
        gains = {**self.simple, **self.rich}
        best = max((one for one in self.simple if one.k is not None), key=lambda one: gains[one].sum())
        shown = {f"bayes {goal}": ranking for goal, ranking in rankings.items()}
        shown |= {one.title: one for one in (best, *(one for one in self.simple if one.k is None))}
        return tuple(self._row(name, gains[ranking]) for name, ranking in shown.items())

    def _row(self, name: str, gains: Floats) -> RankingComparison:
        numbers: list[float] = []
        for measure in (0, 1):
            size = self.weight[:, measure]
            if self.pairs[measure] < MIN_POSITIVE:
                numbers += [NAN] * 3
                continue
            mean = float(gains[:, measure].sum() / size.sum())
            error = float(np.linalg.norm(gains[:, measure] - mean * size) / size.sum())
            numbers += [mean, mean - Z_95 * error, mean + Z_95 * error]
        return RankingComparison(name, *numbers)


def _by_preference(rich: Iterable[GoalRanking], goal: str) -> list[list[GoalRanking]]:
    """The odds that serve a goal, then the posterior lift.

    The two are not compared with each other: the prior was tuned on the very pairs that the first measure counts.
    """
    wanted = {"balanced": LIFT_WEIGHTS, "lift": (1.0,), "evidence": (None,)}[goal]
    odds = [one for one in rich if one.name == "odds" and one.lift_weight in wanted]
    others = [one for one in rich if one.name != "odds" and goal != "evidence"]
    return [group for group in (odds, others) if group]


def _rich_gains(pairs: RankerTrainingSet) -> Gains:
    """Of the posterior lift, and of odds that were fitted on the other half of the queries."""
    by_lift = {GoalRanking("posterior-lift"): pairs.gains_by_query(pairs.features[:, 0])}
    final, half = _fitted(pairs), np.arange(pairs.queries) % 2 == 0
    if final is None:
        return by_lift
    rankings = final.rankings()
    gains = np.zeros((len(rankings), pairs.queries, 2))
    for part in (half, ~half):
        fitted, test = _fitted(pairs.of_queries(part)) or final, pairs.of_queries(~part)
        for place, ranking in enumerate(fitted.rankings()):
            gains[place, ~part] = test.gains_by_query(ranking.odds(test.features))
    return by_lift | dict(zip(rankings, gains, strict=True))


class FittedOdds(NamedTuple):
    """Odds that were fitted on the same pairs."""

    lift: OddsRanker
    """Of a high-lift pair."""
    dependent: OddsRanker
    """Of a dependent pair."""
    blend: OddsRanker
    """Of a dependent pair, by a mean of both log-odds."""

    def rankings(self) -> list[GoalRanking]:
        """What `balanced` and `lift` may rank by, then what `evidence` may."""
        balanced = [GoalRanking.of_odds(self.lift, self.blend, weight) for weight in LIFT_WEIGHTS]
        return [*balanced, GoalRanking("odds", (self.dependent,))]


def _fitted(pairs: RankerTrainingSet) -> FittedOdds | None:
    """Fitted on queries with positive pairs, calibrated on all; with too few pairs of one kind the other stands in."""
    found: list[tuple[OddsRanker, Mask] | None] = []
    for positive, first in zip((pairs.positive, pairs.dependent), pairs.first.T, strict=True):
        asked = pairs.by_query(np.ones(positive.sum()), positive) > 0
        first = first & np.repeat(asked, np.diff(pairs.start))  # the other queries have no positive pair to tell apart
        enough = (positive & first).sum() >= MIN_POSITIVE / 2
        found.append((logistic_ranker(pairs.features[first], positive[first]), positive) if enough else None)
    one, other = found[0] or found[1], found[1] or found[0]
    if one is None or other is None:
        return None
    (lift, significant), (dependent, sure) = one, other
    blend = OddsRanker.blend(lift, dependent, LIFT_POWER)
    features = pairs.features
    return FittedOdds(lift.calibrated(features, significant), dependent, blend.calibrated(features, sure))


def logistic_ranker(features: Floats, positive: Mask, used: Mask | None = None, ridge: float = RIDGE) -> OddsRanker:
    """Ridge logistic regression on the features `used`, by default all; the others have the weight 0."""
    mean, spread = features.mean(axis=0), features.std(axis=0)
    used = (spread > 0) if used is None else used & (spread > 0)
    columns = (features[:, used] - mean[used]) / spread[used]
    target = positive.astype(np.float64)

    def loss(point: Floats) -> tuple[float, Floats]:
        margin = point[0] + columns @ point[1:]
        value = (np.logaddexp(0.0, margin) - target * margin).sum() + 0.5 * ridge * np.square(point[1:]).sum()
        error = special.expit(margin) - target
        return float(value), np.concatenate([[error.sum()], columns.T @ error + ridge * point[1:]])

    begin = np.zeros(1 + columns.shape[1])
    begin[0] = special.logit(np.clip(target.mean(), 1e-6, 1 - 1e-6))
    found = optimize.minimize(loss, begin, jac=True, method="L-BFGS-B", options={"ftol": 1e-10, "maxiter": 500}).x
    weights = np.zeros(len(mean))
    weights[used] = found[1:] / spread[used]
    return OddsRanker(float(found[0] - weights @ mean), weights)
