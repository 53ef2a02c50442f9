"""Association of two items from counts: against scipy, and at the edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neatrec.errors import ParameterError
from neatrec.statistics import (
    chi_squared,
    chi_squared_p,
    chi_squared_threshold,
    lift,
    shrunk_lift,
    signed_llr,
)

CELL = st.integers(0, 10_000)
TABLES = st.tuples(CELL, CELL, CELL, CELL).filter(
    lambda t: min(t[0] + t[1], t[2] + t[3], t[0] + t[2], t[1] + t[3]) > 0
)


def totals(table: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """count, query total, item total and records of the cells both, query only, item only, neither."""
    both, query_only, item_only, _neither = table
    return both, both + query_only, both + item_only, sum(table)


@given(TABLES)
def test_chi_squared_is_pearsons_without_correction(table):
    wanted = stats.chi2_contingency(np.reshape(table, (2, 2)), correction=False)
    value = chi_squared(*totals(table))
    assert value == pytest.approx(wanted.statistic, rel=1e-9, abs=1e-9)
    assert chi_squared_p(value) == pytest.approx(wanted.pvalue, rel=1e-6, abs=1e-300)


@given(TABLES)
def test_signed_llr_is_the_likelihood_ratio_with_the_sign_of_the_deviation(table):
    wanted = stats.chi2_contingency(
        np.reshape(table, (2, 2)), correction=False, lambda_="log-likelihood"
    )
    value = float(signed_llr(*totals(table)))
    assert abs(value) == pytest.approx(wanted.statistic, rel=1e-7, abs=1e-7)
    expected = totals(table)[1] * totals(table)[2] / sum(table)
    assert value == 0 or (value > 0) == (table[0] > expected)


def test_chi_squared_holds_where_the_cube_of_the_records_leaves_64_bits():
    count, query, item, records = 8.0, 12_000.0, 30_000.0, 9_945_426_000.0
    e = query * item / records
    by_cells = sum(
        (o - x) ** 2 / x
        for o, x in (
            (count, e),
            (query - count, query - e),
            (item - count, item - e),
            (records - query - item + count, (records - query) * (records - item) / records),
        )
    )
    assert chi_squared(8, 12_000, 30_000, 9_945_426_000) == pytest.approx(by_cells, rel=1e-9)


@pytest.mark.parametrize("margins", [(0, 0, 5, 10), (5, 10, 5, 10), (0, 0, 0, 0), (0, 3, 0, 3)])
def test_an_empty_or_full_margin_shows_nothing(margins):
    assert chi_squared(*margins) == 0
    assert signed_llr(*margins) == 0


def test_thresholds_are_the_printed_table_and_exact_elsewhere():
    assert [chi_squared_threshold(level) for level in (0.05, 0.01, 0.001)] == [3.84, 6.64, 10.83]
    assert chi_squared_threshold(0.02) == pytest.approx(stats.chi2.isf(0.02, 1), rel=1e-12)
    with pytest.raises(ParameterError, match="`level` must be between 0 and 1"):
        chi_squared_threshold(float("nan"))


def test_lift_is_count_over_expected_and_shrunk_to_zero_where_little_is_expected():
    assert lift([6, 0, 3, 0], [2.0, 3.0, 0.0, 0.0]).tolist() == [3.0, 0.0, np.inf, 0.0]
    assert shrunk_lift([4, 1], [1.0, 0.0], k=1).tolist() == [2.0, 1.0]
    assert shrunk_lift([4], [2.0], k=0).tolist() == lift([4], [2.0]).tolist()
    with pytest.raises(ParameterError, match="`k` must be at least 0, got -1"):
        shrunk_lift([1], [1.0], k=-1)
