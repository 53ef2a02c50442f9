"""The study of the labels, and how it is written."""

import csv
import json
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from helpers.label_reference import pairs_of
from neatrec._version import __version__
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.labels.audit import audit_labels
from neatrec.labels.record import score_against
from neatrec.report.audit_report import audit_text, write_audit

FILES = {
    *("audit.txt", "summary.csv", "false_discoveries.csv", "truth.csv", "negatives.csv", "overlap.csv", "coverage.csv"),
    *("consistency.csv", "positive_pairs.csv", "negative_pairs.csv", "popular.csv"),
    *("consistency-0-05.svg", "consistency-0-01.svg", "consistency-0-001.svg", "coverage.svg"),
}


def small_shop(ordered: bool = True) -> Baskets:
    rng = np.random.default_rng(1)
    ids = [f"i{i}" for i in range(20)] + ["bun", "=sausage"]
    names = [*(f"Item {i}" for i in range(20)), "Bun", "=Sausage\x1b[31m"]
    categories = [*("dry" if i % 2 else "wet" for i in range(18)), None, None, "bread", "meat"]
    catalog = Catalog.from_ids(ids, names=names, categories=categories)
    contents = []
    for _ in range(1_500):
        basket = [f"i{int(i)}" for i in np.unique((rng.pareto(1.0, 6) * 2).astype(int).clip(0, 19))]
        rng.shuffle(basket)
        contents.append([*basket, "bun", "=sausage"] if rng.random() < 0.05 else basket)
    return Baskets.from_lists(contents, ordered=ordered, catalog=catalog)


@pytest.fixture(scope="module")
def audit():
    baskets = small_shop()
    truth = SimpleNamespace(query=np.array([20], np.int32), item=np.array([21], np.int32))
    return audit_labels(baskets, truth=truth, null_rounds=1, min_basket=2)


def test_coverage_adds_up_to_one_and_names_the_unknown(audit):
    assert [row.name for row in audit.coverage] == ["(unknown)", "bread", "dry", "meat", "wet"]
    assert sum(row.of_pairs for row in audit.coverage) == pytest.approx(1)
    for key in audit.coverage[0].of_labels:
        assert sum(row.of_labels[key] for row in audit.coverage) == pytest.approx(1)


def test_overlap_is_that_of_the_two_sets(audit):
    for row in audit.overlap:
        paper = pairs_of(audit.paper, audit.paper.at(row.level))
        calibrated = pairs_of(audit.calibrated, audit.calibrated.at(row.level))
        assert row.both == len(paper & calibrated)
        assert (row.only_paper, row.only_calibrated) == (len(paper - calibrated), len(calibrated - paper))


def test_the_strongest_pairs_and_the_most_popular_items_come_by_name(audit):
    assert (audit.positive[0].query, audit.positive[0].item) == ("Bun", "=Sausage\x1b[31m")
    assert all(case.count > case.expected for case in audit.positive)
    assert all(case.count <= case.expected for case in audit.negative)
    for cases in (audit.positive, audit.negative):
        values = [case.statistic for case in cases]
        assert values == sorted(values, reverse=True)
    lines = [count for _, count in audit.popular]
    assert audit.popular[0][0] == "Item 0"
    assert lines == sorted(lines, reverse=True)


def test_truth_is_scored(audit):
    score = audit.truth["calibrated", 0.05]
    assert score.recall == 1
    assert score.precision == 1 / audit.clustering[3].labels


def test_without_direction_a_true_pair_is_true_both_ways_and_nothing_has_no_rate():
    truth = SimpleNamespace(query=np.array([0, 1]), item=np.array([1, 0]))
    nothing = SimpleNamespace(query=np.array([], int), item=np.array([], int))
    score = score_against(truth, np.array([0, 1, 2]), np.array([1, 0, 1]), directed=False)
    assert (score.given, score.right, score.planted) == (3, 2, 2)
    assert score_against(truth, nothing.query, nothing.item, directed=False).recall == 0
    empty = score_against(nothing, nothing.query, nothing.item, directed=True)
    assert np.isnan([empty.precision, empty.recall]).all()


