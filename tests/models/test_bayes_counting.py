"""Bounded counts of `bayes`: what is dropped does not depend on the blocks, and totals count all pairs."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from helpers.toyshop import toy_baskets, toy_catalog
from neatrec.cooccurrence import CountOptions, PairBlock, count
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes, similarity
from neatrec.models.bayes.counting import FeatureOptions, PairCollector
from neatrec.models.bayes.features import CatalogFeatures
from neatrec.models.bayes.similarity import (
    character_pieces,
    log_lifts,
    low_rank_factors,
    row_blocks,
    similar_names,
    unit_vectors,
    vector_neighbours,
    words_of,
)
from neatrec.models.counts import PairCounts
from neatrec.simulator import supermarket

ITEMS = 9
CATEGORY = np.arange(ITEMS) // 2
CATALOG = Catalog.from_ids([f"i{n}" for n in range(ITEMS)], categories=[f"c{n}" for n in CATEGORY])
CARTS = st.lists(st.permutations(range(ITEMS)).flatmap(lambda p: st.integers(0, 5).map(lambda n: p[:n])), max_size=25)


def baskets_of(carts: list[list[int]], *, ordered: bool = True) -> Baskets:
    lists = [[f"i{n}" for n in cart] for cart in carts]
    users = [f"u{n % 3}" for n in range(len(lists))]
    return Baskets.from_lists(lists, catalog=CATALOG, ordered=ordered, users=users)


def plain(carts: list[list[int]], *, once: bool, directed: bool, window: int = ITEMS) -> np.ndarray:
    """Times together counted one by one, (items, items); undirected ones stand both ways."""
    seen: Counter[tuple[int, int]] = Counter()
    people: set[tuple[int, int, int]] = set()
    for number, cart in enumerate(carts):
        for one, other in combinations(range(len(cart)), 2):
            q, v = cart[one], cart[other]
            if CATEGORY[q] == CATEGORY[v] or other - one > window:
                continue
            key = (q, v) if directed else (min(q, v), max(q, v))
            if once and (number % 3, *key) in people:
                continue
            people.add((number % 3, *key))
            seen[key] += 1
    out = np.zeros((ITEMS, ITEMS), dtype=np.int64)
    for (q, v), times in seen.items():
        out[q, v] = times
    return out if directed else out + out.T


def least_of(table: np.ndarray, most: int) -> int:
    """The smallest count that no more than `most` pairs reach."""
    times = table[np.triu_indices(ITEMS)]
    least = 1
    while (times >= least).sum() > most:
        least += 1
    return least


@settings(max_examples=100, deadline=None)
@given(CARTS, st.integers(1, 30), st.booleans(), st.booleans())
def test_the_rarest_pairs_are_dropped_and_no_others(
    carts: list[list[int]], most: int, ordered: bool, once: bool
) -> None:
    counting, baskets = CountOptions(directed=False, once_per_customer=once), baskets_of(carts, ordered=ordered)
    category = CatalogFeatures.of(CATALOG).category
    options = FeatureOptions(counting, ordered, max_pairs=most, threads=1)
    found = options.count(baskets, category)
    whole = plain(carts, once=once, directed=False)
    least = least_of(whole, most)
    assert found.counts.least == least
    np.testing.assert_array_equal(found.counts.matrix.toarray(), np.where(whole >= least, whole, 0))
    assert found.counts.matrix.has_sorted_indices
    np.testing.assert_array_equal(found.counts.total, whole.sum(axis=0))
    assert found.counts.records == whole.sum()
    member = np.eye(CATEGORY[-1] + 2)[CATEGORY]
    np.testing.assert_array_equal(found.of_categories, member.T @ whole @ member)
    if not ordered:
        assert found.directed is None
        assert found.directed_categories is None
        return
    assert found.directed is not None
    ways = plain(carts, once=once, directed=True)
    np.testing.assert_array_equal(found.directed.toarray(), np.where(whole >= least, ways, 0))
    np.testing.assert_array_equal(found.directed_categories, member.T @ ways @ member)
    near = replace(options, counting=replace(counting, window=1)).count_near(baskets, found)
    assert near is not None
    narrow = plain(carts, once=once, directed=False, window=1)
    np.testing.assert_array_equal(near.matrix.toarray(), np.where(whole >= least, narrow, 0))
    np.testing.assert_array_equal(near.total, narrow.sum(axis=0))


def test_weighted_near_pairs_are_among_the_weighted_pairs() -> None:
    """The scorer clears what it adds for a query by the query's pairs."""
    baskets, counting = supermarket(3_000, 100, seed=4, threads=1).baskets, CountOptions(directed=False, half_life=20.0)
    found = FeatureOptions(counting, ordered=True, threads=1).count(baskets)
    near = FeatureOptions(replace(counting, window=2), ordered=True, threads=1).count_near(baskets, found)
    assert near is not None
    query, item = (codes.astype(np.int32) for codes in near.matrix.nonzero())
    assert len(query) > 1_000
    assert (found.counts.of_pairs(query, item) > 0).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 200), st.integers(1, 40))
