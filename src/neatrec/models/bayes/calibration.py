"""The posterior as numbers to be read: prior mean and strength fitted by the likelihood of counts not seen before.

Given C and E of one part of the baskets, a gamma prior of mean m worth k expected times together makes the count of
another part negative binomial with shape C + k m and mean E' (C + k m) / (E + k). log m is a level plus slopes on what
is known of the pair besides its own count: the ranking's log-prior, and the two hints that tell most of what the odds
rank by, cosine and company. Level, slopes and k are those that make the other part's counts likeliest, over the pairs
that would be recommended: the winner's curse, that what ranks first did so by luck too, is paid for by fitting on
winners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

Floats = npt.NDArray[np.float64]

WINNERS = 50
"""Best-ranked items of each query that are fitted on."""
QUERIES = 300
SIGNS = ("slope", "cosine", "company")
"""What the prior mean of a posterior is made of, besides the level; `slope` is that of the ranking's log-prior."""
FARTHEST = 8.0
"""Prior log-lifts are cut off here."""


@dataclass(frozen=True)
class Winners:
    """Pairs that would be recommended by one part of the baskets, and their counts in another part."""

    count: Floats
    expected: Floats
    signs: Floats
    """What is known of each pair besides its count, shape (pairs, SIGNS)."""
    later_count: Floats
    later_expected: Floats

    @classmethod
    def joined(cls, parts: list[Winners]) -> Winners:
        names = ("count", "expected", "signs", "later_count", "later_expected")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True)
class Calibration:
    """The prior of a lift: mean exp(level + slopes . signs), worth `k` expected times together."""

    level: float
    slopes: tuple[float, ...]
    """In the order of `SIGNS`."""
    k: float

    def shape_and_rate(self, count: Any, expected: Any, signs: Floats) -> tuple[Floats, Floats]:
        """Of the gamma posterior of the lift."""
        log_mean = np.clip(self.level + signs @ np.array(self.slopes), -FARTHEST, FARTHEST)
        return np.asarray(count + self.k * np.exp(log_mean)), np.asarray(np.asarray(expected, dtype=float) + self.k)

    def to_dict(self) -> dict[str, float]:
        named = dict(zip(SIGNS, self.slopes, strict=True))
        return {name: round(value, 6) for name, value in {"level": self.level, **named, "k": self.k}.items()}

    def to_array(self) -> Floats:
        return np.array([self.level, *self.slopes, self.k])

    @classmethod
    def from_array(cls, values: Floats) -> Calibration:
        """Level, slopes and k; bundles made before cosine and company were signs have one slope."""
        level, *slopes, k = values.tolist()
        return cls(level, (*slopes, *[0.0] * (len(SIGNS) - len(slopes))), k)


UNLEARNED = Calibration(0.0, (0.0,) * len(SIGNS), 1.0)
"""Where there is nothing to learn from: a lift of 1, worth one expected time together."""


def calibrate(winners: Winners, *, signs: bool) -> Calibration:
    """The prior under which the winners' later counts are likeliest; without `signs` its mean is one for all pairs."""
    usable = winners.later_expected > 0
    if usable.sum() < 100:
        return UNLEARNED
    data = [getattr(winners, name)[usable] for name in ("count", "expected", "signs")]
    later, chance = winners.later_count[usable], winners.later_expected[usable]

    def at(point: Floats) -> Calibration:
        level, *slopes, log_k = point.tolist()
        return Calibration(level, tuple(slope * signs for slope in slopes), float(np.exp(log_k)))

    def unlikely(point: Floats) -> float:
        shape, rate = at(point).shape_and_rate(*data)
        return -float(negative_binomial(later, shape, rate / (rate + chance)).mean())

    bounds = [(-5.0, 5.0), *[(0.0, 3.0)] * len(SIGNS), (np.log(0.05), np.log(50.0))]
    start = np.array([0.0, *[0.5 * signs] * len(SIGNS), np.log(2.0)])
    return at(optimize.minimize(unlikely, start, bounds=bounds, method="L-BFGS-B").x)


def negative_binomial(count: Floats, shape: Floats, success: Floats) -> Floats:
    """log of Gamma(count + shape) / (Gamma(shape) count!) success^shape (1 - success)^count."""
    ways = special.gammaln(count + shape) - special.gammaln(shape) - special.gammaln(count + 1.0)
    return np.asarray(ways + shape * np.log(success) + special.xlog1py(count, -success))
