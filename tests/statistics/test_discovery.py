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
    assert np.count_nonzero(found.q <= rate) == (
        sum(value <= max(steps) for value in p) if steps else 0
    )


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


@pytest.mark.parametrize(
    ("p", "total", "rate", "message"),
    [
        ([0.1, 0.2, 0.3], 2, 0.05, "`total` must be at least the 3 p-values given, got 2"),
        ([0.1], None, 1.0, r"`rate` must be between 0 and 1, got 1\.0"),
        *(
            ([wrong], None, 0.05, "`p` must hold probabilities")
            for wrong in (-0.1, 1.5, float("nan"))
        ),
    ],
)
def test_what_is_no_p_value_total_or_rate_is_refused(p, total, rate, message):
    with pytest.raises(ParameterError, match=message):
        benjamini_hochberg(p, total).threshold(rate)
    assert benjamini_hochberg([], total=10).threshold(0.05) == 0.0
