"""All pairs with evidence: sorted, filtered, in pages, as CSV, new since the version before; one item."""

import csv
import io
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from helpers.service_bundle import PAIRS, id_of, write_bundle
from neatrec.service.app import make_app
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.rules import Rules
from neatrec.service.settings import ServiceSettings
from neatrec.service.snapshot import make_snapshot
from neatrec.serving import PairTable
from neatrec.serving.evidence import GUESS
from neatrec.serving.pair_list import PairList, PairSelection


@pytest.fixture(scope="module")
def listed(client: TestClient) -> list[dict[str, Any]]:
    """All pairs, page by page."""
    pairs, page = [], 1
    while page is not None:
        answer = client.get("/v1/pairs", params={"k": 7, "page": page}).json()
        assert answer["page"] == page
        pairs += answer["pairs"]
        page = answer["next_page"]
    assert len(pairs) == answer["total"]
    return pairs


def names_of(pair: dict[str, Any]) -> frozenset[str]:
    return frozenset((pair["a"]["name"], pair["b"]["name"]))


def test_every_pair_with_evidence_is_listed_once_and_no_other(
    bundle: Path, listed: list[dict[str, Any]]
) -> None:
    index = PairTable.open(bundle)
    size = len(index)
    one, other = np.triu_indices(size, 1)
    good = index.pairs.of_pairs(one, other)["grade"] < GUESS
    wanted = {
        frozenset((index.catalog.id(a), index.catalog.id(b)))
        for a, b in zip(one[good].tolist(), other[good].tolist(), strict=True)
    }
    found = [frozenset((pair["a"]["id"], pair["b"]["id"])) for pair in listed]
    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert {frozenset((a, b)) for a, _, b, _ in PAIRS} <= {names_of(pair) for pair in listed}


def test_each_order_is_what_it_says(client: TestClient, listed: list[dict[str, Any]]) -> None:
    beyond = [pair["evidence"]["beyond"] for pair in listed]
    assert beyond == sorted(beyond, reverse=True)
    by = {
        sort: client.get(f"/v1/pairs?k=100&sort={sort}").json()["pairs"]
        for sort in ("strength", "customers", "sure")
    }
    lows = [pair["evidence"]["lift_low"] for pair in by["strength"]]
    assert lows == sorted(lows, reverse=True)
    customers = [
        pair["evidence"]["customers"] or pair["evidence"]["count"] for pair in by["customers"]
    ]
    assert customers == sorted(customers, reverse=True)
    sure = [(pair["grade"] == "likely", pair["evidence"]["q"]) for pair in by["sure"]]
    assert sure == sorted(sure)


def test_the_evidence_is_that_of_the_pair_page(
    client: TestClient, listed: list[dict[str, Any]]
) -> None:
    for pair in listed[:3]:
        alone = client.get("/v1/pair", params={"a": pair["a"]["id"], "b": pair["b"]["id"]}).json()
        assert alone["evidence"] == pair["evidence"]
        assert (alone["grade"], alone["strength"]) == (pair["grade"], pair["strength"])


def test_words_and_categories_filter(client: TestClient, listed: list[dict[str, Any]]) -> None:
    def names(**query: str) -> set[frozenset[str]]:
        answer = client.get("/v1/pairs", params={**query, "k": 100}).json()
        assert answer["total"] == len(answer["pairs"])
        return {names_of(pair) for pair in answer["pairs"]}

    chips = frozenset(("Tortilla Chips", "Salsa"))
    assert names(q="TORTILLA chi") == {
        pair for pair in map(names_of, listed) if "Tortilla Chips" in pair
    }
    assert chips in names(category="snacks", with_category="sauces")
    assert names(category="snacks", with_category="sauces") == names(
        category="sauces", with_category="snacks"
    )
    assert names(category="snacks") == {
        names_of(pair)
        for pair in listed
        if "snacks" in (pair["a"]["category"] + pair["b"]["category"])
    }
    assert names(category="snacks", with_category="syrups") == set()
    assert client.get("/v1/pairs?category=nonsense").status_code == 404


