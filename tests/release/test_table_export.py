"""The serving table as files that other programs load."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from helpers.small_report import INJECTIONS
from neatrec.data import Baskets, Catalog
from neatrec.errors import ParameterError, ResourceError
from neatrec.models import Run, make_model
from neatrec.release import ExportOptions, export_answers, export_rows
from neatrec.serving import PairTable, recommend, save_indexed

IDS = [
    *(
        "=1+1",
        "+2",
        "-3",
        "@4",
        "\t5",
        "\r6",
        "O'Neil; DROP TABLE x; --",
        'say "hi", then\nleave',
        "plain",
    ),
    *("back\\slash", "'=1+1"),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> PairTable:
    """Ids and names that try to break out of a cell or a string."""
    ids = [*IDS, *(f"i{n}" for n in range(len(INJECTIONS)))]
    catalog = Catalog.from_ids(ids, names=[None, *ids[1 : len(IDS)], *INJECTIONS])
    rng = np.random.default_rng(0)
    lists = [[ids[i] for i in rng.choice(len(ids), 5, replace=False)] for _ in range(300)]
    baskets = Baskets.from_lists(lists, catalog=catalog)
    place = tmp_path_factory.mktemp("export") / "bundle"
    save_indexed(
        make_model("shrunk-lift").fit(baskets, Run(threads=1)), place, baskets, seed=0, k=5
    )
    return PairTable.open(place)


def rows_of(index: PairTable) -> list[dict[str, Any]]:
    """The answers of all items, one after the other."""
    return [
        {"query": query, **row}
        for query in index.catalog.ids.to_pylist()
        for row in recommend(index, query, 5, min_evidence="guess").rows()
    ]


def test_parquet_has_every_answer_with_its_evidence(
    index: PairTable, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(export_rows, "BLOCK", 17)
    out = ExportOptions(out=tmp_path / "t.parquet", min_evidence="guess", k=5)
    written = export_answers(index, out).answers
    table, wanted = pq.read_table(tmp_path / "t.parquet"), rows_of(index)
    assert table.num_rows == written == len(wanted)
    found = zip(*(table[name].to_pylist() for name in ("query", "rank", "item")), strict=True)
    assert list(found) == [(row["query"], row["rank"], row["id"]) for row in wanted]
    for name in ("count", "lift", "lift_low", "same_category"):
        values = [row["evidence"][name] for row in wanted]
        assert table[name].to_pylist() == pytest.approx(values, rel=1e-5, nan_ok=True)
    assert table["query_name"].to_pylist()[0] == index.catalog.id(0)


def test_no_cell_of_the_csv_is_a_formula(index: PairTable, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(export_rows, "BLOCK", 17)
    export_answers(index, ExportOptions(out=tmp_path / "t.csv", min_evidence="guess", k=5))
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row, answer in zip(rows, rows_of(index), strict=True):
        for cell, wanted in ((row["query"], answer["query"]), (row["item"], answer["id"])):
            assert cell == ("'" + wanted if wanted[0] in "'=+-@\t\r" else wanted)
        assert not any(
            row[name].startswith(("=", "+", "-", "@", "\t", "\r"))
            for name in ("query_name", "item_name")
        )
        assert (int(row["rank"]), row["grade"]) == (answer["rank"], answer["grade"])
        assert float(row["lift_low"]) <= float(row["lift"])


def test_an_unwritable_folder_is_reported_and_the_old_file_stays(
    index: PairTable, tmp_path, monkeypatch
) -> None:
    old = tmp_path / "t.jsonl"
    old.write_text("old")
    with pytest.raises(ParameterError, match=r"cannot write \S*t\.csv: Not a directory"):
        export_answers(index, ExportOptions(out=old / "t.csv"))

    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export_rows.AllAnswers, "documents", full)
    with pytest.raises(ResourceError, match="No space left on device"):
        export_answers(index, ExportOptions(out=old, min_evidence="guess"))
    assert old.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]
