"""The basket store: what imports add, what reading it gives, and that a killed import changes nothing."""

import fcntl
import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from helpers import import_crash_worker
from helpers.import_crash_worker import HEADER, PHASES, import_version, rows_after
from helpers.killing import Worker, kill_in, started
from neatrec.data.baskets import Baskets
from neatrec.errors import ResourceError, SourceError
from neatrec.io import SourceOptions, read_baskets
from neatrec.io.basket_store import import_baskets, is_store
from neatrec.io.shards import cut_shards
from neatrec.labels import make_labels
from neatrec.simulator import supermarket

ROUNDS = 10  # for each way, 20 kills in all
COLUMNS: dict[str, Any] = {
    "basket": "order",
    "item": "sku",
    "user": "who",
    "position": "place",
    "time": "at",
    "name": "title",
    "category": ("department", "aisle"),
    "group": "product",
    "quantity": "qty",
    "attributes": ("shop",),
}
OPTIONS = SourceOptions(**COLUMNS)


def rows(start: int, stop: int, seed: int = 0) -> list[str]:
    """Lines of orders start to stop: guests, returns, repeats, variants, one aisle name in two departments."""
    found = []
    for order in range(start, stop):
        rng = np.random.default_rng([seed, order])
        who = "" if order % 7 == 0 else f"c{order % 111}"
        items = rng.integers(0, 40, rng.integers(4, 9)).tolist()
        items += [21, 38] if order % 5 == 0 else []  # a pair that goes together
        for place, item in enumerate(items):
            department = "food" if item % 3 else "drink"
            aisle = "other" if item % 4 == 0 else f"aisle {item % 5} {department}"
            product = f"p{item // 2}" if item < 10 else ""
            at = f"2024-{order % 12 + 1:02d}-03T10:00:00"
            quantity = -1 if rng.random() < 0.02 else 1
            line = (
                f"{order},i{item},{who},{place},{at},Item {item},{department},{aisle},{product},{quantity},s{order % 3}"
            )
            found.append(line)
    return found


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(["order,sku,who,place,at,title,department,aisle,product,qty,shop", *lines, ""]))
    return path


def same(store: Path, baskets: Baskets) -> None:
    found = read_baskets(store)
    assert found.hash == baskets.hash
    assert found.catalog.names == baskets.catalog.names


@pytest.mark.parametrize("cuts", [(0, 300), (0, 80, 300), (0, 1, 2, 150, 300)])
def test_imports_in_any_number_of_parts_give_the_baskets_of_the_files(tmp_path: Path, cuts: tuple[int, ...]) -> None:
    whole = read_baskets(write(tmp_path / "all.csv", rows(0, 300)), OPTIONS)
    store = tmp_path / "store"
    for start, stop in pairwise(cuts):
        done = import_baskets(write(tmp_path / "some.csv", rows(start, stop)), store, OPTIONS)
        assert (done.baskets, done.store_baskets) == (stop - start, stop)
    same(store, whole)
    found = read_baskets(store)
    assert found.dropped == whole.dropped
    labels = [make_labels(baskets, protocol="calibrated", levels=(0.05,)) for baskets in (found, whole)]
    assert len(labels[0].query)
    for name in ("query", "item", "count", "p"):
        assert np.array_equal(getattr(labels[0], name), getattr(labels[1], name)), name


@pytest.mark.real
def test_the_instacart_orders_are_the_same_from_a_store(instacart_folder, instacart: Baskets, tmp_path: Path) -> None:
    import_baskets(instacart_folder, tmp_path / "store")
    assert read_baskets(tmp_path / "store").hash == instacart.hash


def test_shards_and_periods_are_read_from_a_store(tmp_path: Path) -> None:
    source, store = write(tmp_path / "all.csv", rows(0, 100)), tmp_path / "store"
    import_baskets(source, store, OPTIONS)
    period = {"since": "2024-03-01", "until": "2024-08-01"}
    assert read_baskets(store, **period).hash == read_baskets(source, OPTIONS, **period).hash
    shards = cut_shards(str(store), SourceOptions(), tmp_path / "shards", shard_lines=100)
    assert len(shards) > 1
    assert [i for shard in shards for i in shard.ids.to_pylist()] == read_baskets(store).ids.to_pylist()


