"""The posterior as numbers to read: prior mean and strength fitted by the likelihood of held-out counts.

Given C and E of one part of the baskets, a gamma prior of mean m worth k expected times together makes the count of
another part negative binomial with shape C + k m and mean E' (C + k m) / (E + k). Level and slope of m = exp(level +
slope x log-prior), and k, maximise the likelihood of the held-out counts of recommended pairs: fitting on those
corrects for the winner's curse.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

Floats = npt.NDArray[np.float64]

FIRST = 50
"""Best-ranked items per query that are fitted on."""
MAX_QUERIES = 300
MIN_PAIRS = 100
BOUNDS = ((-5.0, 5.0), (0.0, 3.0), (float(np.log(0.05)), float(np.log(50.0))))
"""Of level, slope and log k."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CalibrationPairs:
    """Recommended pairs of one part of the baskets, and their counts in the held-out part; each of shape (pairs,)."""

    count: Floats
    expected: Floats
    log_prior: Floats
    held_out_count: Floats
    held_out_expected: Floats

    @classmethod
    def joined(cls, parts: list[CalibrationPairs]) -> CalibrationPairs:
        return cls(*(np.concatenate(column) for column in zip(*(vars(part).values() for part in parts), strict=True)))


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


UNCALIBRATED = Calibration(0.0, 0.0, 1.0)
"""Where there is too little to fit on: a lift of 1, worth one expected time together."""


def calibrate(pairs: CalibrationPairs, *, sloped: bool) -> Calibration:
    """The prior under which the held-out counts are likeliest; unless `sloped`, one mean for all pairs."""
    usable = pairs.held_out_expected > 0
    if usable.sum() < MIN_PAIRS:
        return UNCALIBRATED
    known = [column[usable] for column in (pairs.count, pairs.expected, pairs.log_prior)]
    held_out, expected = pairs.held_out_count[usable], pairs.held_out_expected[usable]

    def loss(point: Floats) -> float:
        level, slope, log_k = point
        shape, rate = Calibration(level, slope * sloped, float(np.exp(log_k))).shape_and_rate(*known)
        return -float(negative_binomial(held_out, shape, rate / (rate + expected)).mean())

    found = optimize.minimize(loss, np.array([0.0, 0.5 * sloped, np.log(2.0)]), bounds=BOUNDS, method="L-BFGS-B")
    level, slope, log_k = (float(value) for value in found.x)
    ends = zip(("level", "slope", "k"), (level, slope if sloped else 1.0, log_k), BOUNDS, strict=True)
    if at_bounds := [name for name, value, bounds in ends if np.isclose(value, bounds, atol=1e-6).any()]:
        log.info("posterior calibration ends at a bound of %s (intervals, not the ranking)", " and ".join(at_bounds))
    return Calibration(level, slope * sloped, float(np.exp(log_k)))


def negative_binomial(count: Floats, shape: Floats, success: Floats) -> Floats:
    """log of Gamma(count + shape) / (Gamma(shape) count!) success^shape (1 - success)^count."""
    ways = special.gammaln(count + shape) - special.gammaln(shape) - special.gammaln(count + 1.0)
    return np.asarray(ways + shape * np.log(success) + special.xlog1py(count, -success))