def test_how_pairs_are_cut_into_blocks_does_not_matter(seed: int, most: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    query, item = np.triu_indices(20, k=1)
    shuffled = rng.permutation(len(query))
    times = rng.geometric(0.4, len(query))
    collector = PairCollector(most)
    for start in range(0, len(query), size):
        part = shuffled[start : start + size]
        codes = query[part].astype(np.int32), item[part].astype(np.int32)
        assert not collector(PairBlock(*codes, times[part].astype(np.int64)), None).any()  # type: ignore[arg-type]
    assert collector.min_count == (1 if len(times) <= most else np.sort(times)[::-1][most] + 1)
    matrix, directed = collector.matrices(20, directed=False)
    wanted = np.zeros((20, 20), dtype=np.int64)
    wanted[query, item] = np.where(times >= collector.min_count, times, 0)
    np.testing.assert_array_equal(matrix.toarray(), wanted + wanted.T)
    assert directed is None


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 200), st.integers(1, 189), st.booleans())
def test_collectors_of_two_processes_make_one(seed: int, most: int, cut: int, one_process: bool) -> None:
    """One may have dropped what the other still has, and one may be asked twice."""
    rng = np.random.default_rng(seed)
    query, item = np.triu_indices(20, k=1)
    times = np.sort(rng.geometric(0.4, len(query)))[:: rng.choice([-1, 1])]
    category = (np.arange(20) % 5 - 1).astype(np.int32)
    whole, together = PairCollector(most, category=category), PairCollector(most, category=category)
    for collector, parts in ((whole, [slice(None)]), (together, [slice(cut), slice(cut, None)])):
        one = PairCollector(most, category=category)
        for part in parts:
            one = one if one_process else PairCollector(most, category=category)
            codes = query[part].astype(np.int32), item[part].astype(np.int32)
            one(PairBlock(*codes, times[part].astype(np.int64)), None)  # type: ignore[arg-type]
            collector.add_collected(one.collected())
    assert together.min_count == whole.min_count
    np.testing.assert_array_equal(together.of_categories, whole.of_categories)
    assert whole.of_categories.sum() == times.sum()
    found, wanted = (collector.matrices(20, directed=False)[0].toarray() for collector in (together, whole))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("directed", [True, False])
def test_every_engine_brings_the_same_pairs(directed: bool) -> None:
    found = []
    for engine in ("memory", "disk"):
        collector = PairCollector(60, category=CatalogFeatures.of(toy_catalog()).category)
        count(toy_baskets(), CountOptions(directed=directed), keep=collector, engine=engine, threads=1)
        tables = [matrix.toarray() for matrix in collector.matrices(22, directed=directed) if matrix is not None]
        found.append((collector.min_count, collector.of_categories, *tables))
    assert found[0][0] > 1
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_counts_beyond_32_bits_are_held_in_64() -> None:
    collector = PairCollector(None)
    codes = np.array([0, 1], dtype=np.int32), np.array([2, 0], dtype=np.int32)
    block = PairBlock(*codes, np.array([2**31 - 1, 4]), np.array([7, 0]))
    collector(block, None)  # type: ignore[arg-type]
    matrix, directed = collector.matrices(3, directed=True)
    assert directed is not None
    assert matrix.toarray().tolist() == [[0, 4, 2**31 + 6], [4, 0, 0], [2**31 + 6, 0, 0]]
    assert directed.toarray().tolist() == [[0, 0, 2**31 - 1], [4, 0, 0], [7, 0, 0]]


