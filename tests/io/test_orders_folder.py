"""`neatrec import`: what it adds, what reading the folder gives, and that a kill changes nothing."""

import errno
import fcntl
import os
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from helpers import import_crash_worker
from helpers.full_disk import no_file_larger_than
from helpers.import_crash_worker import HEADER, PHASES, import_version, rows_after
from helpers.killing import Worker, kill_in, started
from neatrec.data import Baskets
from neatrec.errors import ResourceError, SourceError
from neatrec.io import SourceOptions, read_baskets
from neatrec.io.orders_folder import import_orders

ROUNDS = 10  # for each way, 20 kills in all
COLUMNS: dict[str, Any] = {
    "basket": "order",
    "item": "sku",
    "user": "who",
    "position": "place",
    "time": "at",
    "name": "title",
    "category": ("department", "aisle"),
    "quantity": "qty",
    "attributes": ("channel",),
}
OPTIONS = SourceOptions(**COLUMNS)


def rows(start: int, stop: int, seed: int = 0) -> list[str]:
    """Lines of orders start to stop: guests, returns, repeats, an aisle in two departments."""
    found = []
    for order in range(start, stop):
        rng = np.random.default_rng([seed, order])
        who = "" if order % 7 == 0 else f"c{order % 111}"
        for place, item in enumerate(rng.integers(0, 40, rng.integers(4, 9)).tolist()):
            department = "food" if item % 3 else "drink"
            aisle = "" if item == 7 else "other" if item % 4 == 0 else f"aisle {item % 5}"
            at = f"2024-{order % 12 + 1:02d}-03T10:00:00"
            quantity = -1 if rng.random() < 0.02 else 1
            about = f"Item {item},{department},{aisle},{quantity},s{order % 3}"
            found.append(f"{order},i{item},{who},{place},{at},{about}")
    return found


def write(path: Path, lines: list[str]) -> Path:
    header = "order,sku,who,place,at,title,department,aisle,qty,channel"
    path.write_text("\n".join([header, *lines, ""]))
    return path


def same(folder: Path, expected: Baskets) -> None:
    found = read_baskets(folder)
    assert found.hash == expected.hash
    assert found.catalog.names == expected.catalog.names
    assert found.catalog.levels == expected.catalog.levels


@pytest.mark.parametrize("cuts", [(0, 300), (0, 80, 300), (0, 1, 2, 150, 300)])
def test_imports_in_any_number_give_the_baskets_of_the_files(
    tmp_path: Path, cuts: tuple[int, ...]
) -> None:
    expected = read_baskets(write(tmp_path / "all.csv", rows(0, 300)), OPTIONS)
    folder = tmp_path / "orders"
    for start, stop in pairwise(cuts):
        done = import_orders(write(tmp_path / "some.csv", rows(start, stop)), folder, OPTIONS)
        assert (done.baskets, done.folder_baskets) == (stop - start, stop)
    same(folder, expected)
    period = {"since": "2024-03-01", "until": "2024-08-01"}
    inside = read_baskets(tmp_path / "all.csv", OPTIONS, **period)
    assert read_baskets(folder, **period).ids == inside.ids


def test_a_basket_that_is_there_already_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    import_orders(write(tmp_path / "a.csv", rows(0, 20)), folder, OPTIONS)
    before = read_baskets(folder).hash
    with pytest.raises(
        SourceError,
        match=r"basket '18' of .*b\.csv is in .*already \(the first of 2\)\..*--replace",
    ):
        import_orders(write(tmp_path / "b.csv", rows(18, 30)), folder, OPTIONS)
    assert read_baskets(folder).hash == before


