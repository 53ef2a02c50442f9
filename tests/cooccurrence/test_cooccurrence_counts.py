"""Counts are those of the definition, to the bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.counting_reference import (
    as_dict,
    assert_counted_right,
    assert_equal,
    count_cases,
    margins_plainly,
)
from neatrec.cooccurrence import CountBook, CountOptions, Engine, count, layout, margins, totals
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.data import Baskets, ExpectedLimit

CountCase = tuple[Baskets, CountOptions]


@settings(max_examples=120)
@given(case=count_cases(), threads=st.integers(1, 3))
def test_baskets_are_counted_as_defined(case: CountCase, threads: int) -> None:
    baskets, counting = case
    assert_counted_right(count(baskets, counting, Engine(threads=threads)), baskets, counting)
    m = margins(baskets, counting)
    alone = (m.first.tolist(), m.second.tolist(), m.records, m.baskets)
    first, second, records, _, counted = margins_plainly(baskets, counting)
    assert alone == (first, second, records, counted)


@settings(max_examples=15)
@given(case=count_cases(), least=st.integers(1, 3))
def test_keeping_some_pairs_is_counting_all_and_leaving_out_the_rest(
    case: CountCase, least: int
) -> None:
    baskets, options = case
    every = count(baskets, options)
    some = every.where(np.arange(len(every)) % 2 == 0)
    largest = np.array([0.0, 1.5, 3.0])
    limit = ExpectedLimit(fit_expected(every.margins, "product"), largest)
    expected = limit.expected.of(every.query, every.item, every.count)
    kept = {
        "min_count": (least, every.count >= least),
        "only": (some.arrays(), np.arange(len(every)) % 2 == 0),
        "limit": (limit, (every.count > 2) | (expected <= largest[np.minimum(every.count, 2)])),
    }
    for name, (value, mask) in kept.items():
        assert_equal(count(baskets, replace(options, **{name: value})), every.where(mask))


@settings(max_examples=15)
@given(case=count_cases(), most=st.integers(1, 30))
def test_the_most_frequent_pairs_are_kept(case: CountCase, most: int) -> None:
    baskets, options = case
    every, some = count(baskets, options), count(baskets, replace(options, max_pairs=most))
    least = some.options.min_count
    assert len(some) <= most
    assert_equal(some, every.where(every.count >= least))
    assert least == 1 or (every.count >= least - 1).sum() > most


def test_a_share_of_the_pairs_is_the_same_in_every_count() -> None:
    rng = np.random.default_rng(0)
    baskets = Baskets.from_lists([[str(x) for x in rng.permutation(60)[:8]] for _ in range(400)])
    every, some = (count(baskets, CountOptions(share=share)) for share in (1.0, 0.3))
    assert len(some) == pytest.approx(0.3 * len(every), rel=0.1)
    part = count(baskets.select(np.arange(100)), CountOptions(share=0.3))
    assert (some.find(part.query, part.item) >= 0).all()


@settings(max_examples=30)
@given(case=count_cases())
def test_undirected_pairs_know_how_often_the_query_came_first(case: CountCase) -> None:
    baskets, options = case
    if not baskets.ordered or options.once_per_customer:
        return
    directed = count(baskets, replace(options, directed=True))
    found = count(baskets, replace(options, directed=False, forward=True))
    plain = count(baskets, replace(options, directed=False))
    forward = directed.values("count", found.query, found.item)
    np.testing.assert_array_equal(found.column("forward"), forward)
    assert_equal(
        replace(found, columns={**found.columns, "forward": forward}),
        plain.with_columns(forward=forward),
    )


@settings(max_examples=20)
@given(case=count_cases())
def test_undirected_pairs_stand_both_ways(case: CountCase) -> None:
    baskets, counting = case
    pairs = count(baskets, replace(counting, directed=False))
    both_ways = pairs.symmetric()
    expected = as_dict(pairs)
    expected |= {(v, q): found for (q, v), found in expected.items()}
    assert as_dict(both_ways) == expected
    sums = np.bincount(both_ways.query, both_ways.count, len(baskets.catalog)).astype(np.int64)
    assert both_ways.margins.first.tolist() == both_ways.margins.second.tolist() == sums.tolist()
    assert (both_ways.margins.records, both_ways.margins.pairs) == (sums.sum(), len(both_ways))
    assert both_ways.symmetric() is both_ways
    directed = count(baskets, counting)
    assert not counting.directed or directed.symmetric() is directed


def test_customers_are_left_out_where_they_are_not_wanted() -> None:
    baskets = Baskets.from_lists(["abcd", "bcd", "da", "ab"], users=["u", "w", "u", "u"])
    for counting in (CountOptions(), CountOptions(once_per_customer=True)):
        every, without = (
            count(baskets, counting),
            count(baskets, replace(counting, customers=False)),
        )
        assert set(every.columns) - set(without.columns) == {"customers"}
        assert without.count.tolist() == every.count.tolist()
        assert without.item.tolist() == every.item.tolist()
        assert without.column("reverse").tolist() == every.column("reverse").tolist()
        assert without.margins.first.tolist() == every.margins.first.tolist()


def test_a_book_keeps_counts_for_the_next_call_unless_told_otherwise() -> None:
    book = CountBook(Baskets.from_lists(["abcd", "bcd", "da"]))
    once = book.count("all", CountOptions(), keep=False)
    kept = book.count("all", CountOptions())
    assert kept is not once
    assert book.count("all", CountOptions(), keep=False) is kept
    assert len(book.passes) == 2


def test_lines_that_need_64_bit_places_are_counted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    baskets = Baskets.from_lists(["abcd", "bcd", "da"], users=["u", "w", "u"])
    once = CountOptions(once_per_customer=True)
    for counting in (CountOptions(), CountOptions(directed=False), once):
        with monkeypatch.context() as patch:
            patch.setattr(layout, "MAX_32_BIT_LINES", 0)
            patch.setattr(totals, "MAX_32_BIT_LINES", 0)
            found = count(baskets, counting)
        assert_counted_right(found, baskets, counting)


def test_blocks_are_cut_alike_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "BLOCK", 10)
    rng = np.random.default_rng(0)
    baskets = Baskets.from_lists([[str(x) for x in rng.permutation(30)[:8]] for _ in range(40)])
    alone, together = (count(baskets, engine=Engine(threads=threads)) for threads in (1, 4))
    assert_equal(alone, together)
    assert_counted_right(alone, baskets, CountOptions())
