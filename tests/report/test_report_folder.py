"""The folder of a report: whole or not there, never over something else."""

import json
from pathlib import Path

import pytest

from neatrec.errors import ResourceError, SourceError
from neatrec.report.folder import file_hash, write_folder
from neatrec.report.page import Page, Paragraph, Section, TableBlock
from neatrec.report.table import ReportTable, TableColumn


def page(text: str = "hello") -> Page:
    table = ReportTable("one", "One", (TableColumn("a", "A"),), (("x",),))
    return Page("Title", ("Lead.",), (Section("part", "Part", (Paragraph(text), TableBlock(table))),))


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


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    assert (write(tmp_path / "report") / "index.html").is_file()


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SourceError, match="is not empty and no report"):
        write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_its_place_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("mine")
    with pytest.raises(SourceError, match="is a file, a report is a folder"):
        write(tmp_path / "report")
    assert (tmp_path / "report").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ResourceError, match=r"cannot write the report .*file/report"):
        write(tmp_path / "file" / "report")


def test_a_report_that_fails_half_way_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = write(tmp_path / "report")

    def full_disk(_: Page) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("neatrec.report.folder.render", full_disk)
    with pytest.raises(ResourceError, match="No space left on device"):
        write(out, "again")
    assert "hello" in (out / "index.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
