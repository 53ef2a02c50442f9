"""The record `Labels`: levels, table, JSON, hash."""

import hashlib
import json

import pyarrow.parquet as pq
import pytest

from neatrec.data import Baskets, Catalog
from neatrec.labels import make_labels

COLUMNS = (
    "query item query_name item_name count expected lift lift_low lift_high statistic p q "
    "customers reverse_count level protocol"
)


@pytest.fixture
def baskets() -> Baskets:
    names = ["Bun", None, "Tea", "Milk", "Pen", "Ink"]
    catalog = Catalog.from_ids(["10", "9", "é|\n", "b", "x", "y"], names=names)
    contents = [["10", "9"]] * 30 + [["é|\n", "b"]] * 12 + [["x", "y"]] * 30 + [["9", "b"]] * 2
    return Baskets.from_lists(contents, catalog=catalog, users=[str(i) for i in range(74)])


def test_the_table_has_the_promised_columns_and_names(baskets):
    labels = make_labels(baskets, min_basket=2)
    table = labels.table()
    assert table.column_names == COLUMNS.split()
    assert table["query"].to_pylist() == ["10", "é|\n", "x"]
    assert table["query_name"].to_pylist() == ["Bun", "Tea", "Pen"]
    assert table["item_name"].to_pylist() == ["9", "Milk", "Ink"]
    assert table["customers"].to_pylist() == [30, 12, 30]
    assert table["count"].to_pylist() == [30, 12, 30]


def test_the_level_of_a_row_is_the_strictest_that_it_passes(baskets):
    labels = make_labels(baskets, levels=(0.05, 5e-5, 1e-6), min_basket=2)
    level = labels.table()["level"].to_pylist()
    for i, strictest in enumerate(level):
        assert all(labels.at(step)[i] == (step >= strictest) for step in labels.levels)
    assert len(set(level)) == 2


def test_the_table_says_what_made_it(baskets, tmp_path):
    labels = make_labels(baskets, protocol="paper", levels=(0.05, 0.01), min_basket=2)
    pq.write_table(labels.table(), tmp_path / "labels.parquet")
    again = pq.read_table(tmp_path / "labels.parquet")
    assert set(again["protocol"].to_pylist()) == {"paper"}
    assert json.loads(again.schema.metadata[b"neatrec"]) == {
        "protocol": "paper",
        "level_kind": "p",
        "levels": [0.05, 0.01],
        "options": labels.options,
        "hash": labels.hash,
    }


def test_the_hash_is_that_of_protocol_levels_and_sorted_pairs(baskets):
    labels = make_labels(baskets, levels=(0.01, 0.05), min_basket=2)
    lines = [["calibrated", ["0.05", "0.01"]], ["10", "9", 30], ["x", "y", 30], ["é|\n", "b", 12]]
    wanted = hashlib.sha256("\n".join(json.dumps(line) for line in lines).encode()).hexdigest()
    assert labels.hash == wanted
    others = [
        make_labels(baskets, min_basket=2),
        make_labels(baskets, protocol="paper", min_basket=2),
        make_labels(baskets, levels=(0.05,), min_basket=2),
        make_labels(baskets.select(list(range(1, len(baskets)))), min_basket=2),  # one count less
    ]
    assert len({wanted, *(other.hash for other in others)}) == 5


def test_json_has_the_promised_keys(baskets):
    answer = make_labels(baskets, protocol="paper", min_basket=2).to_json()
    assert list(answer) == [
        *("protocol", "level_kind", "baskets", "records", "pairs", "labels", "threshold", "hash")
    ]
    assert answer["labels"] == {"0.05": 3, "0.01": 3, "0.001": 3}
    assert answer["threshold"] == {"0.05": 3.84, "0.01": 6.64, "0.001": 10.83}
    assert (answer["level_kind"], answer["baskets"], answer["records"], answer["pairs"]) == (
        "p",
        74,
        74,
        4,
    )
    json.dumps(answer)
    labels = make_labels(baskets, levels=(0.05,), min_basket=2)
    assert labels.options["category_level"] is None  # items without categories
    assert repr(labels) == "<Labels calibrated: 3 at 0.05>"
