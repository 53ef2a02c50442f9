"""Counts within a bound: what is left out does not depend on how pairs come, and totals count all of them."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from helpers.bayes_cases import toy_bayes
from helpers.toyshop import toy_baskets, toy_catalog
from neatrec.cooccurrence import CountOptions, PairBlock, count
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes, lowrank, names
from neatrec.models.bayes.calibration import UNLEARNED
from neatrec.models.bayes.counting import Gatherer, counted, counted_near, recounted
from neatrec.models.bayes.features import PairFeatures, Surroundings
from neatrec.models.bayes.fit import Lessons, _winners
from neatrec.models.bayes.lowrank import like_company, log_lifts, stretches, unit_vectors
from neatrec.models.bayes.names import like_names, word_table
from neatrec.models.bayes.prior import Weights
from neatrec.models.bayes.ranker_training import Judge
from neatrec.models.counts import PairCounts, frequent_pairs
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


@settings(max_examples=150, deadline=None)
@given(CARTS, st.integers(1, 30), st.booleans(), st.booleans())
def test_the_rarest_pairs_are_left_out_and_no_others(
    carts: list[list[int]], most: int, ordered: bool, once: bool
) -> None:
    counting = CountOptions(directed=False, once_per_customer=once)
    members = Surroundings.of(CATALOG).members()
    found = counted(
        baskets_of(carts, ordered=ordered), counting, ordered=ordered, most=most, members=members, threads=1
    )
    whole = plain(carts, once=once, directed=False)
    least = least_of(whole, most)
    assert found.counts.least == least
    np.testing.assert_array_equal(found.counts.matrix.toarray(), np.where(whole >= least, whole, 0))
    assert found.counts.matrix.has_sorted_indices
    assert found.counts.matrix.nnz <= 2 * most
    np.testing.assert_array_equal(found.counts.total, whole.sum(axis=0))
    assert found.counts.records == whole.sum()
    member = np.eye(CATEGORY[-1] + 1)[CATEGORY]
    np.testing.assert_array_equal(found.groups[0], member.T @ whole @ member)
    if not ordered:
        assert found.directed is None
        assert found.ways is None
        return
    assert found.directed is not None
    assert found.ways is not None
    without = counted(baskets_of(carts), counting, ordered=True, most=most, members=members, ways=False, threads=1)
    assert without.directed is None
    assert without.ways is not None
    for one, other in zip(without.ways, found.ways, strict=True):
        np.testing.assert_array_equal(one, other)
    ways = plain(carts, once=once, directed=True)
    np.testing.assert_array_equal(found.directed.toarray(), np.where(whole >= least, ways, 0))
    np.testing.assert_array_equal(found.ways.before, ways.sum(axis=1))
    np.testing.assert_array_equal(found.ways.after, ways.sum(axis=0))
    np.testing.assert_array_equal(found.ways.groups, member.T @ ways @ member)
    near = counted_near(baskets_of(carts), CountOptions(directed=False, window=1), found.counts, 1)
    narrow = plain(carts, once=False, directed=False, window=1)
    np.testing.assert_array_equal(near.matrix.toarray(), np.where(whole >= least, narrow, 0))
    np.testing.assert_array_equal(near.total, narrow.sum(axis=0))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 200), st.integers(1, 40))
def test_how_pairs_are_cut_into_blocks_does_not_matter(seed: int, most: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    query, item = np.triu_indices(20, k=1)
    shuffled = rng.permutation(len(query))
    times = rng.geometric(0.4, len(query))
    gathered = Gatherer(most, [])
    for start in range(0, len(query), size):
        part = shuffled[start : start + size]
        codes = query[part].astype(np.int32), item[part].astype(np.int32)
        mask = gathered(PairBlock(*codes, times[part].astype(np.int64)), None)  # type: ignore[arg-type]
        assert not mask.any()
    ordered = np.sort(times)[::-1]
    assert gathered.least == (1 if len(times) <= most else ordered[most] + 1)
    matrix, ways = gathered.matrices(20, ways=True)
    wanted = np.zeros((20, 20), dtype=np.int64)
    wanted[query, item] = np.where(times >= gathered.least, times, 0)
    np.testing.assert_array_equal(matrix.toarray(), wanted + wanted.T)
    assert ways is None


@settings(max_examples=50, deadline=None)
@given(CARTS, st.integers(0, 1000), st.integers(0, 12))
def test_chosen_pairs_are_counted_anew(carts: list[list[int]], seed: int, size: int) -> None:
    query, item = (np.random.default_rng(seed + way).integers(0, ITEMS, size).astype(np.int32) for way in (0, 1))
    found = recounted(baskets_of(carts), CountOptions(directed=False), 1, query, item)
    assert found.tolist() == plain(carts, once=False, directed=False)[query, item].tolist()


def test_rare_winners_are_counted_though_they_were_left_out() -> None:
    baskets = supermarket(baskets=6_000, items=300, seed=3).baskets
    halves = [baskets.select(np.arange(len(baskets)) % 2 == part) for part in (0, 1)]
    around, counting = Surroundings.of(baskets.catalog), CountOptions(directed=False)
    how: dict[str, Any] = {"rank": 8, "min_pair_count": 2, "ordered": True, "most": 3_000}
    one, other = (PairFeatures.of(part, counting, around, rng=np.random.default_rng(0), **how) for part in halves)
    assert other.counts.least > 1
    query, item = np.triu_indices(60, k=1)
    pairs = query.astype(np.int32), item.astype(np.int32)
    lessons = Lessons(Weights(1.0, 0.0, None), None, UNLEARNED, 0, 0.0, 0.0)
    judge = Judge(other.counts, None, partial(recounted, halves[1], counting, 1))
    found = _winners(one, judge, lessons, *pairs)
    exact = PairCounts.of(halves[1], counting)
    np.testing.assert_array_equal(found.later_count, exact.of_pairs(*pairs))
    np.testing.assert_allclose(found.later_expected, exact.expected(exact.total[pairs[0]], exact.total[pairs[1]]))
    assert ((found.later_count > 0) & (other.counts.of_pairs(*pairs) == 0)).any()


def test_unbounded_counts_are_those_of_every_other_model() -> None:
    counting = CountOptions(directed=False)
    found, usual = counted(toy_baskets(), counting, ordered=True), PairCounts.of(toy_baskets(), counting)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found.counts.matrix, name), getattr(usual.matrix, name))
        assert getattr(found.counts.matrix, name).dtype == getattr(usual.matrix, name).dtype
    np.testing.assert_array_equal(found.counts.total, usual.total)


@pytest.mark.parametrize("directed", [True, False])
def test_every_engine_brings_the_same_pairs(directed: bool) -> None:
    pytest.importorskip("duckdb", reason="needs duckdb, the other engine")
    found = []
    for engine in ("memory", "duckdb"):
        gathered = Gatherer(60, Surroundings.of(toy_catalog()).members())
        count(toy_baskets(), CountOptions(directed=directed), keep=gathered, engine=engine, threads=1)
        found.append((gathered.least, gathered.groups, *gathered.matrices(22, ways=directed)))
    (least, groups, matrix, ways), (other_least, other_groups, other_matrix, other_ways) = found
    assert least == other_least > 1
    np.testing.assert_array_equal(matrix.toarray(), other_matrix.toarray())
    for one, other in zip(groups, other_groups, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (ways is None) == (other_ways is None) == (not directed)
    if ways is not None:
        np.testing.assert_array_equal(ways.toarray(), other_ways.toarray())


def test_counts_beyond_32_bits_are_held_in_64() -> None:
    gathered = Gatherer(None, [])
    codes = np.array([0, 1], dtype=np.int32), np.array([2, 0], dtype=np.int32)
    block = PairBlock(*codes, np.array([2**31 - 1, 4]), np.array([7, 0]))
    gathered(block, None)  # type: ignore[arg-type]
    matrix, ways = gathered.matrices(3, ways=True)
    assert ways is not None
    assert matrix.toarray().tolist() == [[0, 4, 2**31 + 6], [4, 0, 0], [2**31 + 6, 0, 0]]
    assert ways.toarray().tolist() == [[0, 0, 2**31 - 1], [4, 0, 0], [7, 0, 0]]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4))
def test_often_seen_is_what_a_mask_of_all_pairs_gives(seed: int, least: int) -> None:
    table = np.random.default_rng(seed).poisson(0.6, (12, 12)).astype(np.int32)
    row, column, times = frequent_pairs(sparse.csr_matrix(table), least)
    assert [row.tolist(), column.tolist()] == [part.tolist() for part in np.nonzero(table >= least)]
    assert times.tolist() == table[row, column].tolist()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=20), st.integers(1, 12))
def test_stretches_cover_every_row_once(sizes: list[int], size: int) -> None:
    start = np.concatenate([[0], np.cumsum(sizes)])
    found = stretches(start, size)
    assert [row for first, end in found for row in range(first, end)] == list(range(len(sizes)))
    for first, end in found:
        assert end == first + 1 or start[end - 1] - start[first] < size + max(sizes)


def test_small_stretches_and_small_blocks_of_cosines_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = PairCounts.of(toy_baskets(), CountOptions(directed=False))
    table, category = word_table(toy_catalog()), toy_catalog().category_of()
    assert table is not None
    unit = unit_vectors(np.random.default_rng(0).standard_normal((22, 4)).astype(np.float32), np.ones(4, np.float32))
    usual = log_lifts(counts, 2), like_names(table, category), like_company(unit, category)
    monkeypatch.setattr(lowrank, "STRETCH", 5)
    monkeypatch.setattr(names, "MOST_COSINES", 3)
    for one, other in zip(
        usual, (log_lifts(counts, 2), like_names(table, category), like_company(unit, category)), strict=True
    ):
        np.testing.assert_allclose(other.toarray(), one.toarray(), rtol=1e-6)


def bounded(most: int) -> Bayes:
    baskets = supermarket(baskets=6_000, items=300, seed=3).baskets
    model = make_model("bayes", rank=16, max_pairs=most).fit(baskets, Run(rng=0, threads=1))
    assert isinstance(model, Bayes)
    return model


def test_a_bounded_model_says_what_it_left_out_and_is_kept_by_its_arrays(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "neatrec"):
        model = bounded(5_000)
    pairs = model.fit_info()["pairs"]
    assert pairs["left_out_below"] > 1
    assert pairs["kept"] <= pairs["most"] == 5_000
    assert f"more than 5000 pairs: those seen fewer than {pairs['left_out_below']} times are left out" in caplog.text
    counts = model.evidence.counts
    assert counts.matrix.data.min() >= pairs["left_out_below"]
    assert counts.kept_total.sum() < counts.records
    again = Bayes.from_arrays(model.parameters, model.catalog, model.arrays())
    every = np.arange(len(model.catalog), dtype=np.int32)
    np.testing.assert_array_equal(again.score_all(every), model.score_all(every))
    assert again.fit_info() == model.fit_info()


def test_totals_of_a_bounded_model_count_every_pair() -> None:
    bounds = bounded(5_000), bounded(10**8)
    for name in ("counts", "near"):
        one, other = (getattr(model.evidence, name) for model in bounds)
        np.testing.assert_array_equal(one.total, other.total)
        assert one.records == other.records
        assert one.matrix.nnz < other.matrix.nnz
    assert bounds[1].fit_info()["pairs"]["left_out_below"] == 1
    np.testing.assert_array_equal(*(model.evidence.category_lift for model in bounds))
    np.testing.assert_array_equal(*(model.evidence.order.first for model in bounds))


@pytest.mark.parametrize("name", ["bayes", "bayes-sure"])
@pytest.mark.parametrize("ordered", [True, False])
def test_the_screen_of_a_bounded_model_is_near_its_scores(name: str, ordered: bool) -> None:
    model = toy_bayes(3, ordered=ordered, name=name, max_pairs=60)
    assert model.evidence.counts.least > 1
    sold = np.flatnonzero(model.item_count > 0).astype(np.int32)
    exact = np.log(model.score_all(sold)[:, sold])
    np.testing.assert_allclose(model.screen(sold).rows(sold), exact, atol=2e-5)


def test_as_many_pairs_as_the_bound_are_all_kept() -> None:
    baskets, counting = toy_baskets(), CountOptions(directed=False)
    size = len(count(baskets, counting))
    assert counted(baskets, counting, ordered=True, most=size).counts.least == 1
    assert counted(baskets, counting, ordered=True, most=size - 1).counts.least > 1
