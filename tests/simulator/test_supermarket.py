"""The simulated supermarket: its baskets, and that its truth is true."""

import re

import numpy as np
import pytest

from helpers.simulated_pairs import directed_counts, expected_counts, pooled_lift
from neatrec import Shop, fit
from neatrec.simulator import TRAP_NAMES, Supermarket, parse_supermarket_spec, supermarket


@pytest.fixture(scope="module")
def market() -> Supermarket:
    """Many baskets over few items, so that every planted pair is seen often."""
    return supermarket(baskets=60_000, items=600, seed=5)


def test_the_same_seed_gives_the_same_baskets_and_another_seed_others() -> None:
    hashes = [supermarket(3_000, 200, seed=seed).baskets.hash for seed in (7, 7, 8)]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_any_number_of_threads_gives_the_same_baskets(threads: int) -> None:
    alone, together = (supermarket(2_500, 150, seed=1, threads=n) for n in (1, threads))
    assert alone.baskets.hash == together.baskets.hash
    assert np.array_equal(alone.truth.strength, together.truth.strength)


def test_no_basket_holds_an_item_twice(market: Supermarket) -> None:
    baskets = market.baskets
    lines = baskets.basket_of_line * len(baskets.catalog) + baskets.items
    assert len(np.unique(lines)) == baskets.lines
    assert baskets.sizes.min() >= 1
    assert baskets.ordered


def test_households_come_back_mostly_to_their_own_store(market: Supermarket) -> None:
    users, stores = market.baskets.users, market.baskets.attributes["store"].codes
    visits = np.bincount(users)
    assert 7 < visits.mean() < 9
    assert visits.max() > 20
    assert visits.min() > 0
    home = np.array([np.bincount(stores[users == user]).max() for user in range(50)])
    assert 0.8 < home.sum() / visits[:50].sum() < 0.99


def test_planted_complements_meet_more_often_than_chance(market: Supermarket) -> None:
    truth = market.truth
    count = directed_counts(market.baskets, truth.query, truth.item)
    expected = expected_counts(market.baskets, truth.query, truth.item)
    assert len(truth.query) > 200
    assert count.sum() > 2.5 * expected.sum()
    seen_often = expected >= 5
    assert seen_often.sum() > 100
    assert (count > expected)[seen_often].mean() > 0.97


def test_one_directional_complements_come_after_the_items_that_bring_them(
    market: Supermarket,
) -> None:
    truth = market.truth
    mutual = truth.is_complement(truth.item, truth.query)
    assert 0.2 < mutual.mean() < 0.8
    query, item = truth.query[~mutual], truth.item[~mutual]
    assert pooled_lift(market.baskets, query, item) > 2
    assert 0.8 < pooled_lift(market.baskets, item, query) < 1.05
    both_ways = truth.query[mutual], truth.item[mutual]
    assert pooled_lift(market.baskets, *both_ways) > 2


def test_substitutes_hardly_ever_share_a_basket(market: Supermarket) -> None:
    first, second = market.truth.substitutes.T
    aisle = market.baskets.catalog.category_of("aisle")
    assert (aisle[first] == aisle[second]).all()
    assert pooled_lift(market.baskets, first, second) < 0.3
    assert pooled_lift(market.baskets, second, first) < 0.3


def test_popular_noise_is_in_every_tenth_basket_and_goes_with_nothing(market: Supermarket) -> None:
    baskets, noise = market.baskets, market.truth.noise
    assert len(noise) == 10
    assert np.median(baskets.item_counts[noise]) > 0.1 * len(baskets)
    others = np.setdiff1d(np.arange(len(baskets.catalog)), noise).astype(np.int32)
    query, item = np.repeat(noise, len(others)), np.tile(others, len(noise))
    assert 0.95 < pooled_lift(baskets, query, item) < 1.05
    assert not np.isin(noise, np.concatenate([market.truth.query, market.truth.item])).any()


def strata_that_explain(market: Supermarket, trap: str) -> np.ndarray:
    baskets = market.baskets
    if trap == "december":
        return baskets.times.astype("datetime64[us]").astype("datetime64[M]").astype(int)
    return baskets.attributes["store"].codes if trap == "one_store" else baskets.sizes


