"""`neatrec report`, `verify` and `reproduce` on the command line."""

import re
import shutil
from pathlib import Path

import pytest

from helpers.small_instacart import write_instacart
from neatrec.cli.main import exit_code_of

MARKET = "supermarket:baskets=3000,items=150,seed=1"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "report"
    words = ["--models", "pop,shrunk-lift", "--level", "0.05", "--null-rounds", "1", "--quiet"]
    assert exit_code_of(["report", MARKET, "--out", str(out), *words]) == 0
    return out


@pytest.fixture
def report(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "report"))


def test_a_report_is_a_folder_that_verifies(neatrec, report: Path) -> None:
    assert {"index.html", "ranks.parquet", "labels.parquet", "run.json", "tables", "figures"} == {
        file.name for file in report.iterdir()
    }
    for ending in ("csv", "md", "tex"):
        assert list((report / "tables").glob(f"*.{ending}"))
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "shrunk-lift" in page
    assert not re.search(r"(?:src|href)=\"(?:\w+:|//)", page)
    assert neatrec("verify", report, "--json").json()["mismatches"] == []


def test_verify_names_an_altered_table(neatrec, report: Path) -> None:
    """Other alterations: tests/report/test_verify.py."""
    table = next((report / "tables").glob("leaderboard-*.csv"))
    table.write_text(table.read_text().replace("0.", "9.", 1))
    error = neatrec("verify", report, "--json").error()
    assert error["kind"] == "BundleError"
    assert f"tables/{table.name}" in error["message"]


def test_verify_of_something_else_is_a_sentence(neatrec, tmp_path: Path) -> None:
    error = neatrec("verify", tmp_path, "--json").error()
    assert "run.json" in error["message"]


def test_the_paper_is_reproduced_from_the_prompt_and_taken_up_again(neatrec, tmp_path: Path) -> None:
    data = write_instacart(tmp_path / "data")
    words = ["reproduce", "instacart", data, "--models", "pop,popco", "--seeds", "1", "--margin-seeds", "0"]
    words += ["--no-journey", "--keep", tmp_path / "kept"]
    got = neatrec(*words, "--out", tmp_path / "one", "--json").json()
    assert {"report", "marks", "differs", "instacart", "complete_journey"} == got.keys()
    assert got["complete_journey"] is None
    assert "exact" in got["marks"]
    assert neatrec("verify", tmp_path / "one", "--json").json()["mismatches"] == []
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "kept").rglob("ranks/*")}
    again = neatrec(*words, "--out", tmp_path / "two", "--json").json()
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    assert again["instacart"]["results"] == got["instacart"]["results"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["walmart", "."], "`what` must be instacart, the paper's public data set, got 'walmart'"),
        (["instacart", "nowhere"], "nowhere"),
    ],
)
def test_reproducing_something_else_is_refused(neatrec, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    error = neatrec("reproduce", *arguments, "--out", tmp_path / "out", "--json").error()
    assert sentence in error["message"]
