"""How `bayes` is fitted: the weights on folds of the training baskets, the counts on all of them.

Where times are known and the last fifth of the baskets holds enough strong pairs, it is held out: what shoppers buy
every week must not be its own test. Otherwise each random half is held out for the other. k is counted in expected
times together and features are logarithms of lifts, so weights mean the same for a fold as for all baskets.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets, MaskedShards, customers_return
from neatrec.data.randomness import children
from neatrec.data.splits import uniform_of_ids
from neatrec.models.bayes.cart import CartFit, fit_cart
from neatrec.models.bayes.counting import FeatureOptions
from neatrec.models.bayes.features import (
    PRIOR_FEATURES,
    CatalogFeatures,
    PairFeatures,
)
from neatrec.models.bayes.prior import Prior, tune_prior, tune_strength
from neatrec.models.bayes.ranker import GOALS, Competition, GoalRanking, OddsRanker, RankingComparison, named
from neatrec.models.bayes.training_set import (
    Fold,
    HeldOut,
    PairSampler,
    PriorTrainingSet,
    RankerTrainingSet,
)
from neatrec.models.counts import PairCounts
from neatrec.models.run import Run
from neatrec.models.tuned_lift import MIN_STRONG_PAIRS, before_the_last_fifth, strong_pairs, tune_k

MIN_HELD_OUT_PAIRS = 1_000
"""With fewer strong pairs in the last fifth, halves are the better folds."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FitSummary:
    """The fitted weights, and the gains on held-out strong pairs of queries they were not fitted on."""

    prior: Prior
    strong_pairs: int
    prior_gain: float = 0.0
    """Weighted hits and discounted gains under the prior; 0 with too few strong pairs."""
    shrunk_lift_gain: float = 0.0
    """The same of shrunk lift, its strength tuned the same way."""
    rankings: Mapping[str, GoalRanking] = field(default_factory=dict)
    """By goal."""
    comparison: tuple[RankingComparison, ...] = ()
    """The goals beside simple statistics."""
    cart: CartFit | None = None
    """How carts of several items are ranked; None in bundles that do not have it: by the mean of scaled scores."""

    def to_dict(self) -> dict[str, Any]:
        prior = self.prior
        gains = {"bayes": self.prior_gain, "shrunk_lift": self.shrunk_lift_gain}
        return {
            "prior": "none: shrunk lift" if prior.weights is None else "features",
            "k": round(prior.k, 6),
            "near": round(prior.near, 6),
            "weights": named(PRIOR_FEATURES, prior.weights),
            "strong_pairs": self.strong_pairs,
            "validation": {n: round(x, 6) for n, x in gains.items() if self.strong_pairs >= MIN_STRONG_PAIRS},
            "goals": {goal: ranking.to_dict() for goal, ranking in self.rankings.items()},
            "comparison": [row.to_dict() for row in self.comparison],
            "cart": None if self.cart is None else self.cart.to_dict(),
        }

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        keys = ("name", "k", "lift_weight")
        goals = {goal: {key: getattr(ranking, key) for key in keys} for goal, ranking in self.rankings.items()}
        rankings = json.dumps({"goals": goals, "comparison": [asdict(row) for row in self.comparison]})
        rankers = {goal: [one.to_array() for one in ranking.rankers] for goal, ranking in self.rankings.items()}
        return {
            "prior": self.prior.to_array(),
            **{f"{goal}_ranker": np.stack(rows) for goal, rows in rankers.items() if rows},
            "fit_summary": np.array([self.strong_pairs, self.prior_gain, self.shrunk_lift_gain]),
            "rankings": np.frombuffer(rankings.encode(), dtype=np.uint8),
            **({} if self.cart is None else self.cart.to_arrays()),
        }

    @classmethod
    def from_arrays(cls, arrays: Any) -> FitSummary:
        strong, prior_gain, shrunk_lift_gain = arrays["fit_summary"].tolist()
        saved = json.loads(arrays["rankings"].tobytes())
        rows = {goal: np.atleast_2d(arrays.get(f"{goal}_ranker", np.zeros((0, 0)))) for goal in saved["goals"]}
        return cls(
            Prior.from_array(arrays["prior"]),
            int(strong),
            prior_gain=prior_gain,
            shrunk_lift_gain=shrunk_lift_gain,
            rankings={
                goal: GoalRanking(rankers=tuple(OddsRanker.from_array(row) for row in rows[goal]), **ranking)
                for goal, ranking in saved["goals"].items()
            },
            comparison=tuple(RankingComparison(**row) for row in saved["comparison"]),
            cart=CartFit.from_arrays(arrays),
        )