@pytest.mark.parametrize(("trap", "lift"), list(zip(TRAP_NAMES, (6, 6, 2), strict=True)))
def test_a_trap_looks_like_a_complement_until_the_right_baskets_are_compared(
    market, trap: str, lift: float
) -> None:
    truth, baskets = market.truth, market.baskets
    chosen = truth.trap_kind == TRAP_NAMES.index(trap)
    query, item = truth.trap_query[chosen], truth.trap_item[chosen]
    assert len(query) >= 20
    assert pooled_lift(baskets, query, item) > lift
    within = pooled_lift(baskets, query, item, strata_that_explain(market, trap))
    assert 0.85 < within < 1.15
    assert not truth.is_complement(query, item).any()


def test_a_shop_without_strength_has_no_complements() -> None:
    market = supermarket(20_000, 600, seed=5, strength=0)
    planted = supermarket(100, 600, seed=5).truth
    assert len(market.truth.query) == 0
    assert 0.9 < pooled_lift(market.baskets, planted.query, planted.item) < 1.1
    assert not market.truth.is_complement([0], [1]).any()


def test_popularity_and_sizes_are_shaped_like_a_real_grocers() -> None:
    """As large as the Instacart train orders, one basket a household."""
    baskets = supermarket(baskets=131_209, items=49_688, households=131_209).baskets
    counts, sizes = np.sort(baskets.item_counts)[::-1], baskets.sizes
    shares = [counts[:top].sum() / counts.sum() for top in (1, 10, 100, 1_000, 10_000)]
    assert np.allclose(shares, [0.0135, 0.0692, 0.2269, 0.5262, 0.9037], rtol=0.06)
    assert 0.11 < counts[0] / len(baskets) < 0.17
    assert 10.3 < sizes.mean() < 10.7
    assert np.quantile(sizes, [0.1, 0.25, 0.5, 0.75, 0.9, 0.95]).tolist() == [2, 5, 9, 14, 21, 26]
    assert 0.04 < np.mean(sizes == 1) < 0.06


def test_the_source_says_how_to_make_it_again() -> None:
    first = supermarket(400, 90, seed=4, strength=0.5).baskets
    assert supermarket(**parse_supermarket_spec(first.source)).baskets.hash == first.hash


@pytest.fixture(scope="module")
def coarse() -> tuple[Supermarket, Shop]:
    """A shop whose categories hold an item and all its complements."""
    market = supermarket(12_000, 480, seed=3, coarse=True)
    return market, fit(market.baskets.source, model="lift")


def test_coarse_categories_leave_the_baskets_as_they_are(coarse: tuple[Supermarket, Shop]) -> None:
    baskets, truth = coarse[0].baskets, coarse[0].truth
    np.testing.assert_array_equal(baskets.items, supermarket(12_000, 480, seed=3).baskets.items)
    assert baskets.catalog.levels == ("department",)
    category = baskets.catalog.category_of()
    assert len(np.unique(category)) > 10
    assert (category[truth.query] == category[truth.item]).all()


def test_complements_of_a_coarse_category_are_named_and_marked(
    coarse: tuple[Supermarket, Shop],
) -> None:
    truth, shop = coarse[0].truth, coarse[1]
    ids = np.array(coarse[0].baskets.catalog.ids.to_pylist())
    named = 0
    for query in np.unique(truth.query).tolist():
        answers = shop.goes_with(ids[query], k=50)
        same = {row["id"]: row["evidence"]["same_category"] for row in answers.rows()}
        planted = same.keys() & set(ids[truth.item[truth.query == query]])
        assert all(same[item] for item in planted)
        named += len(planted)
        left = shop.goes_with(ids[query], k=50, same_category="exclude")
        assert [row["id"] for row in left.rows()] == [item for item in same if not same[item]]
        if planted:
            assert re.search(rf"\b{sum(same.values())} answers? with evidence", left.notes[0])
    assert named > 0.75 * len(truth.query)
