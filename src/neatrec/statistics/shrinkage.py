"""One estimate with one interval of a pair's lift, corrected for the pair having been picked from millions of pairs.

The lifts of all pairs that could have been seen have a prior: a smooth density of the log-lift that changes smoothly
with the expected count E. A count is Poisson around lift x E. The prior is fitted by penalised maximum likelihood to
all pairs: to the counts that were kept, and to the number of pairs that were not, because they were seen too seldom.
A posterior given count and E holds for pairs picked by their counts, in whatever way: the mean is what new baskets will
show, and the interval needs no other correction. How much counts vary in fact is measured between two halves of the
customers (`count_dispersion`); count and E are divided by it. How much lifts change is measured between two periods
(`lift_drift`); the interval is widened by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.interpolate import BSpline

from neatrec.data.randomness import Seed, as_generator
from neatrec.statistics.blas import one_blas_thread
from neatrec.statistics.tails import garwood_interval, poisson_tail
from neatrec.statistics.types import Floats, Numbers, as_floats

LOWEST = -4.0
"""The smallest log-lift of the prior."""
GRID_STEP, KNOT_STEP, EXPECTED_KNOT_STEP = 0.1, 0.5, 3.0
"""Of the log-lifts at which the prior is integrated, of its splines in log-lift and in log E."""
LIFT_PENALTY, EXPECTED_PENALTY = 1.0, 10.0
"""On squared second differences of neighbouring splines in log-lift and in log E."""
CELL = 0.25
"""Pairs whose log E falls into one cell of this width are fitted with their mean E."""
EXACT_COUNTS, LOG_COUNT_STEP = 40, 0.05
"""Counts up to this are fitted as they are, larger ones in steps of their logarithm."""
ROUNDS, CONVERGED = 100, 0.02
"""Of Fisher scoring, and the gain in log-likelihood that is the last."""
MIN_PAIRS = 100
"""With fewer pairs a prior is not fitted, and with fewer in two halves it is not checked."""
POINTS, NEGLIGIBLE = 128, 40.0
"""Points at which a posterior is evaluated, and the loss in log-likelihood beyond which it is not."""
NODE = 0.1
"""Estimates are computed at multiples of this in log E and interpolated."""
BLOCK, FEW_NODES = 20_000, 2_000
"""Nodes that are computed at a time, and those of a call that is remembered."""
DISPERSION_COUNTS = (3.0, 7.0, 17.0, 50.0, 200.0)
"""The counts whose dispersion is measured, each from counts around it, and interpolated between."""
DISPERSION_EDGES = (2, 5, 10, 30, 100, np.inf)
DISPERSION_RANGE = (0.5, 50.0)
CHECKED_P, CHECKED_PAIRS = 1e-4, 5_000
"""The prior is checked on pairs that one half of the baskets shows with at most this p-value, at most so many."""
STANDS_OUT = 1e-3
"""Dispersion and drift are measured on pairs with at most this p-value, where there are enough: they are shown."""
SHARES = (0.05, 0.95)
"""... and whose expected share of the first half lies in this range: beyond it a purchase or two decide."""
DRIFT_COUNT, LARGEST_DRIFT = 10, 1.0
"""The drift is measured on pairs with at least this count; it is at most this."""
QUANTILE = float(special.ndtri(0.975))
CHECKED_COVERAGE = 0.90
"""Where a smaller share of the 95 % intervals comes true, the exact interval of the count widens them."""

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PairSample:
    """The pairs that were kept with their counts, and the pairs that could have been."""

    count: Floats
    expected: Floats
    possible_expected: Floats
    """Of a sample of all pairs that could have been seen, kept or not."""
    possible_weight: Floats
    """How many pairs each of the sample stands for."""
    largest_expected: Floats
    """A pair is kept if its E is at most `largest_expected[count]`, the last of them for larger counts; it rises."""


@dataclass(frozen=True)
class HalfCounts:
    """The counts of pairs in two parts of the baskets; arrays of one length."""

    first: Floats
    second: Floats
    expected: Floats
    """E of both together."""
    share: Floats
    """What part of it was expected in the first."""


@dataclass(frozen=True)
class LiftEstimate:
    """Lifts with their 95 % intervals: arrays of one length, NaN where nothing is known."""

    lift: Floats
    low: Floats
    high: Floats

    def within(self, overall: Floats, expected: Floats) -> LiftEstimate:
        """The lifts within strata of pairs that are estimated over all baskets: `overall` and `expected` are their E.

        Strata change what is expected by chance, not what will be seen.
        """
        ratio = np.divide(overall, expected, out=np.full(len(expected), np.nan), where=expected > 0)
        return LiftEstimate(self.lift * ratio, self.low * ratio, self.high * ratio)


@dataclass(frozen=True, eq=False)
class LiftPrior:
    """The density of log-lift, and how much counts vary."""

    coefficients: Floats
    """Of the log-density: shape (splines in log E, splines in log-lift)."""
    expected_range: tuple[float, float]
    """Of log E; beyond it the density is that of the nearest end."""
    dispersion: Floats
    """Variance over mean of counts at DISPERSION_COUNTS."""
    drift: float = 0.0
    """The variance of the difference of a pair's log-lifts in two periods; 0 where times are not known."""
    coverage: float = float("nan")
    """The share of 95 % intervals from one half of the baskets, or of the period, that the other half confirms, the
    smaller of both; NaN: not checked."""

    @property
    def describes_the_data(self) -> bool:
        """False where too few intervals came true: then the exact interval of the count is included."""
        return not self.coverage < CHECKED_COVERAGE

    @property
    def grid(self) -> Floats:
        """Log-lifts, shape (points,)."""
        return np.asarray(
            LOWEST + GRID_STEP * np.arange(round(self._width / GRID_STEP) + 1.0), dtype=np.float64
        )

    @property
    def _width(self) -> float:
        return KNOT_STEP * (len(self.coefficients[0]) - 3)

    def log_density(self, log_expected: Floats) -> Floats:
        """On the grid, for each expected count; shape (expected counts, points), up to a constant of each row."""
        by_expected = (
            _splines(log_expected, self.expected_range, self.coefficients.shape[0] - 3)
            @ self.coefficients
        )
        lifts = _splines(self.grid, (LOWEST, LOWEST + self._width), self.coefficients.shape[1] - 3)
        return np.asarray(by_expected @ lifts.T)

    def dispersion_of(self, count: Numbers) -> Floats:
        return np.asarray(
            np.interp(np.log(np.maximum(count, 1.0)), np.log(DISPERSION_COUNTS), self.dispersion)
        )

    def estimate(self, count: Numbers, expected: Numbers) -> LiftEstimate:
        """Posterior mean and central 95 % interval of each pair's lift; a count below 0 or an E of 0 is not known."""
        c, e = np.broadcast_arrays(as_floats(count), as_floats(expected))
        found = np.full((3, len(c)), np.nan)
        known = np.flatnonzero((c >= 0) & (e > 0))
        place = np.log(e[known]) / NODE
        below = np.floor(place).astype(np.int64)
        nodes, index = _unique_pairs(np.tile(c[known], 2), np.append(below, below + 1))
        if len(nodes) <= FEW_NODES:
            values = self._summaries_of_few(nodes)
        else:
            values = np.concatenate([self._summaries(part) for part in _blocks(nodes)])
        left, right = np.split(values[index], 2)
        logs = (left + (place - below)[:, None] * (right - left)).T
        for side, sign in ((1, -1), (2, 1)):
            width = np.maximum(sign * (logs[side] - logs[0]), 0.0)
            logs[side] = logs[0] + sign * np.hypot(width, QUANTILE * np.sqrt(self.drift))
        found[:, known] = np.exp(logs)
        if not self.describes_the_data:
            low, high = garwood_interval(np.maximum(c[known], 0))
            found[1, known] = np.minimum(found[1, known], low / e[known])
            found[2, known] = np.maximum(found[2, known], high / e[known])
        return LiftEstimate(*found)

    def _summaries(self, nodes: Floats) -> Floats:
        """Logarithms of mean, lower and upper end at nodes (count, multiple of NODE), shape (nodes, 3)."""
        at, weight = self._posterior(nodes[:, 0], nodes[:, 1] * NODE)
        mean = np.log((np.exp(at) * weight).sum(axis=1))
        return np.column_stack([mean, _quantile(at, weight, 0.025), _quantile(at, weight, 0.975)])

    @cached_property
    def _asked(self) -> dict[tuple[float, ...], Floats]:
        """Summaries of the nodes of calls for few pairs: a service asks for the same ones again and again."""
        return {}

    def _summaries_of_few(self, nodes: Floats) -> Floats:
        asked, keys = self._asked, [tuple(node) for node in nodes.tolist()]
        new = [place for place, key in enumerate(keys) if key not in asked]
        if new:
            asked.update(
                zip((keys[place] for place in new), self._summaries(nodes[new]), strict=True)
            )
        return np.array([asked[key] for key in keys]).reshape(-1, 3)

    def _posterior(
        self, count: Floats, log_expected: Floats, prior_at: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Log-lifts and their probabilities, each of shape (pairs, POINTS); `prior_at`: log E that the prior is for."""
        scale = self.dispersion_of(count)
        c, log_e = count / scale, log_expected - np.log(scale)
        low, high = _likely_means(c)
        first = np.clip(low - log_e, LOWEST, LOWEST + self._width - 1)
        last = np.clip(high - log_e, first + 0.5, LOWEST + self._width)
        at = first[:, None] + (last - first)[:, None] * np.linspace(0, 1, POINTS)
        place = np.minimum((at - LOWEST) / GRID_STEP, len(self.grid) - 1 - 1e-6)
        left = place.astype(np.int64)
        density = self.log_density(log_expected if prior_at is None else prior_at)
        ends = [np.take_along_axis(density, left + step, axis=1) for step in (0, 1)]
        mean = at + log_e[:, None]
        weight = ends[0] + (place - left) * (ends[1] - ends[0]) + c[:, None] * mean - np.exp(mean)
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
        """Whether each count of new baskets lies in the central 95 % of what the posterior predicts for it.

        The prediction has the posterior's uncertainty, the drift unless the new baskets are of the `same_period`, and
        the new count's own variation. A whole count is spread evenly over its probability, by random numbers, so that
        exactly 95 % lie inside if the prediction is right. `prior_at`: the expected counts that the prior is for, where
        `count` is of a part of the baskets.
        """
        drift = 0.0 if same_period else self.drift
        c, e, new, new_e = (as_floats(x) for x in (count, expected, new_count, new_expected))
        at_e = np.log(e if prior_at is None else as_floats(prior_at))
        draw = as_generator(rng).random(len(c))
        inside = np.zeros(len(c), dtype=bool)
        for part in _blocks(np.arange(len(c))):
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
        """What `from_dict` reads, and JSON holds."""
        return {
            "coefficients": self.coefficients.tolist(),
            "expected_range": list(self.expected_range),
            "dispersion": self.dispersion.tolist(),
            "drift": self.drift,
            "coverage": None if np.isnan(self.coverage) else self.coverage,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> LiftPrior:
        low, high = values["expected_range"]
        coverage = float("nan") if values["coverage"] is None else values["coverage"]
        coefficients, dispersion = np.array(values["coefficients"]), np.array(values["dispersion"])
        return cls(coefficients, (low, high), dispersion, values.get("drift", 0.0), coverage)


def exact_estimate(count: Numbers, expected: Numbers) -> LiftEstimate:
    """Count over E with Garwood's interval: where there is no prior. NaN for a count below 0 or an E of 0."""
    c, e = np.broadcast_arrays(as_floats(count), as_floats(expected))
    known = np.where((c >= 0) & (e > 0), e, np.nan)
    # counts are few distinct numbers: their limits are looked up
    distinct, place = np.unique(np.maximum(c, 0), return_inverse=True)
    low, high = (limit[place] for limit in garwood_interval(distinct))
    return LiftEstimate(c / known, low / known, high / known)


def estimate_lifts(prior: LiftPrior | None, count: Numbers, expected: Numbers) -> LiftEstimate:
    """The lifts of pairs over all baskets: under the prior, or as counted where there is none."""
    return (exact_estimate if prior is None else prior.estimate)(count, expected)


def fit_lift_prior(pairs: PairSample) -> LiftPrior | None:
    """The prior under which the counts of all pairs are likeliest; None with fewer than MIN_PAIRS kept."""
    cells = _cells(pairs)
    if cells is None:
        return None
    log_e = np.log(cells.expected)
    expected_range = float(log_e.min()) - 1e-6, float(log_e.max()) + 1e-6
    by_expected = _splines(
        log_e, expected_range, max(1, round(np.ptp(expected_range) / EXPECTED_KNOT_STEP))
    )
    highest = np.log((pairs.count + 1) / np.maximum(pairs.expected, cells.expected.min())).max() + 1
    knots = int(np.ceil((highest - LOWEST) / KNOT_STEP))
    prior = LiftPrior(
        np.zeros((by_expected.shape[1], knots + 3)), expected_range, np.ones(len(DISPERSION_COUNTS))
    )
    by_lift = _splines(prior.grid, (LOWEST, LOWEST + KNOT_STEP * knots), knots)
    with one_blas_thread():
        return replace(prior, coefficients=_scored(cells, prior.grid, by_expected, by_lift))


def count_dispersion(halves: HalfCounts, stand_out: npt.NDArray[np.bool_]) -> Floats:
    """Variance over mean of counts at DISPERSION_COUNTS, from how the counts of pairs divide between two halves.

    If counts are Poisson, that of the first half is binomial. Pairs that `stand_out` decide where there are enough.
    """
    count = halves.first + halves.second
    excess, variance = _binomial(halves)
    bin_of = np.digitize(count, DISPERSION_EDGES) - 1
    out, last = [], 1.0
    for k in range(len(DISPERSION_COUNTS)):
        among = (bin_of == k) & (variance > 0)
        for chosen in (among & stand_out, among):
            if np.count_nonzero(chosen) >= MIN_PAIRS:
                last = float((excess[chosen] / variance[chosen]).mean())
                break
        out.append(last)
    return np.clip(out, *DISPERSION_RANGE)


def lift_drift(prior: LiftPrior, periods: HalfCounts, stand_out: npt.NDArray[np.bool_]) -> float:
    """The variance of the difference of log-lifts in two periods: what counts vary more than between halves."""
    count = periods.first + periods.second
    excess, variance = _binomial(periods)
    chosen = (count >= DRIFT_COUNT) & (variance > 0) & stand_out
    if np.count_nonzero(chosen) < MIN_PAIRS:
        return 0.0
    # a difference d of the log-lifts adds (variance d)^2 to the squared excess
    more = (excess[chosen] / variance[chosen] - prior.dispersion_of(count[chosen])).sum()
    return float(np.clip(more / variance[chosen].sum(), 0.0, LARGEST_DRIFT))


def _binomial(halves: HalfCounts) -> tuple[Floats, Floats]:
    """The squared difference of the first count from its share, and the variance of a binomial; 0: not to be used."""
    count = halves.first + halves.second
    usable = (halves.share >= SHARES[0]) & (halves.share <= SHARES[1])
    variance = np.where(usable, count * halves.share * (1 - halves.share), 0.0)
    return (halves.first - halves.share * count) ** 2, variance


def with_halves(
    prior: LiftPrior, pairs: PairSample, halves: HalfCounts, periods: HalfCounts | None
) -> LiftPrior:
    """The prior with the dispersion of counts between halves of the customers, the drift of lifts between periods, and
    checked: what one half, or period, says against the other.
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
    """The share of intervals from the first half that the second confirms; NaN with too few pairs."""
    h, e, s = halves.first, halves.expected, halves.share
    # pairs that are kept whatever the other half says
    limit = pairs.largest_expected[np.minimum(h, len(pairs.largest_expected) - 1).astype(np.int64)]
    shown = (s > 0) & (s < 1) & (h >= 2) & (e > 0) & (pairs.expected <= limit)
    chosen = np.flatnonzero(shown)[poisson_tail(h[shown], (s * e)[shown]) <= CHECKED_P]
    if len(chosen) < MIN_PAIRS:
        return float("nan")
    chosen = chosen[:: len(chosen) // CHECKED_PAIRS + 1]
    h, e, s, other, whole = (x[chosen] for x in (h, e, s, halves.second, pairs.expected))
    return float(
        prior.covers(h, s * e, other, (1 - s) * e, prior_at=whole, same_period=same_period).mean()
    )


@dataclass(frozen=True)
class _Cells:
    """Pairs of one expected count and one count; arrays of one length."""

    expected: Floats
    count: Floats
    """-1: all counts below `least`."""
    least: Floats
    pairs: Floats


def _cells(pairs: PairSample) -> _Cells | None:
    kept = pairs.expected > 0
    count, expected = pairs.count[kept], pairs.expected[kept]
    some = pairs.possible_expected > 0
    possible, weight = pairs.possible_expected[some], pairs.possible_weight[some]
    if len(count) < MIN_PAIRS or not len(possible):
        return None
    place, all_places = (np.floor(np.log(e) / CELL).astype(np.int64) for e in (expected, possible))
    first = min(place.min(), all_places.min())
    place, all_places = place - first, all_places - first
    cells = int(max(place.max(), all_places.max())) + 1
    # in a cell all counts are kept that are kept at its largest E
    edge = np.exp((np.arange(cells) + first + 1) * CELL)
    least = np.searchsorted(pairs.largest_expected, edge).astype(np.float64)
    sums = np.bincount(place, expected, cells) + np.bincount(all_places, possible * weight, cells)
    number = np.bincount(place, minlength=cells) + np.bincount(all_places, weight, cells)
    mean = np.divide(sums, number, out=edge.copy(), where=number > 0)
    whole = count >= least[place]
    count, place = count[whole], place[whole]
    level = np.where(
        count <= EXACT_COUNTS,
        count,
        EXACT_COUNTS + np.round(np.log(np.maximum(count, 1) / EXACT_COUNTS) / LOG_COUNT_STEP),
    )
    seen, index = _unique_pairs(level, place)
    level, at, times = seen[:, 0], seen[:, 1].astype(np.int64), np.bincount(index)
    value = np.where(
        level <= EXACT_COUNTS, level, EXACT_COUNTS * np.exp((level - EXACT_COUNTS) * LOG_COUNT_STEP)
    )
    rest = np.bincount(all_places, weight, cells) - np.bincount(place, minlength=cells)
    others = np.flatnonzero((rest > 0) & (least > 0))
    cell = np.append(at, others)
    counts, numbers = np.append(value, np.full(len(others), -1.0)), np.append(times, rest[others])
    return _Cells(mean[cell], counts, least[cell], numbers)


def _scored(cells: _Cells, grid: Floats, by_expected: Floats, by_lift: Floats) -> Floats:
    """The coefficients that maximise the penalised likelihood, by Fisher scoring with damped steps."""
    shape = by_expected.shape[1], by_lift.shape[1]
    mean = cells.expected[:, None] * np.exp(grid)
    seen = np.maximum(cells.count, 0)[:, None]
    below = special.gammaincc(np.maximum(cells.least, 1)[:, None], mean)
    log_likelihood = np.where(
        cells.count[:, None] >= 0,
        special.xlogy(seen, mean) - mean - special.gammaln(seen + 1),
        np.log(np.maximum(below, 1e-300)),
    )
    rough = [np.diff(np.eye(size), 2, axis=0) for size in shape]
    penalty = EXPECTED_PENALTY * np.kron(rough[0].T @ rough[0], np.eye(shape[1]))
    penalty += LIFT_PENALTY * np.kron(np.eye(shape[0]), rough[1].T @ rough[1]) + 1e-6 * np.eye(
        len(penalty)
    )

    def evaluate(point: Floats) -> tuple[float, Floats, Floats]:
        """The loss, and the log-probabilities of prior and posterior of each cell."""
        prior = by_expected @ point.reshape(shape) @ by_lift.T
        prior -= special.logsumexp(prior, axis=1, keepdims=True)
        joint = prior + log_likelihood
        total = special.logsumexp(joint, axis=1, keepdims=True)
        return (
            float(0.5 * point @ penalty @ point - cells.pairs @ total[:, 0]),
            prior,
            joint - total,
        )

    # a wide bell around a lift of 1
    bell = np.linalg.lstsq(by_lift, -0.5 * (grid / 1.5) ** 2, rcond=None)[0]
    point, damping = np.tile(bell, shape[0]), 1.0
    loss, prior, posterior = evaluate(point)
    for _ in range(ROUNDS):
        scores = (np.exp(posterior) - np.exp(prior)) @ by_lift
        rows = (by_expected[:, :, None] * scores[:, None, :]).reshape(len(scores), -1)
        gradient = rows.T @ cells.pairs - penalty @ point
        fisher = (rows * cells.pairs[:, None]).T @ rows + penalty
        before = loss
        while damping < 1e9:
            moved = point + np.linalg.solve(fisher + damping * np.diag(np.diag(fisher)), gradient)
            loss, prior, posterior = evaluate(moved)
            if loss <= before:
                break
            damping *= 4
        else:
            break
        point, damping = moved, max(damping / 5, 1e-9)
        if before - loss < CONVERGED:
            break
    return point.reshape(shape)


def _splines(points: Floats, ends: tuple[float, float], intervals: int) -> Floats:
    """Cubic B-splines with equal knots, shape (points, intervals + 3); a point beyond the ends counts as the end."""
    low, high = ends
    width = (high - low) / intervals
    knots = low + width * np.arange(-3, intervals + 4)
    inside = np.clip(points, low, high - 1e-9 * width)
    return np.asarray(BSpline.design_matrix(inside, knots, 3).toarray())


def _likely_means(count: Floats) -> tuple[Floats, Floats]:
    """The logarithms of the Poisson means at which the likelihood of each count is e^-NEGLIGIBLE of the largest."""
    distinct, place = np.unique(count, return_inverse=True)
    c = np.maximum(distinct, 0.5)

    def root(near: Floats, far: Floats) -> Floats:
        for _ in range(50):
            middle = (near + far) / 2
            negligible = c * (middle - np.log(c)) - np.exp(middle) + c < -NEGLIGIBLE
            near, far = np.where(negligible, near, middle), np.where(negligible, middle, far)
        return far[place]

    top = np.log(c)
    return root(top, np.full(len(c), -100.0)), root(
        top, np.log(c + 3 * NEGLIGIBLE + 20 * np.sqrt(c))
    )


def _quantile(at: Floats, weight: Floats, share: float) -> Floats:
    """Where the distribution of each row reaches `share`, linear between points."""
    reached = np.cumsum(weight, axis=1) - weight / 2
    right = np.clip((reached < share).sum(axis=1), 1, at.shape[1] - 1)[:, None]
    x, y = (np.take_along_axis(values, right - 1, 1)[:, 0] for values in (reached, at))
    x_end, y_end = (np.take_along_axis(values, right, 1)[:, 0] for values in (reached, at))
    part = np.divide(share - x, x_end - x, out=np.zeros(len(x)), where=x_end > x)
    return np.asarray(y + np.clip(part, 0, 1) * (y_end - y))


def _unique_pairs(one: Floats, other: Codes) -> tuple[Floats, Codes]:
    """The distinct rows (one, other) of whole numbers, and where each row stands among them."""
    lowest = other.min(initial=0)
    width = other.max(initial=0) - lowest + 1
    keys, index = np.unique(one.astype(np.int64) * width + other - lowest, return_inverse=True)
    return np.column_stack([keys // width, keys % width + lowest]).astype(np.float64), index


def _blocks(rows: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    return [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