def test_a_period_at_import_leaves_orders_out_and_keeps_their_items(tmp_path: Path) -> None:
    source, store = write(tmp_path / "all.csv", rows(0, 100)), tmp_path / "store"
    options = SourceOptions(**{**COLUMNS, "group": None}, since="2024-06-01")
    import_baskets(source, store, options)
    same(store, read_baskets(source, options))


def test_a_basket_that_is_there_already_is_refused_by_name(tmp_path: Path) -> None:
    store = tmp_path / "store"
    import_baskets(write(tmp_path / "a.csv", rows(0, 20)), store, OPTIONS)
    before = read_baskets(store).hash
    with pytest.raises(
        SourceError, match=r"basket '18' of .*b\.csv is in the store already \(the first of 2\)\. .*--replace"
    ):
        import_baskets(write(tmp_path / "b.csv", rows(18, 30)), store, OPTIONS)
    assert read_baskets(store).hash == before
    import_baskets(write(tmp_path / "c.csv", rows(20, 30)), store, OPTIONS)
    same(store, read_baskets(write(tmp_path / "all.csv", rows(0, 30)), OPTIONS))


def test_replaced_baskets_are_those_of_the_new_files(tmp_path: Path) -> None:
    store = tmp_path / "store"
    import_baskets(
        write(tmp_path / "a.csv", [*rows(0, 20), "19,only here,c19,99,2024-08-03T10:00:00,Gone,food,other,,1,s1"]),
        store,
        OPTIONS,
    )
    import_baskets(write(tmp_path / "b.csv", rows(20, 40)), store, OPTIONS)
    done = import_baskets(write(tmp_path / "c.csv", rows(15, 25, seed=1)), store, OPTIONS, replace=True)
    assert (done.baskets, done.replaced, done.store_baskets) == (10, 10, 40)
    expected = [*rows(0, 15), *rows(15, 25, seed=1), *rows(25, 40)]
    whole = read_baskets(write(tmp_path / "all.csv", expected), OPTIONS)
    same(store, whole)
    assert "only here" not in read_baskets(store).catalog.code_of
    import_baskets(write(tmp_path / "d.csv", rows(40, 41)), store, OPTIONS)
    named = {
        part[kind]["name"]
        for part in json.loads((store / "store.json").read_text())["parts"]
        for kind in ("lines_file", "items_file")
    }
    assert {file.name for file in store.glob("*.parquet")} == named, "replaced files are removed by the next import"


def test_the_newest_import_says_what_an_item_is(tmp_path: Path) -> None:
    store, catalogue = tmp_path / "store", tmp_path / "items.csv"
    options = SourceOptions(basket="order", item="sku", catalog=catalogue, category="aisle")
    catalogue.write_text("sku,name,aisle\ntea,Tea,drinks\njam,Jam,spreads\nham,Ham,meat\n")
    (tmp_path / "a.csv").write_text("order,sku\n1,tea\n1,jam\n")
    import_baskets(tmp_path / "a.csv", store, options)
    catalogue.write_text("sku,name,aisle\ntea,Green tea,hot drinks\njam,,\n")
    (tmp_path / "b.csv").write_text("order,sku\n2,tea\n2,jam\n")
    import_baskets(tmp_path / "b.csv", store, options)
    catalog = read_baskets(store).catalog
    assert catalog.ids.to_pylist() == ["ham", "jam", "tea"]
    assert [catalog.name(code) for code in range(3)] == ["Ham", "Jam", "Green tea"]
    assert [catalog.category_path(code) for code in range(3)] == [("meat",), ("spreads",), ("hot drinks",)]


@pytest.mark.parametrize("saved", [False, True])
def test_baskets_in_memory_can_be_imported(tmp_path: Path, saved: bool) -> None:
    spec = "supermarket:baskets=200,items=80,seed=3"
    baskets = supermarket(200, 80, seed=3).baskets
    baskets.save(tmp_path / "saved")
    import_baskets(str(tmp_path / "saved") if saved else spec, tmp_path / "store")
    found = read_baskets(tmp_path / "store")
    assert [found.catalog.id(i) for i in found.items] == [baskets.catalog.id(i) for i in baskets.items]
    assert found.catalog.variants == baskets.catalog.variants
    assert [found.catalog.category_path(i) for i in range(80)] == [baskets.catalog.category_path(i) for i in range(80)]
    assert (found.ordered, found.ids, found.user_ids) == (True, baskets.ids, baskets.user_ids)
    assert np.array_equal(found.times, baskets.times)
    assert found.attributes["store"].names == baskets.attributes["store"].names


