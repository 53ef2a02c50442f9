"""What the API answers."""

import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

import neatrec
from helpers.service_bundle import AWKWARD, INJECTIONS, id_of
from neatrec.cli.main import exit_code_of
from neatrec.models import base as models_base
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings
from neatrec.serving import PairTable

FOOTER = "Association, not proof of extra sales."


def ask(client: TestClient, **parameters: object) -> dict:
    answer = client.get("/v1/complements", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(answer: dict) -> list[str]:
    return [line["name"] for line in answer["complements"]]


def test_an_item_is_answered_from_the_table_with_evidence_in_words(
    client: TestClient, bundle: Path
) -> None:
    answer = ask(client, item=id_of("Tortilla Chips"), k=3)
    best = answer["complements"][0]
    index = PairTable.open(bundle)
    code = index.catalog.code_of[id_of("Tortilla Chips")]
    assert best["name"] == "Salsa"
    assert best["grade"] == "certain"
    evidence = index.evidence(code, int(index.items_of(code)[0]))
    assert best["evidence"] == {"words": evidence.words(), **evidence.to_dict()}
    assert answer["bundle"] == index.version
    assert answer["footer"] == FOOTER


def test_weak_evidence_is_left_out_unless_asked_for(client: TestClient) -> None:
    usual = ask(client, item=id_of("Tortilla Chips"), k=20)
    guessed = ask(client, item=id_of("Tortilla Chips"), k=20, min_evidence="guess")
    assert {line["grade"] for line in usual["complements"]} <= {"certain", "likely"}
    assert len(guessed["complements"]) > len(usual["complements"])
    assert {
        line["grade"] for line in ask(client, item="100", min_evidence="certain")["complements"]
    } <= {"certain"}


@pytest.mark.parametrize("item", AWKWARD)
def test_any_id_can_be_asked_for_by_parameter_and_by_path(client: TestClient, item: str) -> None:
    answer = ask(client, item=item, min_evidence="guess")
    assert answer["query"]["id"] == item
    assert answer["complements"]
    assert client.get(f"/v1/items/{quote(item, safe='')}").json()["id"] == item


def test_a_variant_is_answered_as_its_item(client: TestClient) -> None:
    assert ask(client, item="spaghetti-500g")["query"]["name"] == "Spaghetti"


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
    everything = ask(client, item="100", k=100, min_evidence="guess")
    aisles = [
        line["category"][-1] if line["category"] else "" for line in everything["complements"]
    ]
    sauces = ask(client, item="100", k=100, min_evidence="guess", category="Sauces")
    assert names(sauces) == [
        n for n, aisle in zip(names(everything), aisles, strict=True) if aisle == "sauces"
    ]
    by_path = ask(client, item="100", k=100, min_evidence="guess", category="second half / sauces")
    assert names(by_path) == names(sauces)
    without = ask(client, item="100", k=100, min_evidence="guess", exclude=id_of("Marinara Sauce"))
    assert names(without) == [name for name in names(everything) if name != "Marinara Sauce"]
    each = ask(client, item="100", k=100, min_evidence="guess", diversify="true")
    kept = [line["category"][-1] for line in each["complements"] if line["category"]]
    assert sorted(set(kept)) == sorted(kept)
    assert set(kept) == {aisle for aisle in aisles if aisle}


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


@pytest.mark.parametrize(
    "filters", [{}, {"category": ["names 1", "names 2"]}, {"exclude": ["500"]}, {"diversify": True}]
)
@pytest.mark.parametrize("level", ["likely", "guess"])
def test_a_cart_of_one_is_its_item_when_filters_use_up_the_table(
    short_bundle: Path, filters: dict, level: str
) -> None:
    with TestClient(make_app(ServiceSettings(short_bundle))) as short:
        for item in ("100", "a/b/c", "300", "301"):
            asked = {"k": 20, "min_evidence": level, **filters}
            one = ask(short, item=item, **asked)["complements"]
            answer = short.post("/v1/cart/complements", json={"items": [item], **asked})
            cart = answer.json()["complements"]
            assert [line["id"] for line in cart] == [line["id"] for line in one]
            assert [line["grade"] for line in cart] == [line["grade"] for line in one]


@pytest.mark.parametrize("filters", [{}, {"category": ["names 1", "names 2"]}, {"diversify": True}])
@pytest.mark.parametrize("level", ["certain", "likely", "guess"])
def test_what_completes_a_cart_does_not_depend_on_the_length_of_the_table(
    client, short_bundle, filters, level
) -> None:
    with TestClient(make_app(ServiceSettings(short_bundle))) as short:
        for items in (["100", "101"], ["300", "a/b/c", "102"]):
            asked = {"items": items, "k": 15, "min_evidence": level, **filters}
            few, many = (
                who.post("/v1/cart/complements", json=asked).json() for who in (short, client)
            )
            assert few["complements"] == many["complements"]
            grades = {
                contribution["grade"]
                for line in few["complements"]
                for contribution in line["goes_with"]
            }
            assert grades <= {"certain": {"certain"}, "likely": {"certain", "likely"}}.get(
                level, grades
            )


@pytest.mark.parametrize("which", ["short_bundle", "gaussian_bundle"])
@pytest.mark.parametrize("held_at_once", [1, 4_000_000])
def test_a_cart_is_completed_as_the_model_completes_it(
    which: str, held_at_once: int, request, monkeypatch
) -> None:
    monkeypatch.setattr(models_base, "BLOCK_SCORES", held_at_once)
    path = request.getfixturevalue(which)
    items = ["100", "101", "300"]
    with TestClient(make_app(ServiceSettings(path))) as asking:
        asked = {"items": items, "k": 25, "min_evidence": "guess"}
        lines = asking.post("/v1/cart/complements", json=asked).json()["complements"]
    exact = PairTable.open(path).model.rank(items, 25)
    assert [line["id"] for line in lines][: len(exact)] == exact.ids
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
        return [
            item["name"] for item in client.get("/v1/items", params={"q": text}).json()["items"]
        ]

    assert found("tortila chps")[0] == "Tortilla Chips"
    assert found("MARINARA")[0] == "Marinara Sauce"
    assert found("syrup map")[0] == "Maple Syrup"
    assert found("a/b/c")[0] == "Awkward 0"
    assert found("qqqqqqq") == []


def test_the_model_page_says_what_answers(client: TestClient) -> None:
    answer = client.get("/v1/model").json()
    assert answer["model"] == "shrunk-lift"
    assert sum(row["items"] for row in answer["coverage"].values()) == pytest.approx(1)


def test_names_that_look_like_script_stay_text(client: TestClient) -> None:
    answer = client.get(
        "/v1/complements", params={"item": "100", "k": 100, "min_evidence": "guess"}
    )
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert set(INJECTIONS) & {line["name"] for line in answer.json()["complements"]}


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
