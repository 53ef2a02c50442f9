"""The lift prior: drawn lifts are covered within every range of counts, however pairs are picked by their counts."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from neatrec.statistics import (
    HalfCounts,
    LiftPrior,
    PairSample,
    fit_lift_prior,
    garwood_interval,
    largest_mean,
    poisson_tail,
    with_halves,
)
from neatrec.statistics.shrinkage import STANDS_OUT, lift_drift, unique_pairs

Floats = npt.NDArray[np.float64]
PAIRS = 1_000_000
COUNT_BINS = ((2, 4), (5, 9), (10, 29), (30, 10**6))


class Shop(NamedTuple):
    """All pairs of a shop."""

    lift: Floats
    expected: Floats
    times: Floats


@cache
def shop() -> Shop:
    """Most pairs near chance, one in twenty bought together several times as often; rare pairs have larger lifts."""
    rng = np.random.default_rng(1)
    expected = np.exp(rng.normal(-2.5, 2.0, PAIRS))
    together = rng.random(PAIRS) < 0.05
    centre = np.where(together, 1.5 - 0.2 * np.log(expected), 0.0)
    lift = np.exp(rng.normal(centre, np.where(together, 0.7, 0.3)))
    return Shop(lift, expected, rng.poisson(lift * expected).astype(np.float64))


def sample(largest_expected: Floats, made: Shop | None = None) -> PairSample:
    """Pairs kept by these limits; the pairs that could have been seen are a tenth of all."""
    _, expected, count = made or shop()
    kept = expected <= largest_expected[np.minimum(count.astype(int), len(largest_expected) - 1)]
    return PairSample(
        count[kept],
        expected[kept],
        expected[::10],
        np.full(len(expected[::10]), 10.0),
        largest_expected,
    )


EVERY_SEEN = np.array([-np.inf, np.inf])


@cache
def prior() -> LiftPrior:
    found = fit_lift_prior(sample(EVERY_SEEN))
    assert found is not None
    return found


def limits(p: float) -> Floats:
    """The largest expected count at which each count has a tail of at most p."""
    return largest_mean(np.arange(1024), p)


def coverage(fitted: LiftPrior, chosen: npt.NDArray[np.bool_]) -> list[float]:
    """The share of true lifts in their intervals, by COUNT_BINS."""
    lift, expected, count = shop()
    out = []
    for low, high in COUNT_BINS:
        part = chosen & (count >= low) & (count <= high)
        assert part.sum() > 200
        found = fitted.estimate(count[part], expected[part])
        out.append(float(((lift[part] >= found.low) & (lift[part] <= found.high)).mean()))
    return out


@pytest.mark.parametrize("p", [1.0, 1e-3, 1e-5])
def test_intervals_cover_the_true_lift_of_pairs_picked_by_their_counts(p: float) -> None:
    chosen = poisson_tail(shop().times, shop().expected) <= p
    assert coverage(prior(), chosen) == pytest.approx([0.95] * 4, abs=0.02)


def test_means_are_what_new_baskets_show() -> None:
    lift, expected, count = shop()
    for low, high in COUNT_BINS:
        part = (poisson_tail(count, expected) <= 1e-4) & (count >= low) & (count <= high)
        promised = (prior().estimate(count[part], expected[part]).lift * expected[part]).sum()
        assert promised == pytest.approx((lift * expected)[part].sum(), rel=0.05)


def test_pairs_that_were_not_kept_are_taken_into_account() -> None:
    """Labels keep pairs with small p-values only: the prior of these and of the number of the others is as good."""
    fitted = fit_lift_prior(sample(limits(1e-3)))
    assert fitted is not None
    assert coverage(fitted, poisson_tail(shop().times, shop().expected) <= 1e-4) == pytest.approx(
        [0.95] * 4, abs=0.025
    )


@cache
def halves(spread: float) -> tuple[PairSample, HalfCounts]:
    """Pairs and their counts in two halves; lifts differ between the halves by this spread of logs."""
    rng = np.random.default_rng(2)
    lift, expected, _ = shop()
    first, second = (
        rng.poisson(lift * np.exp(rng.normal(0, spread / np.sqrt(2), PAIRS)) * expected / 2).astype(
            np.float64
        )
        for _ in range(2)
    )
    kept = first + second >= 1
    pairs = sample(EVERY_SEEN, Shop(lift, expected, first + second))
    return pairs, HalfCounts(first[kept], second[kept], expected[kept], np.full(kept.sum(), 0.5))


def test_halves_that_agree_leave_the_prior_as_it_is() -> None:
    checked = with_halves(prior(), *halves(0.0), halves(0.0)[1])
    assert checked.dispersion == pytest.approx(np.ones(5), abs=0.15)
    assert checked.drift < 0.005
    assert checked.coverage == pytest.approx(0.95, abs=0.02)
    assert checked.describes_the_data


def test_a_drift_widens_intervals_so_that_the_next_period_is_covered() -> None:
    """The estimate stays where it is; without the drift the frequent pairs of the next period are not covered."""
    pairs, periods = halves(0.3)
    drifting = with_halves(prior(), *halves(0.0), None)
    stand_out = poisson_tail(pairs.count, pairs.expected) <= STANDS_OUT
    drifting = replace(drifting, drift=lift_drift(drifting, periods, stand_out))
    assert drifting.drift == pytest.approx(0.3**2, rel=0.2)
    often = np.flatnonzero((periods.first >= 30) & (periods.first + periods.second < 1_000))
    past = periods.first[often], periods.expected[often] / 2
    new = periods.second[often], periods.expected[often] / 2
    assert drifting.covers(*past, *new).mean() == pytest.approx(0.95, abs=0.02)
    assert drifting.covers(*past, *new, same_period=True).mean() < 0.85
    wide, narrow = drifting.estimate(*past), replace(drifting, drift=0.0).estimate(*past)
    np.testing.assert_array_equal(wide.lift, narrow.lift)
    assert (wide.low < narrow.low).all()
    assert (wide.high > narrow.high).all()
    factor = np.exp(1.96 * 0.3)  # at the least
    assert (wide.high / wide.lift > 0.95 * factor).all()


def test_a_prior_that_does_not_describe_the_data_falls_back_to_the_wider_interval() -> None:
    doubted = replace(prior(), coverage=0.8)
    count, expected = np.array([2.0, 40.0]), np.array([0.001, 4.0])
    found, (low, high) = doubted.estimate(count, expected), garwood_interval(count)
    assert (found.low <= np.minimum(low / expected, prior().estimate(count, expected).low)).all()
    assert (found.high >= np.maximum(high / expected, prior().estimate(count, expected).high)).all()


def test_a_wrong_prior_is_found_out() -> None:
    """One that was fitted to a shop where nothing goes together."""
    rng = np.random.default_rng(3)
    dull = Shop(np.ones(PAIRS), shop().expected, rng.poisson(shop().expected).astype(np.float64))
    fitted = fit_lift_prior(sample(EVERY_SEEN, dull))
    assert fitted is not None
    assert not with_halves(fitted, *halves(0.0), None).describes_the_data


def test_distinct_pairs_of_integers_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 50, 2_000).astype(np.float64), rng.integers(-30, 10, 2_000)
    rows, index = unique_pairs(one, other)
    wanted = np.unique(np.column_stack([one, other]), axis=0)
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(rows[index], np.column_stack([one, other]))
    far = np.array([3, 2**31 - 1, -5, 3], dtype=np.int32)  # too far apart for a flag each
    rows, index = unique_pairs(far, far)
    np.testing.assert_array_equal(rows[index], np.column_stack([far, far]))
    rows, index = unique_pairs(one[:0], other[:0])
    assert (rows.shape, index.shape) == ((0, 2), (0,))
