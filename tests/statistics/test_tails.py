"""Poisson tails and intervals: against scipy, and against exact arithmetic where they are tiny."""

from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neatrec.errors import ParameterError
from neatrec.statistics import (
    benjamini_hochberg,
    garwood_interval,
    largest_mean,
    poisson_log_tail,
    poisson_tail,
)

getcontext().prec = 60
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=40)


def exact_tail(count: int, mean: float) -> Decimal:
    """The sum of e^-m m^k / k! from `count` on, in sixty digits."""
    m = Decimal(mean)
    term = (-m).exp()
    for k in range(1, count + 1):
        term = term * m / k
    total, k = term, count
    while term > total * Decimal("1e-40"):
        k += 1
        term = term * m / k
        total += term
    return total


@pytest.mark.parametrize(
    ("count", "mean"), [(1, 1e-12), (5, 1e-3), (8, 0.003), (40, 0.5), (120, 1.0), (300, 120.0)]
)
def test_tiny_tails_are_exact(count, mean):
    wanted = exact_tail(count, mean)
    assert float(poisson_tail(count, mean)) == pytest.approx(float(wanted), rel=1e-11)
    assert float(poisson_log_tail(count, mean)) == pytest.approx(float(wanted.ln()), rel=1e-11)


@pytest.mark.parametrize(("count", "mean"), [(200, 0.01), (400, 1.0), (3_000, 600.0)])
def test_the_logarithm_goes_on_where_the_tail_underflows(count, mean):
    assert poisson_tail(count, mean) == 0
    assert float(poisson_log_tail(count, mean)) == pytest.approx(
        float(exact_tail(count, mean).ln()), rel=1e-11
    )


@given(st.integers(1, 5_000), st.floats(1e-9, 0.5))
def test_largest_mean_turns_the_tail_round(count, tail):
    assert poisson_tail(count, largest_mean(count, tail)) == pytest.approx(tail, rel=1e-6)


@given(st.integers(0, 3_000), st.floats(0.5, 0.999))
def test_garwoods_interval_is_the_chi_squared_one(count, confidence):
    low, high = garwood_interval(count, confidence)
    half = (1 - confidence) / 2
    assert low == pytest.approx(stats.chi2.ppf(half, 2 * count) / 2 if count else 0.0, rel=1e-8)
    assert high == pytest.approx(stats.chi2.isf(half, 2 * count + 2) / 2, rel=1e-8)
    with pytest.raises(ParameterError, match=r"`confidence` must be between 0 and 1, got 95"):
        garwood_interval([count], 95)


@given(P_VALUES, st.integers(0, 60))
def test_q_values_are_scipys_with_the_missing_tests_added(p, missing):
    wanted = stats.false_discovery_control(np.append(p, np.ones(missing)))[: len(p)]
    np.testing.assert_allclose(benjamini_hochberg(p, len(p) + missing), wanted, rtol=1e-12)


@given(P_VALUES)
def test_dropping_p_values_that_cannot_pass_changes_no_discovery(p):
    """With M tests and at most K discoveries, p above q K / M can be left out: labels rely on it."""
    total, rate = 2 * len(p), 0.2
    q = benjamini_hochberg(p, total)
    kept = np.array(p) <= rate * len(p) / total
    part = benjamini_hochberg(np.array(p)[kept], total)
    np.testing.assert_array_equal(part <= rate, q[kept] <= rate)
    np.testing.assert_allclose(part[part <= rate], q[kept][part <= rate])


@pytest.mark.parametrize(
    ("p", "total", "message"),
    [
        ([0.1, 0.2, 0.3], 2, "`total` must be at least the 3 p-values given, got 2"),
        *(([wrong], None, "`p` must hold probabilities") for wrong in (-0.1, 1.5, float("nan"))),
    ],
)
def test_a_wrong_p_value_or_total_is_refused(p, total, message):
    with pytest.raises(ParameterError, match=message):
        benjamini_hochberg(p, total)
    assert len(benjamini_hochberg([], total=10)) == 0
