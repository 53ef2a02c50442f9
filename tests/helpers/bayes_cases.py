"""Models of `bayes` over the small shop, and the slow reference of their scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from helpers.toyshop import toy_baskets, toy_catalog
from neatrec.data.baskets import Baskets
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes
from neatrec.models.bayes.counting import FeatureOptions
from neatrec.models.bayes.features import (
    PRIOR_FEATURES,
    RANKER_FEATURES,
    CatalogFeatures,
    PairFeatures,
)
from neatrec.models.bayes.prior import Prior
from neatrec.models.bayes.ranker import GOALS, GoalRanking, OddsRanker
from neatrec.models.counts import CountParameters

ITEMS = 22


def toy_features(*, ordered: bool = True, max_pairs: int | None = None) -> PairFeatures:
    options = FeatureOptions(CountParameters().counting(), ordered, rank=6, min_pair_count=1, max_pairs=max_pairs)
    baskets: Baskets = replace(toy_baskets(), ordered=ordered)
    return PairFeatures.of(baskets, CatalogFeatures.of(toy_catalog()), options, np.random.default_rng(0), directed=True)


def random_weights(seed: int, *, ordered: bool = True) -> tuple[Prior, OddsRanker]:
    rng = np.random.default_rng(seed)
    prior = Prior(float(rng.uniform(0.5, 5)), float(rng.uniform() * ordered), rng.normal(0.3, 0.5, len(PRIOR_FEATURES)))
    return prior, OddsRanker(float(rng.normal()), rng.normal(0.5, 1.0, len(RANKER_FEATURES)))


def toy_bayes(seed: int, **parameters: Any) -> Bayes:
    """A model fitted on the small shop, with random weights."""
    model = make_model("bayes", rank=6, min_pair_count=1, **parameters).fit(toy_baskets(), Run(rng=0, threads=1))
    if not isinstance(model, Bayes):
        raise TypeError(f"{model.name} is no model of bayes")
    prior, ranker = random_weights(seed)
    rankings = {goal: GoalRanking("odds", (ranker,)) for goal in GOALS}
    model._set_fit(model.features, replace(model.summary, prior=prior, rankings=rankings))
    return model


def reference_scores(
    features: PairFeatures, prior: Prior, ranker: OddsRanker | None, queries: np.ndarray, items: np.ndarray
) -> np.ndarray:
    """Scores of pairs by the features' definitions, in float64."""
    counted = features.count_and_expected(queries, items, prior.near)
    lift = prior.posterior_mean(*counted, features.prior_features(queries, items))
    if ranker is None:
        return np.asarray(lift)
    log_odds = ranker.level + features.ranker_features(queries, items, lift) @ ranker.weights
    return np.exp(np.clip(log_odds, -60.0, 60.0))
