"""Bundles that an earlier version wrote still load and still give the same answers."""

import json
from pathlib import Path

import pytest

from helpers.make_golden import QUERIES
from neatrec.bundle import load_bundle, read_manifest
from neatrec.models.bayes import GOALS, Bayes
from neatrec.serving import ServingTable, recommend
from neatrec.training.train import ModelChoice, WarmStart

HERE = Path(__file__).parent
GOLDEN = sorted(path.with_name(path.name.split(".")[0]) for path in HERE.glob("golden-v*/*.answers.json"))


def test_there_is_a_golden_bundle_for_each_kind_of_arrays() -> None:
    wanted = {"pop", "shrunk-lift-tuned", "cf", "neat", "neat-bpr", "item2vec", "triple2vec", "bayes", "bayes-sure"}
    assert {folder.name for folder in GOLDEN} >= wanted


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_a_golden_bundle_still_answers_as_it_did(folder: Path) -> None:
    model = load_bundle(folder)
    assert read_manifest(folder).model == folder.name.removesuffix("-supermarket")
    wanted = json.loads(folder.with_name(f"{folder.name}.answers.json").read_text())
    queries = QUERIES
    if folder.name.endswith("-supermarket"):  # its file names the queries beside their answers
        queries, wanted = zip(*wanted, strict=True)
    for query, answer in zip(queries, wanted, strict=True):
        found = model.rank(query, 4)
        assert found.ids == [item for item, _ in answer]
        assert found.scores.tolist() == pytest.approx([score for _, score in answer], rel=1e-5)


@pytest.mark.parametrize(
    ("name", "goal"), [("bayes", "lift"), ("bayes-supermarket", "lift"), ("bayes-sure", "evidence")]
)
def test_a_golden_bundle_of_bayes_answers_by_its_goal_and_by_any(name: str, goal: str) -> None:
    model = load_bundle(HERE / "golden-v1" / name)
    assert isinstance(model, Bayes)
    assert (model.name, model.parameters.goal) == ("bayes", goal)
    for other in GOALS:
        assert len(model.with_goal(other).rank(QUERIES[0] if name != "bayes-supermarket" else 0, 4)) == 4


def test_a_golden_bundle_that_kept_its_users_has_them() -> None:
    (folder,) = [folder for folder in GOLDEN if folder.name == "cf"]
    model = load_bundle(folder)
    assert len(model.user_ids) == len(model.arrays(users=True)["user_vectors"])


def test_a_golden_bundle_with_a_serving_table_still_answers() -> None:
    table = ServingTable.open(HERE / "golden-v1" / "shrunk-lift-indexed")
    tea = table.answers(next(code for code in range(len(table)) if table.catalog.name(code) == "Tea"))
    assert tea.evidence(0).count > 0
    assert recommend(table, ["Tea"], 3).answers


@pytest.mark.parametrize("name", ["neat", "neat-bpr", "item2vec", "triple2vec"])
def test_a_training_can_start_from_a_golden_bundle(name: str) -> None:
    start = WarmStart.of(HERE / "golden-v1" / name)
    model = start.updated(ModelChoice()).make()
    assert model.name == name
    assert start.for_model(model) is start
