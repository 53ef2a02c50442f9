"""Baskets added day by day give what a recount of all of them gives, to the last number."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from state_days import Bought, days, read

from neatrec.baskets import Baskets
from neatrec.copurchase import Counting, PairBlock, count
from neatrec.copurchase.state import append, open_state
from neatrec.copurchase.state.gather import Gather
from neatrec.copurchase.state.rows import Rows
from neatrec.errors import ParameterError, SourceError
from neatrec.labels import make_labels
from neatrec.labels.appended import labels_of_state
from neatrec.sources.supermarket import supermarket


def everything(block, _):
    return np.ones(len(block), dtype=bool)


def assert_state_is_a_recount(state, whole: Baskets) -> None:
    for once in (False, True) if whole.users is not None else (False,):
        counting = Counting(directed=whole.ordered, min_basket=2, category_level="category", once_per_customer=once)
        expected, found = count(whole, counting, engine="memory"), state.count(everything, once_per_customer=once)
        for name in ("query", "item", "count", "reverse", "customers"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
        for name in ("first", "second", "records", "pairs", "baskets", "category"):
            np.testing.assert_array_equal(
                getattr(found.margins, name), getattr(expected.margins, name), err_msg=f"{name}, once {once}"
            )


@settings(max_examples=30, deadline=None)
@given(days())
def test_any_split_into_days_in_any_order_is_a_recount(shop: tuple[list[list[Bought]], bool, bool]) -> None:
    parts, ordered, users = shop
    whole = read([basket for part in parts for basket in part], ordered=ordered, users=users)
    counting = Counting(directed=ordered, min_basket=2, category_level="category")
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            state, added = append(folder, read(part, ordered=ordered, users=users), counting)
            assert (added.baskets, added.skipped) == (len(part), 0)
        assert_state_is_a_recount(state, whole)
        assert state.baskets().hash == whole.hash
        for protocol, strata in (("calibrated", ()), ("calibrated", ("store",)), ("paper", ())):
            kept = labels_of_state(state, protocol, (0.5, 0.05), strata=strata)
            recount = make_labels(whole, protocol, (0.5, 0.05), min_basket=2, strata=strata)
            assert kept.hash == recount.hash
            assert kept.to_json() == recount.to_json()
            assert kept.options == recount.options
            assert kept.table().equals(recount.table())


@pytest.mark.parametrize("protocol", ["calibrated", "paper"])
def test_a_year_of_a_shop_in_days_has_the_labels_of_the_year(tmp_path: Path, protocol: str) -> None:
    shop = supermarket(baskets=8000, items=300, seed=3).baskets
    rng = np.random.default_rng(0)
    day = rng.integers(0, 5, len(shop))
    for number in range(5):
        state, _ = append(
            tmp_path / "state", shop.select(day == number), Counting(min_basket=5, category_level="aisle")
        )
    recount = make_labels(shop, protocol)
    assert len(recount) > 20
    kept = labels_of_state(state, protocol)
    assert kept.hash == recount.hash
    # to the last digit where categories are numbered alike, as every reader of files numbers them
    assert kept.table().equals(make_labels(state.baskets(), protocol).table())


def test_additions_are_folded_into_one_file_and_nothing_changes(tmp_path: Path, monkeypatch) -> None:
    import importlib

    module = importlib.import_module("neatrec.copurchase.state.append")
    monkeypatch.setattr(module, "FEW_ROWS", 10)
    shop = supermarket(baskets=1200, items=100, seed=1).baskets
    counting = Counting(min_basket=2, category_level="aisle")
    files = []
    for start in range(0, 1200, 200):
        state, _ = append(tmp_path, shop.select(np.arange(start, start + 200)), counting)
        files.append(len(state.about["pairs"]))
    assert 1 in files[1:]
    found, expected = state.count(everything), count(shop, counting)
    for name in ("query", "item", "count", "reverse", "customers"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    named = {"state.json", "lock", *state.about["files"]}
    assert {file.name for file in tmp_path.iterdir()} == named


def test_many_short_runs_make_the_rows_of_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("neatrec.copurchase.state.gather.GROUP", 4096)
    shop = supermarket(baskets=3000, items=400, seed=5).baskets
    pairs = count(shop, Counting(category_level="aisle"))
    order = np.random.default_rng(0).permutation(len(pairs))
    gather = Gather(tmp_path, directed=True, run=2000)
    for part in np.array_split(order, len(order) // 1500):
        columns = (pairs.query, pairs.item, pairs.count, pairs.reverse, pairs.customers)
        gather(PairBlock(*(column[part] for column in columns)), pairs.margins)
    assert len(list(tmp_path.iterdir())) > 10
    groups = list(gather.groups())
    assert len(groups) > 3
    assert all(one.key[-1] >> 1 != other.key[0] >> 1 for one, other in pairwise(groups))
    rows = Rows(*(np.concatenate([getattr(group, name) for group in groups]) for name in ("key", "count", "customers")))
    assert np.all(np.diff(rows.key) > 0)
    back = np.lexsort((rows.second, rows.first))
    for found, expected in (
        (rows.first, pairs.query),
        (rows.second, pairs.item),
        (rows.count, pairs.count),
        (rows.customers, pairs.customers),
        (rows.reverse(rows.count, np.arange(len(rows))), pairs.reverse),
    ):
        np.testing.assert_array_equal(found[back], expected)


SHOP = [Bought("1", "ann", ("a", "e")), Bought("2", "bob", ("a", "e", "f"))]
COUNTING = Counting(min_basket=2, category_level="category")


def test_baskets_that_are_there_already_are_left_out(tmp_path: Path) -> None:
    first, _ = append(tmp_path, read(SHOP, ordered=True, users=True), COUNTING)
    more = [*SHOP, Bought("3", "ann", ("e", "a"))]
    state, added = append(tmp_path, read(more, ordered=True, users=True), COUNTING)
    assert (added.baskets, added.skipped, added.total) == (1, 2, 3)
    assert_state_is_a_recount(state, read(more, ordered=True, users=True))
    again, added = append(tmp_path, read(more, ordered=True, users=True), COUNTING)
    assert (added.baskets, added.skipped, added.total) == (0, 3, 3)
    assert again.about == state.about != first.about


@pytest.mark.parametrize(
    "changed",
    [Bought("2", "bob", ("a", "f", "e")), Bought("2", "bob", ("a", "e")), Bought("2", "ann", ("a", "e", "f"))],
    ids=["order", "size", "user"],
)
def test_a_basket_that_differs_from_the_one_in_the_state_is_named(tmp_path: Path, changed: Bought) -> None:
    before, _ = append(tmp_path, read(SHOP, ordered=True, users=True), COUNTING)
    with pytest.raises(SourceError, match="basket '2' is in the state already, and differs"):
        append(tmp_path, read([SHOP[0], changed], ordered=True, users=True), COUNTING)
    after = open_state(tmp_path)
    assert after is not None
    assert after.about == before.about


def catalogued(items: dict[str, str | None]) -> Baskets:
    from neatrec.catalog import Catalog

    catalog = Catalog.from_ids(sorted(items), categories=[items[item] for item in sorted(items)])
    return Baskets.from_lists([sorted(items)], ids=["-".join(sorted(items))], catalog=catalog)


@pytest.mark.parametrize(
    ("before", "now", "sentence"),
    [
        ("sweet", "sour", "item 'a' was in category sweet in the state and is in sour in these baskets"),
        (None, "sour", "item 'a' had no category in the state and is in sour"),
    ],
)
def test_an_item_that_moved_to_another_category_is_named(tmp_path: Path, before, now, sentence: str) -> None:
    append(tmp_path, catalogued({"a": before, "b": "dry"}), COUNTING)
    with pytest.raises(SourceError, match=sentence):
        append(tmp_path, catalogued({"a": now, "c": "dry"}), COUNTING)


def test_a_day_that_does_not_know_a_category_takes_the_known_one(tmp_path: Path) -> None:
    append(tmp_path, catalogued({"a": "sweet", "b": "dry"}), COUNTING)
    state, _ = append(tmp_path, catalogued({"a": None, "c": "sweet"}), COUNTING)
    assert len(state.count(everything)) == 1  # a and c are of one category


@pytest.mark.parametrize(
    ("options", "counting", "sentence"),
    [
        ({"ordered": False, "users": True}, {"directed": False}, "made with cart order known: yes, got .*: no"),
        ({"ordered": True, "users": False}, {}, "made with users known: yes, got users known: no"),
        ({"ordered": True, "users": True}, {"min_basket": 5}, "made with a smallest basket of 2, got .* of 5"),
        (
            {"ordered": True, "users": True},
            {"category_level": None},
            "made with pairs of one category left out, got pairs of one no category",
        ),
    ],
)
def test_what_the_state_does_not_count_is_refused(tmp_path: Path, options, counting, sentence: str) -> None:
    append(tmp_path, read(SHOP, ordered=True, users=True), COUNTING)
    asked = Counting(**{"min_basket": 2, "category_level": "category", **counting})
    with pytest.raises(ParameterError, match=sentence):
        append(tmp_path, read([Bought("9", "x", ("a", "e"))], **options), asked)


def test_a_window_cannot_be_kept(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="`window` must be None for a state"):
        append(tmp_path, read(SHOP, ordered=True, users=True), Counting(window=3))
