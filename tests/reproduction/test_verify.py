"""Verifying a report: what was altered is found and named, wherever it stands."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.small_report import MODELS, QUICK, write_small_report
from neatrec.data.baskets import Baskets
from neatrec.errors import BundleError, InputError
from neatrec.leaderboard.report import make_report
from neatrec.reproduction.verify import check_report, in_words, verify_report

BOARD = "leaderboard-0.05-top200"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("verify") / "report"
    write_small_report(out)
    return out


@pytest.fixture
def report(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "report"))


def alter(file: Path, change: Callable[[str], str]) -> None:
    before = file.read_text(encoding="utf-8")
    after = change(before)
    assert after != before
    file.write_text(after, encoding="utf-8")


def alter_rank(report: Path, row: int, column: str = "higher", by: int = 1) -> str:
    ranks = pq.read_table(report / "ranks.parquet")
    values = ranks[column].to_pylist()
    values[row] += by
    altered = ranks.set_column(ranks.column_names.index(column), column, pa.array(values, pa.int32()))
    pq.write_table(altered, report / "ranks.parquet")
    return str(ranks["model"][row])


def swap_hash(report: Path, name: str) -> None:
    """Record the altered file as if it had been written so."""
    from neatrec.report.folder import file_hash

    alter(
        report / "run.json",
        lambda text: re.sub(rf'("{re.escape(name)}": ")\w+', rf"\g<1>{file_hash(report / name)}", text),
    )


def test_a_report_as_it_was_written_has_no_finding(report: Path) -> None:
    assert verify_report(report) == []
    assert check_report(report)["findings"] == []


def test_one_rank_and_one_table_cell_are_both_found(report: Path) -> None:
    model = alter_rank(report, 5)
    alter(report / "tables" / f"{BOARD}.csv", lambda text: text.replace("popco,paper,", "popco,paper,9", 1))
    findings = verify_report(report)
    ranks = [finding for finding in findings if finding.file == "ranks.parquet"]
    assert ranks[0].cell == f"{model}, seed 0, top200"
    cells = [finding for finding in findings if finding.file == f"tables/{BOARD}.csv"]
    assert len(cells) == 1
    assert re.search(r"row \d \(popco\), column hr@10", cells[0].cell)
    with pytest.raises(BundleError, match=r"2 findings: ranks\.parquet, .*; tables/leaderboard"):
        check_report(report)


@pytest.mark.parametrize("row", [0, 3, 40])
@pytest.mark.parametrize("column", ["higher", "equal"])
def test_any_altered_rank_is_found_even_where_its_hash_was_replaced(report: Path, row: int, column: str) -> None:
    """With the hashes forged too, the numbers no longer follow from the ranks."""
    model = alter_rank(report, row, column)
    swap_hash(report, "ranks.parquet")
    run = json.loads((report / "run.json").read_text())
    from neatrec.report.results_json import rank_hashes

    run["boards"][0]["rank_hashes"] = rank_hashes(pq.read_table(report / "ranks.parquet"))
    (report / "run.json").write_text(json.dumps(run))
    findings = verify_report(report)
    assert any(finding.file == "run.json" and f"models {model}" in finding.cell for finding in findings)


@pytest.mark.parametrize("ending", ["csv", "md", "tex"])
def test_an_altered_cell_is_named_in_every_format(report: Path, ending: str) -> None:
    name = f"tables/{BOARD}.{ending}"
    alter(report / name, lambda text: re.sub(r"(?m)^(\W*pop\b.*?0\.)\d", r"\g<1>x", text, count=1))
    findings = verify_report(report)
    assert [finding.file for finding in findings] == [name]
    assert re.fullmatch(r"row \d \(pop\), column hr@10", findings[0].cell)
    assert "x" in findings[0].says
    assert "x" not in findings[0].should


def test_an_altered_cell_of_the_page_is_named(report: Path) -> None:
    def change(text: str) -> str:
        start = text.index("<tbody>", text.index(f'<table id="table-{BOARD}">'))
        return text[:start] + text[start:].replace("[0.", "[9.", 1)

    alter(report / "index.html", change)
    findings = verify_report(report)
    assert [finding.file for finding in findings] == ["index.html"]
    assert f"table {BOARD}, row " in findings[0].cell


def test_an_altered_cell_of_a_table_that_no_rank_gives_is_named(report: Path) -> None:
    alter(report / "tables" / "summary.csv", lambda text: re.sub(r"(calibrated,q = 0.01,)\d+", r"\g<1>999", text))
    findings = verify_report(report)
    assert [finding.file for finding in findings] == ["tables/summary.csv"]
    assert "column labels" in findings[0].cell
    assert findings[0].says == "999"


def test_an_altered_word_of_the_page_is_found(report: Path) -> None:
    alter(report / "index.html", lambda text: text.replace("ranks best", "ranks worst", 1))
    assert [str(finding) for finding in verify_report(report)] == [
        "index.html: says something else, should say what was written"
    ]


def test_an_altered_number_of_the_record_is_found(report: Path) -> None:
    run = json.loads((report / "run.json").read_text())
    run["boards"][0]["results"][0]["models"]["lift"]["mean"]["hr@10"] += 0.001
    (report / "run.json").write_text(json.dumps(run))
    findings = verify_report(report)
    assert [finding.file for finding in findings] == ["run.json"]
    assert findings[0].cell == "0.05, top200: models lift mean hr@10"


def test_a_label_that_was_taken_away_is_found(report: Path) -> None:
    labels = pq.read_table(report / "labels.parquet")
    pq.write_table(labels.slice(1), report / "labels.parquet")
    findings = verify_report(report)
    assert findings[0].file == "labels.parquet"
    assert "are not of these labels" in findings[0].says


def test_a_label_whose_level_was_altered_is_found(report: Path) -> None:
    labels = pq.read_table(report / "labels.parquet")
    levels = labels["level"].to_pylist()
    levels[0] = 0.05
    pq.write_table(
        labels.set_column(labels.column_names.index("level"), "level", pa.array(levels)), report / "labels.parquet"
    )
    assert any(f.file == "labels.parquet" and f.cell == "0.01, top200: labels" for f in verify_report(report))


def test_a_missing_file_is_named(report: Path) -> None:
    (report / "figures" / "coverage.svg").unlink()
    assert [str(finding) for finding in verify_report(report)] == [
        "figures/coverage.svg: says nothing: it is not there, should say what was written"
    ]


def test_a_cut_off_ranks_file_is_named(report: Path) -> None:
    file = report / "ranks.parquet"
    file.write_bytes(file.read_bytes()[:100])
    findings = verify_report(report)
    assert findings[0].file == "ranks.parquet"


def test_a_csv_file_with_a_line_less_is_named(report: Path) -> None:
    alter(report / "tables" / f"{BOARD}.csv", lambda text: "\n".join(text.splitlines()[:-1]) + "\n")
    [finding] = verify_report(report)
    assert str(finding) == f"tables/{BOARD}.csv: says {len(MODELS) + 1} lines, should say {len(MODELS) + 2} lines"


def test_a_folder_that_is_no_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"is no report that can be verified: run\.json"):
        verify_report(tmp_path)


def test_a_report_of_another_format_is_refused(report: Path) -> None:
    alter(report / "run.json", lambda text: text.replace('"format": 1', '"format": 99', 1))
    with pytest.raises(BundleError, match="has report format 99, this version reads 1"):
        verify_report(report)


def test_a_record_without_its_parts_is_refused(report: Path) -> None:
    (report / "run.json").write_text('{"format": 1, "files": {}}')
    with pytest.raises(BundleError, match="does not say tables, boards"):
        verify_report(report)


def test_the_error_is_one_that_the_caller_can_mend(report: Path) -> None:
    alter_rank(report, 0)
    with pytest.raises(InputError) as caught:
        check_report(report)
    assert caught.value.exit_code == 2
    assert caught.value.where["file"] == "ranks.parquet"
    assert caught.value.where["findings"]
    assert in_words(verify_report(report)).startswith("1 finding: ranks.parquet, ")


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
