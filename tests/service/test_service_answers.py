"""What the API answers."""

import json
import re
import shutil
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import get_args
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

import neatrec
from helpers.new_items import PER_KIND, new_item, shop_with_new_items
from helpers.service_bundle import AWKWARD, INJECTIONS, id_of
from neatrec.bundle import load_bundle
from neatrec.cli.main import exit_code_of
from neatrec.models import base as models_base
from neatrec.models import make_model
from neatrec.models.bayes import GOALS
from neatrec.service.app import make_app
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.render import evidence_json
from neatrec.service.schemas import Goal
from neatrec.service.settings import ServiceSettings
from neatrec.serving import ServingTable, rewrite_index, save_indexed
from neatrec.serving.query import CART_NOTE

FOOTER = "Association, not proof of extra sales."


def ask(client: TestClient, **parameters: object) -> dict:
    answer = client.get("/v1/complements", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(answer: dict) -> list[str]:
    return [line["name"] for line in answer["complements"]]


def test_an_item_is_answered_from_the_table_with_evidence_in_words(client: TestClient, bundle: Path) -> None:
    answer = ask(client, item=id_of("Tortilla Chips"), k=3)
    best = answer["complements"][0]
    index = ServingTable.open(bundle)
    code = index.catalog.code_of[id_of("Tortilla Chips")]
    assert best["name"] == "Salsa"
    assert best["grade"] == "certain"
    assert best["evidence"]["words"] == index.answers(code).evidence(0).words()
    assert best["evidence"]["count"] == index.answers(code).count[0]
    assert best["score"] == pytest.approx(float(index.answers(code).score[0]), rel=1e-5)
    assert answer["bundle"] == index.version
    assert answer["footer"] == FOOTER


@pytest.mark.parametrize("which", ["bundle", "gaussian_bundle"])
def test_lines_hold_the_evidence_of_the_table_and_json_repeats_it(which: str, request: pytest.FixtureRequest) -> None:
    bundle = LoadedBundle(ServingTable.open(request.getfixturevalue(which)))
    for code in range(0, len(bundle.ids), 5):
        table = bundle.index.answers(code)
        for row, line in enumerate(table.lines(range(len(table)))):
            evidence = table.evidence(row)
            assert repr(line.evidence) == repr(evidence)  # NaN is like NaN
            out = json.loads(evidence_json(evidence, False))
            known = {name: value for name, value in evidence.to_dict().items() if name in out}
            assert out.pop("words") == evidence.words()
            assert out == {
                name: value if value is None else pytest.approx(value, rel=1e-5) for name, value in known.items()
            }
            assert json.loads(evidence_json(evidence, True)) == {"words": evidence.words(public=True)}


def test_weak_evidence_is_left_out_unless_asked_for(client: TestClient) -> None:
    usual = ask(client, item=id_of("Tortilla Chips"), k=20)
    guessed = ask(client, item=id_of("Tortilla Chips"), k=20, min_evidence="guess")
    assert {line["grade"] for line in usual["complements"]} <= {"certain", "likely"}
    assert len(guessed["complements"]) > len(usual["complements"])
    assert {line["grade"] for line in ask(client, item="100", min_evidence="certain")["complements"]} <= {"certain"}


def test_the_ranks_count_up_and_scores_fall(client: TestClient) -> None:
    lines = ask(client, item="100", k=30, min_evidence="guess")["complements"]
    assert [line["rank"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(one["score"] >= other["score"] for one, other in pairwise(lines))


@pytest.mark.parametrize("item", AWKWARD)
def test_any_id_can_be_asked_for_by_parameter_and_by_path(client: TestClient, item: str) -> None:
    by_parameter = ask(client, item=item, min_evidence="guess")
    by_path = client.get(f"/v1/items/{quote(item, safe='')}/complements", params={"min_evidence": "guess"})
    assert by_parameter["query"]["id"] == item
    assert by_parameter["complements"]
    assert by_path.json() == by_parameter


def test_a_variant_is_answered_as_its_item(client: TestClient) -> None:
    assert ask(client, item="spaghetti-500g")["query"]["name"] == "Spaghetti"


def test_an_unknown_item_category_or_model_is_a_404_with_near_names(client: TestClient) -> None:
    answer = client.get("/v1/complements", params={"item": "spagheti"})
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["kind"] == "UnknownItemError"
    assert error["near"][0]["name"] == "Spaghetti"
    assert error["hint"].startswith("Did you mean 'Spaghetti'")
    cart = client.post("/v1/cart/complements", json={"items": ["spagheti"]})
    assert (cart.status_code, cart.json()["error"]["near"][0]["name"]) == (404, "Spaghetti")
    for filters, hint in (({"category": "sauses"}, "sauces"), ({"model": "shrunk-lif"}, "shrunk-lift")):
        answer = client.get("/v1/complements", params={"item": "100", **filters})
        assert (answer.status_code, answer.json()["error"]["hint"]) == (404, f"Did you mean '{hint}'?")


def test_category_exclude_and_diversify_choose(client: TestClient) -> None:
    everything = ask(client, item="100", k=100, min_evidence="guess")
    aisles = [line["category"][-1] if line["category"] else "" for line in everything["complements"]]
    sauces = ask(client, item="100", k=100, min_evidence="guess", category="Sauces")
    assert names(sauces) == [n for n, aisle in zip(names(everything), aisles, strict=True) if aisle == "sauces"]
    by_path = ask(client, item="100", k=100, min_evidence="guess", category="second half / sauces")
    assert names(by_path) == names(sauces)
    without = ask(client, item="100", k=100, min_evidence="guess", exclude=id_of("Marinara Sauce"))
    assert names(without) == [name for name in names(everything) if name != "Marinara Sauce"]
    each = ask(client, item="100", k=100, min_evidence="guess", diversify="true")
    kept = [line["category"][-1] for line in each["complements"] if line["category"]]
    assert sorted(set(kept)) == sorted(kept)
    assert set(kept) == {aisle for aisle in aisles if aisle}


@pytest.mark.parametrize("filters", [{}, {"category": "names 1"}, {"exclude": ["500", "501"]}, {"diversify": "true"}])
@pytest.mark.parametrize("level", ["certain", "likely", "guess"])
def test_a_used_up_table_is_followed_by_exact_answers(client, short_bundle: Path, filters: dict, level: str) -> None:
    """Three answers in the table or a hundred: the caller cannot tell."""
    with TestClient(make_app(ServiceSettings(short_bundle))) as short:
        for item in ("100", "a/b/c", "300"):
            asked = {"item": item, "k": 20, "min_evidence": level, **filters}
            assert names(ask(short, **asked)) == names(ask(client, **asked))


def test_exact_scores_are_not_asked_for_when_the_table_holds_all_that_has_evidence(short_bundle, monkeypatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("exact scores were computed")

    with TestClient(make_app(ServiceSettings(short_bundle))) as short:
        monkeypatch.setattr(ServingTable, "beyond", never)
        assert ask(short, item=id_of("Shampoo"), k=20)["complements"]


@pytest.mark.parametrize(
    ("asked", "note"),
    [
        ({"item": "900"}, "in no training basket"),
        ({"item": "brand new", "category_of": "drinks"}, "A new item: answered from its category, drinks."),
    ],
)
def test_a_new_item_is_answered_from_its_category_or_the_one_the_caller_gives(client, asked: dict, note: str) -> None:
    answer = ask(client, **asked)
    assert names(answer)[0] == "Butter Biscuits"
    assert {line["grade"] for line in answer["complements"]} == {"category"}
    assert note in answer["notes"][0]
    assert ask(client, **asked, min_evidence="likely")["complements"] == []
    if "category_of" in asked:
        assert answer["query"] == {"id": "brand new", "name": "brand new", "category": ["drinks"]}
    refused = client.get("/v1/complements", params={"item": "brand new", "category_of": "drunks"})
    assert refused.status_code == 404


def test_a_cart_is_completed_and_says_which_items_speak(client: TestClient) -> None:
    cart = ["100", id_of("Tortilla Chips"), "no such item"]
    answer = client.post("/v1/cart/complements", json={"items": cart, "k": 40, "min_evidence": "guess"}).json()
    lines = {line["name"]: line for line in answer["complements"]}
    assert [item["name"] for item in answer["cart"]] == ["Spaghetti", "Tortilla Chips"]
    assert not {"Spaghetti", "Tortilla Chips"} & set(lines)
    assert not any(line["category"][-1:] in (["pasta"], ["snacks"]) for line in lines.values())
    assert lines["Salsa"]["goes_with"][0]["name"] == "Tortilla Chips"
    assert "customers, " in lines["Salsa"]["goes_with"][0]["words"]
    assert "no such item is not in the bundle" in answer["notes"][0]


@pytest.mark.parametrize(
    "filters", [{}, {"category": ["names 1", "names 2"]}, {"exclude": ["500"]}, {"diversify": True}]
)
@pytest.mark.parametrize("level", ["likely", "guess"])
def test_a_cart_of_one_is_its_item_when_filters_use_up_the_table(short_bundle: Path, filters: dict, level: str) -> None:
    with TestClient(make_app(ServiceSettings(short_bundle))) as short:
        for item in ("100", "a/b/c", "300", "301"):
            asked = {"k": 20, "min_evidence": level, **filters}
            one = ask(short, item=item, **asked)["complements"]
            answer = short.post("/v1/cart/complements", json={"items": [item], **asked})
            cart = answer.json()["complements"]
            assert [line["id"] for line in cart] == [line["id"] for line in one]
            assert [line["score"] for line in cart] == pytest.approx([line["score"] for line in one], rel=1e-5)
            assert [line["grade"] for line in cart] == [line["grade"] for line in one]


@pytest.mark.parametrize("filters", [{}, {"category": ["names 1", "names 2"]}, {"diversify": True}])
@pytest.mark.parametrize("level", ["certain", "likely", "guess"])
def test_what_completes_a_cart_does_not_depend_on_the_length_of_the_table(client, short_bundle, filters, level) -> None:
    with TestClient(make_app(ServiceSettings(short_bundle))) as short:
        for items in (["100", "101"], ["300", "a/b/c", "102"]):
            asked = {"items": items, "k": 15, "min_evidence": level, **filters}
            few, many = (who.post("/v1/cart/complements", json=asked).json() for who in (short, client))
            assert few["complements"] == many["complements"]
            grades = {contribution["grade"] for line in few["complements"] for contribution in line["goes_with"]}
            assert grades <= {"certain": {"certain"}, "likely": {"certain", "likely"}}.get(level, grades)


@pytest.mark.parametrize("which", ["short_bundle", "gaussian_bundle"])
@pytest.mark.parametrize("held_at_once", [1, 4_000_000])
def test_a_cart_is_completed_as_the_model_completes_it(which: str, held_at_once: int, request, monkeypatch) -> None:
    monkeypatch.setattr(models_base, "BLOCK_SCORES", held_at_once)
    path = request.getfixturevalue(which)
    items = ["100", "101", "300"]
    with TestClient(make_app(ServiceSettings(path))) as asking:
        asked = {"items": items, "k": 25, "min_evidence": "guess"}
        lines = asking.post("/v1/cart/complements", json=asked).json()["complements"]
    exact = ServingTable.open(path).model.rank(items, 25)
    assert [line["id"] for line in lines] == exact.ids
    assert [line["score"] for line in lines] == pytest.approx(exact.scores.tolist(), rel=1e-4, abs=1e-6)
    assert all(line["goes_with"] for line in lines)


def test_a_pair_has_an_evidence_card(client: TestClient) -> None:
    chips, salsa = id_of("Tortilla Chips"), id_of("Salsa")
    answer = client.get("/v1/pair", params={"a": chips, "b": salsa}).json()
    turned = client.get("/v1/pair", params={"a": salsa, "b": chips}).json()
    assert answer["grade"] == "certain"
    assert answer["evidence"]["count"] == turned["evidence"]["count"] > 10
    assert answer["evidence"]["forward"] == turned["evidence"]["backward"]
    assert client.get("/v1/pair", params={"a": "100", "b": "zzz"}).status_code == 404


def test_search_forgives_typos_and_knows_ids(client: TestClient) -> None:
    def found(text: str) -> list[str]:
        return [item["name"] for item in client.get("/v1/items", params={"q": text}).json()["items"]]

    assert found("tortila chps")[0] == "Tortilla Chips"
    assert found("MARINARA")[0] == "Marinara Sauce"
    assert found("syrup map")[0] == "Maple Syrup"
    assert found("a/b/c")[0] == "Awkward 0"
    assert found("qqqqqqq") == []


def test_the_model_page_says_what_answers(client: TestClient) -> None:
    answer = client.get("/v1/model").json()
    assert answer["models"][0]["name"] == "shrunk-lift"
    assert sum(row["items"] for row in answer["models"][0]["coverage"].values()) == pytest.approx(1)


def test_models_side_by_side(bundle: Path, gaussian_bundle: Path) -> None:
    with TestClient(make_app(ServiceSettings(bundle, compare=(gaussian_bundle,)))) as both:
        first = ask(both, item="100", min_evidence="guess")
        second = ask(both, item="100", min_evidence="guess", model="neat")
        assert [first["model"], second["model"]] == ["shrunk-lift", "neat"]
        assert first["bundle"] != second["bundle"]
        assert second["complements"][0]["evidence"]["item_variance"] > 0
        assert [model["name"] for model in both.get("/v1/model").json()["models"]] == ["shrunk-lift", "neat"]


def test_two_bundles_of_one_model_have_two_names(bundle: Path, short_bundle: Path) -> None:
    with TestClient(make_app(ServiceSettings(bundle, compare=(short_bundle,)))) as both:
        assert [m["name"] for m in both.get("/v1/model").json()["models"]] == ["shrunk-lift", "shrunk-lift-2"]


def test_public_withholds_every_count(bundle: Path) -> None:
    with TestClient(make_app(ServiceSettings(bundle, public=True))) as public:
        answer = ask(public, item="100")
        assert set(answer["complements"][0]["evidence"]) == {"words"}
        assert answer["complements"][0]["score"] is None
        assert "order" not in answer["complements"][0]["evidence"]["words"]
        pair = public.get("/v1/pair", params={"a": "100", "b": "200"}).json()
        assert (set(pair["evidence"]), pair["score"]) == ({"words"}, None)
        model = public.get("/v1/model").json()["models"][0]
        assert model["items"] is None
        assert {name for share in model["coverage"].values() for name in share} == {"items"}
        assert "count" not in public.get("/v1/items", params={"q": "salsa"}).json()["items"][0]
        cart = public.post("/v1/cart/complements", json={"items": ["100"]}).text
        assert " customers" not in cart
        page = public.get("/item", params={"id": "100"}, headers={"accept": "text/html"}).text
        assert " customers" not in page
        assert "baskets" not in page


def test_names_that_look_like_script_stay_text(client: TestClient) -> None:
    answer = client.get("/v1/complements", params={"item": "100", "k": 100, "min_evidence": "guess"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert set(INJECTIONS) & {line["name"] for line in answer.json()["complements"]}


def test_an_approximate_table_says_so(gaussian_bundle: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(gaussian_bundle, bundle)
    rewrite_index(bundle, k=3, ann=True)
    with TestClient(make_app(ServiceSettings(bundle))) as approximate:
        model = approximate.get("/v1/model").json()["models"][0]
        assert model["table"].startswith("Approximate: it holds 100.0 % of the exact first ten answers")
        assert model["recall"] == {"first": 1.0, "all": 1.0, "sample": len(ServingTable.open(bundle)) - 1}
        assert "Approximate: it holds" in approximate.get("/quality").text
        # beyond the table of three, exact scores, all of them in order
        scores = [line["score"] for line in ask(approximate, item="100", k=20, min_evidence="guess")["complements"]]
        assert len(scores) == 20
        assert scores == sorted(scores, reverse=True)
    with TestClient(make_app(ServiceSettings(bundle, public=True))) as public:
        model = public.get("/v1/model").json()["models"][0]
        assert model["recall"]["sample"] is None
        assert "measured on" not in model["table"]
    with TestClient(make_app(ServiceSettings(gaussian_bundle))) as exact:
        model = exact.get("/v1/model").json()["models"][0]
        assert (model["table"], model["recall"]) == ("Exact: every item's best answers by the model.", None)


@pytest.mark.parametrize("goal", [None, *GOALS])
def test_an_item_and_a_cart_are_answered_by_the_goal_asked_for(goals_bundle: Path, goal: str | None) -> None:
    model = load_bundle(goals_bundle).with_goal(goal or "balanced")
    asked = {} if goal is None else {"goal": goal}
    spaghetti, cart = id_of("Spaghetti"), [id_of("Spaghetti"), id_of("Green Tea")]
    with TestClient(make_app(ServiceSettings(goals_bundle))) as client:
        for _ in range(2):  # the second answer is the cached one
            found = ask(client, item=spaghetti, k=20, min_evidence="guess", **asked)
            assert [line["id"] for line in found["complements"]] == model.rank(spaghetti, 20).ids
            assert found["goal"] == (goal or "balanced")
        by_path = client.get(f"/v1/items/{spaghetti}/complements", params={"k": 20, "min_evidence": "guess", **asked})
        assert by_path.json() == found
        body = {"items": cart, "k": 9, "min_evidence": "guess", **asked}
        completed = client.post("/v1/cart/complements", json=body).json()
        assert [line["id"] for line in completed["complements"]] == model.rank(cart, 9).ids
        assert completed["goal"] == (goal or "balanced")
        assert (CART_NOTE in completed["notes"]) == (goal is not None)
        alone = client.post("/v1/cart/complements", json={**body, "items": cart[:1]}).json()
        assert [line["id"] for line in alone["complements"]] == model.rank(cart[:1], 9).ids
        assert CART_NOTE not in alone["notes"]
        assert client.get("/v1/model").json()["models"][0]["goals"] == list(GOALS)


def test_goals_give_other_orders_and_wrong_ones_are_refused(client: TestClient, goals_bundle: Path) -> None:
    spaghetti = id_of("Spaghetti")
    with TestClient(make_app(ServiceSettings(goals_bundle))) as by_goals:
        lift, evidence = (
            ask(by_goals, item=spaghetti, k=20, min_evidence="guess", goal=goal) for goal in ("lift", "evidence")
        )
        assert [line["id"] for line in lift["complements"]] != [line["id"] for line in evidence["complements"]]
        wrong = by_goals.get("/v1/complements", params={"item": spaghetti, "goal": "evidnce"})
        assert (wrong.status_code, wrong.json()["error"]["hint"]) == (422, "Did you mean 'evidence'?")
    refused = client.get("/v1/complements", params={"item": spaghetti, "goal": "lift"})
    assert refused.status_code == 404
    assert "`goal` must be left out: model shrunk-lift has one ranking" in refused.json()["error"]["message"]
    assert "goal" not in ask(client, item=spaghetti)


def test_the_goals_of_the_api_are_those_of_the_model() -> None:
    assert get_args(Goal) == GOALS


def test_new_items_are_answers_when_asked_for(tmp_path: Path, client: TestClient) -> None:
    baskets = shop_with_new_items()
    save_indexed(make_model("bayes", rank=16).fit(baskets), tmp_path / "new", baskets, seed=0)
    query, new = str(7 * PER_KIND + 1), str(new_item(27))
    with TestClient(make_app(ServiceSettings(tmp_path / "new"))) as shop:
        for least in ("likely", "guess"):
            usual = ask(shop, item=query, k=20, min_evidence=least)["complements"]
            found = ask(shop, item=query, k=20, min_evidence=least, include_new=True)["complements"]
            assert new not in [line["id"] for line in usual]
            grades = {line["id"]: line["grade"] for line in found}
            assert grades[new] == "guess"
            with_evidence = [line["id"] for line in usual if line["grade"] != "guess"]
            assert [line["id"] for line in found][: len(with_evidence)] == with_evidence
        cart = {"items": [query, str(7 * PER_KIND + 2)], "k": 20}
        usual = shop.post("/v1/cart/complements", json=cart).json()["complements"]
        found = shop.post("/v1/cart/complements", json={**cart, "include_new": True}).json()["complements"]
        assert new not in [line["id"] for line in usual]
        assert new in [line["id"] for line in found]
        assert [line["id"] for line in found][: len(usual)] == [line["id"] for line in usual]
    refused = client.get("/v1/complements", params={"item": id_of("Salsa"), "include_new": True})
    assert refused.status_code == 404
    assert "has no scores for items that nobody bought" in refused.text


CARD = re.compile(r'<li class="card"[^>]*>.*?</li>', re.DOTALL)


def on_the_page(client: TestClient, item: str) -> list[tuple[str, str]]:
    """Name and sentence of each card of an item's page."""
    cards = CARD.findall(client.get("/item", params={"id": item}).text)
    found = (re.search(r'<h3><a [^>]*>(.*?)</a></h3>.*?<p class="words">(.*?)</p>', card, re.DOTALL) for card in cards)
    return [(unescape(card[1]), unescape(card[2]).replace("\u00a0", " ")) for card in found if card]


def six_digits(number: float | None) -> float | None:
    """As the API writes it."""
    return None if number is None else float(f"{number:.6g}")


def test_python_prompt_api_page_and_export_give_the_same_answers(bundle, short_bundle: Path, tmp_path, capsys) -> None:
    """The table holds three answers per item: of most, exact scores have to follow; 900 was never bought."""
    assert exit_code_of(["export", str(short_bundle), "--out", str(tmp_path / "t.parquet")]) == 0
    exported: dict[str, list[tuple[str, str, float | None]]] = {}
    for row in pq.read_table(tmp_path / "t.parquet").to_pylist():
        exported.setdefault(row["query"], []).append((row["item"], row["grade"], row["lift"]))
    beyond = 0
    for path in (short_bundle, bundle):
        with TestClient(make_app(ServiceSettings(path))) as served:
            for item in ("100", "300", *AWKWARD, "900", "901"):
                python = [line.to_dict() for line in neatrec.recommend(path, item).answers]
                capsys.readouterr()
                assert exit_code_of(["recommend", str(path), item, "--json"]) == 0
                prompt = json.loads(capsys.readouterr().out)["recommendations"]
                api = ask(served, item=item)["complements"]
                page = on_the_page(served, item)
                assert prompt == python
                found = [(line["id"], line["grade"], line["evidence"]["lift"]) for line in python]
                assert [(line["id"], line["grade"], line["evidence"]["lift"]) for line in api] == [
                    (*each[:2], six_digits(each[2])) for each in found
                ]
                assert exported.get(item, []) == found
                sentences = [(line["name"], line["evidence"]["words"]) for line in api]
                assert page[: len(sentences)] == sentences
                assert len(page) == len(sentences) or len(sentences) == 10
                beyond += path == short_bundle and len(found) > 3
    assert beyond == len(AWKWARD)
