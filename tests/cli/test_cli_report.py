"""`neatrec report` on the command line."""

import re
from pathlib import Path


def test_a_report_is_a_folder_that_opens_offline(neatrec, tmp_path: Path) -> None:
    source = "supermarket:baskets=3000,items=150,seed=1"
    words = ["--models", "pop,shrunk-lift", "--level", "0.05", "--quiet"]
    done = neatrec("report", source, "--out", "report", *words)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "The report: report/index.html")
    assert {"index.html", "tables"} == {file.name for file in (tmp_path / "report").iterdir()}
    assert list((tmp_path / "report" / "tables").glob("models-*.csv"))
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "shrunk-lift" in page
    assert not re.search(r"(?:src|href)=\"(?:\w+:|//)", page)


def test_a_folder_that_is_no_report_is_refused_before_any_work(neatrec, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    done = neatrec("report", "supermarket:baskets=400,items=80", "--out", ".")
    assert (done.returncode, "read " in done.stderr) == (2, False)
    assert "is not empty and holds no report" in done.stderr
