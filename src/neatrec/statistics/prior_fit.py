"""The fit of the prior of log-lifts, by penalised maximum likelihood over cells of pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from neatrec.memory import one_blas_thread
from neatrec.statistics.measures import Floats
from neatrec.statistics.shrinkage import (
    DISPERSION_COUNTS,
    KNOT_STEP,
    LOWEST,
    MIN_PAIRS,
    LiftPrior,
    PairSample,
    splines,
    unique_pairs,
)

EXPECTED_KNOT_STEP = 3.0
"""Distance of the splines in log E."""
LIFT_PENALTY, EXPECTED_PENALTY = 1.0, 10.0
"""On squared second differences of neighbouring splines in log-lift and in log E."""
CELL = 0.25
"""Width of the cells of log E: the pairs of a cell are fitted with their mean E."""
EXACT_COUNTS, LOG_COUNT_STEP = 40, 0.05
"""Counts up to the first are fitted as they are, larger ones in steps of their logarithm."""
ROUNDS, CONVERGED = 100, 0.02
"""Of Fisher scoring: the number of rounds, and the gain in log-likelihood that ends it."""


def fit_lift_prior(pairs: PairSample) -> LiftPrior | None:
    """Fit the prior to the counts of all pairs; None with fewer than MIN_PAIRS kept pairs."""
    cells = _cells(pairs)
    if cells is None:
        return None
    log_e = np.log(cells.expected)
    expected_range = float(log_e.min()) - 1e-6, float(log_e.max()) + 1e-6
    intervals = max(1, round(np.ptp(expected_range) / EXPECTED_KNOT_STEP))
    by_expected = splines(log_e, expected_range, intervals)
    highest = np.log((pairs.count + 1) / np.maximum(pairs.expected, cells.expected.min())).max() + 1
    knots = int(np.ceil((highest - LOWEST) / KNOT_STEP))
    flat = np.zeros((by_expected.shape[1], knots + 3))
    prior = LiftPrior(flat, expected_range, np.ones(len(DISPERSION_COUNTS)))
    by_lift = splines(prior.grid, (LOWEST, LOWEST + KNOT_STEP * knots), knots)
    with one_blas_thread():
        return replace(prior, coefficients=_scored(cells, prior.grid, by_expected, by_lift))


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
    usable = pairs.possible_expected > 0
    possible, weight = pairs.possible_expected[usable], pairs.possible_weight[usable]
    if len(count) < MIN_PAIRS or not len(possible):
        return None
    cell, all_cells = (np.floor(np.log(e) / CELL).astype(np.int64) for e in (expected, possible))
    first = min(cell.min(), all_cells.min())
    cell, all_cells = cell - first, all_cells - first
    cells = int(max(cell.max(), all_cells.max())) + 1
    # a cell uses the counts that are kept at its largest E
    edge = np.exp((np.arange(cells) + first + 1) * CELL)
    least = np.searchsorted(pairs.largest_expected, edge).astype(np.float64)
    sums = np.bincount(cell, expected, cells) + np.bincount(all_cells, possible * weight, cells)
    number = np.bincount(cell, minlength=cells) + np.bincount(all_cells, weight, cells)
    mean = np.divide(sums, number, out=edge.copy(), where=number > 0)
    usable = count >= least[cell]
    count, cell = count[usable], cell[usable]
    steps = np.round(np.log(np.maximum(count, 1) / EXACT_COUNTS) / LOG_COUNT_STEP)
    distinct, index = unique_pairs(
        np.where(count <= EXACT_COUNTS, count, EXACT_COUNTS + steps), cell
    )
    level, times = distinct[:, 0], np.bincount(index)
    large = EXACT_COUNTS * np.exp((level - EXACT_COUNTS) * LOG_COUNT_STEP)
    rest = np.bincount(all_cells, weight, cells) - np.bincount(cell, minlength=cells)
    others = np.flatnonzero((rest > 0) & (least > 0))
    cell = np.append(distinct[:, 1].astype(np.int64), others)
    counts = np.append(np.where(level <= EXACT_COUNTS, level, large), np.full(len(others), -1.0))
    return _Cells(mean[cell], counts, least[cell], np.append(times, rest[others]))


def _scored(cells: _Cells, grid: Floats, by_expected: Floats, by_lift: Floats) -> Floats:
    """Maximise the penalised likelihood by damped Fisher scoring; return the coefficients."""
    shape = by_expected.shape[1], by_lift.shape[1]
    seen = np.maximum(cells.count, 0)[:, None]
    log_mean = np.log(cells.expected)[:, None] + grid
    mean = np.exp(log_mean)
    log_likelihood = seen * log_mean - mean - special.gammaln(seen + 1)
    rest = cells.count < 0
    below = special.gammaincc(np.maximum(cells.least[rest], 1)[:, None], mean[rest])
    log_likelihood[rest] = np.log(np.maximum(below, 1e-300))
    rough = [np.diff(np.eye(size), 2, axis=0) for size in shape]
    penalty = EXPECTED_PENALTY * np.kron(rough[0].T @ rough[0], np.eye(shape[1]))
    ridge = 1e-6 * np.eye(len(penalty))
    penalty += LIFT_PENALTY * np.kron(np.eye(shape[0]), rough[1].T @ rough[1]) + ridge

    def evaluate(point: Floats) -> tuple[float, Floats, Floats]:
        """The loss, and the log-probabilities of prior and posterior of each cell."""
        prior = by_expected @ point.reshape(shape) @ by_lift.T
        prior -= special.logsumexp(prior, axis=1, keepdims=True)
        joint = prior + log_likelihood
        total = special.logsumexp(joint, axis=1, keepdims=True)
        loss = 0.5 * point @ penalty @ point - cells.pairs @ total[:, 0]
        return float(loss), prior, joint - total

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
