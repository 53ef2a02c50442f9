"""The parts of `bayes`, each against a plain computation."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from helpers.toyshop import code, toy_baskets, toy_catalog
from neatrec.data.catalog import Catalog
from neatrec.models.bayes.calibration import UNLEARNED, Winners, calibrate, negative_binomial
from neatrec.models.bayes.features import PairFeatures, Surroundings
from neatrec.models.bayes.lowrank import factors, log_lifts
from neatrec.models.bayes.names import common_words, like_names, word_table, words_of
from neatrec.models.bayes.prior import Weights
from neatrec.models.bayes.prior_tuning import higher_ranked
from neatrec.models.bayes.rows import score_rows
from neatrec.models.bayes.scoring import log_priors, score_pairs
from neatrec.models.counts import CountParameters, PairCounts


def toy_counts() -> PairCounts:
    return PairCounts.of(toy_baskets(), CountParameters().counting())


def toy_evidence(*, ordered: bool = True) -> PairFeatures:
    return PairFeatures.of(
        toy_baskets(),
        CountParameters().counting(),
        Surroundings.of(toy_catalog()),
        rank=6,
        min_pair_count=1,
        ordered=ordered,
        rng=np.random.default_rng(0),
    )


def test_factors_give_back_a_matrix_of_low_rank() -> None:
    rng = np.random.default_rng(1)
    half = rng.standard_normal((40, 3)).astype(np.float32)
    matrix = half @ np.diag([3.0, 1.0, -2.0]).astype(np.float32) @ half.T
    matrix[7], matrix[:, 7] = 0, 0
    vectors, values = factors(sparse.csr_matrix(matrix), 3, rng)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-3)
    assert not vectors[7].any()


def test_factors_of_nothing_are_zeros() -> None:
    vectors, values = factors(sparse.csr_matrix((4, 4), dtype=np.float32), 2, np.random.default_rng(0))
    assert not vectors.any()
    assert not values.any()


def test_log_lifts_hold_only_pairs_above_chance_and_seen_often_enough() -> None:
    counts = toy_counts()
    found = log_lifts(counts, min_pair_count=3).tocoo()
    assert (found.data > 0).all()
    assert (counts.of_pairs(found.row, found.col) >= 3).all()
    expected = counts.expected(counts.total[found.row], counts.total[found.col])
    plain = np.log((counts.of_pairs(found.row, found.col) + 3) / (expected + 3))
    np.testing.assert_allclose(found.data, plain, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "words"),
    [("Beef Hot Dogs", ["beef", "dog", "hot"]), (None, []), ("7 x 100%", []), ("Glass Jars", ["glass", "jar"])],
)
def test_words_of_a_name(name: str | None, words: list[str]) -> None:
    assert words_of(name) == words


def test_like_names_lend_within_their_category_only() -> None:
    names = ["Plain Bagels", "Mini Plain Bagels", "Plain Yogurt", "Rye Bread", None]
    catalog = Catalog.from_ids("abcde", names=names, categories=["bakery", "bakery", "dairy", "bakery", None])
    table = word_table(catalog)
    assert table is not None
    like = like_names(table, catalog.category_of()).toarray()
    assert np.diag(like).tolist() == [1.0] * 5
    np.testing.assert_allclose(like, like.T)
    assert like[0, 1] > 0.25**2
    assert like[0, 2] == like[0, 3] == like[4, 0] == 0


def test_a_word_of_few_items_is_left_out() -> None:
    catalog = Catalog.from_ids([str(n) for n in range(6)], names=["Red Soup"] * 5 + ["Blue Soup"])
    table = word_table(catalog)
    assert table is not None
    common = common_words(table)
    assert common is not None
    np.testing.assert_allclose(common.toarray(), [[0.5, 0.5]] * 5 + [[0.0, 1.0]])


def test_a_catalogue_without_names_has_no_words() -> None:
    assert word_table(Catalog.from_ids("abc")) is None
    assert word_table(Catalog.from_ids("abc", names=["1", "2", "3"])) is None


def test_rows_hold_counts_and_category_lifts() -> None:
    evidence = toy_evidence()
    block = evidence.rows(np.arange(22))
    counts = evidence.counts
    np.testing.assert_array_equal(block.count, counts.matrix.toarray())
    np.testing.assert_allclose(block.expected, np.outer(counts.total, counts.total) / counts.records, rtol=1e-6)
    bread, butter, mystery = code("bread"), code("butter"), code("mystery")
    category = toy_catalog().category_of()
    bakery, dairy = category == category[bread], category == category[butter]
    together = counts.matrix.toarray()[np.ix_(bakery, dairy)].sum()
    chance = counts.total[bakery].sum() * counts.total[dairy].sum() / counts.records
    assert block.signs[bread, butter, 3] == pytest.approx(np.log((together + 10) / (chance + 10)), rel=1e-5)
    assert block.signs[mystery, butter, 3] == 0
    np.testing.assert_allclose(block.near_expected.sum(), block.expected.sum(), rtol=1e-5)
    np.testing.assert_allclose(block.near_count.sum(), block.count.sum(), rtol=1e-5)


def test_without_order_no_pair_is_nearer_than_another() -> None:
    block = toy_evidence(ordered=False).rows(np.array([3, 4]))
    assert block.near_count is block.count
    assert block.near_expected is block.expected


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=8), min_size=1, max_size=5), st.randoms())
def test_higher_ranked_counts_within_the_query(groups: list[list[int]], random: object) -> None:
    score = np.concatenate(groups).astype(np.float32)
    start = np.concatenate([[0], np.cumsum([len(group) for group in groups])]).astype(np.int64)
    strong = np.arange(0, len(score), 2)
    plain = []
    for place in strong:
        query = np.searchsorted(start, place, side="right") - 1
        plain.append((score[start[query] : start[query + 1]] > score[place]).sum())
    assert higher_ranked(score, start, strong).tolist() == plain


def test_weights_without_signs_are_shrunk_lift() -> None:
    evidence = toy_evidence()
    block = evidence.rows(np.arange(22))
    score = Weights(2.0, 0.0, None).score(block)
    np.testing.assert_allclose(score, block.count / (block.expected + 2), rtol=1e-6)


def test_weights_with_signs_are_the_posterior_mean() -> None:
    block = toy_evidence().rows(np.arange(22))
    weights = Weights(1.5, 0.25, np.array([0.1, 1.0, 0.5, 0.5, 0.5, 0.2]))
    prior = np.exp(block.signs.astype(np.float64) @ weights.signs)
    count = 0.75 * block.count + 0.25 * block.near_count
    expected = 0.75 * block.expected + 0.25 * block.near_expected
    np.testing.assert_allclose(weights.score(block), (count + 1.5 * prior) / (expected + 1.5), rtol=1e-4)
    back = Weights.from_array(weights.to_array())
    assert np.array_equal(back.score(block), weights.score(block))


def test_the_negative_binomial_is_that_of_scipy() -> None:
    count, shape, success = np.array([0.0, 1.0, 7.0]), np.array([0.3, 2.0, 5.5]), np.array([0.2, 0.5, 0.9])
    np.testing.assert_allclose(negative_binomial(count, shape, success), stats.nbinom.logpmf(count, shape, success))


def test_calibration_finds_the_prior_that_made_the_counts() -> None:
    rng = np.random.default_rng(3)
    log_prior = rng.normal(0.5, 1.0, 60_000)
    mean, k = np.exp(-0.4 + 0.7 * log_prior), 2.5
    lift = rng.gamma(k * mean) / k
    expected, later = rng.uniform(0.2, 4.0, (2, len(lift)))
    winners = Winners(
        rng.poisson(lift * expected).astype(float), expected, log_prior, rng.poisson(lift * later).astype(float), later
    )
    found = calibrate(winners, signs=True)
    assert (found.level, found.slope, found.k) == pytest.approx((-0.4, 0.7, 2.5), rel=0.12)
    shape, rate = found.shape_and_rate(winners.count, winners.expected, winners.log_prior)
    low, high = stats.gamma.ppf([[0.05], [0.95]], shape) / rate
    assert ((low < lift) & (lift < high)).mean() == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("signs", [True, False])
def test_a_calibration_that_ends_at_a_bound_says_so(signs: bool, caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    log_prior = rng.normal(0.0, 0.5, 5_000)
    expected, later = rng.uniform(1.0, 4.0, (2, 5_000))
    # every lift is 2: no prior is strong enough
    winners = Winners(
        rng.poisson(2 * expected).astype(float), expected, log_prior, rng.poisson(2 * later).astype(float), later
    )
    with caplog.at_level(logging.INFO, "neatrec"):
        found = calibrate(winners, signs=signs)
    assert found.k == pytest.approx(50.0)
    assert "ends at a bound of its" in caplog.text
    assert "k (intervals, not the ranking)" in caplog.text


def test_a_calibration_inside_its_bounds_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(1)
    lift = rng.gamma(2.0, 0.6, 5_000)
    expected, later = rng.uniform(1.0, 4.0, (2, 5_000))
    counts = (rng.poisson(lift * part).astype(float) for part in (expected, later))
    with caplog.at_level(logging.INFO, "neatrec"):
        calibrate(Winners(next(counts), expected, np.zeros(5_000), next(counts), later), signs=False)
    assert "bound" not in caplog.text


def test_calibration_of_too_few_pairs_is_a_guess() -> None:
    few = Winners(*(np.ones(5) for _ in range(5)))
    assert calibrate(few, signs=True) is UNLEARNED


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("signs", [None, np.array([0.1, 1.0, 0.5, 0.5, 0.5, 0.2])])
def test_pairs_and_rows_are_scored_as_the_whole_block(ordered: bool, named: bool, signs: np.ndarray | None) -> None:
    evidence = toy_evidence(ordered=ordered)
    if not named:
        evidence.like = evidence.like_total = evidence.lends = None
    weights = Weights(1.5, 0.25, signs)
    whole = weights.score(evidence.rows(np.arange(22)))
    rng = np.random.default_rng(0)
    queries, items = (rng.integers(0, 22, 300).astype(np.int32) for _ in range(2))
    np.testing.assert_allclose(score_pairs(evidence, weights, queries, items), whole[queries, items], rtol=1e-4)
    some = np.array([7, 3, 21], dtype=np.int32)
    np.testing.assert_allclose(score_rows(evidence, weights, some), whole[some], rtol=1e-4)
    assert score_pairs(evidence, weights, queries[:0], items[:0]).shape == (0,)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("signs", [None, np.array([0.1, 1.0, 0.5, 0.5, 0.5, 0.2])])
def test_priors_of_pairs_are_those_of_the_whole_block(named: bool, signs: np.ndarray | None) -> None:
    evidence = toy_evidence()
    if not named:
        evidence.like = evidence.like_total = evidence.lends = None
    weights = Weights(1.5, 0.25, signs)
    whole = weights.log_prior(evidence.rows(np.arange(22)).signs)
    rng = np.random.default_rng(0)
    queries, items = (rng.integers(0, 22, 300).astype(np.int32) for _ in range(2))
    found = log_priors(evidence, weights, queries, items)
    np.testing.assert_allclose(found, whole[queries, items], rtol=1e-4, atol=1e-5)
    assert found.any() == (signs is not None)
