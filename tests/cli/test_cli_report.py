"""`neatrec report` on the command line."""

import re
import shutil
from pathlib import Path

import pytest

from neatrec.cli.main import exit_code_of

MARKET = "supermarket:baskets=3000,items=150,seed=1"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "report"
    words = ["--models", "pop,shrunk-lift", "--level", "0.05", "--quiet"]
    assert exit_code_of(["report", MARKET, "--out", str(out), *words]) == 0
    return out


@pytest.fixture
def report(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "report"))


def test_a_report_is_a_folder_that_opens_offline(neatrec, report: Path) -> None:
    assert {"index.html", "tables"} == {file.name for file in report.iterdir()}
    assert list((report / "tables").glob("models-*.csv"))
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "shrunk-lift" in page
    assert not re.search(r"(?:src|href)=\"(?:\w+:|//)", page)