def fit_bayes(
    shards: Iterable[Baskets], parameters: Any, catalog: CatalogFeatures, run: Run
) -> tuple[PairFeatures, FitSummary]:
    """The features of all baskets, and the weights fitted on folds of them."""
    options = FeatureOptions(
        parameters.counting(),
        all(shard.ordered for shard in shards),
        parameters.rank,
        parameters.min_pair_count,
        parameters.max_pairs,
        run.threads,
        parameters.strata_names,
    )
    rngs = iter(children(run.rng, 12))

    def features_of(baskets: Iterable[Baskets], *, directed: bool = False) -> PairFeatures:
        return PairFeatures.of(baskets, catalog, options, next(rngs), directed=directed)

    def count(baskets: Iterable[Baskets]) -> PairCounts:
        return replace(options, ordered=False).count(baskets).counts

    category, min_lift = options.counting.category_of(next(iter(shards)).catalog), parameters.strong_lift
    folds = list(make_folds(shards, features_of, options, min_lift))
    summary = fit_prior(folds, PairSampler(category, next(rngs)), min_lift)
    training = RankerTrainingSet.of_folds(folds, summary.prior, PairSampler(category, next(rngs)), min_lift)
    folds.clear()  # with their counts, before baskets are counted again
    rankings, comparison = choose_rankings(training, summary.prior, lambda: tune_k(shards, count, min_lift, run)[0])
    features = features_of(shards)
    cart = fit_cart(shards, features.counts, category, next(rngs))
    return features, replace(summary, rankings=rankings, comparison=comparison, cart=cart)


def make_folds(
    shards: Iterable[Baskets],
    features_of: Callable[..., PairFeatures],
    options: FeatureOptions,
    min_lift: float,
) -> Iterator[Fold]:
    """One fold by time, or both halves."""
    earlier = before_the_last_fifth(shards)
    if earlier is not None:
        later = _part(shards, earlier, False)
        found = _held_out(later, options)
        if len(strong_pairs(found.counts, min_lift)[0]) >= MIN_HELD_OUT_PAIRS:
            held_out = _with_customers(found, later, options)  # before the features take their memory
            del found
            yield Fold(features_of(_part(shards, earlier, True)), held_out)
            return
        del found, later
    # halves of one period: where complements change, an earlier half says little about a later one
    # a hash and not the digits of the id: ids of a part may all be even
    half = [uniform_of_ids(shard.ids, "practice") < 0.5 for shard in shards]
    parts = [_part(shards, half, part) for part in (True, False)]
    found_of = [features_of(part, directed=True) for part in parts]
    for one, other in ((0, 1), (1, 0)):
        held_out = HeldOut(found_of[other].counts, found_of[other].directed)
        yield Fold(found_of[one], _with_customers(held_out, parts[other], options))


def _held_out(shards: Iterable[Baskets], options: FeatureOptions) -> HeldOut:
    """Later baskets stand for the future: each counts one."""
    found = replace(options, counting=replace(options.counting, half_life=None)).count(shards)
    return HeldOut(found.counts, found.directed)


def _with_customers(held_out: HeldOut, shards: Iterable[Baskets], options: FeatureOptions) -> HeldOut:
    """With the counts per customer, where customers return."""
    if options.counting.once_per_customer or not customers_return(shards):
        return held_out
    once = replace(options, counting=replace(options.counting, once_per_customer=True))
    return held_out._replace(once=_held_out(shards, once).repeated())


def _part(shards: Iterable[Baskets], masks: list[npt.NDArray[np.bool_]], which: bool) -> MaskedShards:
    return MaskedShards(shards, [mask == which for mask in masks])


def fit_prior(folds: Sequence[Fold], pairs: PairSampler, min_lift: float) -> FitSummary:
    """The prior, or shrunk lift where the prior does not beat it on queries that neither was tuned on."""
    training = PriorTrainingSet.of_folds(folds, pairs, min_lift)
    strong = 0 if training is None else int(training.positive.sum())
    if training is None or strong < MIN_STRONG_PAIRS:
        log.info("only %d strong pairs in the validation baskets: no prior is fitted, statistics rank", strong)
        return FitSummary(Prior(1.0), strong)
    available, near = folds[0].features.available, folds[0].features.near is not None
    half, gained = np.arange(training.queries) % 2 == 0, np.zeros(2)
    for tuned_on in (half, ~half):
        part, test = training.of_queries(tuned_on), training.of_queries(~tuned_on)
        weight = test.weight[test.positive].sum() / training.weight[training.positive].sum()
        gained += [
            weight * test.value(prior) for prior in (tune_prior(part, available, near=near), tune_strength(part))
        ]
    with_prior, without = (float(gain) for gain in gained)
    log.info("strong pairs: %d, gain with the prior %.4f, shrunk lift %.4f", strong, with_prior, without)
    if with_prior > without:
        prior = tune_prior(training, available, near=near)
    else:
        log.info("priors do not help on validation baskets: statistics rank")
        prior = tune_strength(training)
    return FitSummary(prior, strong, with_prior, without)


def choose_rankings(
    pairs: RankerTrainingSet | None, prior: Prior, tuned_k: Callable[[], float]
) -> tuple[dict[str, GoalRanking], tuple[RankingComparison, ...]]:
    """The winner of each goal; by default `shrunk-lift-tuned` ranks, and G^2 for evidence."""

    tuned_once = cache(tuned_k)

    def default(goal: str) -> GoalRanking:
        return GoalRanking("llr") if goal == "evidence" else GoalRanking("shrunk-lift", k=tuned_once())

    if pairs is None:
        log.info("no positive pairs in the held-out baskets: the default rankings are taken")
        return {goal: default(goal) for goal in GOALS}, ()
    competition = Competition.of(pairs, posterior=prior.weights is not None)
    rankings = {goal: competition.winner(goal, default) for goal in GOALS}
    return rankings, competition.comparison(rankings)
