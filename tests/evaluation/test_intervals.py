"""Intervals resample queries, and seeds where there are several."""

from __future__ import annotations

import numpy as np
import pytest

from neatrec.errors import ParameterError
from neatrec.evaluation import intervals as bootstrap
from neatrec.evaluation.intervals import interval, resampled_means


def test_labels_of_one_query_are_drawn_together() -> None:
    """One of two queries holds all hits: half of the resamplings draw it once, a quarter never, a quarter twice."""
    means = resampled_means(np.array([[4.0], [0.0]]), [4, 4], rounds=4_000)[:, 0]
    values, times = np.unique(means, return_counts=True)
    assert values.tolist() == [0.0, 0.5, 1.0]
    assert times / 4_000 == pytest.approx([0.25, 0.5, 0.25], abs=0.03)


def test_the_mean_is_weighted_by_the_labels_drawn() -> None:
    means = np.unique(resampled_means(np.array([[1.0], [0.0]]), [1, 3], rounds=200))
    assert means.tolist() == [0.0, 0.25, 1.0]


def test_the_spread_is_that_of_theory() -> None:
    rng = np.random.default_rng(1)
    per_query = rng.normal(size=(400, 1))
    means = resampled_means(per_query, np.ones(400), rounds=3_000)
    assert means.std() == pytest.approx(per_query.std() / 20, rel=0.06)
    low, high = interval(means)
    assert high - low == pytest.approx(2 * 1.96 * per_query.std() / 20, rel=0.08)


def test_the_same_seed_draws_the_same_queries_for_every_column_and_call() -> None:
    totals = np.random.default_rng(0).random((50, 3))
    together = resampled_means(totals, np.ones(50), rounds=100, rng=7)
    alone = resampled_means(totals[:, 1:2], np.ones(50), rounds=100, rng=7)
    assert np.allclose(together[:, 1:2], alone)
    assert not np.allclose(alone, resampled_means(totals[:, 1:2], np.ones(50), rounds=100, rng=8))


def test_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = np.random.default_rng(0).random((30, 2))
    whole = resampled_means(totals, np.ones(30), rounds=50)
    monkeypatch.setattr(bootstrap, "BLOCK_WEIGHTS", 100)
    assert np.allclose(whole, resampled_means(totals, np.ones(30), rounds=50))


def test_training_seeds_add_their_own_spread() -> None:
    """Queries all alike: what is left is the spread between trainings."""
    by_seed = np.stack([np.full((100, 1), value) for value in (0.2, 0.4, 0.6)])
    means = resampled_means(by_seed, np.ones(100), rounds=2_000)
    # three seeds drawn with replacement: the variance of the mean is the population variance over 3
    assert means.std() == pytest.approx(np.std([0.2, 0.4, 0.6]) / np.sqrt(3), rel=0.05)
    assert means.mean() == pytest.approx(0.4, abs=0.01)


def test_rounds_without_a_single_label_are_left_out_of_the_interval() -> None:
    resampled = np.array([[0.1, np.nan], [0.3, np.nan], [np.nan, np.nan]])
    low, high = interval(resampled)
    assert 0.1 <= low[0] <= high[0] <= 0.3
    assert np.isnan(low[1])
    assert np.isnan(high[1])


def test_no_rounds_are_refused() -> None:
    with pytest.raises(ParameterError, match="`rounds` must be at least 1, got 0"):
        resampled_means(np.zeros((2, 1)), [1, 1], rounds=0)