def bounded(max_pairs: int) -> Bayes:
    baskets = supermarket(baskets=6_000, items=300, seed=3).baskets
    model = make_model("bayes", rank=16, max_pairs=max_pairs).fit(baskets, Run(rng=0, threads=1))
    assert isinstance(model, Bayes)
    return model


def test_a_bounded_model_reports_what_it_dropped_and_is_kept_by_its_arrays(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "neatrec"):
        model = bounded(5_000)
    pairs = model.fit_info()["pairs"]
    assert pairs["kept"] <= pairs["max"] == 5_000
    assert f"more than 5000 pairs: pairs with a count below {pairs['dropped_below']} are dropped" in caplog.text
    counts, complete = model.features.counts, bounded(10**8).features
    assert counts.matrix.data.min() >= pairs["dropped_below"] > 1
    np.testing.assert_array_equal(counts.total, complete.counts.total)
    np.testing.assert_array_equal(model.features.category_lift, complete.category_lift)
    again = Bayes.from_arrays(model.parameters, model.catalog, model.arrays())
    every = np.arange(len(model.catalog), dtype=np.int32)
    np.testing.assert_array_equal(again.score_all(every), model.score_all(every))
    assert again.fit_info() == model.fit_info()


# ---- similar items


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Beef Hot Dogs", ["beef", "dogs", "hot"]),
        (None, []),
        ("7 x 100%", []),
        ("Huile d'Olive, CRÈME brûlée", ["brûlée", "crème", "huile", "olive"]),
        ("Пельмени сибирские 500 г", ["пельмени", "сибирские"]),
        ("हिन्दी चावल", ["चावल", "हिन्दी"]),  # vowel signs are part of a word
        ("نیم\u200cفاصله", ["نیمفاصله"]),  # and so is an invisible joiner
        ("Ｆｕｌｌ wi\u00addth", ["full", "width"]),
        ("緑茶ラテ 500ml", ["ml", "ラテ", "緑茶", "茶ラ"]),  # no spaces: pairs of characters
        ("茶", ["茶"]),
        ("ข้าว", ["ข้", "าว", "้า"]),
        ("김치 찌개", ["김치", "찌개"]),
    ],
)
def test_words_of_a_name_in_any_language(name: str | None, words: list[str]) -> None:
    assert words_of(name) == words


def similar_of(names: Sequence[str | None], categories: Sequence[str | None] | None = None) -> np.ndarray:
    catalog = Catalog.from_ids([str(code) for code in range(len(names))], categories=categories)
    found = similar_names(names, catalog.category_of())
    assert found is not None
    return found.toarray()


def test_names_are_similar_within_their_category() -> None:
    names = ["Plain Bagels", "Mini Plain Bagel", "Plain Yogurt", "Rye Bread", None]
    similar = similar_of(names, ["bakery", "bakery", "dairy", "bakery", "dairy"])
    assert np.diag(similar).tolist() == [1.0] * 5
    np.testing.assert_allclose(similar, similar.T, rtol=1e-6)
    assert similar[0, 1] > 0.25**2
    assert similar[0, 2] == similar[0, 3] == similar[4, 0] == 0
    assert similar_names([None, "12"], np.zeros(2, dtype=np.int32)) is None


def test_an_item_without_category_is_compared_with_all() -> None:
    others = ["Mustard", "Olive Oil", "Basil", "Green Tea", "Coffee", "Honey", "Whole Milk", "Salt", "Pepper", "Sugar"]
    names = ["Plain Bagels", "Mini Plain Bagels", "Rye Bread", "Plain Bagles", *others]
    similar = similar_of(names, ["bakery", "frozen", "bakery", None, *["other"] * len(others)])
    assert similar[0, 1] == 0
    assert similar[3, 0] > similar[3, 1] > 0.25**2  # misspelt as it is
    assert similar[3, 2] == 0
    assert not similar[3, 4:].any()
    without = similar_of(names)
    assert without[0, 1] > without[0, 2]


