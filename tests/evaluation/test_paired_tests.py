"""Sign-flip tests give the exact p-value where it can be enumerated, and hold their level."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test

from neatrec.errors import ParameterError
from neatrec.evaluation import paired_tests as paired
from neatrec.evaluation.paired_tests import holm, sign_flip_p


def exact_p(differences: np.ndarray) -> float:
    observed = abs(differences.sum())
    sums = [abs(np.dot(signs, differences)) for signs in product([-1, 1], repeat=len(differences))]
    return float(np.mean([s >= observed - 1e-9 for s in sums]))


def p_of(differences: np.ndarray, flips: int) -> np.ndarray:
    """p-values of models that differ so from one whose totals are all 0."""
    columns = differences.shape[1]
    totals = np.column_stack([differences, np.zeros(len(differences))])
    return sign_flip_p(totals, [(column, columns) for column in range(columns)], flips=flips)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_p_is_the_share_of_sign_patterns_at_least_as_far_from_zero(differences: list[int]) -> None:
    column = np.array(differences, dtype=float)
    assert p_of(column[:, None], flips=20_000)[0] == pytest.approx(exact_p(column), abs=0.015)


def test_models_that_differ_by_next_to_nothing_in_large_totals_are_alike() -> None:
    """Only one query differs: with either sign the sum is as far from 0, whatever its last digits."""
    totals = np.random.default_rng(4).random((8_000, 2))
    totals[:, 1] = totals[:, 0]
    totals[17, 1] += 1e-6
    assert sign_flip_p(totals, [(0, 1)], flips=200).tolist() == [1.0]


def test_p_equals_scipys_paired_permutation_test() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.random(10) + 0.3, rng.random(10)
    theirs = permutation_test((one, other), lambda a, b: np.sum(a - b), permutation_type="samples", n_resamples=np.inf)
    totals = np.stack([other, one], axis=1)
    assert sign_flip_p(totals, [(1, 0)], flips=50_000)[0] == pytest.approx(theirs.pvalue, abs=0.01)


def test_pairs_of_models_are_tested_by_their_differences() -> None:
    totals = np.random.default_rng(7).random((30, 4))
    pairs = [(0, 1), (2, 0), (3, 1)]
    differences = np.stack([totals[:, a] - totals[:, b] for a, b in pairs], axis=1)
    assert sign_flip_p(totals, pairs, flips=400).tolist() == p_of(differences, 400).tolist()
    assert sign_flip_p(totals, [], flips=400).tolist() == []


def test_models_that_differ_nowhere_have_p_one() -> None:
    assert p_of(np.zeros((20, 2)), flips=100).tolist() == [1.0, 1.0]


def test_the_level_holds_when_models_are_alike() -> None:
    null = np.random.default_rng(5).normal(size=(60, 1_000))
    assert (p_of(null, flips=1_000) <= 0.05).mean() == pytest.approx(0.05, abs=0.02)


def test_the_observed_pattern_counts_so_that_p_is_never_zero() -> None:
    assert p_of(np.ones((200, 1)), flips=999)[0] == pytest.approx(1 / 1_000)


def test_blocks_do_not_change_the_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(2).normal(size=(40, 3)) + 0.1
    whole = p_of(differences, flips=500)
    monkeypatch.setattr(paired, "BLOCK_SIGNS", 1_000)
    assert p_of(differences, flips=500).tolist() == whole.tolist()


def test_no_flips_are_refused() -> None:
    with pytest.raises(ParameterError, match="`flips` must be at least 1, got 0"):
        p_of(np.zeros((2, 1)), flips=0)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_rejects_what_its_steps_reject(p: list[float]) -> None:
    adjusted = holm(p)
    order = sorted(range(len(p)), key=lambda i: p[i])
    largest = 0.0
    for step, i in enumerate(order):
        largest = max(largest, p[i] * (len(p) - step))
        assert adjusted[i] == pytest.approx(min(largest, 1.0))