def test_an_import_with_other_columns_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    import_baskets(write(tmp_path / "a.csv", rows(0, 20)), store, OPTIONS)
    other = SourceOptions(**{**COLUMNS, "position": None})
    with pytest.raises(
        SourceError,
        match=r"does not fit the store .*: its columns are user, time, those of the store position, user, time",
    ):
        import_baskets(write(tmp_path / "b.csv", rows(20, 30)), store, other)
    with pytest.raises(SourceError, match="cannot be imported into itself"):
        import_baskets(store, store)


def test_only_an_empty_folder_becomes_a_store(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", rows(0, 3))
    with pytest.raises(SourceError, match=r"is not a basket store: it holds a\.csv"):
        import_baskets(source, tmp_path, OPTIONS)
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="cannot write the basket store"):
        import_baskets(source, tmp_path / "file" / "store", OPTIONS)


def test_two_imports_at_the_same_time_are_refused(tmp_path: Path) -> None:
    source, store = write(tmp_path / "a.csv", rows(0, 3)), tmp_path / "store"
    store.mkdir()
    with (store / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(SourceError, match=r"another import is writing to .*store"):
            import_baskets(source, store, OPTIONS)
    assert not is_store(str(store))
    import_baskets(source, store, OPTIONS)


def test_a_damaged_part_is_refused_by_name(tmp_path: Path) -> None:
    store = tmp_path / "store"
    import_baskets(write(tmp_path / "a.csv", rows(0, 50)), store, OPTIONS)
    file = store / "lines-000001.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(SourceError, match=r"lines-000001\.parquet is damaged: its hash"):
        read_baskets(store)
    file.unlink()
    with pytest.raises(SourceError, match=r"cannot read .*lines-000001\.parquet"):
        read_baskets(store)
    (store / "store.json").write_text("{}")
    with pytest.raises(SourceError, match=r"cannot read .*store\.json"):
        read_baskets(store)


def test_options_that_a_store_knows_itself_are_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    import_baskets(write(tmp_path / "a.csv", rows(0, 5)), store, OPTIONS)
    assert pq.read_schema(store / "lines-000001.parquet").names == [
        *("basket", "item", "position", "user", "time", "attribute:shop")
    ]
    with pytest.raises(SourceError, match=r"`basket` does not apply"):
        read_baskets(store, basket="order")
    with pytest.raises(SourceError, match=r"has no attribute 'region'; it has: shop"):
        read_baskets(store, attributes="region")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with started(import_crash_worker.__file__) as process:
        yield process


@pytest.mark.parametrize("way", ["append", "replace"])
def test_a_killed_import_leaves_the_store_as_it_was(worker: Worker, tmp_path: Path, way: str) -> None:
    store = tmp_path / "store"
    import_version(store, 1, way)
    rng = np.random.default_rng(13)
    landed: Counter[str] = Counter()
    known = 1
    while sum(landed.values()) < ROUNDS or len(landed) < len(PHASES):
        assert sum(landed.values()) < 40 * ROUNDS, f"some phases were never hit: {landed}"
        target = min(PHASES, key=lambda phase: (landed[phase], PHASES.index(phase)))
        phase, last = kill_in(worker, f"{store}\t{known}\t{way}", target, rng.uniform(0, 0.008))
        landed[phase] += 1
        found = read_baskets(store)
        assert known <= len(found) <= last, f"killed in {phase}"
        known = len(found)
        (tmp_path / "expected.csv").write_text("\n".join([HEADER, *rows_after(known, way), ""]))
        assert found.hash == read_baskets(tmp_path / "expected.csv").hash, f"killed in {phase}"
    import_version(store, known + 1, way)
    assert len(read_baskets(store)) == known + 1
    assert not list(store.glob("neatrec-*"))
