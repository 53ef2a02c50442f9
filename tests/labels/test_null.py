"""The shuffle null: labels that chance alone makes."""

import numpy as np
import pytest
from scipy import stats

from helpers.label_reference import both_ways, expected_plainly, paper_plainly, records_plainly
from neatrec.data import Baskets
from neatrec.errors import ParameterError
from neatrec.labels import make_labels, shuffle_null, shuffled


def noisy_shop(ordered: bool = True) -> Baskets:
    """Buns and sausages go together, the rest is chance."""
    rng = np.random.default_rng(8)
    contents = []
    for _ in range(600):
        basket = [f"i{i}" for i in rng.choice(12, rng.integers(2, 5), replace=False)]
        contents.append(basket + (["bun", "sausage"] if rng.random() < 0.1 else []))
    return Baskets.from_lists(contents, ordered=ordered)


@pytest.mark.parametrize("ordered", [True, False])
def test_paper_labels_by_chance_are_the_protocol_on_shuffled_baskets(ordered):
    baskets = noisy_shop(ordered)
    labels = make_labels(baskets, protocol="paper", levels=(0.2, 0.05), min_basket=2)
    null = shuffle_null(baskets, labels, 2, seed=5, within="size")
    for round_ in range(2):
        permuted = shuffled(baskets, 5, round_, "size")
        for level in labels.levels:
            wanted = len(paper_plainly(permuted, level, 2))
            assert null.labels[level][round_] == null.rerun[level][round_] == wanted


@pytest.mark.parametrize("ordered", [True, False])
def test_calibrated_labels_by_chance_pass_the_real_threshold_with_expected_counts_of_their_own(
    ordered,
):
    baskets = noisy_shop(ordered)
    labels = make_labels(baskets, levels=(0.9, 0.05), min_basket=2)
    null = shuffle_null(baskets, labels, 2)
    for round_ in range(2):
        permuted = shuffled(baskets, 0, round_)
        seen = records_plainly(permuted, 2)
        expected = expected_plainly(seen, permuted, "quasi")
        for level in labels.levels:
            passing = {
                x
                for x, n in seen.items()
                if stats.poisson.sf(n - 1, expected[x]) <= labels.thresholds[level]
            }
            assert null.labels[level][round_] == len(both_ways(passing, ordered))
    assert max(null.rerun[0.05]) == 0


def test_without_real_labels_there_is_no_rate():
    baskets = Baskets.from_lists([["a", "b"], ["c", "b"]])
    null = shuffle_null(baskets, make_labels(baskets, min_basket=2), 1)
    assert np.isnan(null.fdr[0.05])
    assert null.to_json()["fdr"]["0.05"] is None


@pytest.mark.parametrize("rounds", [0, -1, 1.5, True])
def test_wrong_rounds_and_labels_of_other_baskets_are_refused(rounds):
    baskets = noisy_shop()
    labels = make_labels(baskets, min_basket=2)
    with pytest.raises(ParameterError, match="`rounds` must be an integer of at least 1"):
        shuffle_null(baskets, labels, rounds)
    with pytest.raises(ParameterError, match="`labels` must come from the shuffled baskets"):
        shuffle_null(baskets.select(np.arange(10)), labels, 1)
