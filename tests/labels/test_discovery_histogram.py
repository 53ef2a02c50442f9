"""The cut from a histogram is Benjamini and Hochberg's, whatever the p-values."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neatrec.cooccurrence import CountOptions, PairBlock, count
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.labels.calibrated import CalibratedTest
from neatrec.simulator import supermarket
from neatrec.statistics import benjamini_hochberg
from neatrec.statistics.discovery import largest_discovery

P = st.floats(-9, 0).map(lambda power: 10.0**power) | st.sampled_from([1e-4, 1e-3, 1.0])


def binned(p: np.ndarray) -> dict[int, np.ndarray]:
    number = np.floor(-np.log10(p) * 8).astype(int)
    return {int(n): p[number == n] for n in np.unique(number)}


@given(st.lists(P, max_size=60), st.integers(0, 5000), st.sampled_from([0.001, 0.05, 0.3, 0.9]))
def test_the_cut_is_the_threshold_of_all_p_values(values: list[float], unseen: int, rate: float) -> None:
    p = np.array(values)
    groups = binned(p)
    fetched: list[int] = []

    def fetch(number: int) -> np.ndarray:
        fetched.append(number)
        return groups[number]

    bins = [(number, len(group), float(group.min())) for number, group in groups.items()]
    total = len(p) + unseen
    assert largest_discovery(bins, fetch, rate, total) == benjamini_hochberg(p, total).threshold(rate)
    assert len(fetched) == len(set(fetched))


def test_mostly_one_bin_is_fetched() -> None:
    p = np.concatenate([np.random.default_rng(0).uniform(size=10_000), np.geomspace(1e-12, 1e-6, 200)])
    groups, fetched = binned(p), []
    bins = [(number, len(group), float(group.min())) for number, group in groups.items()]
    assert largest_discovery(bins, lambda n: fetched.append(n) or groups[n], 0.05, len(p)) > 0
    assert len(fetched) <= 2


def test_a_test_that_travels_gives_the_same_and_leaves_the_baskets_behind() -> None:
    baskets = supermarket(baskets=300, items=60).baskets
    pairs = count(baskets, CountOptions())
    test = CalibratedTest((0.05,), directed=True, fit=lambda margins: fit_expected(margins, "quasi", directed=True))
    block = PairBlock(pairs.query, pairs.item, pairs.count)
    here = test.p_of(block, pairs.margins)
    there = pickle.loads(pickle.dumps(test)).p_of(block, pairs.margins)  # a lambda that stayed would not be pickled
    np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(here, test.test(pairs).p)
