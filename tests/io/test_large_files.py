"""Files larger than the memory the database may use."""

import csv
import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.small_instacart import write_instacart

from neatrec.errors import ResourceError
from neatrec.io import database, read_baskets

LINES = 6_000_000
CODE = """
import resource, sys
from neatrec.io import read_baskets
from neatrec.io import database
database.MEMORY_LIMIT = 256 << 20
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
baskets = read_baskets(sys.argv[1], basket="order_id", item="sku", position="pos", user="who")
print(len(baskets), baskets.lines, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.long
def test_memory_is_bounded_by_the_limit_and_the_result(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    with path.open("w") as stream:
        stream.write("order_id,sku,pos,who\n")
        for start in range(0, LINES, 100_000):
            stream.writelines(
                f"order number {i // 10},stock keeping unit {i * 7919 % 50_000},{i % 10},customer {i // 10 % 90_000}\n"
                for i in range(start, start + 100_000)
            )
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(path)], capture_output=True, text=True, check=True
    )
    baskets, lines, peak = map(int, done.stdout.split())
    assert (baskets, lines) == (LINES // 10, LINES)
    # as strings in memory the lines would take over 800 MiB
    assert peak < 256 + 500


def write_orders(path: Path, columns: str, line: str) -> Path:
    rows = (line.format(order=i // 10, item=i * 7919 % 5000, place=i % 10) for i in range(300_000))
    path.write_text(columns + "\n" + "\n".join(rows) + "\n")
    return path


def as_file(folder: Path) -> Path:
    return write_orders(folder / "orders.csv", "order_id,sku", "order {order},item {item}")


def as_instacart(folder: Path) -> Path:
    tables = write_instacart(folder / "tables")
    columns = "order_id,product_id,add_to_cart_order"
    write_orders(tables / "order_products__prior.csv", columns, "order {order},item {item},{place}")
    return tables


@pytest.mark.parametrize("written", [as_file, as_instacart])
def test_lines_that_do_not_fit_into_the_limit_are_read_with_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, written
) -> None:
    source = written(tmp_path)
    expected = read_baskets(source)
    monkeypatch.setattr(database, "MEMORY_LIMIT", 8 << 20)
    with caplog.at_level("INFO", logger="neatrec"):
        found = read_baskets(source)
    assert found.hash == expected.hash
    assert "does not fit into 8 MiB: reading it with more memory" in caplog.text


def test_where_no_memory_is_enough_the_folder_and_its_room_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = as_file(tmp_path)
    monkeypatch.setattr(database, "MEMORY_LIMIT", 8 << 20)
    monkeypatch.setattr(database, "MORE_MEMORY", 8 << 20)
    wanted = r"orders\.csv needs more than 8 MiB of memory and the [\d,]+ MiB free in .*TMPDIR"
    with pytest.raises(ResourceError, match=wanted):
        read_baskets(source)


def test_no_limit_is_more_than_half_of_what_a_container_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "total_memory", lambda: 2 << 30)
    assert database.memory_limits() == (database.MEMORY_LIMIT, 1 << 30)
    monkeypatch.setattr(database, "total_memory", lambda: 512 << 20)
    assert database.memory_limits() == (256 << 20, 256 << 20)


def test_the_lines_of_bad_values_are_told_among_others_of_every_kind(tmp_path: Path) -> None:
    """Blank lines, records over several lines, quotes, and lines that are no records."""
    rows, bad = ["order_id,sku,pos,note"], []
    for number in range(30_000):
        kind = number % 7
        note = {1: '"two\nlines"', 2: '5" nail', 3: '"a ""b"""'}.get(kind, "x")
        is_bad = number % 500 == 3
        if is_bad:
            bad.append("\n".join(rows).count("\n") + 2)
        rows.append(f"{number},tea,{'soon' if is_bad else 1},{note}")
        rows += [""] * (kind == 4) + [f"{number},milk"] * (number % 1_000 == 5)
    path, rejects = tmp_path / "orders.csv", tmp_path / "rejects.csv"
    path.write_text("\n".join([*rows, ""]))
    read_baskets(path, position="pos", max_bad_rows="1%", rejects=rejects)
    with rejects.open(newline="") as stream:
        found = [row for row in csv.DictReader(stream) if row["column"] == "pos"]
    assert [int(row["line"]) for row in found] == bad
    assert all("soon" in row["text"] for row in found)


REPEATED = """
import resource, sys
from neatrec.io import read_baskets
baskets = read_baskets(sys.argv[1])
print(baskets.lines, sum(baskets.dropped.values()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.long
def test_a_gzip_of_60_million_identical_lines_takes_less_than_a_gigabyte(tmp_path: Path) -> None:
    path, lines = tmp_path / "orders.csv.gz", 60_000_000
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b"order_id,sku\n")
        for _ in range(lines // 1_000_000):
            stream.write(b"1,tea\n" * 1_000_000)
    done = subprocess.run(
        [sys.executable, "-c", REPEATED, str(path)], capture_output=True, text=True, check=True
    )
    kept, repeated, peak = map(int, done.stdout.split())
    assert (kept, repeated) == (1, lines - 1)
    assert peak < 1_000
