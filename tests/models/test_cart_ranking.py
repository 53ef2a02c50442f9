"""`CartRanking` by counts is its formula; `bayes` chooses its settings on training baskets, each as if not counted."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from neatrec.cooccurrence import CountOptions
from neatrec.data.baskets import Baskets
from neatrec.models.bayes import cart as bayes_cart
from neatrec.models.bayes.cart import DEFAULT_CART_SETTINGS, CartSettings, choose_cart_settings
from neatrec.models.cart_ranking import CartRanking, shares
from neatrec.models.carts import CartCandidates
from neatrec.models.counts import PairCounts
from neatrec.simulator import supermarket

SETTINGS = CartSettings(k=2.0, strength=0.4, discount=0.3, ridge=10.0)


@pytest.fixture(scope="module")
def baskets() -> Baskets:
    return supermarket(baskets=1_500, items=120, seed=5).baskets


@pytest.fixture(scope="module")
def counts(baskets: Baskets) -> PairCounts:
    return PairCounts.of([baskets], CountOptions(directed=False))


@pytest.fixture(scope="module")
def ranking(baskets: Baskets, counts: PairCounts) -> CartRanking:
    return SETTINGS.ranking(counts, baskets.item_counts)


def carts_of(baskets: Baskets, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    bought = np.flatnonzero(baskets.item_counts)
    return [np.sort(rng.choice(bought, rng.integers(2, 21), replace=False)).astype(np.int32) for _ in range(count)]


def plain_scores(
    counts: PairCounts, bought: np.ndarray, u: np.ndarray, cart: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The scores of all items, and which of them something in the cart is bought with more often than by chance."""
    times = counts.matrix[cart].toarray().astype(np.float64)
    expected = np.outer(counts.total[cart], counts.total) / counts.records
    more = np.log((times + SETTINGS.k) / (expected + SETTINGS.k)).sum(axis=0)
    with np.errstate(divide="ignore"):
        leads = np.log(u @ times) - SETTINGS.discount * np.log(np.maximum(bought, 1))
    return leads + SETTINGS.strength * more, (times > expected).any(axis=0)


def test_the_weights_of_a_cart_solve_its_equations(baskets: Baskets, counts: PairCounts, ranking: CartRanking) -> None:
    for cart in carts_of(baskets, 50):
        u = shares(ranking, cart)
        rest = counts.matrix[cart][:, cart].toarray() @ u + (1.5 * baskets.item_counts[cart] + SETTINGS.ridge) * u - 1.0
        assert (u >= 0).all()
        np.testing.assert_allclose(rest[u > 0], 0.0, atol=1e-3)
        assert (rest[u == 0] > -1e-3).all()  # more weight would only add to what is covered


def test_scores_and_contributions_are_the_formula(baskets: Baskets, counts: PairCounts, ranking: CartRanking) -> None:
    everything = np.arange(len(baskets.catalog), dtype=np.int32)
    for cart in carts_of(baskets, 50):
        total, goes = plain_scores(counts, baskets.item_counts, shares(ranking, cart), cart)
        scored = ranking.score(cart, everything)
        assert scored.codes.tolist() == np.flatnonzero(goes).tolist()
        np.testing.assert_allclose(scored.total, total[goes], rtol=1e-5, atol=1e-5)
        parts = scored.parts(scored.codes)
        assert (parts.max(axis=1) > 0).all()  # each names what it goes with
        times = counts.matrix[cart].toarray()[:, scored.codes].T
        expected = np.outer(counts.total[scored.codes], counts.total[cart]) / counts.records
        lift = (times + SETTINGS.k) / (expected + SETTINGS.k)
        np.testing.assert_allclose(parts, SETTINGS.strength * np.log(lift), rtol=1e-5, atol=1e-7)


def test_many_carts_are_answered_as_one_by_one(baskets: Baskets, ranking: CartRanking) -> None:
    category, carts = baskets.catalog.category_of(), carts_of(baskets, 100)
    candidates = CartCandidates.of(baskets.item_counts > 0, category, 0.0)
    for cart, codes in zip(carts, ranking.answer(carts, carts, candidates, 10), strict=True):
        allowed = np.flatnonzero((baskets.item_counts > 0) & ~np.isin(category, category[cart])).astype(np.int32)
        scored = ranking.score(cart, allowed)
        assert codes.tolist() == scored.codes[np.argsort(-scored.total, kind="stable")[:10]].tolist()


