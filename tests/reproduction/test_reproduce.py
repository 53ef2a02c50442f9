"""The reproduction: the paper's numbers from one file, ours computed, every row marked."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from helpers.small_instacart import write_instacart
from neatrec.errors import SourceError
from neatrec.labels.audit import Audit, audit_labels
from neatrec.labels.config import LabelConfig
from neatrec.labels.paper import DependentPairs, dependent_pairs
from neatrec.leaderboard.result_cache import FitContext, ResultCache
from neatrec.leaderboard.run import LeaderboardOptions
from neatrec.models import Run, make_model
from neatrec.report.table import ReportTable
from neatrec.report.verify import verify_report
from neatrec.reproduction import published as paper_file
from neatrec.reproduction.data import read_instacart
from neatrec.reproduction.label_tables import (
    case_pairs_table,
    dataset_table,
    department_sums_table,
    department_table,
    label_count_table,
    pop_table,
    top_items_table,
)
from neatrec.reproduction.model_tables import margin_study
from neatrec.reproduction.published import count_marks, exact_or_differs
from neatrec.reproduction.run import Reproduction, ReproductionOptions, all_models, reproduce_instacart, top_items

MODELS = ["popco", "shrunk-lift"]
QUICK = ReproductionOptions(
    LeaderboardOptions(protocol="paper", rounds=100, queries=0, carts=0), journey=False, margin_seeds=0, null_rounds=0
)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    place = tmp_path_factory.mktemp("reproduce")
    return reproduce_instacart(write_instacart(place / "data"), place / "report", MODELS, QUICK)


def page_of(folder: Path) -> str:
    return (folder / "index.html").read_text(encoding="utf-8")


def cells(folder: Path, table: str) -> list[dict[str, str]]:
    import csv

    with (folder / "tables" / f"{table}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_table_of_the_paper_is_in_the_page(done: Reproduction) -> None:
    page = page_of(done.folder)
    labels = "datasets label-counts departments department-sums positive-pairs negative-pairs top-20 pop"
    for name in f"{labels} metrics-0.05 metrics-0.01 metrics-0.001".split():
        assert f'<table id="table-paper-{name}">' in page
    for title in (
        "NEAT against NEAT+bpr",
        "The margin",
        "Three items in one dimension",
        "Three items as distributions",
    ):
        assert f">{title}</h2>" in page


def test_every_row_has_one_of_the_marks(done: Reproduction) -> None:
    words = ("exact", "comparable (", "not checkable here, because ", "differs: ", "cited", "ours alone")
    assert done.marks
    assert [mark for mark in done.marks if not mark.startswith(words)] == []
    for file in (done.folder / "tables").glob("paper-*.csv"):
        assert all(row["mark"] for row in cells(done.folder, file.stem)), file.name
    assert count_marks(done.marks) in page_of(done.folder)


def test_other_data_than_the_papers_do_not_pass_as_exact(done: Reproduction) -> None:
    [row, *_] = cells(done.folder, "paper-label-counts")
    assert row["paper"] == "7961"
    assert row["mark"] == f"differs: {int(row['ours']):,} here, 7,961 in the paper"
    assert done.to_json()["differs"]


def test_without_the_prior_orders_rows_say_so(done: Reproduction) -> None:
    why = "not checkable here, because order_products__prior is not in the folder"
    assert {row["mark"] for row in cells(done.folder, "paper-top-20")} == {why}
    ours = [row for row in cells(done.folder, "paper-metrics-0.05") if row["whose"] == "here"]
    assert [row["mark"] for row in ours] == ["comparable (other split)", "ours alone: the paper has no such row"]


def test_what_was_not_run_says_why(done: Reproduction) -> None:
    page = page_of(done.folder)
    assert "Not checkable here, because neat was not trained." in page
    assert "Not checkable here, because neat and neat-bpr were not both trained." in page


def test_the_prior_orders_make_it_the_papers_own_split(tmp_path: Path) -> None:
    folder = write_instacart(tmp_path / "data", prior=True, orders=2000)
    data = read_instacart(folder)
    assert data.has_prior
    assert (len(data.train), len(data.test)) == (1000, 1000)
    made = reproduce_instacart(folder, tmp_path / "report", MODELS, QUICK)
    rows = {(row["data"], row["quantity"]): row for row in cells(made.folder, "paper-datasets")}
    assert rows["INS-T", "transactions"]["ours"] == "1000"
    assert rows["INS-E", "users"]["ours"] == str(data.data_sets()["INS-E"].users)
    assert "so the split is the paper&#39;s own" in page_of(made.folder)
    ours = [
        row for row in cells(made.folder, "paper-metrics-0.05") if row["model"] == "popco" and row["whose"] == "here"
    ]
    assert ours[0]["mark"] == "comparable (same split, new training)"


def test_a_label_that_changes_changes_the_page(done: Reproduction, tmp_path: Path) -> None:
    def without_buns(basket: list[int]) -> list[int]:
        """Hot dogs are no longer bought with buns: one label less."""
        return [item for item in basket if item != 1] if 0 in basket else basket

    folder = write_instacart(tmp_path / "data", change=without_buns)
    changed = reproduce_instacart(folder, tmp_path / "report", MODELS, QUICK)
    before, after = (cells(each.folder, "paper-label-counts")[0]["ours"] for each in (done, changed))
    assert int(after) < int(before)
    assert f'<td class="number">{int(before):,}</td>' in table_in(page_of(done.folder), "paper-label-counts")
    assert f'<td class="number">{int(after):,}</td>' in table_in(page_of(changed.folder), "paper-label-counts")
    assert cells(done.folder, "paper-positive-pairs")[0]["ours"]
    assert not cells(changed.folder, "paper-positive-pairs")[0]["ours"]
    label_ranks = [
        re.search(r"here: (\d+) labels", table_in(page_of(each.folder), "paper-metrics-0.05"))
        for each in (done, changed)
    ]
    assert [found and found[1] for found in label_ranks] == [label_count(done), label_count(changed)]
    assert label_count(done) != label_count(changed)


def label_count(made: Reproduction) -> str:
    return str(made.instacart.evaluation.results[0].summary.labels)


def table_in(page: str, name: str) -> str:
    found = re.search(rf'<table id="table-{name}">.*?</table>', page, flags=re.DOTALL)
    return found[0]


def test_the_papers_numbers_come_from_the_one_file(done: Reproduction, tmp_path: Path, monkeypatch) -> None:
    """Every number of the file that a table of the page cites is changed in the page when it changes in the file."""
    other = altered(copy.deepcopy(paper_file.paper_numbers()))
    monkeypatch.setattr("neatrec.reproduction.run.paper_numbers", lambda: other)
    folder = write_instacart(tmp_path / "data")
    changed = reproduce_instacart(folder, tmp_path / "report", MODELS, QUICK)
    assert cells(changed.folder, "paper-label-counts")[0]["paper"] == "7962"
    assert cells(changed.folder, "paper-departments")[0]["All pairs, paper"] == "0.0137"
    assert cells(changed.folder, "paper-positive-pairs")[0]["paper"] == "5085.536"
    assert cells(changed.folder, "paper-metrics-0.05")[1]["hr@10"] == "1.1334"
    assert cells(changed.folder, "paper-pop")[3]["hr_paper"] == "1.0014"
    for name in ("paper-label-counts", "paper-departments", "paper-positive-pairs", "paper-metrics-0.05", "paper-pop"):
        ours = [
            [value for key, value in row.items() if "our" in key or "here" in key] for row in cells(done.folder, name)
        ]
        again = [
            [value for key, value in row.items() if "our" in key or "here" in key]
            for row in cells(changed.folder, name)
        ]
        assert ours == again


def altered(numbers: Any) -> Any:
    """All numbers one larger, but for what is a setting or a level."""
    if isinstance(numbers, dict):
        return {key: value if key in ("settings", "margin_study") else altered(value) for key, value in numbers.items()}
    if isinstance(numbers, list):
        return [altered(value) for value in numbers]
    return numbers + 1 if isinstance(numbers, int | float) and not isinstance(numbers, bool) else numbers


def test_a_reproduction_can_be_verified_and_its_altered_cell_is_found(done: Reproduction, tmp_path: Path) -> None:
    import shutil

    assert verify_report(done.folder) == []
    copied = Path(shutil.copytree(done.folder, tmp_path / "copy"))
    file = copied / "tables" / "paper-metrics-0.05.csv"
    file.write_text(file.read_text().replace("popco,here,", "popco,here,9", 1))
    assert [mismatch.file for mismatch in verify_report(copied)] == ["tables/paper-metrics-0.05.csv"]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lines.csv").write_text("basket,item\n1,tea\n1,milk\n")
    with pytest.raises(SourceError, match="does not hold the Instacart tables"):
        read_instacart(tmp_path / "lines.csv")
    folder = write_instacart(tmp_path / "data", prior=True, orders=200)
    (folder / "order_products__train.parquet").unlink()
    with pytest.raises(SourceError, match="has no orders of order_products__train"):
        read_instacart(folder)


def test_the_papers_settings_are_rows_of_their_own() -> None:
    models = all_models()
    assert {"pop", "popco", "neat", "neat-bpr", "neat@paper", "item2vec@paper"} <= set(models)
    assert len(models) == len(set(models))


@pytest.mark.parametrize(
    ("ours", "paper", "how", "mark"),
    [
        ([0.00135], [0.0014], {"digits": 4}, "exact"),
        ([0.00144], [0.0014], {"digits": 4}, "exact"),
        ([0.0015], [0.0014], {"digits": 4}, "differs: 0.0015 here, 0.0014 in the paper"),
        ([61.032], [61.033], {"share": 0.0005}, "exact"),
        ([61.1], [61.033], {"share": 0.0005}, "differs: 61.1 here, 61.033 in the paper"),
        ([None], [5], {}, "differs: nothing here, 5 in the paper"),
        ([5, 1], [5, None], {}, "exact"),
    ],
)
def test_exact_means_equal_to_the_printed_digits(ours: Any, paper: Any, how: dict[str, Any], mark: str) -> None:
    assert exact_or_differs(ours, paper, **how) == mark


def test_the_record_says_that_it_is_a_reproduction_and_what_it_took(done: Reproduction) -> None:
    run = json.loads((done.folder / "run.json").read_text())
    assert run["kind"] == "reproduction"
    assert {"the audit of the labels", "training on Instacart"} <= set(run["seconds"])
    assert run["leaderboards"][0]["comparison"] == {"data": "INS", "same_split": False, "why": "other split"}


# ---- with a Gaussian model


@pytest.fixture(scope="module")
def with_neat(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    place = tmp_path_factory.mktemp("neat")
    models = {"popco": "popco", "neat": make_model("neat", dim=8, epochs=2)}
    return reproduce_instacart(write_instacart(place / "data"), place / "report", models, QUICK)


def test_three_items_are_studied_in_a_trained_model(with_neat: Reproduction) -> None:
    rows = {row["what"]: row for row in cells(with_neat.folder, "paper-case-study")}
    cosine = float(rows["cosine of Whole Milk and Cereal"]["ours"])
    assert -1 <= cosine <= 1
    assert rows["determinant of Whole Milk over that of Cereal"]["paper"] == "30 times"
    task = with_neat.instacart.task
    bought = task.purchases[task.labels.catalog.code_of["4210"]]
    assert rows["purchases of Whole Milk in training"]["ours"] == f"{bought:,}"


def test_figures_of_variance_and_of_one_dimension_are_drawn(with_neat: Reproduction) -> None:
    drawn = {file.stem for file in (with_neat.folder / "figures").glob("*.svg")}
    assert {"popularity-variance", "concept-items", "concept-differences"} <= drawn
    assert verify_report(with_neat.folder) == []


def test_every_margin_is_trained_and_evaluated(done: Reproduction, tmp_path: Path) -> None:
    data = read_instacart(write_instacart(tmp_path / "data"))
    paper = {"margin_study": {"margins": [0.1, 2.0], "k": [5, 10]}}
    said: list[str] = []
    task = done.instacart.task
    context = FitContext(data.train, task, ResultCache(tmp_path / "kept", "a task"), Run())
    study = margin_study("Instacart", context, paper, (0, 1), said.append, dim=8, epochs=1)
    assert study.margins == (0.1, 2.0)
    assert set(study.values) == {0.05, 0.01, 0.001}
    assert set(study.values[0.05]) == {"hr@5", "hr@10", "ndcg@5", "ndcg@10"}
    assert all(len(values) == 2 for values in study.values[0.05].values())
    assert said == [f"margin {margin} on Instacart: seed {seed}" for margin in ("0.1", "2") for seed in (0, 1)]
    again = margin_study("Instacart", context, paper, (0, 1), said.append, dim=8, epochs=1)
    assert again.values == study.values, "cached trainings are reused"


# ---- the real orders


@pytest.fixture(scope="module")
def real(instacart_folder: Path) -> tuple[Any, Audit, DependentPairs]:
    data = read_instacart(instacart_folder)
    audit = audit_labels(data.ins_e, null_rounds=0)
    department = data.ins_e.catalog.category_of("department")
    config = LabelConfig.of(audit.paper)
    return data, audit, dependent_pairs(data.ins_e, config.levels, config.counting, department, {})


def marks(table: ReportTable) -> list[str]:
    return [row[-1] for row in table.rows]


@pytest.mark.real
def test_all_that_the_train_orders_can_show_is_exact(real: tuple[Any, Audit, DependentPairs]) -> None:
    """Label counts, 21 departments, 20 example pairs and Pop's 30 values, to the digits of the paper."""
    data, audit, dependent = real
    paper = paper_file.paper_numbers()
    assert marks(label_count_table(paper, audit.paper, None))[:3] == ["exact"] * 3
    assert marks(department_table(paper, audit)) == ["exact"] * 21
    assert marks(department_sums_table(paper, audit))[1:] == ["exact"] * 3
    assert marks(department_sums_table(paper, audit))[0].startswith("comparable (142 more: ")
    assert marks(pop_table(paper, audit.paper)) == ["exact"] * 15
    pairs = [*marks(case_pairs_table(paper, "positive_pairs", dependent))]
    pairs += marks(case_pairs_table(paper, "negative_pairs", dependent))
    assert sum(mark.startswith("exact") for mark in pairs) >= 19
    assert not any(mark.startswith("differs") for mark in pairs)
    assert any("misprint" in mark for mark in pairs)
    sets = dataset_table(paper, data.data_sets(), {})
    assert [row[-1] for row in sets.rows if row[0] == "INS-E"] == ["exact", "exact"]


@pytest.mark.real
def test_popular_items_of_the_train_orders_are_compared(real: tuple[Any, Audit, DependentPairs]) -> None:
    data, _, _ = real
    table = top_items_table(paper_file.paper_numbers(), top_items(data.ins_e), has_prior=data.has_prior)
    assert len(table.rows) == 20
    if not data.has_prior:
        assert all("order_products__prior is not in the folder" in mark for mark in marks(table))
