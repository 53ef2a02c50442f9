"""The folder of a report: whole or not there, never over something else; tables as CSV; what the sections say."""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.small_report import INJECTIONS, small_result, write_small_report
from neatrec.data import Baskets
from neatrec.errors import ResourceError, SourceError
from neatrec.report import make
from neatrec.report.sections import NO_LABELS, conclusion, first_tests, model_sections
from neatrec.report.summary import summary_section
from neatrec.report.table import ReportTable, TableColumn
from neatrec.serving import EvidenceTable

COLUMNS = (
    TableColumn("name"),
    TableColumn("hr@10", "interval", 3),
    TableColumn("count", "number"),
    TableColumn("share", "share", 1),
    TableColumn("p", "p"),
)
ROW = {
    "name": "tea",
    **{"hr@10": 0.33449, "hr@10_low": 0.3, "hr@10_high": 0.4},
    **{"count": 1234, "share": 0.125, "p": 0.0001},
}


def table(*rows: dict[str, object], compared: Sequence[str] = ()) -> ReportTable:
    return ReportTable("things", "Things", COLUMNS, rows, compared=compared)


def test_a_report_is_one_page_and_csv_files(small_report: Path) -> None:
    assert {file.name for file in small_report.iterdir()} == {"index.html", "tables"}
    files = {file.name for file in (small_report / "tables").iterdir()}
    assert {"pairs.csv", "models-0.05-top200.csv", "held-out-lift.csv"} <= files
    assert all(name.endswith(".csv") for name in files)
    page = (small_report / "index.html").read_text(encoding="utf-8")
    assert {f"tables/{name}" for name in files} == set(re.findall(r'href="(tables/[^"]*)"', page))
    pairs = list(csv.DictReader((small_report / "tables" / "pairs.csv").open(encoding="utf-8")))
    beyond = [float(row["beyond_chance"]) for row in pairs]
    assert beyond == sorted(beyond, reverse=True)
    assert len(pairs) == 11  # twelve were planted


def test_a_report_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "report"
    write_small_report(out)
    (out / "tables" / "old.csv").write_text("old")
    write_small_report(out)
    assert not (out / "tables" / "old.csv").exists()
    assert [path.name for path in out.parent.iterdir()] == ["report"]


def test_what_is_no_report_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for out, message in (
        (tmp_path, "is not empty and holds no report"),
        (tmp_path / "thesis.txt", "is a file, a report is a folder"),
    ):
        with pytest.raises(SourceError, match=message):
            make.make_report(Baskets.from_lists([["a", "b"]]), out)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_report_that_fails_half_way_leaves_the_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report"
    write_small_report(out)
    before = (out / "index.html").read_text()

    def full_disk(_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(make, "render", full_disk)
    with pytest.raises(ResourceError, match="No space left on device"):
        write_small_report(out)
    assert (out / "index.html").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_values_are_rounded_for_people_and_whole_in_files() -> None:
    shown = ["tea", "0.334 [0.300, 0.400]", "1,234", "12.5 %", "< 0.001"]
    assert table(ROW).text_rows() == [shown]
    head, line = csv.reader(io.StringIO(table(ROW).to_csv()))
    assert head == ["name", "hr@10", "hr@10_low", "hr@10_high", "count", "share", "p"]
    assert line == ["tea", "0.33449", "0.3", "0.4", "1234", "0.125", "0.0001"]


@pytest.mark.parametrize(
    "missing", [{}, dict.fromkeys(ROW), {"share": math.nan, "count": math.nan}]
)
def test_what_is_missing_is_a_dash_and_an_empty_cell(missing: dict[str, object]) -> None:
    assert table(missing).text_rows() == [["–"] * 5]
    assert table(missing).to_csv().splitlines()[1] == ",,,,,,"


@pytest.mark.parametrize("name", INJECTIONS)
def test_names_from_data_are_no_formulas_and_no_control_characters(name: str) -> None:
    text = table({**ROW, "name": name}).to_csv()
    cell = next(csv.reader(io.StringIO(text.splitlines()[1])))[0]
    assert cell[0] not in "=+-@"
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u2028\u202e]", text)


def test_best_cells_are_those_that_show_the_highest_value() -> None:
    rows = [{"hr@10": 0.3012, "count": 1}, {"hr@10": 0.30121}, {"hr@10": 0.29, "count": math.nan}]
    assert table(*rows, compared=["hr@10", "count"]).best_cells() == {(0, 1), (1, 1), (0, 2)}
    assert table({"hr@10": math.nan}, {"hr@10": 0.0}, compared=["hr@10"]).best_cells() == set()


@pytest.mark.parametrize(("low", "verdict"), [(0.01, "ranks best: "), (0.0, "ties with ")])
def test_a_difference_whose_interval_holds_0_is_a_tie(low: float, verdict: str) -> None:
    result = small_result()
    rows = result.first_rows()
    tests = [{**test, "difference_low": low} for test in first_tests(result, rows)]
    assert conclusion(rows, tests).startswith(f"{rows[0]['model']} {verdict}")
    assert conclusion([row | {"labels": 0} for row in rows], tests) == NO_LABELS


def test_baskets_without_a_pair_above_chance_get_a_summary_all_the_same() -> None:
    lists = [["tea", "milk"], ["tea", "bread"], ["milk", "bread"]] * 40
    baskets = Baskets.from_lists(lists)
    [words] = summary_section(baskets, EvidenceTable.of(baskets)).blocks
    assert words.text == "No pair is bought together more often than by chance."


def test_without_label_free_measures_there_is_no_section_for_them() -> None:
    result = small_result()
    table = result.table
    names = [name for name in table.column_names if not name.startswith(("held_out", "cart"))]
    without = replace(result, table=table.select(names))
    ids = [section.id for section in model_sections(result)]
    ids.remove("label-free")
    assert [section.id for section in model_sections(without)] == ids
