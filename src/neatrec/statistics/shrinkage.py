"""Estimates and intervals of lifts, corrected for the selection of pairs from millions of pairs.

The lifts of all possible pairs have a prior: a smooth density of the log-lift that changes smoothly
with the expected count E. A count is Poisson around lift x E. The prior is fitted to all pairs: to
the kept counts, and to the number of pairs that were not kept because of small counts. A posterior
given count and E holds for pairs selected by their counts in any way: its mean predicts new
baskets, and its interval needs no other correction. The dispersion of counts is measured between
two halves of the customers (`count_dispersion`); count and E are divided by it. The change of lifts
is measured between two periods (`lift_drift`); it widens the interval.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.interpolate import BSpline

from neatrec.data.splits import Seed, as_generator
from neatrec.memory import blocks
from neatrec.statistics.measures import Floats, Numbers, as_floats, garwood_interval, poisson_tail

LOWEST = -4.0
"""The smallest log-lift of the prior."""
GRID_STEP, KNOT_STEP = 0.1, 0.5
"""Distance of the log-lifts at which the prior is integrated, and of its splines."""
MIN_PAIRS = 100
"""With fewer pairs a prior is not fitted, and with fewer in two halves it is not checked."""
POINTS, NEGLIGIBLE = 128, 40.0
"""Number of points of a posterior, and the loss in log-likelihood beyond which it is cut off."""
NODE = 0.1
"""Estimates are computed at multiples of this in log E and interpolated."""
BLOCK = 20_000
"""Nodes that are computed at a time."""
DISPERSION_COUNTS = (3.0, 7.0, 17.0, 50.0, 200.0)
"""Counts at which the dispersion is measured, each from counts around it; it is interpolated."""
DISPERSION_EDGES = (2, 5, 10, 30, 100, np.inf)
DISPERSION_RANGE = (0.5, 50.0)
CHECKED_P, CHECKED_PAIRS = 1e-4, 5_000
"""The check of the prior uses pairs with at most this p-value in one half, at most this many."""
STANDS_OUT = 1e-3
"""Dispersion and drift are measured on pairs with at most this p-value, if there are enough."""
SHARES = (0.05, 0.95)
"""Range of the expected share of the first half; beyond it single purchases decide."""
DRIFT_COUNT, LARGEST_DRIFT = 10, 1.0
"""The drift is measured on pairs with at least this count; it is at most this."""
QUANTILE = float(special.ndtri(0.975))
CHECKED_COVERAGE = 0.90
"""With a smaller coverage of the 95 % intervals, the exact interval of the count widens them."""

Codes = npt.NDArray[np.int64]
Integers = npt.NDArray[Any]  # whole numbers of any type


@dataclass(frozen=True)
class PairSample:
    """The kept pairs with their counts, and a sample of all possible pairs."""

    count: Floats
    expected: Floats
    possible_expected: Floats
    """E of the sampled pairs, kept or not."""
    possible_weight: Floats
    """Number of pairs that each sampled pair represents."""
    largest_expected: Floats
    """Rising; a pair is kept if its E is at most `largest_expected[count]`, or its last value."""


@dataclass(frozen=True)
class HalfCounts:
    """The counts of pairs in two parts of the baskets; arrays of one length."""

    first: Floats
    second: Floats
    expected: Floats
    """E of both together."""
    share: Floats
    """Share of E in the first part."""


@dataclass(frozen=True)
class LiftEstimate:
    """Lifts with their 95 % intervals: arrays of one length, NaN where unknown."""

    lift: Floats
    low: Floats
    high: Floats

    def within(self, overall: Floats, expected: Floats) -> LiftEstimate:
        """The lifts within strata, from E over all baskets (`overall`) and within strata.

        Strata change the expected count, not the prediction.
        """
        ratio = np.divide(overall, expected, out=np.full(len(expected), np.nan), where=expected > 0)
        return LiftEstimate(self.lift * ratio, self.low * ratio, self.high * ratio)


@dataclass(frozen=True, eq=False)
class LiftPrior:
    """The density of log-lift, and the dispersion of counts."""

    coefficients: Floats
    """Coefficients of the log-density, shape (splines in log E, splines in log-lift)."""
    expected_range: tuple[float, float]
    """Range of log E; beyond it the density is that of the nearest end."""
    dispersion: Floats
    """Variance over mean of counts at DISPERSION_COUNTS."""
    drift: float = 0.0
    """Variance of the difference of a pair's log-lifts in two periods; 0 without times."""
    coverage: float = float("nan")
    """Share of 95 % intervals from one half of the baskets, or of the period, that the other half
    confirms, the smaller of the two; NaN: not checked."""

    @property
    def describes_the_data(self) -> bool:
        """Whether enough intervals hold; if not, they include the exact interval of the count."""
        return not self.coverage < CHECKED_COVERAGE

    @property
    def grid(self) -> Floats:
        """Log-lifts, shape (points,)."""
        return np.asarray(LOWEST + GRID_STEP * np.arange(round(self._width / GRID_STEP) + 1.0))

    @property
    def _width(self) -> float:
        return KNOT_STEP * (len(self.coefficients[0]) - 3)

    def log_density(self, log_expected: Floats) -> Floats:
        """The log-density on the grid, (expected counts, points), up to a constant per row."""
        by_log_e, by_lift = (size - 3 for size in self.coefficients.shape)
        by_expected = splines(log_expected, self.expected_range, by_log_e) @ self.coefficients
        lifts = splines(self.grid, (LOWEST, LOWEST + self._width), by_lift)
        return np.asarray(by_expected @ lifts.T)

    def dispersion_of(self, count: Numbers) -> Floats:
        """Variance over mean of each count."""
        logs = np.log(np.maximum(count, 1.0))
        return np.asarray(np.interp(logs, np.log(DISPERSION_COUNTS), self.dispersion))

    def estimate(self, count: Numbers, expected: Numbers) -> LiftEstimate:
        """Posterior mean and central 95 % interval of each lift; NaN for count < 0 or E = 0."""
        c, e = np.broadcast_arrays(as_floats(count), as_floats(expected))
        found = np.full((3, len(c)), np.nan)
        known = np.flatnonzero((c >= 0) & (e > 0))
        scaled = np.log(e[known]) / NODE
        below = np.floor(scaled).astype(np.int64)
        cells, cell = unique_pairs(c[known], below)
        both = np.append(cells[:, 1], cells[:, 1] + 1)
        nodes, index = unique_pairs(np.tile(cells[:, 0], 2), both)
        parts = [self._summaries(nodes[part]) for part in blocks(len(nodes), BLOCK)]
        left, right = np.split(np.concatenate([*parts, np.zeros((0, 3))])[index], 2)
        step, rest = right - left, scaled - below
        mean, low, high = (left[cell, side] + rest * step[cell, side] for side in range(3))
        drift = QUANTILE * np.sqrt(self.drift)
        found[0, known] = np.exp(mean)
        found[1, known] = np.exp(mean - np.hypot(np.maximum(mean - low, 0.0), drift))
        found[2, known] = np.exp(mean + np.hypot(np.maximum(high - mean, 0.0), drift))
        if not self.describes_the_data:
            low, high = garwood_interval(np.maximum(c[known], 0))
            found[1, known] = np.minimum(found[1, known], low / e[known])
            found[2, known] = np.maximum(found[2, known], high / e[known])
        return LiftEstimate(*found)

    def _summaries(self, nodes: Floats) -> Floats:
        """Logarithms of mean, lower and upper end at nodes (count, multiple of NODE), 3 columns."""
        at, weight = self._posterior(nodes[:, 0], nodes[:, 1] * NODE)
        mean = np.log((np.exp(at) * weight).sum(axis=1))
        return np.column_stack([mean, _quantile(at, weight, 0.025), _quantile(at, weight, 0.975)])

    def _posterior(
        self, count: Floats, log_expected: Floats, prior_at: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Log-lifts and probabilities, (pairs, POINTS) each; `prior_at`: log E of the prior."""
        scale = self.dispersion_of(count)
        c, log_e = count / scale, log_expected - np.log(scale)
        low, high = _likely_means(c)
        first = np.clip(low - log_e, LOWEST, LOWEST + self._width - 1)
        last = np.clip(high - log_e, first + 0.5, LOWEST + self._width)
        at = first[:, None] + (last - first)[:, None] * np.linspace(0, 1, POINTS)
        on_grid = np.minimum((at - LOWEST) / GRID_STEP, len(self.grid) - 1 - 1e-6)
        left = on_grid.astype(np.int64)
        density = self.log_density(log_expected if prior_at is None else prior_at)
        ends = [np.take_along_axis(density, left + step, axis=1) for step in (0, 1)]
        mean = at + log_e[:, None]
        weight = ends[0] + (on_grid - left) * (ends[1] - ends[0]) + c[:, None] * mean - np.exp(mean)
        weight = np.exp(weight - weight.max(axis=1, keepdims=True))
        return at, weight / weight.sum(axis=1, keepdims=True)

    def covers(
        self,
        count: Numbers,
        expected: Numbers,
        new_count: Numbers,
        new_expected: Numbers,
        *,
        prior_at: Numbers | None = None,
        same_period: bool = False,
        rng: Seed = 0,
    ) -> npt.NDArray[np.bool_]:
        """Whether each new count lies in the central 95 % of its prediction.

        The prediction has the uncertainty of the posterior, the variation of the new count and,
        unless the new baskets are of the `same_period`, the drift. Random numbers spread a whole
        count evenly over its probability: exactly 95 % lie inside if the prediction is right.
        `prior_at`: the expected counts of the prior, if `count` comes from a part of the baskets.
        """
        drift = 0.0 if same_period else self.drift
        c, e, new, new_e = (as_floats(x) for x in (count, expected, new_count, new_expected))
        at_e = np.log(e if prior_at is None else as_floats(prior_at))
        draw = as_generator(rng).random(len(c))
        inside = np.zeros(len(c), dtype=bool)
        for part in blocks(len(c), BLOCK):
            at, weight = self._posterior(c[part], np.log(e[part]), at_e[part])
            mean = np.exp(at) * new_e[part, None]
            likely = (np.exp(at) * weight).sum(axis=1) * new_e[part]
            scale = (self.dispersion_of(likely) + drift * likely)[:, None]
            tails = (poisson_tail((new[part, None] + one) / scale, mean / scale) for one in (0, 1))
            at_least, more = ((tail * weight).sum(axis=1) for tail in tails)
            share = 1 - at_least + draw[part] * (at_least - more)
            inside[part] = (share >= 0.025) & (share <= 0.975)
        return inside

    def to_dict(self) -> dict[str, Any]:
        """The prior as JSON values."""
        return {
            "coefficients": self.coefficients.tolist(),
            "expected_range": list(self.expected_range),
            "dispersion": self.dispersion.tolist(),
            "drift": self.drift,
            "coverage": None if np.isnan(self.coverage) else self.coverage,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> LiftPrior:
        """The prior of `to_dict`."""
        low, high = values["expected_range"]
        coverage = float("nan") if values["coverage"] is None else values["coverage"]
        coefficients, dispersion = np.array(values["coefficients"]), np.array(values["dispersion"])
        return cls(coefficients, (low, high), dispersion, values["drift"], coverage)


def exact_estimate(count: Numbers, expected: Numbers) -> LiftEstimate:
    """Count over E with Garwood's interval, without a prior; NaN for a count below 0 or E = 0."""
    c, e = np.broadcast_arrays(as_floats(count), as_floats(expected))
    known = np.where((c >= 0) & (e > 0), e, np.nan)
    # counts have few distinct values: their limits are looked up
    distinct, index = np.unique(np.maximum(c, 0), return_inverse=True)
    low, high = (limit[index] for limit in garwood_interval(distinct))
    return LiftEstimate(c / known, low / known, high / known)


def estimate_lifts(prior: LiftPrior | None, count: Numbers, expected: Numbers) -> LiftEstimate:
    """The lifts over all baskets, under the prior or, without one, as counted."""
    return (exact_estimate if prior is None else prior.estimate)(count, expected)


def count_dispersion(halves: HalfCounts, stand_out: npt.NDArray[np.bool_]) -> Floats:
    """Variance over mean of counts at DISPERSION_COUNTS, from two halves of the baskets.

    If counts are Poisson, that of the first half is binomial. Pairs that `stand_out` decide if
    there are enough of them.
    """
    count = halves.first + halves.second
    excess, variance = _binomial(halves)
    bin_of = np.digitize(count, DISPERSION_EDGES) - 1
    out, last = [], 1.0
    for k in range(len(DISPERSION_COUNTS)):
        among = (bin_of == k) & (variance > 0)
        for selected in (among & stand_out, among):
            if np.count_nonzero(selected) >= MIN_PAIRS:
                last = float((excess[selected] / variance[selected]).mean())
                break
        out.append(last)
    return np.clip(out, *DISPERSION_RANGE)


def lift_drift(prior: LiftPrior, periods: HalfCounts, stand_out: npt.NDArray[np.bool_]) -> float:
    """Variance of the difference of log-lifts in two periods, beyond that between halves."""
    count = periods.first + periods.second
    excess, variance = _binomial(periods)
    selected = (count >= DRIFT_COUNT) & (variance > 0) & stand_out
    if np.count_nonzero(selected) < MIN_PAIRS:
        return 0.0
    # a difference d of the log-lifts adds (variance d)^2 to the squared excess
    more = (excess[selected] / variance[selected] - prior.dispersion_of(count[selected])).sum()
    return float(np.clip(more / variance[selected].sum(), 0.0, LARGEST_DRIFT))


def _binomial(halves: HalfCounts) -> tuple[Floats, Floats]:
    """Squared deviation of the first count from its share, and binomial variance (0: unusable)."""
    count = halves.first + halves.second
    usable = (halves.share >= SHARES[0]) & (halves.share <= SHARES[1])
    variance = np.where(usable, count * halves.share * (1 - halves.share), 0.0)
    return (halves.first - halves.share * count) ** 2, variance


def with_halves(
    prior: LiftPrior, pairs: PairSample, halves: HalfCounts, periods: HalfCounts | None
) -> LiftPrior:
    """Add the dispersion between halves, the drift between periods, and the coverage to the prior.

    The coverage is measured by predictions of one half, or period, from the other.
    """
    stand_out = poisson_tail(pairs.count, pairs.expected) <= STANDS_OUT
    prior = replace(prior, dispersion=count_dispersion(halves, stand_out))
    checks = [_confirmed(prior, pairs, halves, same_period=True)]
    if periods is not None:
        prior = replace(prior, drift=lift_drift(prior, periods, stand_out))
        checks.append(_confirmed(prior, pairs, periods, same_period=False))
    return replace(prior, coverage=float(np.fmin.reduce(checks)))


def _confirmed(
    prior: LiftPrior, pairs: PairSample, halves: HalfCounts, *, same_period: bool
) -> float:
    """Share of intervals from the first half that the second confirms; NaN with too few pairs."""
    h, e, s = halves.first, halves.expected, halves.share
    # pairs that are kept for any count in the other half
    limit = pairs.largest_expected[np.minimum(h, len(pairs.largest_expected) - 1).astype(np.int64)]
    shown = (s > 0) & (s < 1) & (h >= 2) & (e > 0) & (pairs.expected <= limit)
    rows = np.flatnonzero(shown)[poisson_tail(h[shown], (s * e)[shown]) <= CHECKED_P]
    if len(rows) < MIN_PAIRS:
        return float("nan")
    rows = rows[:: len(rows) // CHECKED_PAIRS + 1]
    h, e, s, other, overall = (x[rows] for x in (h, e, s, halves.second, pairs.expected))
    covered = prior.covers(h, s * e, other, (1 - s) * e, prior_at=overall, same_period=same_period)
    return float(covered.mean())


def splines(points: Floats, ends: tuple[float, float], intervals: int) -> Floats:
    """Cubic B-splines with equal knots, (points, intervals + 3); points are clipped to the ends."""
    low, high = ends
    width = (high - low) / intervals
    knots = low + width * np.arange(-3, intervals + 4)
    inside = np.clip(points, low, high - 1e-9 * width)
    return np.asarray(BSpline.design_matrix(inside, knots, 3).toarray())


def _likely_means(count: Floats) -> tuple[Floats, Floats]:
    """Logarithms of the Poisson means with e^-NEGLIGIBLE of the largest likelihood, either side."""
    distinct, index = np.unique(count, return_inverse=True)
    c = np.maximum(distinct, 0.5)

    def root(near: Floats, far: Floats) -> Floats:
        for _ in range(50):
            middle = (near + far) / 2
            negligible = c * (middle - np.log(c)) - np.exp(middle) + c < -NEGLIGIBLE
            near, far = np.where(negligible, near, middle), np.where(negligible, middle, far)
        return far[index]

    top, highest = np.log(c), np.log(c + 3 * NEGLIGIBLE + 20 * np.sqrt(c))
    return root(top, np.full(len(c), -100.0)), root(top, highest)


def _quantile(at: Floats, weight: Floats, share: float) -> Floats:
    """The point where the distribution of each row reaches `share`, linear between points."""
    reached = np.cumsum(weight, axis=1) - weight / 2
    right = np.clip((reached < share).sum(axis=1), 1, at.shape[1] - 1)[:, None]
    x, y = (np.take_along_axis(values, right - 1, 1)[:, 0] for values in (reached, at))
    x_end, y_end = (np.take_along_axis(values, right, 1)[:, 0] for values in (reached, at))
    part = np.divide(share - x, x_end - x, out=np.zeros(len(x)), where=x_end > x)
    return np.asarray(y + np.clip(part, 0, 1) * (y_end - y))


def unique_pairs(one: Integers, other: Integers) -> tuple[Floats, Codes]:
    """The distinct rows (one, other) of integers, and the index of each row among them."""
    (ones, first), (others, second) = _distinct(one), _distinct(other)
    cells, index = _distinct(first * np.int64(len(others)) + second)
    cell = cells.astype(np.int64)
    rows = ones[cell // len(others)], others[cell % len(others)]
    return np.column_stack(rows).astype(np.float64), index


def _distinct(values: Integers) -> tuple[Integers, Codes]:
    """The distinct integers, and the index of each value; those of a small range are not sorted."""
    codes = values.astype(np.int64)
    lowest = codes.min(initial=0)
    codes -= lowest
    if codes.max(initial=0) > 16 * len(codes) + 2**20:
        distinct, index = np.unique(codes, return_inverse=True)
        return distinct + lowest, index
    occurs = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.bool_)
    occurs[codes] = True
    return np.flatnonzero(occurs) + lowest, (np.cumsum(occurs) - 1)[codes]
