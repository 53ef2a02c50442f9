"""`recommend` and `neatrec recommend` with a serving table: evidence beside each answer, none below what is asked."""

import json
from pathlib import Path

import pytest

from helpers.new_items import PER_KIND, new_item, shop_with_new_items
from helpers.toyshop import PARTNERS, toy_baskets
from neatrec.bundle import load_bundle, save_bundle
from neatrec.cli.main import exit_code_of
from neatrec.errors import ParameterError
from neatrec.models import make_model
from neatrec.models.bayes import GOALS
from neatrec.release.publish import publish
from neatrec.serving import GRADES, ServingTable, recommend, save_indexed
from neatrec.serving.query import CART_NOTE


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("asking") / "bundle"
    save_indexed(make_model("shrunk-lift").fit(toy_baskets()), path, toy_baskets(), seed=0)
    return path


def test_each_answer_has_at_least_the_evidence_asked_for(bundle: Path) -> None:
    index = ServingTable.open(bundle)
    start, partner = next(iter(PARTNERS.items()))
    sizes = []
    for least in GRADES[:3]:
        found = recommend(index, [start.title()], 20, min_evidence=least)
        assert {GRADES.index(line.evidence.grade) for line in found.answers} <= set(range(GRADES.index(least) + 1))
        assert [line.answer.rank for line in found.answers] == list(range(1, len(found.answers) + 1))
        assert partner.title() in [line.answer.name for line in found.answers]
        sizes.append(len(found.answers))
    assert sizes[0] <= sizes[1] < sizes[2]
    every = index.model.rank(start.title(), 20)
    assert [line.answer.name for line in found.answers] == every.names
    with pytest.raises(
        ParameterError, match="`min_evidence` must be one of certain, likely, guess, category, got 'sme'"
    ):
        recommend(index, [start.title()], min_evidence="sme")
    with pytest.raises(ParameterError, match="`k` must be a whole number of at least 1, got -1"):
        recommend(index, [start.title()], -1)


def test_a_cart_shows_the_best_evidence_of_its_items(bundle: Path) -> None:
    index = ServingTable.open(bundle)
    (one, partner), (other, _) = list(PARTNERS.items())[:2]
    found = recommend(index, [one.title(), other.title()], 10)
    line = next(line for line in found.answers if line.answer.name == partner.title())
    item, query = _codes(index, partner, one)
    assert line.evidence.words() == index.evidence(query, item).words()


def _codes(index: ServingTable, *names: str) -> list[int]:
    known = index.catalog.names.to_pylist()
    return [known.index(name.title()) for name in names]


def test_recommend_prints_the_evidence_and_says_what_it_left_out(bundle: Path, tmp_path: Path, capsys) -> None:
    start, partner = next(iter(PARTNERS.items()))
    assert exit_code_of(["recommend", str(bundle), start.title(), "-k", "20"]) == 0
    shown = capsys.readouterr()
    assert partner.title() in shown.out
    assert "more than chance (at least" in shown.out
    assert "Association, not proof of extra sales." in shown.out
    assert "below 'likely': --min-evidence guess shows them" in shown.err
    publish(bundle, tmp_path / "store")
    asked = ["recommend", str(tmp_path / "store"), start.title(), "--min-evidence", "certain", "--json"]
    assert exit_code_of(asked) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["items"][0]["name"] == start.title()
    assert {line["grade"] for line in answer["recommendations"]} == {"certain"}
    assert answer["recommendations"][0]["evidence"]["count"] > 0


@pytest.fixture(scope="module")
def goals_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("goals") / "bundle"
    save_indexed(make_model("bayes").fit(toy_baskets()), path, toy_baskets(), seed=0)
    return path


@pytest.mark.parametrize("table", [True, False])
def test_recommend_ranks_for_the_goal_asked_for(goals_bundle: Path, tmp_path: Path, table: bool, capsys) -> None:
    model, path = load_bundle(goals_bundle), goals_bundle
    if not table:
        path = tmp_path / "plain"
        save_bundle(model, path, baskets_hash="x", seed=0)
    for cart in (["Bread"], ["Bread", "Tea"]):
        for goal in GOALS:
            asked = ["recommend", str(path), *cart, "-k", "5", "--min-evidence", "guess", "--goal", goal]
            assert exit_code_of([*asked, "--json"]) == 0
            found = json.loads(capsys.readouterr().out)
            assert [line["id"] for line in found["recommendations"]] == model.with_goal(goal).rank(cart, 5).ids
            assert found["goal"] == goal
            assert (CART_NOTE in found["notes"]) == (table and len(cart) > 1)
            assert exit_code_of(asked) == 0
            assert f"(bayes, goal {goal})" in capsys.readouterr().out


def test_recommend_refuses_a_goal_that_there_is_not(bundle: Path, goals_bundle: Path, capsys) -> None:
    assert exit_code_of(["recommend", str(goals_bundle), "Bread", "--goal", "best"]) == 2
    assert "`goal` must be one of balanced, lift, evidence, got 'best'" in capsys.readouterr().err
    assert exit_code_of(["recommend", str(bundle), "Bread", "--goal", "lift"]) == 2
    assert "model 'shrunk-lift' has one ranking, got 'lift'. Train `bayes` to choose a goal." in capsys.readouterr().err


@pytest.fixture(scope="module")
def new_items_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, baskets = tmp_path_factory.mktemp("asking") / "new", shop_with_new_items()
    save_indexed(make_model("bayes", rank=16).fit(baskets), path, baskets, seed=0)
    return path


@pytest.mark.parametrize("least", ["certain", "likely", "guess"])
def test_new_items_stand_below_all_answers_with_evidence(new_items_bundle: Path, least: str) -> None:
    index, query = ServingTable.open(new_items_bundle), [str(7 * PER_KIND + 1)]
    usual = recommend(index, query, 20, min_evidence=least).answers
    found = recommend(index, query, 20, min_evidence=least, include_new=True).answers
    assert [line.answer.rank for line in found] == list(range(1, len(found) + 1))
    new = [line for line in found if line.evidence.item_count == 0]
    assert str(new_item(27)) in [line.answer.id for line in new]
    assert {line.evidence.grade for line in new} == {"guess"}
    assert "Never bought together; suggested because similar items go together." in new[0].evidence.words()
    with_evidence = [line.answer.id for line in usual if line.evidence.grade != "guess"]
    assert [line.answer.id for line in found[: len(with_evidence)]] == with_evidence
    assert all(line.evidence.item_count for line in usual)


def test_recommend_includes_new_items_when_asked(new_items_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["recommend", str(new_items_bundle), str(7 * PER_KIND + 1), "--json"]
    assert exit_code_of([*command, "--include-new"]) == 0
    shown = [line["id"] for line in json.loads(capsys.readouterr().out)["recommendations"]]
    assert str(new_item(27)) in shown
    assert exit_code_of(command) == 0
    assert str(new_item(27)) not in [line["id"] for line in json.loads(capsys.readouterr().out)["recommendations"]]


def test_a_model_without_new_answers_refuses_to_include_them(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["recommend", str(bundle), "Salsa", "--include-new"]) == 2
    assert "model 'shrunk-lift' has no scores for items that nobody bought" in capsys.readouterr().err
