"""Verifying a report: altered files and altered numbers are found and named."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.small_report import QUICK
from neatrec.data.baskets import Baskets
from neatrec.errors import BundleError, InputError
from neatrec.leaderboard.report import make_report
from neatrec.report.folder import file_hash
from neatrec.report.verify import check_report, verify_report

TABLE = "tables/leaderboard-0.05-top200"


@pytest.fixture
def report(small_report: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_report, tmp_path / "report"))


def alter(file: Path, change: Callable[[str], str]) -> None:
    before = file.read_text(encoding="utf-8")
    after = change(before)
    assert after != before
    file.write_text(after, encoding="utf-8")


def alter_column(file: Path, column: str, change: Callable[[list[Any]], None]) -> pa.Table:
    table = pq.read_table(file)
    values = table[column].to_pylist()
    change(values)
    array = pa.array(values, table.schema.field(column).type)
    pq.write_table(table.set_column(table.column_names.index(column), column, array), file)
    return table


def alter_rank(report: Path, row: int, column: str = "higher") -> str:
    def change(values: list[Any]) -> None:
        values[row] += 1

    return str(alter_column(report / "ranks.parquet", column, change)["model"][row])


def replace_hash(report: Path, name: str) -> None:
    """Record the altered file as if it had been written so."""
    new = rf"\g<1>{file_hash(report / name)}"
    alter(report / "run.json", lambda text: re.sub(rf'("{re.escape(name)}": ")\w+', new, text))


def files(report: Path) -> list[str]:
    return [mismatch.file for mismatch in verify_report(report)]


def test_an_unaltered_report_has_no_mismatch(report: Path) -> None:
    assert verify_report(report) == []
    assert check_report(report)["mismatches"] == []


@pytest.mark.parametrize("name", ["index.html", f"{TABLE}.csv", f"{TABLE}.md", f"{TABLE}.tex", "tables/summary.csv"])
def test_one_altered_digit_of_a_file_is_found(report: Path, name: str) -> None:
    alter(report / name, lambda text: re.sub(r"0\.\d", "0.x", text, count=1))
    [mismatch] = verify_report(report)
    assert (mismatch.file, mismatch.where) == (name, "")
    assert mismatch.found == f"SHA-256 {file_hash(report / name)}"


def test_a_missing_file_is_named(report: Path) -> None:
    (report / "figures" / "coverage.svg").unlink()
    assert str(verify_report(report)[0]).startswith("figures/coverage.svg: found no file, expected SHA-256 ")


@pytest.mark.parametrize("row", [0, 3, 40])
@pytest.mark.parametrize("column", ["higher", "equal"])
def test_an_altered_rank_is_found_even_where_its_hash_was_replaced(report: Path, row: int, column: str) -> None:
    model = alter_rank(report, row, column)
    assert files(report)[0] == "ranks.parquet"
    replace_hash(report, "ranks.parquet")
    assert any(m.file == "run.json" and f"models {model}" in m.where for m in verify_report(report))


def test_an_altered_number_of_the_results_is_found(report: Path) -> None:
    run = json.loads((report / "run.json").read_text())
    run["leaderboards"][0]["results"][0]["models"]["lift"]["mean"]["hr@10"] += 0.001
    (report / "run.json").write_text(json.dumps(run))
    [mismatch] = verify_report(report)
    assert (mismatch.file, mismatch.where) == ("run.json", "0.05, top200: models lift mean hr@10")


def test_a_removed_label_is_found(report: Path) -> None:
    pq.write_table(pq.read_table(report / "labels.parquet").slice(1), report / "labels.parquet")
    changed, other_labels = verify_report(report)
    assert changed.file == "labels.parquet"
    assert "are not of these labels" in other_labels.found


def test_an_altered_level_of_a_label_is_found(report: Path) -> None:
    alter_column(report / "labels.parquet", "level", lambda levels: levels.__setitem__(0, 0.05))
    replace_hash(report, "labels.parquet")
    assert any(m.where == "0.01, top200: labels" for m in verify_report(report))


def test_a_truncated_ranks_file_is_named(report: Path) -> None:
    file = report / "ranks.parquet"
    file.write_bytes(file.read_bytes()[:100])
    assert files(report) == ["ranks.parquet", "ranks.parquet"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "FileNotFoundError"),
        ('{"format": 99}', "format 99, this version reads 2"),
        ('{"format": 2, "files": {}}', "no tables, no leaderboards"),
    ],
)
def test_a_folder_that_is_no_report_of_this_format_is_refused(tmp_path, content: str | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(BundleError, match=rf"is no report that can be read: run\.json: {problem}"):
        verify_report(tmp_path)


def test_the_error_names_every_mismatch(report: Path) -> None:
    alter_rank(report, 0)
    with pytest.raises(InputError, match=r"mismatches: ranks\.parquet: found SHA-256 .*; run\.json, ") as caught:
        check_report(report)
    assert caught.value.exit_code == 2
    assert caught.value.where["file"] == "ranks.parquet"
    assert len(caught.value.where["mismatches"]) > 1


def test_a_report_without_labels_is_written_and_verified(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lists = [[f"i{code}" for code in rng.choice(30, size=6, replace=False)] for _ in range(200)]
    result = make_report(Baskets.from_lists(lists), tmp_path / "report", ["popco", "lift"], QUICK, null_rounds=0)
    assert len(result.task.labels) == 0
    assert "There are no labels to compare models by" in (tmp_path / "report" / "index.html").read_text()
    assert verify_report(tmp_path / "report") == []


def test_a_report_of_one_model_without_categories_is_written_and_verified(tmp_path: Path) -> None:
    lists = [["a", "b", "x", "y", "z", "w"]] * 80 + [["c", "d", "x", "u", "v", "w"]] * 80 + [["a", "c"]] * 20
    paper = replace(QUICK, protocol="paper")
    make_report(Baskets.from_lists(lists), tmp_path / "report", ["lift"], paper, null_rounds=0)
    assert verify_report(tmp_path / "report") == []
    assert "<h2" in (tmp_path / "report" / "index.html").read_text()