def test_replaced_baskets_are_those_of_the_new_file(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    gone = "19,only here,c19,99,2024-08-03T10:00:00,Gone,food,other,1,s1"
    import_orders(write(tmp_path / "a.csv", [*rows(0, 20), gone]), folder, OPTIONS)
    import_orders(write(tmp_path / "b.csv", rows(20, 40)), folder, OPTIONS)
    import_orders(write(tmp_path / "c.csv", rows(40, 50)), folder, OPTIONS)
    new = write(tmp_path / "d.csv", rows(15, 25, seed=1))
    done = import_orders(new, folder, OPTIONS, replace=True)
    assert (done.baskets, done.replaced, done.folder_baskets) == (10, 10, 50)
    expected = [*rows(0, 15), *rows(15, 25, seed=1), *rows(25, 50)]
    same(folder, read_baskets(write(tmp_path / "all.csv", expected), OPTIONS))


def test_an_import_with_other_columns_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    import_orders(write(tmp_path / "a.csv", rows(0, 20)), folder, OPTIONS)
    other = SourceOptions(**{**COLUMNS, "position": "none"})
    with pytest.raises(
        SourceError, match=r"does not fit .*: none; columns that only the folder has: position"
    ):
        import_orders(write(tmp_path / "b.csv", rows(20, 30)), folder, other)
    with pytest.raises(SourceError, match="cannot be imported into itself"):
        import_orders(folder, folder)


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", rows(0, 3))
    with pytest.raises(SourceError, match=r"holds a\.csv, which no import wrote"):
        import_orders(source, tmp_path, OPTIONS)
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="cannot write the orders into"):
        import_orders(source, tmp_path / "file" / "orders", OPTIONS)


def test_two_imports_at_the_same_time_are_refused(tmp_path: Path) -> None:
    source, folder = write(tmp_path / "a.csv", rows(0, 3)), tmp_path / "orders"
    with (tmp_path / ".orders.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(SourceError, match="is being written by another import"):
            import_orders(source, folder, OPTIONS)
    assert not folder.exists()
    import_orders(source, folder, OPTIONS)


def test_a_full_disk_names_the_folder_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    import_orders(write(tmp_path / "a.csv", rows(0, 20)), folder, OPTIONS)
    before = read_baskets(folder).hash
    more = write(tmp_path / "b.csv", rows(20, 3000))
    with (
        no_file_larger_than(20_000),
        pytest.raises(
            ResourceError, match=r"cannot write the orders into .*/orders: .*as it was before"
        ),
    ):
        import_orders(more, folder, OPTIONS)
    both = write(tmp_path / "c.csv", rows(0, 3000))
    with no_file_larger_than(20_000), pytest.raises(ResourceError):
        import_orders(both, folder, OPTIONS, replace=True)
    assert read_baskets(folder).hash == before
    with (
        no_file_larger_than(20_000),
        pytest.raises(ResourceError, match=f"/none: {os.strerror(errno.EFBIG)}. It is as"),
    ):
        import_orders(both, tmp_path / "none", OPTIONS)
    assert not (tmp_path / "none").exists()
    left = {file.name for file in [*tmp_path.iterdir(), *folder.iterdir()]}
    assert not {name for name in left if name.startswith(".")} - {".orders.lock", ".none.lock"}


def test_its_columns_are_an_ordinary_source(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    import_orders(write(tmp_path / "a.csv", rows(0, 5)), folder, OPTIONS)
    (part,) = folder.iterdir()
    assert pq.read_schema(part).names == [
        *("basket", "item", "name", "category:department", "category:aisle"),
        *("user", "time", "position", "attribute:channel"),
    ]
    assert read_baskets(folder, basket="user", user="none").ids.to_pylist()[0] == "c1"


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with started(import_crash_worker.__file__) as process:
        yield process


@pytest.mark.parametrize("way", ["append", "replace"])
def test_a_killed_import_leaves_the_folder_as_it_was(
    worker: Worker, tmp_path: Path, way: str
) -> None:
    folder = tmp_path / "orders"
    import_version(folder, 1, way)
    rng = np.random.default_rng(13)
    landed: Counter[str] = Counter()
    known = 1
    while sum(landed.values()) < ROUNDS or not set(PHASES[way]) <= set(landed):
        assert sum(landed.values()) < 40 * ROUNDS, f"some phases were never hit: {landed}"
        target = min(PHASES[way], key=lambda phase: (landed[phase], PHASES[way].index(phase)))
        phase, last = kill_in(worker, f"{folder}\t{known}\t{way}", target, rng.uniform(0, 0.008))
        landed[phase] += 1
        found = read_baskets(folder)
        assert known <= len(found) <= last, f"killed in {phase}"
        known = len(found)
        (tmp_path / "expected.csv").write_text("\n".join([HEADER, *rows_after(known, way), ""]))
        assert found.hash == read_baskets(tmp_path / "expected.csv").hash, f"killed in {phase}"
    import_version(folder, known + 1, way)
    assert len(read_baskets(folder)) == known + 1
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith(".")) == [
        ".orders.lock"
    ]
