"""Models of `bayes` whose weights are given, over the small shop: what tests of its screen share, on any device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from helpers.toyshop import toy_baskets
from neatrec.data.baskets import Baskets
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes
from neatrec.models.bayes.features import SIGNS
from neatrec.models.bayes.prior import Weights
from neatrec.models.bayes.ranker import HINTS, Ranking


def ranking_of(weights: np.ndarray) -> Ranking:
    return Ranking(float(weights[0]), weights[1:])


def toy_bayes(
    seed: int, *, ordered: bool = True, ranked: bool = True, name: str = "bayes", max_pairs: int = 10**8
) -> Bayes:
    """A model that has seen the small shop's baskets and has weights drawn by lot."""
    baskets: Baskets = replace(toy_baskets(), ordered=ordered)
    model = make_model(name, rank=6, min_pair_count=1, max_pairs=max_pairs).fit(baskets, Run(rng=0, threads=1))
    if not isinstance(model, Bayes):
        raise TypeError("`bayes` and `bayes-sure` have a screen")
    rng = np.random.default_rng(seed)
    weights = Weights(float(rng.uniform(0.5, 5)), float(rng.uniform() * ordered), rng.normal(0.3, 0.5, len(SIGNS)))
    drawn = rng.normal(0.5, 1.0, len(HINTS) + 2)
    model._take(
        replace(
            model.lessons,
            weights=weights,
            ranking=ranking_of(drawn[:-1]) if ranked else None,
            sure=ranking_of(drawn) if ranked else None,
        )
    )
    return model