def test_compiled_neighbours_equal_the_cosines() -> None:
    rng = np.random.default_rng(4)
    names = ["".join(rng.choice(list("abcde"), 6)) for _ in range(40)]
    similar = similar_of(names)
    lists = [character_pieces(str(name)) for name in names]
    pieces = sorted({piece for of_name in lists for piece in of_name})
    ones = np.array([[piece in of_name for piece in pieces] for of_name in lists], dtype=np.float64)
    weighted = ones * np.log(len(names) / ones.sum(axis=0))
    unit = weighted / np.linalg.norm(weighted, axis=1, keepdims=True)
    cosine = unit @ unit.T
    kept = similar > 0
    np.testing.assert_allclose(similar[kept], cosine[kept] ** 2, rtol=1e-4)
    for row in range(len(names)):
        assert (
            cosine[row][~kept[row]] <= max(similarity.MIN_NAME_COSINE, np.sqrt(similar[row][kept[row]].min()))
        ).all()
        assert kept[row].sum() <= similarity.NEIGHBOURS


def test_neighbours_are_the_nearest_vectors_and_the_item_itself() -> None:
    unit = unit_vectors(np.random.default_rng(3).standard_normal((70, 5)).astype(np.float32))
    unit[30:60] = unit[30]  # more than there are places for
    category = np.where(np.arange(70) < 65, 0, UNKNOWN).astype(np.int32)
    found = vector_neighbours(unit, category).toarray()
    assert np.array_equal(np.diag(found), np.ones(70))
    assert ((found > 0).sum(axis=1)[:65] <= similarity.NEIGHBOURS).all()
    assert np.array_equal(found[65:], np.eye(70)[65:])
    cosine = unit @ unit.T
    for row in range(30):
        others = np.sort(cosine[row, :65][np.arange(65) != row])[::-1][: similarity.NEIGHBOURS - 1]
        mine = np.sort(found[row][np.arange(70) != row])[::-1][: similarity.NEIGHBOURS - 1]
        np.testing.assert_allclose(mine, np.where(others >= 0.2, others, 0) ** 2, atol=1e-6)


def test_factors_give_back_a_matrix_of_low_rank() -> None:
    rng = np.random.default_rng(1)
    half = rng.standard_normal((40, 3)).astype(np.float32)
    matrix = half @ np.diag([3.0, 1.0, -2.0]).astype(np.float32) @ half.T
    matrix[7], matrix[:, 7] = 0, 0
    vectors, values = low_rank_factors(sparse.csr_matrix(matrix), 3, rng)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-3)
    assert not vectors[7].any()
    assert not low_rank_factors(sparse.csr_matrix((4, 4), dtype=np.float32), 2, rng)[0].any()


def test_log_lifts_hold_only_pairs_above_chance_and_seen_often_enough() -> None:
    counts = PairCounts.of(toy_baskets(), CountOptions(directed=False))
    found = log_lifts(counts, min_pair_count=3).tocoo()
    times = counts.of_pairs(found.row, found.col)
    assert (found.data > 0).all()
    assert (times >= 3).all()
    expected = counts.expected(counts.total[found.row], counts.total[found.col])
    np.testing.assert_allclose(found.data, np.log((times + 3) / (expected + 3)), rtol=1e-5)


def test_small_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, category = PairCounts.of(toy_baskets(), CountOptions(directed=False)), toy_catalog().category_of()
    unit = unit_vectors(np.random.default_rng(0).standard_normal((22, 4)).astype(np.float32))
    usual = log_lifts(counts, 2), vector_neighbours(unit, category)
    monkeypatch.setattr(similarity, "BLOCK_PAIRS", 5)
    monkeypatch.setattr(similarity, "MAX_COSINES", 3)
    for one, other in zip(usual, (log_lifts(counts, 2), vector_neighbours(unit, category)), strict=True):
        np.testing.assert_allclose(other.toarray(), one.toarray(), rtol=1e-6)
    assert row_blocks(np.array([0, 3, 4, 9, 9, 10]), 4) == [(0, 2), (2, 3), (3, 5)]
