"""Files larger than the memory the database may use."""

import csv
import gzip
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.small_instacart import write_instacart

from neatrec.io import SourceOptions, bad_rows, duckdb_session, read_baskets, shards
from neatrec.io.bad_rows import lines_of
from neatrec.io.basket_store import import_baskets
from neatrec.io.csv_text import CsvText
from neatrec.io.shards import cut_shards

LINES = 6_000_000
CODE = """
import resource, sys
from neatrec.io import read_baskets
from neatrec.io import duckdb_session as session
session.MEMORY_LIMIT = 256 << 20
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
    done = subprocess.run([sys.executable, "-c", CODE, str(path)], capture_output=True, text=True, check=True)
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


def as_store(folder: Path) -> Path:
    import_baskets(as_file(folder), folder / "store")
    return folder / "store"


def as_instacart(folder: Path) -> Path:
    tables = write_instacart(folder / "tables")
    columns = "order_id,product_id,add_to_cart_order"
    write_orders(tables / "order_products__prior.csv", columns, "order {order},item {item},{place}")
    return tables


def sizes_of_shards(source: Path) -> object:
    return cut_shards(str(source), SourceOptions(), source.parent / "shards").sizes


@pytest.mark.parametrize(
    ("written", "read"),
    [(as_file, read_baskets), (as_store, read_baskets), (as_instacart, read_baskets), (as_file, sizes_of_shards)],
)
def test_lines_that_do_not_fit_into_the_limit_are_read_with_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, written, read
) -> None:
    source = written(tmp_path)
    wanted = read(source)
    monkeypatch.setattr(duckdb_session, "MEMORY_LIMIT", 8 << 20)
    monkeypatch.setattr(shards, "MEMORY", 8 << 20)
    with caplog.at_level("INFO", logger="neatrec"):
        found = read(source)
    assert getattr(found, "hash", found) == getattr(wanted, "hash", wanted)
    assert "does not fit into 8 MiB: reading it with more memory" in caplog.text


def test_no_limit_is_more_than_half_of_what_a_container_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_session, "total_memory", lambda: 2 << 30)
    assert duckdb_session.memory_limits() == [duckdb_session.MEMORY_LIMIT, 1 << 30]
    monkeypatch.setattr(duckdb_session, "total_memory", lambda: 512 << 20)
    assert duckdb_session.memory_limits(1 << 30) == [256 << 20]


def test_many_bad_rows_are_found_in_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []

    def records(text: CsvText) -> Iterator[tuple[int, str]]:
        passes.append(text)
        return all_records(text)

    all_records = bad_rows._records
    monkeypatch.setattr(bad_rows, "_records", records)
    path, rejects, bad = tmp_path / "orders.csv", tmp_path / "rejects.csv", 20_000
    path.write_text("\n".join(["order_id,sku,pos", *bad_lines(bad), "x,tea,1", "x,milk,2", ""]))
    baskets = read_baskets(path, position="pos", basket="order_id", item="sku", max_bad_rows=bad, rejects=rejects)
    assert len(baskets) == len(passes) == 1
    with rejects.open(newline="") as stream:
        assert [int(row["line"]) for row in csv.DictReader(stream)] == list(range(2, bad + 2))


def bad_lines(number: int) -> list[str]:
    return [f"{i},sku {i % 50},not a number {i}" for i in range(number)]


def test_looking_for_all_records_takes_about_as_long_as_looking_for_a_few(tmp_path: Path) -> None:
    """A search that compares each record with all wanted ones takes some seventy times as long for all 20,000 as for
    the last ten, this one twice as long."""
    lines, seconds = bad_lines(20_000), {}
    text = CsvText(tmp_path / "orders.csv", ("order_id", "sku", "pos"), ",", skip=1)
    text.path.write_text("\n".join(["order_id,sku,pos", *lines, ""]))
    for wanted in (10, len(lines)):
        before = time.thread_time()
        found = lines_of(text, [2], [(line.split(",")[2],) for line in lines[-wanted:]])
        seconds[wanted] = time.thread_time() - before
        assert [line for line, _ in found] == list(range(len(lines) + 2 - wanted, len(lines) + 2))
    assert seconds[len(lines)] < 15 * seconds[10]


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
    done = subprocess.run([sys.executable, "-c", REPEATED, str(path)], capture_output=True, text=True, check=True)
    kept, repeated, peak = map(int, done.stdout.split())
    assert (kept, repeated) == (1, lines - 1)
    assert peak < 1_000
