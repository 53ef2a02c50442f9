"""`recommend`: which answers, in which order, with which evidence, and what is said about the rest."""

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.dated_shop import dated_shop
from helpers.new_items import PER_KIND, new_item, shop_with_new_items
from helpers.toyshop import PARTNERS, code, toy_baskets
from neatrec.data import Baskets, Catalog
from neatrec.errors import ParameterError
from neatrec.models import Run, make_model, rank
from neatrec.serving import (
    GRADES,
    Answers,
    Filters,
    PairTable,
    ShopRules,
    answers_from_category,
    answers_to,
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
        (
            {"min_evidence": "sme"},
            "`min_evidence` must be one of certain, likely, guess, category, got 'sme'",
        ),
        ({"k": -1}, "`k` must be an integer of at least 1, got -1"),
        ({"month": 13}, "`month` must be an integer from 1 to 12, got 13"),
        (
            {"same_category": "first"},
            "`same_category` must be one of last, exclude, mix, got 'first'",
        ),
        ({"category": "drinkz"}, "`category` must be one of .* Did you mean 'drinks'"),
        ({"items": []}, "`items` must be at least one item"),
    ],
)
def test_wrong_filters_are_refused(table: PairTable, wrong: dict, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        recommend(table, **{"items": "Bread", **wrong})


def test_filters_narrow_and_the_rest_keeps_its_order(table: PairTable) -> None:
    every = recommend(table, "Bread", 20, min_evidence="guess")
    drinks = recommend(table, "Bread", 20, min_evidence="guess", category="drinks")
    assert {row["category"][0] for row in drinks.rows()} == {"drinks"}
    rest = recommend(table, "Bread", 20, min_evidence="guess", exclude=["Butter"])
    assert ids(rest) == [item for item in ids(every) if item != ids(every)[0]]
    diverse = recommend(table, "Bread", 20, min_evidence="guess", diversify=True)
    categories = [row["category"][-1] for row in diverse.rows() if row["category"]]
    assert len(set(categories)) == len(categories) > 3


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


def coarse_shop() -> Baskets:
    """Machines go with beans and bread with butter; beans and machines are one category."""
    rng = np.random.default_rng(3)
    ids = ["machine", "beans", "bread", "butter", "paper", "soap", "pen", "cup"]
    catalog = Catalog.from_ids(ids, categories=[*["coffee"] * 2, *["food"] * 2, *["other"] * 4])
    couples = [["machine", "beans"], ["bread", "butter"], ["machine", "cup"], ["pen"]]
    lists = [
        [*couples[rng.integers(4)], *rng.choice(ids[4:7], size=rng.integers(1, 3), replace=False)]
        for _ in range(900)
    ]
    return Baskets.from_lists([list(dict.fromkeys(each)) for each in lists], catalog=catalog)


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


def test_a_number_is_an_id_and_never_a_code(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lists = [["7", "3"] if rng.random() < 0.5 else ["1", "2", "5"] for _ in range(300)]
    baskets = Baskets.from_lists(lists, catalog=Catalog.from_ids(["7", "3", "1", "2", "5"]))
    save_indexed(make_model("shrunk-lift").fit(baskets), tmp_path / "b", baskets, seed=0)
    table = PairTable.open(tmp_path / "b")
    assert ids(recommend(table, 7)) == ids(recommend(table, "7")) == ["3"]
    assert sorted(ids(recommend(table, np.int64(1)))) == ["2", "5"]


def test_new_items_are_answered_from_their_category(tmp_path: Path) -> None:
    baskets = shop_with_new_items(categories=True)
    save_indexed(make_model("shrunk-lift").fit(baskets), tmp_path / "b", baskets, seed=0)
    table = PairTable.open(tmp_path / "b")
    found = recommend(table, str(new_item(7)), 5)
    assert {line.code // PER_KIND for line in found.lines} == {27}
    assert {line.grade for line in found.lines} == {"category"}
    assert "is in no training basket" in found.notes[0]
    assert len(recommend(table, str(new_item(7)), min_evidence="likely")) == 0
    members = np.arange(len(table)) // PER_KIND == 7
    outside = answers_from_category(table, members, Filters(k=5))
    assert codes(outside) == codes(found)


def test_what_a_season_explains_is_listed_on_request(tmp_path: Path) -> None:
    save_indexed(make_model("pop").fit(dated_shop()), tmp_path / "b", dated_shop(), seed=0)
    table = PairTable.open(tmp_path / "b")
    assert recommend(table, "candy").explained is None
    asked = recommend(table, "candy", include_explained=True)
    assert [row["id"] for row in asked.explained_rows()] == ["wreath"]
    assert [row["grade"] for row in asked.explained_rows()] == ["seasonal"]
    assert recommend(table, "candy", month=12).explained[0].code == asked.explained[0].code
    assert recommend(table, "candy", month=6).explained == ()


def test_the_rules_of_a_shop_hide_pin_and_boost(table: PairTable) -> None:
    plain = codes(answers_to(table, [BREAD], Filters(k=5, min_evidence="guess")))
    last = plain[-1]
    blocked = ShopRules(blocked={BREAD: frozenset(plain[:1])})
    found = answers_to(table, [BREAD], Filters(k=4, min_evidence="guess"), blocked)
    assert codes(found) == plain[1:]
    assert found.rule_hits == ("block",)
    pinned = ShopRules(pinned={BREAD: ((2, code("soap")),)})
    found = answers_to(table, [BREAD], Filters(k=3, min_evidence="guess"), pinned)
    assert codes(found)[1] == code("soap")
    assert found.lines[1].grade == "rule"
    boosted = ShopRules(boosted={-1: {last: 10}})
    found = answers_to(table, [BREAD], Filters(k=5, min_evidence="guess"), boosted)
    assert codes(found)[0] == last
    assert found.rule_hits == ("boost",)
    available = np.zeros(len(table), dtype=np.bool_)
    available[plain[2]] = True
    found = answers_to(
        table, [BREAD], Filters(min_evidence="guess"), ShopRules(available=available)
    )
    assert codes(found) == [plain[2]]


def test_rows_and_frames_hold_every_public_field(table: PairTable) -> None:
    answers = recommend(table, "Bread")
    assert list(answers.rows()[0]["evidence"]) == ["words", *PUBLIC]
    assert set(PUBLIC) <= set(answers.to_arrow().column_names)
    json.dumps(answers.rows(), allow_nan=False)


def test_guesses_beyond_the_table_are_scored_by_the_model(tmp_path: Path) -> None:
    fitted = make_model("pop").fit(toy_baskets(), Run(rng=0))
    save_indexed(fitted, tmp_path / "b", toy_baskets(), seed=0, k=2)
    table = PairTable.open(tmp_path / "b")
    found = recommend(table, "Bread", 8, min_evidence="guess")
    beyond = [line.code for line in found.lines if line.code not in table.items_of(BREAD, 2)]
    assert beyond
    ranked = rank(fitted, "Bread", 100).codes.tolist()
    assert beyond == [item for item in ranked if item in beyond]
    assert next(iter(PARTNERS.values())).title() == found.rows()[0]["name"]


def test_a_cart_says_that_its_complements_share_its_categories_or_are_in_it(
    coarse: PairTable,
) -> None:
    found = recommend(coarse, ["beans", "bread"])
    assert ids(found) == ["machine", "butter"] or ids(found) == ["butter", "machine"]
    assert found.notes == ("Every answer is of the cart's own categories.",)
    complete = recommend(coarse, ["bread", "butter"])
    assert len(complete) == 0
    assert complete.notes == ("The items that go with these are in the cart already.",)
