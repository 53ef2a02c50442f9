"""`recommend`: which answers, in which order, with which evidence, and what is said about the rest."""

import json

import pytest

from helpers.coarse_shop import coarse_shop
from helpers.toyshop import code, toy_baskets
from neatrec.errors import ParameterError
from neatrec.models import make_model, rank
from neatrec.serving import (
    GRADES,
    Answers,
    PairTable,
    recommend,
    save_indexed,
)
from neatrec.serving.evidence import PUBLIC

BREAD, BUTTER = code("bread"), code("butter")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> PairTable:
    path = tmp_path_factory.mktemp("asking") / "bundle"
    save_indexed(make_model("shrunk-lift").fit(toy_baskets()), path, toy_baskets(), seed=0, k=6)
    return PairTable.open(path)


def ids(found: Answers) -> list[str]:
    return [row["id"] for row in found.rows()]


def codes(found: Answers) -> list[int]:
    return [line.code for line in found.lines]


def test_each_answer_has_at_least_the_evidence_asked_for(table: PairTable) -> None:
    sizes = []
    for level, least in enumerate(GRADES[:3]):
        found = recommend(table, "Bread", 20, min_evidence=least)
        assert {line.grade for line in found.lines} <= set(GRADES[: level + 1])
        assert [row["rank"] for row in found.rows()] == list(range(1, len(found) + 1))
        assert BUTTER in codes(found)
        sizes.append(len(found))
    assert sizes[0] <= sizes[1] < sizes[2]
    by_default = recommend(table, "Bread", 20)
    assert codes(found)[: len(by_default)] == codes(by_default)  # guesses come after the evidence
    assert by_default.left_out > 0


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"min_evidence": "sme"}, "`min_evidence` must be one of certain, likely, guess, category"),
        ({"k": -1}, "`k` must be an integer of at least 1, got -1"),
        ({"month": 13}, "`month` must be an integer from 1 to 12, got 13"),
        ({"same_category": "first"}, "`same_category` must be one of last, exclude, mix"),
        ({"category": "drinkz"}, "`category` must be one of .* Did you mean 'drinks'"),
        ({"items": []}, "`items` must be at least one item"),
    ],
)
def test_wrong_filters_are_refused(table: PairTable, wrong: dict, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        recommend(table, **{"items": "Bread", **wrong})


def test_a_cart_names_the_items_that_each_answer_goes_with(table: PairTable) -> None:
    found = recommend(table, ["Tea", "Bread"], 10)
    assert found.cart == (code("tea"), BREAD)
    by_code = {line.code: line for line in found.lines}
    butter, biscuits = by_code[BUTTER], by_code[code("biscuits")]
    assert butter.goes_with[0].code == BREAD
    assert butter.evidence.to_dict() == table.evidence(BREAD, BUTTER).to_dict()
    assert biscuits.goes_with[0].code == code("tea")
    assert all(line.grade in ("certain", "likely") for line in found.lines)
    guesses = recommend(table, ["Bread", "Tea"], 15, min_evidence="guess")
    shown = rank(table.model, ["Bread", "Tea"], 30).codes.tolist()
    own = [line.code for line in guesses.lines if line.code in shown]
    assert own == [item for item in shown if item in own]


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> PairTable:
    path = tmp_path_factory.mktemp("coarse") / "bundle"
    save_indexed(make_model("shrunk-lift").fit(coarse_shop()), path, coarse_shop(), seed=0)
    return PairTable.open(path)


def test_answers_of_the_same_category_come_last_and_are_marked(coarse: PairTable) -> None:
    last = recommend(coarse, "machine")
    assert ids(last) == ["cup", "beans"]
    assert [row["evidence"]["same_category"] for row in last.rows()] == [False, True]
    assert last.to_arrow()["same_category"].to_pylist() == [False, True]
    mixed = recommend(coarse, "machine", same_category="mix")
    assert sorted(ids(mixed)) == ["beans", "cup"]
    lows = [line.evidence.lift_low for line in mixed.lines]
    assert lows == sorted(lows, reverse=True)
    assert ids(recommend(coarse, "bread")) == ["butter"]


def test_what_is_excluded_is_said(coarse: PairTable) -> None:
    some = recommend(coarse, "machine", same_category="exclude")
    assert ids(some) == ["cup"]
    assert some.notes == ("1 answer with evidence of the item's own category left out.",)
    none = recommend(coarse, "bread", same_category="exclude")
    assert ids(none) == []
    assert none.notes == (
        "No answer of another category has evidence; 1 answer with evidence of the item's own "
        "category left out.",
    )
    assert recommend(coarse, "machine", 1, same_category="exclude").notes == ()


def test_a_cart_is_filled_up_from_its_own_categories(coarse: PairTable) -> None:
    found = recommend(coarse, ["machine", "bread"])
    assert ids(found) == ["cup", *sorted(["beans", "butter"], key=ids(found).index)]
    assert {line.goes_with[0].code for line in found.lines} == {0, 2}
    alone = recommend(coarse, ["bread", "beans"], same_category="exclude")
    assert len(alone) == 0
    assert "2 answers with evidence of the cart's own categories left out." in alone.notes[0]


def test_rows_and_frames_hold_every_public_field(table: PairTable) -> None:
    answers = recommend(table, "Bread")
    assert list(answers.rows()[0]["evidence"]) == ["words", *PUBLIC]
    assert set(PUBLIC) <= set(answers.to_arrow().column_names)
    json.dumps(answers.rows(), allow_nan=False)


def test_a_cart_says_that_its_complements_share_its_categories_or_are_in_it(
    coarse: PairTable,
) -> None:
    found = recommend(coarse, ["beans", "bread"])
    assert ids(found) == ["machine", "butter"] or ids(found) == ["butter", "machine"]
    assert found.notes == ("Every answer is of the cart's own categories.",)
    complete = recommend(coarse, ["bread", "butter"])
    assert len(complete) == 0
    assert complete.notes == ("The items that go with these are in the cart already.",)
