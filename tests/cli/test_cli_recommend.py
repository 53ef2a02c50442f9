"""`neatrec recommend` and `show`: answers of a bundle, near names, models and their parameters."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from helpers.toyshop import code, toy_baskets
from neatrec import load
from neatrec.bundle import load_bundle
from neatrec.cli.main import exit_code_of
from neatrec.models import MODEL_NAMES, Run, make_model
from neatrec.serving import save_indexed


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recommend") / "bundle"
    model = make_model("neat", {"dim": 8, "epochs": 20}).fit(toy_baskets(), Run(threads=1, rng=1))
    save_indexed(model, path, toy_baskets(), seed=1)
    return path


GUESSES = ["--min-evidence", "guess"]


def answer(capsys: pytest.CaptureFixture[str], command: str, *words: object) -> dict:
    asked = [command, *map(str, words)]
    if command == "recommend" and "--min-evidence" not in asked:
        asked += GUESSES
    assert exit_code_of([*asked, "--json"]) == 0
    found: dict = json.loads(capsys.readouterr().out)
    return found


def test_the_place_of_the_same_category_is_set_by_training_and_by_a_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tea and cups are sold with a pot of the shelf of tea, in every command and in Python."""
    orders, bundle = tmp_path / "orders.csv", tmp_path / "bundle"
    kinds = [("pot", "tea", "cup")] * 60 + [("pot", "tea")] * 60 + [("rice", "salt")] * 200
    shelf = {"pot": "tea", "tea": "tea", "cup": "china", "rice": "food", "salt": "spice"}
    lines = [f"{n},{item},{shelf[item]}" for n, basket in enumerate(kinds) for item in basket]
    orders.write_text("\n".join(["order_id,sku,category", *lines, ""]))

    def answers(*words: str) -> list[str]:
        found = answer(capsys, "recommend", bundle, "pot", "--min-evidence", "likely", *words)
        return [line["id"] for line in found["recommendations"]]

    for place, expected in {"last": ["cup", "tea"], "exclude": ["cup"]}.items():
        words = ["train", str(orders), "--model", "lift", "--same-category", place]
        assert exit_code_of([*words, "--out", str(bundle)]) == 0
        said = capsys.readouterr().out
        assert "of the pairs are of one category" in said
        assert answers() == expected
        assert answers("--same-category", "last") == ["cup", "tea"]
        assert set(answers("--same-category", "mix")) == {"cup", "tea"}
        rows = load(bundle).all().to_arrow().to_pylist()
        assert [row["item"] for row in rows if row["query"] == "pot"] == expected
    assert exit_code_of(["train", str(orders), "--same-category", "first"]) == 2
    assert "`same_category` must be one of last, exclude, mix" in capsys.readouterr().err


def test_ids_variants_and_names_ask_for_the_same_item(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tea = load_bundle(bundle).catalog.id(code("tea"))
    answers = [
        answer(capsys, "recommend", bundle, item, "-k", 4)
        for item in ("Tea", "tea", tea, "tea-green")
    ]
    assert all(found == answers[0] for found in answers)
    assert (answers[0]["model"], answers[0]["kind"]) == ("neat", "paper")
    assert [line["rank"] for line in answers[0]["recommendations"]] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["Biscuit"], "Biscuits"),
        (["Tea", "Bred"], "Bread"),
        (["Tea", "--category", "drinkz"], "drinks"),
        (["Tea", "-k", "0"], "Invalid value for '-k'"),
        (["Apple", "--same-category", "first"], "must be one of last, exclude, mix"),
        (None, "there is no bundle at"),
    ],
)
def test_near_names_are_suggested(words, sentence: str, bundle: Path, capsys) -> None:
    asked = ["none", "Tea"] if words is None else [str(bundle), *words]
    assert exit_code_of(["recommend", *asked, *GUESSES]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.out == ""
    assert "Traceback" not in said.err


def test_an_item_never_bought_is_answered_with_a_note(bundle: Path, capsys) -> None:
    assert exit_code_of(["recommend", str(bundle), "Saffron", *GUESSES]) == 0
    assert "note: " in capsys.readouterr().err


def test_a_cart_keeps_its_order_and_each_answer_names_its_item(bundle: Path, capsys) -> None:
    for cart in (["Bread", "Chips"], ["Chips", "Bread"]):
        assert exit_code_of(["recommend", str(bundle), *cart]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"Goes with {', '.join(cart)} (neat)")
        assert "with Bread: Bought together by" in shown.partition("Butter (")[2].split("\n")[1]


def test_show_says_what_a_bundle_holds(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["show", str(bundle)]) == 0
    shown = capsys.readouterr().out
    for words in ("neat", "parameter dim", "parameter margin", toy_baskets().hash[:20]):
        assert words in shown
    losses = load_bundle(bundle).learned["losses"]
    assert re.search(rf"epochs run +{len(losses)} *\n", shown)
    assert re.search(rf"learned losses +{len(losses)} values, the last {losses[-1]}", shown)
    found = answer(capsys, "show", bundle)
    assert (found["model"], found["seed"], found["parameters"]["dim"]) == ("neat", 1, 8)


def test_show_lists_the_models_and_the_parameters_of_one_as_toml(capsys) -> None:
    assert exit_code_of(["show"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in MODEL_NAMES)
    assert "…" not in shown
    models = {entry["name"]: entry for entry in answer(capsys, "show")["models"]}
    assert set(models) == set(MODEL_NAMES)
    defaults = make_model("neat").parameters.to_dict()
    assert {each["name"]: each["default"] for each in models["neat"]["parameters"]} == defaults
    assert exit_code_of(["show", "neat"]) == 0
    file = tomllib.loads(capsys.readouterr().out)
    assert file["model"] == "neat"
    known = {name: value for name, value in defaults.items() if value is not None}
    assert file["parameters"] == known
