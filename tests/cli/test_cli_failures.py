"""Failures among many files: a sentence names the file and the next step; older output is intact."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A folder of three days, and labels of yesterday beside it."""
    folder = tmp_path / "orders"
    folder.mkdir()
    (tmp_path / "labels.parquet").write_bytes(b"yesterday's")
    for number in range(3):
        rng = np.random.default_rng(number)
        basket = np.sort(rng.integers(0, 50, 200)) + 100 * number
        rows = pa.table({"order": basket, "sku": rng.integers(0, 20, 200)})
        pq.write_table(rows, folder / f"2024-01-0{number + 1}.parquet")
    return folder


def damaged(content: bytes, how: str) -> bytes:
    if how == "cut off":
        return content[:-100]
    if how == "flipped":
        return content[:20] + b"\xff" * 40 + content[60:]
    pq.write_table(pa.table({"order": [1, 1], "article": [3, 4]}), out := pa.BufferOutputStream())
    return out.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("cut off", "2024-01-02.parquet"),
        ("flipped", "2024-01-02.parquet"),
        ("other column", "2024-01-02.parquet has no column 'sku'"),
        ("no PySpark", "the spark engine needs PySpark"),
    ],
)
def test_a_failure_is_one_sentence_and_older_labels_stay(
    neatrec, orders: Path, how: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ()
    if how == "no PySpark":
        monkeypatch.setitem(sys.modules, "pyspark.sql", None)
        engine = ("--engine", "spark")
    else:
        file = orders / "2024-01-02.parquet"
        file.write_bytes(damaged(file.read_bytes(), how))
    done = neatrec("labels", orders, "--out", "labels.parquet", *engine)
    assert (done.returncode, done.stderr.count("error: ")) == (2, 1), done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert (orders.parent / "labels.parquet").read_bytes() == b"yesterday's"
    assert sorted(path.name for path in orders.parent.iterdir()) == ["labels.parquet", "orders"]
