"""The posterior as numbers to be read: prior mean and strength fitted by the likelihood of counts not seen before.

Given C and E of one part of the baskets, a gamma prior of mean m worth k expected times together makes the count of
another part negative binomial with shape C + k m and mean E' (C + k m) / (E + k). The three numbers of m = exp(c0 + c1
log-prior) and k are those that make the other part's counts likeliest, over the pairs that would be recommended: the
winner's curse, that what ranks first did so by luck too, is paid for by fitting on winners.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

Floats = npt.NDArray[np.float64]

WINNERS = 50
"""Best-ranked items of each query that are fitted on."""
QUERIES = 300
BOUNDS = ((-5.0, 5.0), (0.0, 3.0), (float(np.log(0.05)), float(np.log(50.0))))
"""Of level, slope and log k: wide, so that few winners cannot make numbers without measure."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Winners:
    """Pairs that would be recommended by one part of the baskets, and their counts in another part."""

    count: Floats
    expected: Floats
    log_prior: Floats
    later_count: Floats
    later_expected: Floats

    @classmethod
    def joined(cls, parts: list[Winners]) -> Winners:
        names = ("count", "expected", "log_prior", "later_count", "later_expected")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True)
class Calibration:
    """The prior of a lift: mean exp(level + slope x log-prior), worth `k` expected times together."""

    level: float
    slope: float
    k: float

    def shape_and_rate(self, count: Any, expected: Any, log_prior: Any) -> tuple[Floats, Floats]:
        """Of the gamma posterior of the lift."""
        prior = np.exp(self.level + self.slope * np.asarray(log_prior, dtype=np.float64))
        return np.asarray(count + self.k * prior), np.asarray(np.asarray(expected, dtype=np.float64) + self.k)

    def to_array(self) -> Floats:
        return np.array([self.level, self.slope, self.k])

    @classmethod
    def from_array(cls, values: Floats) -> Calibration:
        return cls(*(float(value) for value in values))


UNLEARNED = Calibration(0.0, 0.0, 1.0)
"""Where there is nothing to learn from: a lift of 1, worth one expected time together."""


def calibrate(winners: Winners, *, signs: bool) -> Calibration:
    """The prior under which the winners' later counts are likeliest; without `signs` its mean is one for all pairs."""
    usable = winners.later_expected > 0
    if usable.sum() < 100:
        return UNLEARNED
    data = [getattr(winners, name)[usable] for name in ("count", "expected", "log_prior")]
    later, chance = winners.later_count[usable], winners.later_expected[usable]

    def unlikely(point: Floats) -> float:
        level, slope, log_k = point
        shape, rate = Calibration(level, slope * signs, float(np.exp(log_k))).shape_and_rate(*data)
        return -float(negative_binomial(later, shape, rate / (rate + chance)).mean())

    found = optimize.minimize(unlikely, np.array([0.0, 0.5 * signs, np.log(2.0)]), bounds=BOUNDS, method="L-BFGS-B")
    level, slope, log_k = (float(value) for value in found.x)
    # without signs the slope is of no use
    if reached := at_bounds(level, slope if signs else 1.0, log_k):
        log.info("the posterior's calibration ends at a bound of its %s (intervals, not the ranking)", reached)
    return Calibration(level, slope * signs, float(np.exp(log_k)))


def at_bounds(level: float, slope: float, log_k: float) -> str:
    """Which of the three numbers lie at one of their `BOUNDS`.

    >>> at_bounds(-5.0, 1.0, float(np.log(50.0)))
    'level and k'
    """
    numbers = zip(("level", "slope", "k"), (level, slope, log_k), BOUNDS, strict=True)
    return " and ".join(name for name, value, bounds in numbers if np.isclose(value, bounds, atol=1e-6).any())


def negative_binomial(count: Floats, shape: Floats, success: Floats) -> Floats:
    """log of Gamma(count + shape) / (Gamma(shape) count!) success^shape (1 - success)^count."""
    ways = special.gammaln(count + shape) - special.gammaln(shape) - special.gammaln(count + 1.0)
    return np.asarray(ways + shape * np.log(success) + special.xlog1py(count, -success))
