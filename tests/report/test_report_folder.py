"""The folder of a report: whole or not there, never over something else; tables as CSV; what the sections say."""

import csv
import re
from pathlib import Path

import pytest

from helpers.small_report import small_result, write_small_report
from neatrec.data import Baskets
from neatrec.errors import ResourceError
from neatrec.report import make
from neatrec.report.sections import NO_LABELS, conclusion, first_tests
from neatrec.report.summary import summary_section
from neatrec.serving import EvidenceTable


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


def test_names_from_data_are_no_formulas_and_no_control_characters(small_report: Path) -> None:
    text = (small_report / "tables" / "pairs.csv").read_text(encoding="utf-8")
    assert "HYPERLINK" in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u2028\u202e]", text)
    cells = [cell for row in csv.reader(text.splitlines()) for cell in row]
    assert not [cell for cell in cells if re.match(r"[=+@]|-\D", cell)]


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
