"""The reproduction: the paper's numbers from one file, ours computed, every row marked."""

import csv
from pathlib import Path

import pytest
from reproduction.__main__ import reproduce
from reproduction.data import read_instacart
from reproduction.labels import label_tables
from reproduction.tables import count_marks

from helpers.small_instacart import write_instacart

MARKS = ("exact", "comparable (", "not checkable here, because ", "differs: ", "cited", "ours ")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reproduction")
    folder, names = write_instacart(place / "data"), ["popco", "neat"]
    reproduce(folder, place / "out", names, seeds=1, null_rounds=1, journey=False)
    return place / "out"


def rows(out: Path, table: str) -> list[dict[str, str]]:
    with (out / f"{table}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_compared_row_has_a_mark(out: Path) -> None:
    marked = [
        row["mark"] for file in out.glob("*.csv") for row in rows(out, file.stem) if "mark" in row
    ]
    assert len(marked) > 100
    assert [mark for mark in marked if not mark.startswith(MARKS)] == []


def test_other_orders_than_the_papers_do_not_pass_as_exact(out: Path) -> None:
    first = rows(out, "label-counts")[0]
    assert first["mark"] == f"differs: {int(first['ours']):,} here, 7,961 in the paper"


def test_our_line_stands_below_the_papers(out: Path) -> None:
    lines = [(row["model"], row["whose"], row["mark"]) for row in rows(out, "metrics-ins-0.05")]
    at = lines.index(("popco", "paper", "cited"))
    assert lines[at + 1] == ("popco", "ours", "comparable (other split)")
    assert ("item2vec", "paper", "not checkable here, because it was not trained") in lines


def test_the_figures_are_linked_from_the_page(out: Path) -> None:
    page = (out / "reproduction.md").read_text(encoding="utf-8")
    for name in ("consistency.svg", "margin-ins.svg", "concept.svg"):
        assert f"]({name})" in page
        assert (out / name).stat().st_size > 5000


def test_the_prior_orders_make_it_the_papers_own_split(tmp_path: Path) -> None:
    data = read_instacart(write_instacart(tmp_path / "data", prior=True, orders=2000))
    assert (len(data.train), len(data.test), data.same_split) == (1000, 1000, True)


@pytest.mark.real
def test_65_rows_are_exact_and_none_differs(instacart_folder: Path) -> None:
    """Label counts, 21 departments, 20 example pairs and Pop's 30 values, to the paper's digits."""
    tables = label_tables(read_instacart(instacart_folder), None, null_rounds=0)
    assert count_marks(tables).startswith("65 exact, ")
    assert count_marks(tables).endswith(" 0 differs")
    protocols = next(table for table in tables if table.name == "protocols")
    assert [row[2] for row in protocols.rows] == [7961, 6077, 4752, 6992, 5183, 3752]
