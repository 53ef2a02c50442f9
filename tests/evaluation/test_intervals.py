"""Intervals of means over label records, which share items, and by resampling what is independent; paired tests."""

import numpy as np
import pytest
from benchmarks.interval_coverage import Population, coverage, leaderboard_intervals
from hypothesis import given
from hypothesis import strategies as st

from neatrec.evaluation.intervals import Dyads, holm, resampled_means


def plain_variance(query: np.ndarray, item: np.ndarray, values: np.ndarray) -> float:
    """By definition: how far the mean moves without each item, less the same without each pair, all means anew."""
    pairs = [frozenset(pair) for pair in zip(query.tolist(), item.tolist(), strict=True)]

    def moved(without: list[bool]) -> float:
        return float(values[~np.array(without)].mean() - values.mean())

    items = sum(
        moved([i in pair for pair in pairs]) ** 2 for i in set(query.tolist()) | set(item.tolist())
    )
    apart = sum(moved([one == pair for pair in pairs]) ** 2 for one in set(pairs))
    return max(items - apart, apart)


@pytest.mark.parametrize("seed", range(5))
def test_the_variance_is_that_of_means_without_an_item_less_those_without_a_pair(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query, item = np.unique(rng.integers(0, 9, size=(30, 2)), axis=0).T
    query, item = query[query != item], item[query != item]
    values = rng.random((len(query), 2))
    found = Dyads.from_pairs(query, item).influence(values).variance
    assert found == pytest.approx(
        [plain_variance(query, item, values[:, column]) for column in (0, 1)]
    )


@pytest.mark.parametrize(
    "population",
    [
        Population(items=60, pairs=40),
        Population(),
        Population(effect=1.5),
        Population(directed=True),
        Population(effect=0.0, hubs=0.0),
    ],
    ids=["few labels", "unequal items", "strong items", "directed", "independent"],
)
def test_intervals_of_shares_and_differences_cover_a_planted_population(
    population: Population,
) -> None:
    found = coverage(population, 400, {"dyads": leaderboard_intervals})["dyads"]
    assert (
        0.925 <= found["share"] <= 0.995
    )  # 0.95 +- 0.011 with 400 draws; wider where labels are few
    assert 0.925 <= found["difference"] <= 0.995


@pytest.mark.parametrize(("mean", "end"), [(1.0, 0), (0.0, 1)])
def test_a_dozen_labels_all_alike_do_not_prove_it(mean: float, end: int) -> None:
    """Six pairs in both directions, all hit (or none): as Wilson's interval of six."""
    query, item = np.arange(12), np.roll(np.arange(12), 6)
    dyads = Dyads.from_pairs(query, item)
    moved = dyads.influence(np.full((12, 1), mean))
    ends = dyads.share_interval(np.array([mean]), moved.variance)
    assert ends[1 - end][0] == pytest.approx(mean)
    assert abs(ends[end][0] - mean) == pytest.approx(1.96**2 / (6 + 1.96**2), rel=1e-3)
    error = dyads.paired_error((moved.column(0) - moved.column(0)).variance)
    low, high = dyads.paired_interval(np.zeros(1), np.array([error]))
    assert -low[0] == high[0] > 0.1


def test_labels_of_one_query_are_drawn_together_and_weigh_by_their_number() -> None:
    """One of two queries holds all hits: half of the resamplings draw it once, a quarter never, a quarter twice."""
    means = resampled_means(np.array([[4.0], [0.0]]), [4, 4], rounds=4_000)[:, 0]
    values, times = np.unique(means, return_counts=True)
    assert values.tolist() == [0.0, 0.5, 1.0]
    assert times / 4_000 == pytest.approx([0.25, 0.5, 0.25], abs=0.03)
    unequal = np.unique(resampled_means(np.array([[1.0], [0.0]]), [1, 3], rounds=200))
    assert unequal.tolist() == [0.0, 0.25, 1.0]


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_rejects_what_its_steps_reject(p: list[float]) -> None:
    adjusted = holm(p)
    order = sorted(range(len(p)), key=lambda i: p[i])
    largest = 0.0
    for step, i in enumerate(order):
        largest = max(largest, p[i] * (len(p) - step))
        assert adjusted[i] == pytest.approx(min(largest, 1.0))
