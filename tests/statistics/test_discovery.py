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
