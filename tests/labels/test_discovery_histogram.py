"""The bound from a histogram changes no discovery of Benjamini and Hochberg, whatever the p-values."""

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neatrec.cooccurrence import CountOptions, PairBlock, count
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.cooccurrence.spark.engine import P_EDGES, p_histogram
from neatrec.labels.calibrated import SMALLEST_P, CalibratedTest
from neatrec.simulator import supermarket
from neatrec.statistics import benjamini_hochberg
from neatrec.statistics.discovery import largest_possible_discovery

P = st.floats(-9, 0).map(lambda power: 10.0**power) | st.sampled_from([1e-4, 1e-3, 1.0, SMALLEST_P, P_EDGES[9999]])


@given(st.lists(P, max_size=60), st.integers(0, 5000), st.sampled_from([0.001, 0.05, 0.3, 0.9]))
def test_the_p_values_up_to_the_bound_have_the_discoveries_of_all(values, unseen: int, rate: float) -> None:
    p, total = np.array(values), len(values) + unseen
    counts = p_histogram(p)
    assert counts.sum() == len(p)
    bound = largest_possible_discovery(P_EDGES, counts, rate, total)
    every, fetched = benjamini_hochberg(p, total), benjamini_hochberg(p[p <= bound], total)
    assert fetched.threshold(rate) == every.threshold(rate) <= bound
    found = every.q[p <= bound] <= rate
    np.testing.assert_array_equal(fetched.q[found], every.q[p <= bound][found])


def test_few_p_values_beyond_the_discoveries_are_fetched() -> None:
    p = np.concatenate([np.random.default_rng(0).uniform(size=10_000), np.geomspace(1e-12, 1e-6, 200)])
    bound = largest_possible_discovery(P_EDGES, p_histogram(p), 0.05, len(p))
    threshold = benjamini_hochberg(p).threshold(0.05)
    assert 0 < threshold <= bound < 1.1 * threshold
    assert largest_possible_discovery(P_EDGES, p_histogram(p[:100]), 1e-6, 10**9) == 0


def test_a_test_that_travels_gives_the_same_and_leaves_the_baskets_behind() -> None:
    baskets = supermarket(baskets=300, items=60).baskets
    pairs = count(baskets, CountOptions())
    test = CalibratedTest((0.05,), directed=True, fit=lambda margins: fit_expected(margins, "quasi", directed=True))
    block = PairBlock(pairs.query, pairs.item, pairs.count)
    here = test.p_of(block, pairs.margins)
    there = pickle.loads(pickle.dumps(test)).p_of(block, pairs.margins)  # a lambda that stayed would not be pickled
    np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(here, test.test(pairs).p)
