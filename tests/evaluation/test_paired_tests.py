"""Paired p-values agree with the intervals; Holm's correction rejects what its steps reject."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from neatrec.evaluation.intervals import Dyads, holm, paired_p


def test_p_is_that_of_the_normal_distribution() -> None:
    differences, errors = np.array([0.0, 0.01, -0.3, 0.2]), np.array([0.1, 0.01, 0.1, 0.001])
    assert paired_p(differences, errors) == pytest.approx(2 * norm.sf(np.abs(differences) / errors))


@given(st.floats(-0.5, 0.5), st.floats(1e-3, 1.0))
def test_p_is_below_five_percent_where_the_interval_leaves_out_zero(difference: float, error: float) -> None:
    low, high = Dyads.paired_interval(np.array([difference]), np.array([error]))
    outside = bool(low[0] > 0 or high[0] < 0)
    assert outside == bool(paired_p(difference, error) < 0.05)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_rejects_what_its_steps_reject(p: list[float]) -> None:
    adjusted = holm(p)
    order = sorted(range(len(p)), key=lambda i: p[i])
    largest = 0.0
    for step, i in enumerate(order):
        largest = max(largest, p[i] * (len(p) - step))
        assert adjusted[i] == pytest.approx(min(largest, 1.0))
