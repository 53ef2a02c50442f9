"""Spark reads a folder by itself: the labels of the embedded engine, in every number; bad files are named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from neatrec.cli.main import exit_code_of
from neatrec.errors import ParameterError, ResourceError, SourceError
from neatrec.io import SourceOptions, read_baskets
from neatrec.io.spark_lines import read_spark_lines
from neatrec.labels import make_labels
from neatrec.labels.make import run_labels

pytestmark = pytest.mark.usefixtures("spark")
OPTIONS = SourceOptions(basket="order", item="sku", user="who", position="place", category=("department", "aisle"))


def orders(seed: int = 0, baskets: int = 500) -> pa.Table:
    """A head item in a third of the baskets, one long basket, ids that are no ASCII, lines twice, gaps."""
    rng = np.random.default_rng(seed)
    rows = []
    for basket in range(baskets):
        pair = int(rng.integers(0, 8))
        items = [2 * pair, 2 * pair + 1, *rng.integers(16, 60, rng.integers(0, 7)).tolist()]
        items += [60] if basket % 3 == 0 else []
        items += list(range(16, 60)) if basket == 7 else []
        items += items[:1]
        places = rng.permutation(len(items))
        rows += [
            (f"ö{basket}", i, f"u{basket % 400}" if basket % 9 else None, int(p))
            for i, p in zip(items, places, strict=True)
        ]
    order, item, who, place = zip(*rows, strict=True)
    table = pa.table(
        {
            "order": order,
            "sku": pa.array([float(i) if i != 33 else None for i in item]),
            "who": who,
            "place": place,
            "department": [f"d{i % 2}" for i in item],
            "aisle": [f"a{i % 5}" if i != 40 else None for i in item],
        }
    )
    return table.take(rng.permutation(len(table)))


def written(table: pa.Table, folder: Path, kind: str) -> str:
    folder.mkdir()
    for number in range(2):
        part = table.slice(number * len(table) // 2, (number + 1) * len(table) // 2 - number * len(table) // 2)
        file = folder / f"part-{number}.{kind}"
        pq.write_table(part, file) if kind == "parquet" else pacsv.write_csv(part, file)
    return str(folder)


@pytest.mark.parametrize(("kind", "protocol"), [("parquet", "calibrated"), ("csv", "paper")])
def test_labels_are_those_of_the_embedded_engine(kind: str, protocol: str, tmp_path: Path) -> None:
    source = written(orders(), tmp_path / f"orders-{kind}", kind)
    baskets = read_baskets(source, OPTIONS)
    lines = read_spark_lines(source, OPTIONS)
    assert (len(lines), lines.lines, lines.catalog.hash) == (len(baskets), baskets.lines, baskets.catalog.hash)
    found = make_labels(lines, protocol=protocol, min_basket=3)
    expected = make_labels(baskets, protocol=protocol, min_basket=3)
    assert len(expected) > 10
    assert found.hash == expected.hash
    assert found.table().equals(expected.table())
    assert found.options == expected.options


def test_the_prompt_writes_the_same_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = written(orders(1, 400).select(["order", "sku"]), tmp_path / "orders", "parquet")
    words = ["labels", source, "--basket", "order", "--item", "sku", "--min-basket", "3", "--json", "-q"]
    assert exit_code_of([*words, "--engine", "spark", "--spark-read", "--out", str(tmp_path / "labels.parquet")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert exit_code_of(words) == 0
    expected = json.loads(capsys.readouterr().out)
    for key in ("hash", "labels", "baskets", "records", "pairs", "threshold", "options", "baskets_read"):
        assert found[key] == expected[key], key
    assert pq.read_table(tmp_path / "labels.parquet").num_rows == found["labels"]["0.05"]


def test_a_table_of_the_catalogue_is_read_by_its_name(spark: Any) -> None:
    spark.createDataFrame(orders(2, 50)).createOrReplaceGlobalTempView("orders")
    lines = read_spark_lines("table:global_temp.orders", SourceOptions(basket="order", item="sku"))
    assert len(lines) == 50


def test_bad_files_are_named(tmp_path: Path) -> None:
    source = Path(written(orders(3, 60), tmp_path / "orders", "parquet"))
    whole = (source / "part-1.parquet").read_bytes()
    (source / "part-1.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"Spark cannot read .*part-1\.parquet"):
        read_spark_lines(str(source), OPTIONS)
    other = orders(3, 60).rename_columns(["order", "article", "who", "place", "department", "aisle"])
    pq.write_table(other, source / "part-1.parquet")
    with pytest.raises(
        SourceError, match=r"part-1\.parquet has no line with a basket and an item.*columns order and sku"
    ):
        read_spark_lines(str(source), OPTIONS)


def test_what_cannot_be_counted_is_refused(tmp_path: Path) -> None:
    source = written(orders(3, 60), tmp_path / "orders", "parquet")
    with pytest.raises(SourceError, match="has no column 'skew' for item"):
        read_spark_lines(source, SourceOptions(basket="order", item="skew"))
    with pytest.raises(SourceError, match="column 'who': must be a number, is none in"):
        read_spark_lines(source, SourceOptions(basket="order", item="sku", position="who"))
    with pytest.raises(SourceError, match="has two values in column 'aisle'"):
        read_spark_lines(source, SourceOptions(basket="order", item="sku", user="aisle"))
    lines = read_spark_lines(source, SourceOptions(basket="order", item="sku"))
    too_long = r"basket 'ö7' has .* lines, which make .* pairs, more than `max_basket_pairs` = 100\. Raise --max"
    with pytest.raises(ResourceError, match=too_long):
        make_labels(lines, max_basket_pairs=100)
    with pytest.raises(ParameterError, match="`once_per_customer` must be False for baskets without users"):
        make_labels(lines, once_per_customer=True)
    with pytest.raises(ParameterError, match="`strata` need the baskets themselves, which Spark keeps"):
        make_labels(lines, strata=("basket_size",))
    with pytest.raises(ParameterError, match="`null_rounds` must be 0 for lines that Spark reads"):
        run_labels(lines, null_rounds=1)


def test_a_basket_that_is_too_long_is_refused_before_items_are_looked_at(tmp_path: Path, capsys, monkeypatch) -> None:
    source = written(orders(3, 60), tmp_path / "orders", "parquet")
    monkeypatch.delattr("neatrec.io.spark_lines._catalog")
    words = ["labels", source, "--basket", "order", "--item", "sku", "--engine", "spark", "--spark-read"]
    assert exit_code_of([*words, "--max-basket-pairs", "100"]) == 2
    assert "basket 'ö7' has" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (SourceOptions(basket="order", item="sku", name="n"), "`name` must be left out where Spark reads: it takes"),
        (SourceOptions(item="sku"), "`basket` must be named where Spark reads"),
        (SourceOptions(basket="order"), "`item` must be named where Spark reads"),
    ],
)
def test_options_that_spark_does_not_know_are_refused(options: SourceOptions, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        read_spark_lines("orders", options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "`--engine` must be spark with --spark-read, got 'auto'"),
        (["--engine", "spark", "--null-rounds", "1"], "`--null-rounds` must be left out with --spark-read, got 1"),
        (["--engine", "spark", "--strata", "month"], "`--strata` must be left out with --spark-read"),
    ],
)
def test_the_prompt_says_what_does_not_go_together(options: list[str], sentence: str, capsys) -> None:
    assert exit_code_of(["labels", "orders", "--spark-read", *options]) == 2
    assert sentence in capsys.readouterr().err
