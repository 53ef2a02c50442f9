"""Answers of the API."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

import neatrec
from helpers.coarse_shop import coarse_shop
from helpers.service_bundle import AWKWARD, id_of
from neatrec.cli.main import exit_code_of
from neatrec.models import Run, make_model
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings
from neatrec.serving import save_indexed


def ask(client: TestClient, **parameters: object) -> dict:
    answer = client.get("/v1/complements", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(answer: dict) -> list[str]:
    return [line["name"] for line in answer["complements"]]


@pytest.mark.parametrize("item", AWKWARD)
def test_any_id_can_be_asked_for_by_parameter_and_by_path(client: TestClient, item: str) -> None:
    answer = ask(client, item=item, min_evidence="guess")
    assert answer["query"]["id"] == item
    assert answer["complements"]
    assert answer["footer"] == "Association, not proof of extra sales."
    assert client.get(f"/v1/items/{quote(item, safe='')}").json()["id"] == item


def test_an_unknown_item_or_category_is_a_404_with_near_names(client: TestClient) -> None:
    answer = client.get("/v1/complements", params={"item": "spagheti"})
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["kind"] == "UnknownItemError"
    assert error["near"][0]["name"] == "Spaghetti"
    assert error["hint"].startswith("Did you mean 'Spaghetti'")
    cart = client.post("/v1/cart/complements", json={"items": ["spagheti"]})
    assert (cart.status_code, cart.json()["error"]["near"][0]["name"]) == (404, "Spaghetti")
    answer = client.get("/v1/complements", params={"item": "100", "category": "sauses"})
    assert (answer.status_code, answer.json()["error"]["hint"]) == (404, "Did you mean 'sauces'?")


def test_category_exclude_and_diversify_choose(client: TestClient) -> None:
    def found(**filters: str) -> list[tuple[str, str]]:
        lines = ask(client, item="100", k=100, min_evidence="guess", **filters)["complements"]
        return [(line["name"], (line["category"] or [""])[-1]) for line in lines]

    everything = found()
    sauces = [line for line in everything if line[1] == "sauces"]
    assert found(category="Sauces") == found(category="second half / sauces") == sauces
    without = found(exclude=id_of("Marinara Sauce"))
    assert without == [line for line in everything if line[0] != "Marinara Sauce"]
    aisles = [aisle for _, aisle in found(diversify="true") if aisle]
    assert sorted(aisles) == sorted({aisle for _, aisle in everything if aisle})


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    path, baskets = tmp_path_factory.mktemp("coarse") / "bundle", coarse_shop()
    save_indexed(make_model("shrunk-lift").fit(baskets, Run(rng=0)), path, baskets, seed=0)
    with TestClient(make_app(ServiceSettings(path))) as made:
        yield made


def test_items_of_the_same_category_come_last_are_left_out_or_mixed(coarse: TestClient) -> None:
    wanted = {"last": {"cup", "beans"}, "exclude": {"cup"}, "mix": {"cup", "beans"}}
    for choice, items in wanted.items():
        assert set(names(ask(coarse, item="machine", same_category=choice))) == items
        cart = {"items": ["machine", "paper"], "same_category": choice}
        found = coarse.post("/v1/cart/complements", json=cart).json()
        assert ("beans" in names(found)) == (choice != "exclude")
    last = ask(coarse, item="machine")
    assert [line["evidence"]["same_category"] for line in last["complements"]] == [False, True]
    left = ask(coarse, item="machine", same_category="exclude")["notes"]
    assert left == ["1 answer with evidence of the item's own category left out."]
    page = coarse.get("/item?id=machine", headers={"accept": "text/html"}).text
    assert page.count("same category</b>") == 1
    assert page.index("cup</a>") < page.index("beans</a>")
    assert "same category</b>" in coarse.get("/pairs").text


@pytest.mark.parametrize(
    ("asked", "note"),
    [
        ({"item": "900"}, "in no training basket"),
        (
            {"item": "brand new", "category_of": "drinks"},
            "A new item: answered from its category, drinks.",
        ),
    ],
)
def test_a_new_item_is_answered_from_its_category_or_the_one_the_caller_gives(
    client, asked: dict, note: str
) -> None:
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
    answer = client.post(
        "/v1/cart/complements", json={"items": cart, "k": 40, "min_evidence": "guess"}
    ).json()
    lines = {line["name"]: line for line in answer["complements"]}
    assert [item["name"] for item in answer["cart"]] == ["Spaghetti", "Tortilla Chips"]
    assert not {"Spaghetti", "Tortilla Chips"} & set(lines)
    assert not any(line["category"][-1:] in (["pasta"], ["snacks"]) for line in lines.values())
    assert lines["Salsa"]["goes_with"][0]["name"] == "Tortilla Chips"
    assert "customers, " in lines["Salsa"]["goes_with"][0]["words"]
    assert "no such item is not in the bundle" in answer["notes"][0]


def test_a_pair_has_an_evidence_card(client: TestClient) -> None:
    chips, salsa = id_of("Tortilla Chips"), id_of("Salsa")
    answer = client.get("/v1/pair", params={"a": chips, "b": salsa}).json()
    turned = client.get("/v1/pair", params={"a": salsa, "b": chips}).json()
    assert answer["grade"] == "certain"
    assert answer["evidence"]["count"] == turned["evidence"]["count"] > 10
    assert answer["evidence"]["forward"] == turned["evidence"]["backward"]
    assert answer["evidence"]["query_count"] == turned["evidence"]["item_count"]
    assert client.get("/v1/pair", params={"a": "100", "b": "zzz"}).status_code == 404


CARD = re.compile(r'<li class="card"[^>]*>.*?</li>', re.DOTALL)


def on_the_page(client: TestClient, item: str) -> list[tuple[str, str]]:
    """Name and sentence of each card of an item's page."""
    cards = CARD.findall(client.get("/item", params={"id": item}).text)
    found = (
        re.search(r'<h3><a [^>]*>(.*?)</a></h3>.*?<p class="words">(.*?)</p>', card, re.DOTALL)
        for card in cards
    )
    return [(unescape(card[1]), unescape(card[2]).replace("\u00a0", " ")) for card in found if card]