def test_an_item_left_out_is_ranked_as_if_its_basket_had_not_been_counted(
    baskets: Baskets, counts: PairCounts, ranking: CartRanking
) -> None:
    category = baskets.catalog.category_of()
    found = list(bayes_cart._carts(baskets, baskets.item_counts, category, np.random.default_rng(1)))[:60]
    carts, hidden = [cart for cart, _ in found], np.array([item for _, item in found], dtype=np.int32)
    candidates = CartCandidates.of(baskets.item_counts > 0, category, 0.0)
    ranks = ranking.left_out_ranks(carts, hidden, candidates)
    for cart, item, rank in zip(carts, hidden.tolist(), ranks.tolist(), strict=True):
        assert category[item] not in category[cart]
        u = shares(ranking, cart)
        total, goes = plain_scores(counts, baskets.item_counts, u, cart)
        times = counts.matrix[cart].toarray()[:, item] - 1.0
        expected = counts.total[cart] * (counts.total[item] - len(cart)) / counts.records
        mine = np.log(max(u @ times, 1e-30)) - SETTINGS.discount * np.log(baskets.item_counts[item] - 1)
        mine += SETTINGS.strength * np.log((times + SETTINGS.k) / (expected + SETTINGS.k)).sum()
        others = goes & (baskets.item_counts > 0) & ~np.isin(category, category[cart])
        others[item] = False
        assert rank == (int((total[others] > mine + 1e-6).sum()) if (times > expected).any() else -1)


def test_an_item_with_fewer_pairs_than_the_cart_has_items_goes_with_nothing() -> None:
    """Pairs may be counted within a window: the basket gave the hidden item one pair only, and it has no other."""
    matrix = np.zeros((6, 6), dtype=np.int32)
    matrix[:4, :4] = 900 * (1 - np.eye(4, dtype=np.int32))
    matrix[4, 0] = matrix[0, 4] = 1
    counts = PairCounts(sparse.csr_matrix(matrix))
    bought = np.array([2_000, 2_000, 2_000, 2_000, 2, 1])
    candidates = CartCandidates.of(bought > 0, np.arange(6, dtype=np.int32), 0.0)
    cart, hidden = np.arange(4, dtype=np.int32), np.array([4], dtype=np.int32)
    ranking = replace(SETTINGS, k=0.25).ranking(counts, bought)
    assert ranking.left_out_ranks([cart], hidden, candidates).tolist() == [-1]


def test_settings_are_chosen_on_training_carts(
    baskets: Baskets, counts: PairCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    category = baskets.catalog.category_of()
    chosen = choose_cart_settings([baskets], counts, category, np.random.default_rng(0))
    assert 200 <= chosen.carts <= bayes_cart.MAX_CARTS
    assert 0 < chosen.gain < 1
    assert CartSettings.from_array(chosen.to_array()) == chosen
    few = baskets.select(np.arange(len(baskets)) < 100)
    assert choose_cart_settings([few], counts, category, np.random.default_rng(0)) == DEFAULT_CART_SETTINGS
    # a strength that ranks worse is not taken
    monkeypatch.setattr(bayes_cart, "STRENGTHS", (chosen.strength, -5.0))
    assert choose_cart_settings([baskets], counts, category, np.random.default_rng(0)).strength == chosen.strength


def test_a_cart_of_twenty_over_fifty_thousand_items_takes_milliseconds() -> None:
    """The aim is 2 ms of CPU per cart of many, 5 ms for one; three times as much fails."""
    items, rng = 50_000, np.random.default_rng(0)

    def popular(size: int) -> np.ndarray:
        return (items * rng.random(size) ** 4).astype(np.int32)  # a few items sell most

    pairs = 4_000_000
    half = sparse.csr_matrix((np.ones(pairs, dtype=np.int32), (popular(pairs), popular(pairs))), (items, items))
    counts = PairCounts((half + half.T).tocsr())
    bought = counts.total // 9 + 1
    ranking = DEFAULT_CART_SETTINGS.ranking(counts, bought)
    candidates = CartCandidates.of(bought > 0, rng.integers(0, 500, items).astype(np.int32), 0.0)
    carts = [np.unique(popular(24))[:20] for _ in range(60)]
    everything = np.arange(items, dtype=np.int32)
    ranking.answer(carts[:2], carts[:2], candidates, 10)  # compiles
    ranking.score(carts[0], everything)
    began = time.process_time()
    ranking.answer(carts, carts, candidates, 10)
    together = (time.process_time() - began) / len(carts)
    began = time.process_time()
    for cart in carts:
        ranking.score(cart, everything)
    alone = (time.process_time() - began) / len(carts)
    assert together < 3 * 0.002
    assert alone < 3 * 0.005
