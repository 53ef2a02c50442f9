"""Benjamini and Hochberg: against scipy, with the tests that were not given as p = 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neatrec.errors import ParameterError
from neatrec.statistics import benjamini_hochberg

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@given(P_VALUES, st.integers(0, 60))
def test_q_values_are_scipys_with_the_missing_tests_added(p, missing):
    wanted = stats.false_discovery_control(np.append(p, np.ones(missing)))[: len(p)]
    np.testing.assert_allclose(benjamini_hochberg(p, len(p) + missing).q, wanted, rtol=1e-12)


@given(P_VALUES, st.integers(0, 60), st.floats(0.001, 0.5))
def test_the_threshold_is_the_step_up_rule(p, missing, rate):
    total = len(p) + missing
    ranked = sorted(p)
    steps = [value for k, value in enumerate(ranked, 1) if value * (total / k) <= rate]
    found = benjamini_hochberg(p, total)
    assert found.threshold(rate) == (max(steps) if steps else 0.0)
    assert np.count_nonzero(found.q <= rate) == (sum(value <= max(steps) for value in p) if steps else 0)


@given(P_VALUES)
def test_dropping_p_values_that_cannot_pass_changes_no_discovery(p):
    """With M tests and at most K discoveries, p above q K / M can be left out: how labels are streamed."""
    total, rate = 2 * len(p), 0.2
    whole = benjamini_hochberg(p, total)
    kept = np.array(p) <= rate * len(p) / total
    part = benjamini_hochberg(np.array(p)[kept], total)
    assert part.threshold(rate) == whole.threshold(rate)
    found = whole.q[kept] <= rate
    np.testing.assert_allclose(part.q[found], whole.q[kept][found])


def test_no_p_values_make_no_discovery():
    assert benjamini_hochberg([], total=10).threshold(0.05) == 0.0


def test_total_must_not_be_less_than_what_is_given():
    with pytest.raises(ParameterError, match="`total` must be at least the 3 p-values given, got 2"):
        benjamini_hochberg([0.1, 0.2, 0.3], total=2)


@pytest.mark.parametrize("p", [[-0.1], [1.5], [float("nan")]])
def test_p_must_be_probabilities(p):
    with pytest.raises(ParameterError, match="`p` must hold probabilities"):
        benjamini_hochberg(p)


def test_the_rate_must_be_between_0_and_1():
    with pytest.raises(ParameterError, match=r"`rate` must be between 0 and 1, got 1\.0"):
        benjamini_hochberg([0.1]).threshold(1.0)
