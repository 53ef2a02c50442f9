"""The folder of a report: whole or not there, never over something else; tables as CSV; what the sections say."""

import csv
import io
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.small_report import INJECTIONS, small_result, write_small_report
from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError, ResourceError, SourceError
from neatrec.evaluation.summary import LevelResult
from neatrec.report import make
from neatrec.report.sections import best_first, conclusion, model_sections
from neatrec.report.summary import find_pairs, summary_section
from neatrec.report.table import ReportTable, TableColumn, best_cells, to_csv

COLUMNS = (
    TableColumn("name", "Name"),
    TableColumn("hr@10", "HR@10", "interval", 3),
    TableColumn("count", "Count", "number"),
    TableColumn("share", "Share", "share", 1),
    TableColumn("p", "p", "p"),
    TableColumn("time", "Time", "seconds"),
)
ROW = ("tea", (0.33449, 0.3, 0.4), 1234, 0.125, 0.0001, 75.0)


def table(*rows: tuple[object, ...]) -> ReportTable:
    return ReportTable("things", "Things & <others>", COLUMNS, rows)


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
        (tmp_path, "is not empty and no report"),
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


def test_every_kind_of_value_is_shown_for_people() -> None:
    shown = ["tea", "0.334 [0.300, 0.400]", "1,234", "12.5 %", "< 0.001", "1 min 15 s"]
    assert table(ROW).text_rows() == [shown]


def test_what_is_missing_is_a_dash_and_an_empty_cell() -> None:
    missing = table((None, None, None, float("nan"), None, None))
    assert missing.text_rows() == [["–"] * 6]
    assert to_csv(missing).splitlines()[1] == ",,,,,,,"


def test_a_csv_file_has_three_columns_for_an_interval_and_all_digits() -> None:
    head, line = csv.reader(io.StringIO(to_csv(table(ROW))))
    assert head == ["name", "hr@10", "hr@10_low", "hr@10_high", "count", "share", "p", "time"]
    assert line == ["tea", "0.33449", "0.3", "0.4", "1234", "0.125", "0.0001", "75"]


def test_a_row_of_the_wrong_length_and_an_unknown_kind_of_column_are_refused() -> None:
    with pytest.raises(ParameterError, match="row 0 of table 'things' must have 6 cells, got 1"):
        table(("tea",))
    with pytest.raises(ParameterError, match="`kind` must be one of text, number"):
        TableColumn("a", "A", "numbr")


@pytest.mark.parametrize("name", INJECTIONS)
def test_names_from_data_are_no_formulas_and_no_control_characters(name: str) -> None:
    text = to_csv(table((name, *ROW[1:])))
    cell = next(csv.reader(io.StringIO(text.splitlines()[1])))[0]
    assert cell[0] not in "=+-@"
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u2028\u202e]", text)


def test_best_cells_are_those_that_show_the_highest_value() -> None:
    columns = (COLUMNS[0], TableColumn("hr", "HR", "interval", 2), TableColumn("x", "X", "number"))
    cells = [("a", (0.301, 0, 1), 1.0), ("b", (0.3012, 0, 1), None), ("c", (0.29, 0, 1), math.nan)]
    assert best_cells(columns, cells, ["hr", "x"]) == {(0, 1), (1, 1), (0, 2)}
    assert best_cells(columns, [("a", (math.nan,) * 3, 1.0)], ["hr"]) == frozenset()


def with_tests(low: float) -> LevelResult:
    """The first result, where every paired interval begins at `low`."""
    first = small_result().evaluation.results[0]
    tests = tuple(replace(test, low=low) for test in first.summary.tests)
    return replace(first, summary=replace(first.summary, tests=tests))


def test_the_conclusion_names_the_best_model_and_the_difference() -> None:
    level = with_tests(0.01)
    best, runner_up = (model.name for model in best_first(level)[:2])
    first, second = conclusion(level)
    assert first.startswith(f"{best} ranks best: ")
    assert second.startswith(f"Next is {runner_up} with ")
    assert f"{best} is better than {runner_up} by " in second
    assert "paired 95 % interval 1.0 to " in second


def test_a_difference_whose_interval_holds_0_is_a_tie() -> None:
    level = with_tests(0.0)
    best, runner_up = (model.name for model in best_first(level)[:2])
    first, second = conclusion(level)
    assert first.startswith(f"{best} ties with {runner_up}")
    assert f"{best} ties with {runner_up} (difference " in second


def test_without_labels_nothing_is_compared() -> None:
    level = with_tests(0.0)
    [sentence] = conclusion(replace(level, summary=replace(level.summary, labels=0)))
    assert sentence.startswith("There are no labels to compare models by")


def test_baskets_without_a_pair_above_chance_get_a_summary_all_the_same() -> None:
    lists = [["tea", "milk"], ["tea", "bread"], ["milk", "bread"]] * 40
    found = find_pairs(Baskets.from_lists(lists))
    assert (found.pairs, found.sales) == (0, 0.0)
    [words] = summary_section(found, ()).blocks
    assert words.text == "No pair is bought together more often than by chance."


def test_without_label_free_measures_there_is_no_section_for_them() -> None:
    result = small_result()
    without = replace(result, evaluation=replace(result.evaluation, held_out={}, completion={}))
    ids = [section.id for section in model_sections(result)]
    assert [section.id for section in model_sections(without)] == [
        each for each in ids if each != "label-free"
    ]
