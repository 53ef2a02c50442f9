"""The service answers within strata, and lists what they explain when asked."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from helpers.dated_shop import dated_shop
from neatrec.models import Run, make_model
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings
from neatrec.serving import save_indexed

WORDS = "x within December: seasonal."


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, baskets = tmp_path_factory.mktemp("dated") / "bundle", dated_shop()
    save_indexed(make_model("shrunk-lift").fit(baskets, Run(threads=1)), place, baskets, seed=0)
    return place


@pytest.fixture(scope="module")
def client(dated: Path) -> Iterator[TestClient]:
    with TestClient(make_app(ServiceSettings(dated))) as made:
        yield made


def ask(client: TestClient, **query: Any) -> dict[str, Any]:
    answer = client.get("/v1/complements", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_a_season_explains_is_no_answer_and_is_listed_on_request(client: TestClient) -> None:
    plain = ask(client, item="candy", min_evidence="guess")
    assert "wreath" not in [line["id"] for line in plain["complements"]]
    assert "explained" not in plain
    for cart in (["candy"], ["candy", "bun"]):
        answer = client.post(
            "/v1/cart/complements", json={"items": cart, "min_evidence": "guess"}
        ).json()
        assert "wreath" not in [line["id"] for line in answer["complements"]]
        assert {line["grade"] for line in answer["complements"]} <= {"certain", "likely", "guess"}
    listed = ask(client, item="candy", include="explained")["explained"]
    assert [(line["id"], line["grade"], line["strength"]) for line in listed] == [
        ("wreath", "seasonal", None)
    ]
    assert listed[0]["evidence"]["words"].endswith(WORDS)
    assert listed[0]["evidence"]["season"] == ["December"]
    assert [
        line["grade"] for line in ask(client, item="ice", include="explained")["explained"]
    ] == ["explained by store"]
    assert ask(client, item="bun", include="explained")["explained"] == []


def test_a_seasonal_item_is_listed_in_its_season(client: TestClient) -> None:
    assert [line["id"] for line in ask(client, item="candy", month=12)["explained"]] == ["wreath"]
    assert ask(client, item="candy", month=6)["explained"] == []
    assert ask(client, item="ice", month=12)["explained"] == []


def test_what_the_evidence_is_measured_within_is_said(client: TestClient) -> None:
    model = client.get("/v1/model").json()
    assert model["strata"] == ["basket_size", "month", "store"]
    assert model["evidence"] == "Evidence is measured within basket size, month, store."
    html = {"accept": "text/html"}
    assert model["evidence"] in client.get("/quality", headers=html).text
    assert model["evidence"] in client.get("/pair?a=bun&b=sausage", headers=html).text
    page = client.get("/item?id=candy", headers=html).text
    assert "Show pairs explained by basket size, month or store" in page
    assert "wreath" not in page
    assert WORDS in client.get("/item?id=candy&include=explained", headers=html).text
    none = client.get("/item?id=bun&include=explained", headers=html).text
    assert (
        "No pair that passes these filters is explained by basket size, month or store alone."
        in none
    )


OPEN = "Seasons and stores could not be ruled out as the reason of a pair."


def test_without_times_and_stores_no_text_for_people_claims_more_than_it_knows(
    tmp_path: Path,
) -> None:
    """The pair of buns and sausages has the smallest q there is: no text shows it as it is."""
    baskets = replace(dated_shop(), times=None, attributes={})
    fitted = make_model("shrunk-lift").fit(baskets, Run(threads=1))
    save_indexed(fitted, tmp_path / "bundle", baskets, seed=0)
    with TestClient(make_app(ServiceSettings(tmp_path / "bundle"))) as client:
        for path in ("/item?id=bun&min_evidence=guess", "/pair?a=bun&b=sausage", "/quality"):
            page = client.get(path, headers={"accept": "text/html"}).text
            # tags hold colours, hashes are no numbers
            plain = " ".join(re.sub(r"<[^>]*>|\b[0-9a-f]{12,64}\b", " ", page).split())
            assert OPEN in plain, path
            assert "1,000,000" not in plain, path
            assert not re.search(r"\d[eE][-+]?\d", plain), path
            assert ("fewer than 1 in 1,000" in plain) == path.startswith("/pair")