def test_pairs_are_filtered_and_cut_into_pages(bundle: Path) -> None:
    index = PairTable.open(bundle)
    pairs = PairList(index, index)
    pairs.is_new = np.arange(len(pairs)) % 3 == 0
    pairs.orders["new"] = np.flatnonzero(pairs.is_new).astype(np.int32)
    rng = np.random.default_rng(3)
    for _ in range(5):
        left, right, either = rng.random((3, len(index))) < 0.5
        a, b = pairs.one, pairs.other
        fits = ((left[a] & right[b]) | (left[b] & right[a])) & (either[a] | either[b])
        for sort, order in pairs.orders.items():
            wanted = order[fits[order]]
            total, rows = pairs.find(sort, PairSelection(left, right, either), 2, 3)
            assert total == len(wanted)
            assert rows.tolist() == wanted[2:5].tolist()
            assert (
                pairs.find(sort, PairSelection(left, right, either))[1].tolist() == wanted.tolist()
            )


def test_the_csv_file_has_what_the_pages_have(
    client: TestClient, listed: list[dict[str, Any]]
) -> None:
    answer = client.get("/v1/pairs.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["a_id"], row["b_id"], row["evidence"]) for row in rows] == [
        (pair["a"]["id"], pair["b"]["id"], pair["evidence"]["words"]) for pair in listed
    ]
    assert float(rows[0]["lift"]) == pytest.approx(listed[0]["evidence"]["lift"], rel=1e-5)
    assert (
        len(client.get("/v1/pairs.csv?category=snacks&with_category=sauces").text.splitlines()) == 2
    )
    assert not any(cell[:1] in "=+@" for row in rows for cell in row.values() if cell)