def test_the_study_is_written_as_text_csv_and_svg(audit, tmp_path):
    folder = tmp_path / "out"
    written = write_audit(audit, folder)
    assert {path.name for path in written} == FILES
    assert {path.name for path in folder.iterdir()} == {*FILES, "audit.files"}
    for path in written:
        if path.suffix == ".svg":
            assert ElementTree.parse(path).getroot().tag.endswith("svg")
        if path.suffix == ".csv":
            rows = list(csv.reader(path.open(newline="")))
            assert len({len(row) for row in rows}) == 1
            assert len(rows) > 1
            assert not any(cell.startswith("=") for row in rows for cell in row)  # no formula for a spreadsheet
    assert "\x1b" not in (folder / "audit.txt").read_text()
    rows = csv.DictReader((folder / "consistency.csv").open(newline=""))
    positive = [int(row["pairs"]) for row in rows if row["level"] == "p = 0.05" and row["sign"] == "positive"]
    assert sum(positive) == audit.clustering[0].labels  # every bin of the histogram


def test_the_study_says_what_made_it(audit):
    answer = audit.to_json()
    assert (answer["format"], answer["version"]) == (1, __version__)
    assert (answer["seed"], answer["null_rounds"], answer["null_within"]) == (0, 1, "none")
    assert answer["paper"]["options"] == audit.paper.options
    assert answer["calibrated"]["options"]["category_level"] == "category"
    assert answer["calibrated"]["options"]["strata"] == []
    assert "Bun" not in json.dumps(answer)  # numbers alone
    text = audit_text(audit)
    for part in (audit.paper.hash, audit.calibrated.hash, "False discoveries", "Against the truth", "calibrated"):
        assert part in text
    assert f"null rounds 1, within none, seed 0; neatrec {__version__}" in text
    assert "paper: baskets of at least 2 lines; pairs of one category left out; every basket counts\n" in text
    assert "every basket counts; expected counts quasi; strata none\n" in text


def test_files_of_an_earlier_audit_are_removed_and_no_others(audit, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("out/mine.csv", "outside.csv", "out/truth.csv"):
        (tmp_path / name).write_text("mine")
    small = audit_labels(Baskets.from_lists([["a", "b"], ["b", "c"]]), null_rounds=0, min_basket=2)
    write_audit(small, folder)
    assert (folder / "truth.csv").read_text() == "mine"  # no audit wrote it
    assert "–" in (folder / "audit.txt").read_text()  # there are no labels
    write_audit(audit, folder)
    with (folder / "audit.files").open("a") as names:
        names.write("../outside.csv\n/outside.csv\nmine.txt\n")
    (folder / "mine.txt").write_text("mine")
    written = {path.name for path in write_audit(small, folder)}
    assert written < FILES
    assert {path.name for path in folder.iterdir()} == {*written, "audit.files", "mine.csv", "mine.txt"}
    assert (tmp_path / "outside.csv").exists()


def test_rates_of_nothing_are_null_in_json():
    nothing = SimpleNamespace(query=np.array([], np.int32), item=np.array([], np.int32))
    audit = audit_labels(Baskets.from_lists([["a", "b"], ["b", "c"]]), truth=nothing, null_rounds=1, min_basket=2)
    answer = json.loads(json.dumps(audit.to_json(), allow_nan=False))
    assert [(row["precision"], row["recall"]) for row in answer["truth"]] == [(None, None)] * 6


def test_unordered_baskets_without_categories_have_a_study_too(tmp_path):
    contents = [["a", "b", "c"], ["d", "e"], ["a", "d"], ["b", "e"]] * 30
    audit = audit_labels(Baskets.from_lists(contents, ordered=False), null_rounds=0, min_basket=2)
    assert audit.coverage == ()
    assert dict(audit.nulls) == {}
    names = {path.name for path in write_audit(audit, tmp_path)}
    assert "audit.txt" in names
    assert not names & {"coverage.csv", "truth.csv", "false_discoveries.csv"}


def test_unordered_pairs_count_for_the_categories_of_both_items():
    audit = audit_labels(small_shop(ordered=False), null_rounds=0, min_basket=2)
    share = {row.name: row.of_pairs for row in audit.coverage}
    assert sum(share.values()) == pytest.approx(1)
    assert share["bread"] == pytest.approx(share["meat"], rel=0.5)
