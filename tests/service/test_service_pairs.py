"""All pairs with evidence: sorted, filtered, in pages, as CSV, new since the version before; one item."""

import csv
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from helpers.service_bundle import PAIRS, id_of, write_bundle
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings
from neatrec.serving import PairTable
from neatrec.serving.evidence import GUESS


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


@pytest.mark.parametrize(
    ("sort", "key"), [("beyond", "beyond"), ("strength", "lift_low"), ("customers", "customers")]
)
def test_each_order_is_what_it_says(client: TestClient, sort: str, key: str) -> None:
    pairs = client.get(f"/v1/pairs?k=100&sort={sort}").json()["pairs"]
    values = [pair["evidence"][key] for pair in pairs]
    assert values == sorted(values, reverse=True)
    usual = client.get("/v1/pairs?k=100").json()["pairs"]
    assert (usual == pairs) == (sort == "beyond")


def test_words_and_categories_filter(client: TestClient, listed: list[dict[str, Any]]) -> None:
    def names(**query: str) -> set[frozenset[str]]:
        answer = client.get("/v1/pairs", params={**query, "k": 100}).json()
        assert answer["total"] == len(answer["pairs"])
        return {names_of(pair) for pair in answer["pairs"]}

    chips, every = frozenset(("Tortilla Chips", "Salsa")), set(map(names_of, listed))
    assert names(q="TORTILLA chi") == {pair for pair in every if "Tortilla Chips" in pair}
    assert names(category="snacks", with_category="sauces") == {chips}
    assert names(category="sauces", with_category="snacks") == {chips}
    assert names(category="snacks") == {chips}
    assert names(category="snacks", with_category="syrups") == set()
    assert client.get("/v1/pairs?category=nonsense").status_code == 404


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
    home = store.get("/").text
    assert "Since the previous version" in home
    assert "of sales were covered, now" in " ".join(home.split())


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


def test_the_page_of_pairs_filters_and_turns_pages(client: TestClient) -> None:
    page = client.get("/pairs?q=chips&category=&with_category=+&sort=&page=")
    assert page.status_code == 200
    assert "Tortilla Chips" in page.text
    assert '/v1/pairs.csv?q=chips"' in page.text
    assert "Maple Syrup" not in page.text
    for path in ("/pairs?q=qqqqqq", "/pairs?page=9999"):
        assert "No such pair" in client.get(path).text
    assert client.get("/pairs?page=x").status_code == 422


@pytest.mark.parametrize(
    "path", ["/v1/pairs", "/v1/complements?item=100", "/", "/healthz", "/v1/pairs.csv"]
)
def test_head_answers_as_get_without_a_body(client: TestClient, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers.get("content-type") == get.headers.get("content-type")
    assert head.headers.get("content-length") == get.headers.get("content-length")
