"""Tables as CSV, Markdown and LaTeX: the same numbers everywhere, names from data stay text."""

import csv
import io
import math
import re

import pytest

from helpers.small_report import INJECTIONS
from neatrec.errors import ParameterError
from neatrec.report.table import (
    ReportTable,
    TableColumn,
    best_cells,
    latex_text,
    markdown_text,
    to_csv,
    to_latex,
    to_markdown,
)

COLUMNS = (
    TableColumn("name", "Name"),
    TableColumn("hr@10", "HR@10", "interval", 3),
    TableColumn("count", "Count", "number"),
    TableColumn("share", "Share", "share", 1),
    TableColumn("p", "p", "p"),
    TableColumn("time", "Time", "seconds"),
    TableColumn("mark", "Mark", "mark"),
)
ROW = ("tea", (0.33449, 0.3, 0.4), 1234, 0.125, 0.0001, 75.0, "exact")


def table(*rows: tuple[object, ...]) -> ReportTable:
    return ReportTable("things", "Things & <others>", COLUMNS, rows, ("A note.",), frozenset({(0, 1)}))


def test_every_kind_of_value_is_shown_for_people() -> None:
    assert table(ROW).text_rows() == [
        ["tea", "0.334 [0.300, 0.400]", "1,234", "12.5 %", "< 0.001", "1 min 15 s", "exact"]
    ]


def test_what_is_missing_is_a_dash_and_an_empty_cell() -> None:
    missing = table((None, None, None, float("nan"), None, None, None))
    assert missing.text_rows() == [["–"] * 7]
    assert to_csv(missing).splitlines()[1] == ",,,,,,,,"


def test_a_csv_file_has_three_columns_for_an_interval_and_all_digits() -> None:
    head, line = csv.reader(io.StringIO(to_csv(table(ROW))))
    assert head == ["name", "hr@10", "hr@10_low", "hr@10_high", "count", "share", "p", "time", "mark"]
    assert line == ["tea", "0.33449", "0.3", "0.4", "1234", "0.125", "0.0001", "75", "exact"]


def test_bold_cells_are_bold_in_markdown_and_latex() -> None:
    assert "**0.334 \\[0.300, 0.400\\]**" in to_markdown(table(ROW))
    assert r"\textbf{0.334 [0.300, 0.400]}" in to_latex(table(ROW))


def test_a_row_of_the_wrong_length_and_an_unknown_kind_of_column_are_refused() -> None:
    with pytest.raises(ParameterError, match="row 0 of table 'things' must have 7 cells, got 1"):
        table(("tea",))
    with pytest.raises(ParameterError, match="`kind` must be one of text, number"):
        TableColumn("a", "A", "numbr")


@pytest.mark.parametrize("name", INJECTIONS)
def test_names_from_data_stay_text_in_every_format(name: str) -> None:
    one = table((name, *ROW[1:]))
    row = to_markdown(one).splitlines()[4]
    assert len(re.findall(r"(?<!\\)\|", row)) == len(COLUMNS) + 1
    assert not re.search(r"<\w|(?<!\\)[`*]{1}(?!\*)\w+`", row.replace("**", ""))
    cell = next(csv.reader(io.StringIO(to_csv(one).splitlines()[1])))[0]
    assert cell[0] not in "=+-@"
    for text in (to_markdown(one), to_csv(one), to_latex(one)):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u2028\u202e]", text)


@pytest.mark.parametrize("name", INJECTIONS)
def test_latex_acts_on_nothing_that_comes_from_data(name: str) -> None:
    text = latex_text(name)
    known = r"\\(textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar|char34|ldots)\{\}"
    rest = re.sub(rf"{known}|\\[{{}}$&#%_]|\$\^2\$|\$\\times\$", "", text)
    assert not set(rest) & set('\\{}$&#%_^~<>|"')


def test_markdown_makes_no_links() -> None:
    text = markdown_text("[tea](https://example.org) www.example.org")
    assert "](" not in text.replace("\\](", "")
    assert "https:" not in text
    assert "www." not in text


def test_best_cells_are_those_that_show_the_highest_value() -> None:
    columns = (TableColumn("name", "Name"), TableColumn("hr", "HR", "interval", 2), TableColumn("x", "X", "number", 1))
    cells = [("a", (0.301, 0, 1), 1.0), ("b", (0.3012, 0, 1), None), ("c", (0.29, 0, 1), math.nan)]
    assert best_cells(columns, cells, ["hr", "x"]) == {(0, 1), (1, 1), (0, 2)}
    assert best_cells(columns, [("a", (math.nan,) * 3, 1.0)], ["hr"]) == frozenset()
