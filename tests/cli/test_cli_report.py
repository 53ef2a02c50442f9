"""`neatrec report`, `verify` and `reproduce` on the command line."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.small_instacart import write_instacart
from neatrec.cli.main import exit_code_of

MARKET = "supermarket:baskets=3000,items=150,seed=1"


def run(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    found = exit_code_of([*map(str, arguments), "--json"])
    out, err = capfd.readouterr()
    assert found == code, err
    answer: dict[str, Any] = json.loads(out)
    return answer


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "report"
    words = ["--models", "pop,shrunk-lift", "--level", "0.05", "--null-rounds", "1", "--quiet"]
    assert exit_code_of(["report", MARKET, "--out", str(out), *words]) == 0
    return out


@pytest.fixture
def report(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "report"))


def test_a_report_is_a_folder_that_verifies(capfd, report: Path) -> None:
    assert {"index.html", "ranks.parquet", "labels.parquet", "run.json", "tables", "figures"} == {
        file.name for file in report.iterdir()
    }
    for ending in ("csv", "md", "tex"):
        assert list((report / "tables").glob(f"*.{ending}"))
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "shrunk-lift" in page
    assert not re.search(r"(?:src|href)=\"(?:\w+:|//)", page)
    assert run(capfd, "verify", report)["mismatches"] == []


def test_verify_names_an_altered_table(capfd, report: Path) -> None:
    """Other alterations: tests/report/test_verify.py."""
    table = next((report / "tables").glob("leaderboard-*.csv"))
    table.write_text(table.read_text().replace("0.", "9.", 1))
    error = run(capfd, "verify", report, code=2)["error"]
    assert error["kind"] == "BundleError"
    assert f"tables/{table.name}" in error["message"]


def test_verify_of_something_else_is_a_sentence(capfd, tmp_path: Path) -> None:
    error = run(capfd, "verify", tmp_path, code=2)["error"]
    assert "run.json" in error["message"]


def test_the_paper_is_reproduced_from_the_prompt_and_taken_up_again(capfd, tmp_path: Path) -> None:
    data = write_instacart(tmp_path / "data")
    words = ["reproduce", "instacart", data, "--models", "pop,popco", "--seeds", "1", "--margin-seeds", "0"]
    words += ["--no-journey", "--keep", tmp_path / "kept"]
    got = run(capfd, *words, "--out", tmp_path / "one")
    assert {"report", "marks", "differs", "instacart", "complete_journey"} == got.keys()
    assert got["complete_journey"] is None
    assert "exact" in got["marks"]
    assert run(capfd, "verify", tmp_path / "one")["mismatches"] == []
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "kept").rglob("ranks/*")}
    again = run(capfd, *words, "--out", tmp_path / "two")
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    assert again["instacart"]["results"] == got["instacart"]["results"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["walmart", "."], "`what` must be instacart, the paper's public data set, got 'walmart'"),
        (["instacart", "nowhere"], "nowhere"),
    ],
)
def test_reproducing_something_else_is_refused(capfd, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    error = run(capfd, "reproduce", *arguments, "--out", tmp_path / "out", code=2)["error"]
    assert sentence in error["message"]
