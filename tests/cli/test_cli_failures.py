"""Failures on the command line: a sentence that names the cause and the next step; older output stays intact."""

import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

RUN = """
import resource, sys
from neatrec.cli.main import run
max_file, missing = int(sys.argv[1]), sys.argv[2]
if max_file:
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_file, max_file))
if missing:
    sys.modules[missing] = None
run(sys.argv[3:])
"""


def neatrec(
    *words: object, max_file: int = 0, missing: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """`neatrec WORDS` with no file larger than `max_file` bytes, and without the module `missing`."""
    known = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "SPARK_MASTER")}
    return subprocess.run(
        [sys.executable, "-c", RUN, str(max_file), missing, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**known, **environment, "PYTHONDONTWRITEBYTECODE": "1"},  # not cut off by the limit, and kept so
    )


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Labels of yesterday."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "labels.parquet").write_bytes(b"yesterday's")
    return folder / "labels.parquet"


def assert_refused(done: subprocess.CompletedProcess[str], older: Path, *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("error: ") == 1
    for said in words:
        assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert older.read_bytes() == b"yesterday's"
    assert [file.name for file in older.parent.iterdir()] == [older.name]


def orders(folder: Path) -> Path:
    folder.mkdir()
    for number in range(3):
        rng = np.random.default_rng(number)
        basket = np.sort(rng.integers(0, 50, 200)) + 100 * number
        pq.write_table(
            pa.table({"order": basket, "sku": rng.integers(0, 20, 200)}), folder / f"2024-01-0{number + 1}.parquet"
        )
    return folder


def test_a_corrupt_file(tmp_path: Path, older: Path) -> None:
    folder = orders(tmp_path / "orders")
    file = folder / "2024-01-02.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    done = neatrec("labels", folder, "--out", older)
    assert_refused(done, older, "2024-01-02.parquet is no whole Parquet file", "Copy or export it again.")


def test_a_file_with_a_flipped_byte(tmp_path: Path, older: Path) -> None:
    folder = orders(tmp_path / "orders")
    file = folder / "2024-01-02.parquet"
    content = bytearray(file.read_bytes())
    content[20:60] = b"\xff" * 40
    file.write_bytes(content)
    assert_refused(neatrec("labels", folder, "--out", older), older, "2024-01-02.parquet")


def test_a_file_with_other_columns(tmp_path: Path, older: Path) -> None:
    folder = orders(tmp_path / "orders")
    pq.write_table(pa.table({"order": [1, 1], "article": [3, 4]}), folder / "2024-01-02.parquet")
    done = neatrec("labels", folder, "--out", older)
    assert_refused(done, older, "2024-01-02.parquet has no column 'sku'", "2024-01-01.parquet has it")


# ---- Spark

SPARK = ["labels", "supermarket:baskets=300,items=60", "--engine", "spark"]


def test_pyspark_is_missing(older: Path) -> None:
    done = neatrec(*SPARK, "--out", older, missing="pyspark.sql")
    assert_refused(done, older, "the spark engine needs PySpark", "pip install 'neatrec[spark]'")


needs_pyspark = pytest.mark.skipif(find_spec("pyspark") is None, reason="needs PySpark: pip install 'neatrec[spark]'")


def java_that_says(folder: Path, version: str) -> Path:
    """A java that knows its version and nothing else."""
    folder.mkdir()
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)
    return java


@needs_pyspark
def test_java_is_missing(tmp_path: Path, older: Path) -> None:
    done = neatrec(*SPARK, "--out", older, PATH=str(tmp_path))
    assert_refused(done, older, "needs Java 17 or later: there is no java", "apt install openjdk-17-jre-headless")


@needs_pyspark
def test_java_is_old(tmp_path: Path, older: Path) -> None:
    java = java_that_says(tmp_path / "bin", 'openjdk version "11.0.2" 2019-01-15')
    done = neatrec(*SPARK, "--out", older, PATH=f"{java.parent}:{os.environ['PATH']}")
    assert_refused(done, older, "needs Java 17 or later", "is Java 11", "set JAVA_HOME")


@needs_pyspark
def test_the_master_does_not_answer(tmp_path: Path, older: Path) -> None:
    java = java_that_says(tmp_path / "bin", 'openjdk version "17.0.2" 2022-01-18')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can answer there
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = neatrec(*SPARK, "--spark-master", f"spark://{address}", "--out", older, PATH=str(java.parent))
    assert_refused(done, older, f"no Spark master answers at {address}", "Check --spark-master or SPARK_MASTER")
