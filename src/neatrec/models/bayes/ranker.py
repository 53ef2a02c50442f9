"""`OddsRanker`: the odds that new baskets show a pair as a significant high-lift pair, by which `bayes` ranks.

A lift states how much more often than by chance two items are bought together; whether new baskets show it beyond doubt
also depends on how often they are bought, on the order in the cart, and on how similar their partners are. A logistic
regression on held-out baskets weighs these features against the posterior lift.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from neatrec.models.bayes.features import RANKER_FEATURES
from neatrec.models.tuned_lift import MIN_STRONG_PAIRS

if TYPE_CHECKING:
    from neatrec.models.bayes.training_set import RankerTrainingSet

Floats = npt.NDArray[np.float64]

MAX_LOG_ODDS = 60.0
"""Log-odds are clipped here: further out float32 cannot tell them from 0."""
RIDGE = 50.0
"""Penalty per squared weight of a feature of standard deviation 1."""
MIN_GAIN = 0.5
"""Standard errors by which the ranker must beat a single feature."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OddsRanker:
    """log-odds = level + features . weights, in the order of RANKER_FEATURES."""

    level: float
    weights: Floats

    def to_array(self) -> Floats:
        return np.concatenate([[self.level], self.weights])

    @classmethod
    def from_array(cls, values: Floats) -> OddsRanker | None:
        """None for an empty array."""
        return cls(float(values[0]), values[1:]) if len(values) else None


@dataclass(frozen=True)
class RankerFit:
    """A ranker, and the mean gains of it and of the baseline feature on queries it was not fitted on."""

    ranker: OddsRanker | None = None
    """None: the baseline ranks."""
    gain: float = 0.0
    """0 where there were too few positive pairs."""
    baseline_gain: float = 0.0
    gain_error: float = 0.0
    """Standard errors of both gains, over queries."""
    baseline_error: float = 0.0


NOT_FITTED = RankerFit()


def fit_ranker(whole: RankerTrainingSet, used: Sequence[str], baseline: str, *, goal: str) -> RankerFit:
    """A ranker by the features `used` that beats the feature `baseline` on queries it was not fitted on."""
    if whole.positive.sum() < MIN_STRONG_PAIRS:
        return NOT_FITTED
    mask = np.array([name in used for name in RANKER_FEATURES])
    column = list(RANKER_FEATURES).index(baseline)
    half = np.arange(whole.queries) % 2 == 0
    gains, differences, by_query = [], [], []
    for fitted_on in (half, ~half):
        test = whole.of_queries(~fitted_on)
        ranker = logistic_ranker(whole.of_queries(fitted_on), mask)
        gain = np.stack([test.gains(test.features @ ranker.weights), test.gains(test.features[:, column])])
        gains.append(gain)
        differences.append(test.by_query(gain[0] - gain[1]))
        by_query.append([test.by_query(values) for values in (*gain, np.ones(gain.shape[1]))])
    with_ranker, with_baseline = (float(value) for value in np.concatenate(gains, axis=1).mean(axis=1))
    difference = np.concatenate(differences)
    of_ranker, of_baseline, size = np.concatenate(by_query, axis=1)
    errors = [
        float(np.linalg.norm(of - mean * size) / size.sum())
        for of, mean in ((of_ranker, with_ranker), (of_baseline, with_baseline))
    ]
    better = bool(difference.sum() > MIN_GAIN * np.sqrt(np.square(difference).sum()))
    log.info(
        "goal %s: gain of the odds on held-out queries %.4f, of %s %.4f: ranking by %s",
        *(goal, with_ranker, baseline, with_baseline, "odds" if better else baseline),
    )
    return RankerFit(logistic_ranker(whole, mask) if better else None, with_ranker, with_baseline, *errors)


def logistic_ranker(training: RankerTrainingSet, mask: npt.NDArray[np.bool_]) -> OddsRanker:
    """Ridge logistic regression on the features of `mask`; the others have the weight 0."""
    mean, spread = training.features.mean(axis=0), training.features.std(axis=0)
    used = mask & (spread > 0)
    columns = (training.features[:, used] - mean[used]) / spread[used]
    positive = training.positive.astype(np.float64)

    def loss(point: Floats) -> tuple[float, Floats]:
        margin = point[0] + columns @ point[1:]
        value = (np.logaddexp(0.0, margin) - positive * margin).sum() + 0.5 * RIDGE * np.square(point[1:]).sum()
        error = special.expit(margin) - positive
        return float(value), np.concatenate([[error.sum()], columns.T @ error + RIDGE * point[1:]])

    begin = np.zeros(1 + columns.shape[1])
    begin[0] = special.logit(np.clip(positive.mean(), 1e-6, 1 - 1e-6))
    found = optimize.minimize(loss, begin, jac=True, method="L-BFGS-B", options={"ftol": 1e-10, "maxiter": 500}).x
    weights = np.zeros(len(mask))
    weights[used] = found[1:] / spread[used]
    return OddsRanker(float(found[0] - weights @ mean), weights)
