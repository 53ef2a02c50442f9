"""Both engines count what the definition says, to the bit."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.counting_reference import as_dict, assert_counted_right, count_cases, margins_plainly
from neatrec.cooccurrence import (
    CooccurrenceCounts,
    CountOptions,
    FilteredPairs,
    Margins,
    PairBlock,
    PairFilter,
    count,
    layout,
    margins,
)
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog, string_array

ENGINES = pytest.mark.parametrize("engine", ["memory", "disk"])
CountCase = tuple[Baskets, CountOptions]


def assert_equal(one: CooccurrenceCounts, other: CooccurrenceCounts) -> None:
    for name in ("query", "item", "count", "reverse", "customers"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b, err_msg=name)
    for name in ("first", "second", "category"):
        np.testing.assert_array_equal(getattr(one.margins, name), getattr(other.margins, name), err_msg=name)
    for name in ("records", "pairs", "baskets"):
        assert getattr(one.margins, name) == getattr(other.margins, name), name


@settings(max_examples=120)
@given(case=count_cases(), threads=st.integers(1, 3))
def test_the_memory_engine_counts_as_defined(case: CountCase, threads: int) -> None:
    baskets, counting = case
    assert_counted_right(count(baskets, counting, engine="memory", threads=threads), baskets, counting)


@settings(max_examples=30)
@given(case=count_cases(), threads=st.integers(1, 3))
def test_the_disk_engine_counts_as_defined(case: CountCase, threads: int) -> None:
    baskets, counting = case
    found = count(baskets, counting, engine="disk", threads=threads)
    assert_counted_right(found, baskets, counting)
    assert_equal(found, count(baskets, counting, engine="memory"))


@ENGINES
@settings(max_examples=12)
@given(case=count_cases())
def test_margins_alone_are_those_of_the_pairs(engine: str, case: CountCase) -> None:
    baskets, counting = case
    m = margins(baskets, counting, engine=engine)
    first, second, records, _, counted = margins_plainly(baskets, counting)
    assert (m.first.tolist(), m.second.tolist(), m.records, m.baskets) == (first, second, records, counted)
    assert m.pairs == 0
    assert m.category.tolist() == counting.category_of(baskets.catalog).tolist()


@ENGINES
@settings(max_examples=15)
@given(case=count_cases(), least=st.integers(1, 3), slack=st.floats(0, 2), strict=st.booleans())
def test_keeping_some_pairs_is_counting_all_and_leaving_out_the_rest(engine, case, least, slack, strict: bool) -> None:
    baskets, counting = case

    def make_filter(m: Margins) -> PairFilter:
        share = np.sqrt(m.first / max(m.records, 1))
        return PairFilter(least, expected=(share, share), spread=(share * slack, share) if strict else None)

    def even_items(block: PairBlock, m: Margins) -> npt.NDArray[np.bool_]:
        assert (m.pairs, m.records > 0) == (0, True)
        return (block.item % 2 == 0) & (m.second[block.item] > 0)

    everything = count(baskets, counting, engine="memory")
    block = PairBlock(everything.query, everything.item, everything.count, everything.reverse, everything.customers)
    wanted = block.where(make_filter(everything.margins).passes(block) & (block.item % 2 == 0))
    found = count(baskets, counting, keep=FilteredPairs(make_filter, even_items), engine=engine)
    assert_equal(
        found,
        replace(everything, **{n: getattr(wanted, n) for n in ("query", "item", "count", "reverse", "customers")}),
    )


@ENGINES
@settings(max_examples=12)
@given(case=count_cases(), data=st.data())
def test_the_order_of_baskets_and_how_they_are_cut_into_shards_do_not_matter(engine, case, data: st.DataObject) -> None:
    baskets, counting = case
    order = np.array(data.draw(st.permutations(range(len(baskets)))), dtype=np.int64)
    cut = data.draw(st.integers(0, len(baskets)))
    shards = [own_users(baskets.select(part)) for part in (order[:cut], order[cut:])]
    assert_equal(count(shards, counting, engine=engine), count(baskets, counting, engine="memory"))


def own_users(shard: Baskets) -> Baskets:
    """The shard with a table of only its own users, as a reader of one file at a time would make it."""
    if shard.users is None or shard.user_ids is None:
        return shard
    used, codes = np.unique(shard.users, return_inverse=True)
    return replace(shard, users=codes.astype(np.int32), user_ids=shard.user_ids.take(used))


@settings(max_examples=40)
@given(case=count_cases())
def test_symmetric_counts_add_both_directions(case: CountCase) -> None:
    baskets, counting = case
    both_ways = count(baskets, counting, engine="memory").symmetric()
    undirected = count(baskets, replace(counting, directed=False), engine="memory")
    if not counting.once_per_customer:  # a customer who bought both ways counts once a direction
        expected = {pair: n for pair, (n, _) in as_dict(undirected).items()}
        expected |= {(v, q): n for (q, v), n in expected.items()}
        assert {pair: n for pair, (n, _) in as_dict(both_ways).items()} == expected
    sums = np.bincount(both_ways.query, weights=both_ways.count, minlength=len(baskets.catalog)).astype(np.int64)
    assert both_ways.margins.first.tolist() == both_ways.margins.second.tolist() == sums.tolist()
    assert both_ways.margins.records == sums.sum()
    assert both_ways.margins.pairs == len(both_ways)
    assert both_ways.symmetric() is both_ways
    assert (both_ways.customers is None) == (baskets.users is None or counting.directed)


def test_distinct_customers_survive_symmetry_where_nobody_can_count_twice() -> None:
    baskets = Baskets.from_lists([["a", "b"], ["b", "a"], ["a", "b"]], users=["u", "u", "w"], ordered=False)
    both_ways = count(baskets, CountOptions(directed=False), engine="memory").symmetric()
    assert (both_ways.count.tolist(), both_ways.customers.tolist()) == ([3, 3], [2, 2])


@ENGINES
@pytest.mark.parametrize(
    ("contents", "categories", "options", "wanted"),
    [
        pytest.param(["abaa"], None, {}, {"ab": 1, "ba": 2}, id="a repeated item counts for each line"),
        pytest.param(["abc"], [None, None, "x"], {}, {"ab": 1, "ac": 1, "bc": 1}, id="unknown categories differ"),
        pytest.param(["abc"], ["x", "x", "y"], {"window": 1}, {"bc": 1}, id="windows before categories"),
        pytest.param(["abc", "ac"], ["x", "x", "y"], {"min_basket": 3}, {"ac": 1, "bc": 1}, id="small baskets first"),
    ],
)
def test_what_makes_a_pair(engine: str, contents, categories, options, wanted) -> None:
    letters = sorted(set("".join(contents)))
    baskets = Baskets.from_lists(contents, catalog=Catalog.from_ids(letters, categories=categories))
    found = count(baskets, CountOptions(**options), engine=engine)
    assert {letters[q] + letters[v]: n for (q, v), (n, _) in as_dict(found).items()} == wanted
    assert found.margins.records == sum(wanted.values())


@ENGINES
@pytest.mark.parametrize("window", [50, 10**15])
def test_wide_windows_over_baskets_of_many_sizes(engine: str, window: int) -> None:
    """Wide enough that whole baskets are compared instead of stepping through the window."""
    rng = np.random.default_rng(3)
    baskets = Baskets.from_lists([[str(x) for x in rng.integers(0, 20, size)] for size in (60, 3, 2, 5, 4, 3, 7)])
    counting = CountOptions(window=window)
    assert_counted_right(count(baskets, counting, engine=engine), baskets, counting)


@ENGINES
def test_no_basket_makes_an_empty_answer(engine: str) -> None:
    catalog = Catalog.from_ids("ab")
    nothing = Baskets(catalog, np.empty(0), np.zeros(1), string_array([]), ordered=True)
    found = count(nothing, CountOptions(), engine=engine)
    assert len(found) == 0
    assert found.indptr.tolist() == [0, 0, 0]
    assert len(found.symmetric()) == 0
    assert (found.margins.records, found.margins.baskets, found.margins.first.tolist()) == (0, 0, [0, 0])


def test_lines_that_need_64_bit_places_are_counted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    baskets = Baskets.from_lists(["abcd", "bcd", "da"], users=["u", "w", "u"])
    for counting in (CountOptions(), CountOptions(window=1, directed=False)):
        with monkeypatch.context() as patch:
            patch.setattr(layout, "MAX_32_BIT_LINES", 0)
            found = count(baskets, counting, engine="memory")
        assert_counted_right(found, baskets, counting)


def test_blocks_are_cut_alike_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "BLOCK", 10)
    rng = np.random.default_rng(0)
    baskets = Baskets.from_lists([[str(x) for x in rng.permutation(30)[:8]] for _ in range(40)])
    seen: dict[int, list[list[int]]] = {}

    def look(threads: int) -> CooccurrenceCounts:
        blocks = seen.setdefault(threads, [])

        def note(block: PairBlock, _: Margins) -> npt.NDArray[np.bool_]:
            blocks.append(block.query.tolist())
            return np.ones(len(block), dtype=bool)

        return count(baskets, CountOptions(), keep=note, engine="memory", threads=threads)

    alone, together = look(1), look(4)
    assert len(seen[1]) > 5
    assert seen[1] == seen[4]
    assert_equal(alone, together)
    assert_counted_right(alone, baskets, CountOptions())
