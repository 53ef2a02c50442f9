"""The folder of a report: whole or not there, never over something else."""

import json
from pathlib import Path

import pytest

from neatrec.errors import ParameterError, ResourceError, SourceError
from neatrec.report.folder import file_hash, write_folder
from neatrec.report.page import Page, Paragraph, Section
from neatrec.report.table import ReportTable, TableColumn


def page(text: str = "hello") -> Page:
    table = ReportTable("one", "One", (TableColumn("a", "A"),), (("x",),))
    return Page("Title", ("Lead.",), (Section("part", "Part", (Paragraph(text), table)),))


def write(out: Path, text: str = "hello") -> Path:
    return write_folder(page(text), out, run={"source": "here"}, parquet={})


def test_the_folder_holds_page_tables_and_the_hash_of_every_file(tmp_path: Path) -> None:
    out = write(tmp_path / "deep" / "report")
    run = json.loads((out / "run.json").read_text())
    files = {file.relative_to(out).as_posix() for file in out.rglob("*") if file.is_file()} - {"run.json"}
    assert files == {"index.html", "tables/one.csv", "tables/one.md", "tables/one.tex"}
    assert run["files"] == {name: file_hash(out / name) for name in sorted(files)}
    assert run["source"] == "here"
    assert run["tables"]["one"]["caption"] == "One"


def test_a_report_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    out = write(tmp_path / "report")
    (out / "tables" / "old.csv").write_text("old")
    write(out, "again")
    assert "again" in (out / "index.html").read_text()
    assert not (out / "tables" / "old.csv").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_what_is_no_report_is_left_alone_and_an_empty_folder_filled(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for out, error, message in (
        (tmp_path, SourceError, "is not empty and no report"),
        (tmp_path / "thesis.txt", SourceError, "is a file, a report is a folder"),
        (tmp_path / "thesis.txt" / "report", ParameterError, r"cannot write .*thesis\.txt/report"),
    ):
        with pytest.raises(error, match=message):
            write(out)
        assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("thesis.txt", "years of work")]
    (tmp_path / "report").mkdir()
    assert (write(tmp_path / "report") / "index.html").is_file()


def test_a_report_that_fails_half_way_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = write(tmp_path / "report")

    def full_disk(_: Page) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("neatrec.report.folder.render", full_disk)
    with pytest.raises(ResourceError, match="No space left on device"):
        write(out, "again")
    assert "hello" in (out / "index.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
