"""Failures on the command line: a sentence that names the cause and the next step; older output stays intact."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A folder of three days, and labels of yesterday beside it."""
    folder = tmp_path / "orders"
    for place in (folder, tmp_path / "out"):
        place.mkdir()
    (tmp_path / "out" / "labels.parquet").write_bytes(b"yesterday's")
    for number in range(3):
        rng = np.random.default_rng(number)
        basket = np.sort(rng.integers(0, 50, 200)) + 100 * number
        rows = pa.table({"order": basket, "sku": rng.integers(0, 20, 200)})
        pq.write_table(rows, folder / f"2024-01-0{number + 1}.parquet")
    return folder


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def flip_bytes(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[20:60] = b"\xff" * 40
    file.write_bytes(content)


def rename_a_column(file: Path) -> None:
    pq.write_table(pa.table({"order": [1, 1], "article": [3, 4]}), file)


def assert_refused(done, folder: Path, *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("error: ") == 1
    assert all(said in done.stderr for said in words), done.stderr
    assert "Traceback" not in done.stderr
    assert [file.read_bytes() for file in (folder.parent / "out").iterdir()] == [b"yesterday's"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            cut_off,
            ["2024-01-02.parquet is not a complete Parquet file", "Copy or export it again."],
        ),
        (flip_bytes, ["2024-01-02.parquet"]),
        (rename_a_column, ["2024-01-02.parquet has no column 'sku'", "2024-01-01.parquet has it"]),
    ],
)
def test_one_bad_file_among_others(
    neatrec, orders: Path, damage: Callable[[Path], None], words: list[str]
) -> None:
    damage(orders / "2024-01-02.parquet")
    assert_refused(neatrec("labels", orders, "--out", "out/labels.parquet"), orders, *words)


def test_pyspark_is_missing(neatrec, orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What else keeps Spark from starting: tests/spark/test_spark_session.py."""
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    done = neatrec("labels", orders, "--engine", "spark", "--out", "out/labels.parquet")
    assert_refused(done, orders, "the spark engine needs PySpark", "pip install 'neatrec[spark]'")
