"""Files larger than the memory the database may use."""

import csv
import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from neatrec.io import duckdb_session, read_baskets

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


def test_lines_that_do_not_fit_into_the_limit_are_read_with_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("order_id,sku\n" + "".join(f"order {i // 10},item {i * 7919 % 5000}\n" for i in range(300_000)))
    wanted = read_baskets(path).hash
    monkeypatch.setattr(duckdb_session, "MEMORY_LIMIT", 8 << 20)
    with caplog.at_level("INFO", logger="neatrec"):
        assert read_baskets(path).hash == wanted
    assert "does not fit into 8 MiB: reading it with more memory" in caplog.text


def test_many_bad_rows_are_found_in_one_pass(tmp_path: Path) -> None:
    """A search that looks at all wanted rows again for each record takes minutes here."""
    bad = 100_000
    path = tmp_path / "orders.csv"
    rows = [f"{i},sku {i % 50},not a number {i}" for i in range(bad)]
    path.write_text("\n".join(["order_id,sku,pos", *rows, "x,tea,1", "x,milk,2", ""]))
    rejects = tmp_path / "rejects.csv"
    baskets = read_baskets(path, position="pos", basket="order_id", item="sku", max_bad_rows=bad, rejects=rejects)
    assert len(baskets) == 1
    with rejects.open(newline="") as stream:
        lines = [int(row["line"]) for row in csv.DictReader(stream)]
    assert lines == list(range(2, bad + 2))


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
