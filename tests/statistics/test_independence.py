"""Quasi-independence: against a dense fit of the whole table, and where plain fitting would not arrive."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neatrec.errors import NeatrecError
from neatrec.statistics import possible_pairs, quasi_independence


def allowed_cells(category):
    """The (query, item) cells that can hold a record: different categories; an unknown one excludes only itself."""
    category = np.asarray(category)
    same = (category[:, None] == category[None, :]) & (category[:, None] >= 0)
    return ~(same | np.eye(len(category), dtype=bool))


def dense_fit(first, second, allowed, rounds=20_000):
    """Iterative proportional fitting of the whole table, cell by cell."""
    table = allowed.astype(float)
    for _ in range(rounds):
        table *= np.nan_to_num(np.asarray(first) / table.sum(1))[:, None]
        table *= np.nan_to_num(np.asarray(second) / table.sum(0))[None, :]
        if np.allclose(table.sum(1), first, rtol=0, atol=1e-11 * np.sum(first)):
            break
    return table


def fitted_table(first, second, category):
    fit = quasi_independence(first, second, np.asarray(category))
    codes = np.arange(len(category))
    table = fit.of(np.repeat(codes, len(codes)), np.tile(codes, len(codes))).reshape(len(codes), -1)
    return np.where(allowed_cells(category), table, 0.0)


@st.composite
def observed_tables(draw, least=0):
    items = draw(st.integers(2, 9))
    category = draw(hnp.arrays(np.int32, items, elements=st.integers(-1, 3)))
    counts = draw(hnp.arrays(np.int64, (items, items), elements=st.integers(least, 30)))
    return np.where(allowed_cells(category), counts, 0), category


@given(observed_tables(least=1))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_fit_is_that_of_the_whole_table(case):
    counts, category = case
    wanted = dense_fit(counts.sum(1), counts.sum(0), allowed_cells(category))
    got = fitted_table(counts.sum(1), counts.sum(0), category)
    np.testing.assert_allclose(got, wanted, atol=2e-6 * max(counts.sum(), 1))


@given(observed_tables())
def test_row_and_column_sums_are_the_observed_ones(case):
    counts, category = case
    table = fitted_table(counts.sum(1), counts.sum(0), category)
    np.testing.assert_allclose(table.sum(1), counts.sum(1), atol=1e-6 * max(counts.sum(), 1))
    np.testing.assert_allclose(table.sum(0), counts.sum(0), atol=1e-6 * max(counts.sum(), 1))


@pytest.mark.parametrize("outside", [0.0, 1e-9, 1e-4])
def test_one_item_in_nearly_every_pair_is_fitted_all_the_same(outside):
    """Each round of fitting gains ever less here: the solution is found directly."""
    others = np.array([3.0, 5.0, 2.0, 10.0])
    total = np.append(others.sum(), others)
    first, second = total.copy(), total.copy()
    first[1] += outside
    second[2] += outside
    table = fitted_table(first, second, np.full(5, -1))
    np.testing.assert_allclose(table.sum(1), first, rtol=1e-9)
    np.testing.assert_allclose(table[0, 1:], others, rtol=1e-2)
    assert table[1:, 1:].sum() == pytest.approx(outside, abs=1e-9)


def test_margins_that_no_table_has_are_refused():
    with pytest.raises(
        NeatrecError, match="expected counts did not converge: their margins are off by"
    ):
        quasi_independence([5, 1], [5, 1], np.array([0, 1]))


@given(observed_tables(), st.booleans())
def test_possible_pairs_are_those_of_items_seen(case, directed):
    counts, category = case
    counts = counts if directed else counts + counts.T
    first, second = counts.sum(1), counts.sum(0)
    cells = allowed_cells(category) & (first > 0)[:, None] & (second > 0)[None, :]
    wanted = cells.sum() if directed else np.triu(cells).sum()
    assert possible_pairs(first, second, category, directed=directed) == wanted