@pytest.fixture(scope="module")
def store(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A store whose older version was trained on a third of the baskets."""
    place = tmp_path_factory.mktemp("store")
    (place / "versions").mkdir()
    write_bundle(place / "versions" / "1-older", count=500)
    shutil.copytree(bundle, place / "versions" / "2-live")
    (place / "current").symlink_to(Path("versions") / "2-live")
    with TestClient(make_app(ServiceSettings(place))) as made:
        yield made


def test_new_pairs_are_those_that_the_version_before_did_not_have(
    store: TestClient, bundle: Path
) -> None:
    answer = store.get("/v1/pairs?sort=new&k=100").json()
    every = store.get("/v1/pairs?k=100").json()
    new = {names_of(pair) for pair in every["pairs"] if pair["new"]}
    assert 0 < len(new) < every["total"]
    assert answer["total"] == len(new)
    assert {names_of(pair) for pair in answer["pairs"]} == new
    few = store.get("/v1/pairs?sort=new&k=100&category=first half").json()
    assert few["total"] == len(few["pairs"]) < len(new)
    assert "new</b>" in store.get("/pairs?sort=new").text


def test_without_a_version_before_new_is_refused(client: TestClient) -> None:
    answer = client.get("/v1/pairs?sort=new")
    assert answer.status_code == 404
    assert "no earlier version" in answer.json()["error"]["message"]
    assert client.get("/v1/pairs").json()["pairs"][0]["new"] is None
    assert "new ones only" not in client.get("/pairs").text


def test_one_item_tells_how_many_pairs_it_has(
    client: TestClient, listed: list[dict[str, Any]]
) -> None:
    chips = id_of("Tortilla Chips")
    answer = client.get(f"/v1/items/{chips}").json()
    own = [pair for pair in listed if chips in (pair["a"]["id"], pair["b"]["id"])]
    assert (answer["id"], answer["name"]) == (chips, "Tortilla Chips")
    assert answer["certain"] == sum(pair["grade"] == "certain" for pair in own)
    assert answer["likely"] == sum(pair["grade"] == "likely" for pair in own)
    assert client.get(f"/v1/items/{id_of('Spaghetti')}").json()["variants"] == ["spaghetti-500g"]
    assert client.get("/v1/items/spagheti").status_code == 404
    assert client.get("/v1/items/a/b/c").json()["name"] == "Awkward 0"


def test_a_name_that_one_item_has_stands_for_its_id(client: TestClient) -> None:
    by_id = client.get(f"/v1/complements?item={id_of('Tortilla Chips')}").json()
    assert client.get("/v1/complements", params={"item": "tortilla  chips"}).json() == by_id
    assert (
        client.post("/v1/cart/complements", json={"items": ["Salsa"]}).json()["cart"][0]["name"]
        == "Salsa"
    )
    assert client.get("/item", params={"id": "Salsa"}).status_code == 200


def test_a_long_name_stands_for_an_item_only_as_a_whole(bundle: Path) -> None:
    loaded = LoadedBundle(PairTable.open(bundle))
    loaded.names[0] = "tea " * 40
    assert loaded.code("Tea " * 40) == 0
    assert loaded.code("tea " * 39 + "cup") is None


def test_similar_names_stand_apart_from_exact_ones(client: TestClient) -> None:
    found = client.get("/v1/items", params={"q": "butter"}).json()["items"]
    assert {item["name"]: item["exact"] for item in found}["Butter Biscuits"] is True
    assert [item["exact"] for item in client.get("/v1/items?q=tortila").json()["items"]][:1] == [
        False
    ]
    page = client.get("/?q=tortila").text
    assert "No item has exactly this name." in page
    assert page.index("Similar names") < page.index("Tortilla Chips")


def test_the_page_of_pairs_filters_and_turns_pages(client: TestClient) -> None:
    page = client.get(
        "/pairs", params={"q": "chips", "category": "", "with_category": "", "sort": "", "page": ""}
    )
    assert page.status_code == 200
    assert "Tortilla Chips" in page.text
    assert '/v1/pairs.csv?q=chips"' in page.text
    assert "Maple Syrup" not in page.text
    assert "No such pair" in client.get("/pairs?q=qqqqqq").text
    assert client.get("/pairs?page=x").status_code == 422
    assert "No such pair" in client.get("/pairs?page=9999").text


def test_the_first_page_tells_what_changed_since_the_version_before(store: TestClient) -> None:
    page = store.get("/").text
    new = store.get("/v1/pairs?sort=new").json()["total"]
    assert "Since the version before" in page
    assert f"{new} new pair" in page
    assert "of sales were covered, now" in page


def test_an_answer_that_the_caller_has_is_confirmed_without_a_body(client: TestClient) -> None:
    first = client.get("/v1/pairs?k=3")
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "no-cache"
    again = client.get("/v1/pairs?k=3", headers={"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get("/v1/pairs?k=3", headers={"If-None-Match": '"other"'}).status_code == 200
    anything = client.get("/v1/pairs?k=3", headers={"If-None-Match": "*"})
    assert (anything.status_code, anything.content, anything.headers["etag"]) == (304, b"", tag)
    assert "content-length" not in anything.headers
    for nothing in ("/v1/nothing", "/v1/complements?item=spagheti", "/v1/items/spagheti"):
        assert client.get(nothing, headers={"If-None-Match": "*"}).status_code == 404
    missing = client.get("/v1/complements?item=spagheti")
    assert "etag" not in missing.headers
    assert "etag" not in client.get("/").headers


def test_the_tag_changes_with_the_rules(bundle: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.csv"
    rules.write_text("query,item,action,position,until,note\n100,200,block,,,\n")
    settings = (
        ServiceSettings(bundle),
        ServiceSettings(bundle, rules=rules),
    )
    tags = [TestClient(make_app(each)).get("/v1/model").headers["etag"] for each in settings]
    assert len(set(tags)) == 2


def test_the_tag_changes_with_the_version_before_and_with_the_time_of_training(
    bundle: Path,
) -> None:
    def tag(old: PairTable | None, created: str) -> bytes:
        table = PairTable.open(bundle)
        table.manifest = replace(table.manifest, created=created)
        return make_snapshot(LoadedBundle(table, old), Rules(), None, date(2026, 1, 1)).tag

    alone, again, before, later = (
        tag(None, "a"),
        tag(None, "a"),
        tag(PairTable.open(bundle), "a"),
        tag(None, "b"),
    )
    assert alone == again
    assert len({alone, before, later}) == 3


@pytest.mark.parametrize(
    "path", ["/v1/pairs", "/v1/complements?item=100", "/", "/healthz", "/v1/pairs.csv"]
)
def test_head_answers_as_get_without_a_body(client: TestClient, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers.get("content-type") == get.headers.get("content-type")
    assert head.headers.get("content-length") == get.headers.get("content-length")
