"""`Prior`: strength and mean of the gamma prior of a pair's lift, and how its weights are tuned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from neatrec.models.bayes.features import PRIOR_FEATURES
from neatrec.models.bayes.similarity import Vectors
from neatrec.models.parallel import parallel_slices
from neatrec.models.tuned_lift import STRENGTHS

if TYPE_CHECKING:
    from neatrec.models.bayes.training_set import PriorTrainingSet

Floats = npt.NDArray[np.float64]

MAX_LOG_PRIOR = 8.0
"""Prior log-lifts are clipped here: e^8 is 3,000 times as often as by chance."""
STEPS = (0.5, 0.25, 0.12)
NEAR_STEP = 0.4
"""The near share moves by this part of a step."""
PENALTY = 1e-4
"""Per squared weight: of two equally good priors the flatter one."""
WEAK_LEVEL = -1.5
"""The level of a prior that hardly counts."""
SIGNED = np.array([name in ("level", "item_popularity") for name in PRIOR_FEATURES])
"""Features whose weight may be negative; the others support a pair or stay silent."""


@dataclass(frozen=True)
class Prior:
    """A gamma prior of the lift with mean exp(features . weights), worth `k` expected times together.

    `near` is the share of C and E taken from near pairs. Without weights the prior mean is 0, and the posterior mean is
    shrunk lift, C / (E + k).
    """

    k: float
    near: float = 0.0
    weights: Floats | None = None
    """In the order of PRIOR_FEATURES."""

    def log_mean(self, features: Vectors) -> Vectors:
        """The log of the prior mean of pairs with these features, shape (pairs,)."""
        if self.weights is None:
            raise ValueError("shrunk lift has no prior mean")
        log_mean = features @ self.weights.astype(np.float32)
        return np.clip(log_mean, -MAX_LOG_PRIOR, MAX_LOG_PRIOR, out=log_mean)

    def posterior_mean(
        self, count: npt.NDArray[np.floating], expected: npt.NDArray[np.floating], features: Vectors
    ) -> npt.NDArray[np.floating]:
        """(C + k m) / (E + k), shape (pairs,)."""
        prior = 0.0 if self.weights is None else np.exp(self.log_mean(features))
        return np.asarray((count + self.k * prior) / (expected + self.k))

    def to_array(self) -> Floats:
        return np.concatenate([[self.k, self.near], np.zeros(0) if self.weights is None else self.weights])

    @classmethod
    def from_array(cls, values: Floats) -> Prior:
        return cls(float(values[0]), float(values[1]), values[2:] if len(values) > 2 else None)


INITIAL_PRIOR = Prior(2.0, 0.15, np.where(np.array(list(PRIOR_FEATURES)) == "level", 0.0, 0.3))
"""Where the search for weights begins."""


def tune_strength(training: PriorTrainingSet) -> Prior:
    """Shrunk lift with the best strength."""
    tried = [Prior(k) for k in STRENGTHS]
    return tried[int(np.argmax([training.value(prior) for prior in tried]))]


def tune_prior(training: PriorTrainingSet, available: npt.NDArray[np.bool_], *, near: bool) -> Prior:
    """The best weights, by a coordinate search with shrinking steps: the objective counts hits and has no gradient.

    The search begins twice: from moderate weights, and near shrunk lift with its best strength. Features that are not
    `available` keep the weight 0; without `near` the near share stays 0.
    """
    usable = np.concatenate([[True, near], available])
    begin = _point(INITIAL_PRIOR) * usable
    weak = begin.copy()
    weak[0], weak[2] = np.log(tune_strength(training).k), WEAK_LEVEL
    found: dict[int, tuple[float, Prior]] = {}

    def objective(point: Floats) -> float:
        return training.value(_prior_at(point)) - PENALTY * float(np.square(point[2:]).sum())

    def work(part: slice) -> None:
        for number in range(part.start, part.stop):
            found[number] = _coordinate_search(objective, (begin, weak)[number], np.flatnonzero(usable))

    parallel_slices(2, work)
    return max((found[0], found[1]), key=lambda end: end[0])[1]


def _coordinate_search(
    objective: Callable[[Floats], float], point: Floats, coordinates: npt.NDArray[np.int64]
) -> tuple[float, Prior]:
    """The value and the prior from which no further step along one of the coordinates improves."""
    best = objective(point)
    for step in STEPS:
        for _ in range(3):
            before = best
            for coordinate in coordinates.tolist():
                for move in (step, -step):
                    other = point.copy()
                    other[coordinate] += move * (NEAR_STEP if coordinate == 1 else 1.0)
                    other[1] = min(max(other[1], 0.0), 1.0)
                    other[2:] = np.where(SIGNED, other[2:], np.maximum(other[2:], 0.0))
                    value = objective(other)
                    if value > best:
                        point, best = other, value
                        break
            if best == before:
                break
    return best, _prior_at(point)


def _point(prior: Prior) -> Floats:
    """log k, near share, weights."""
    point = prior.to_array()
    point[0] = np.log(point[0])
    return point


def _prior_at(point: Floats) -> Prior:
    return Prior(float(np.exp(point[0])), float(point[1]), point[2:].copy())