def six_digits(number: float | None) -> float | None:
    """As the API writes it."""
    return None if number is None else float(f"{number:.6g}")


def test_python_prompt_api_page_and_export_give_the_same_answers(
    bundle, short_bundle: Path, tmp_path, capsys
) -> None:
    """The table of one holds three guesses per item; 900 was never bought."""
    assert exit_code_of(["export", str(short_bundle), "--out", str(tmp_path / "t.parquet")]) == 0
    exported: dict[str, list[tuple[str, str, float | None]]] = {}
    for row in pq.read_table(tmp_path / "t.parquet").to_pylist():
        lift = six_digits(row["lift"])
        exported.setdefault(row["query"], []).append((row["item"], row["grade"], lift))
    beyond = 0
    for path in (short_bundle, bundle):
        with TestClient(make_app(ServiceSettings(path))) as served:
            for item in ("100", "300", *AWKWARD, "900", "901"):
                python = neatrec.recommend(path, item).rows()
                capsys.readouterr()
                assert exit_code_of(["recommend", str(path), item, "--json"]) == 0
                prompt = json.loads(capsys.readouterr().out)["recommendations"]
                api = ask(served, item=item)["complements"]
                page = on_the_page(served, item)
                assert prompt == python
                found = [(line["id"], line["grade"], line["evidence"]["lift"]) for line in python]
                assert api == python
                assert exported.get(item, []) == found
                sentences = [(line["name"], line["evidence"]["words"]) for line in api]
                assert page[: len(sentences)] == sentences
                assert len(page) == len(sentences) or len(sentences) == 10
                beyond += path == short_bundle and len(found) > 3
    assert beyond == len(AWKWARD)
