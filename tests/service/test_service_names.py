"""Names that callers choose: categories in any spelling, ids of any length."""

from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from neatrec.data.baskets import Baskets
from neatrec.models import Run, make_model
from neatrec.service.app import make_app
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.problems import Problem
from neatrec.service.settings import ServiceSettings
from neatrec.serving import PairTable
from neatrec.serving.build import save_indexed

LONG = "é" * 300


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A shop one of whose ids has 300 characters."""
    baskets = Baskets.from_lists(
        [[LONG, "tea"], [LONG, "tea", "milk"], ["milk", "bread"], ["bread"]] * 20
    )
    path = tmp_path_factory.mktemp("long") / "bundle"
    save_indexed(make_model("shrunk-lift").fit(baskets, Run(rng=0)), path, baskets, seed=0)
    return TestClient(make_app(ServiceSettings(path)))


def test_an_id_that_the_bundle_holds_may_be_long(asking: TestClient) -> None:
    found = [
        asking.get("/v1/complements", params={"item": LONG}),
        asking.get(f"/v1/items/{LONG}"),
        asking.get("/v1/complements", params={"item": "tea", "exclude": LONG}),
        asking.get("/v1/pair", params={"a": LONG, "b": "tea"}),
        asking.post("/v1/cart/complements", json={"items": [LONG], "exclude": [LONG]}),
        asking.get("/item", params={"id": LONG}),
    ]
    assert [answer.status_code for answer in found] == [200] * 6
    assert found[0].json()["query"]["id"] == LONG


def test_another_long_id_is_as_unknown_as_a_short_one(asking: TestClient) -> None:
    """The document gives ids no length that the service does not hold to; near names are looked for up to a limit."""
    other = "tea" * 100
    found = [
        asking.get("/v1/complements", params={"item": other}),
        asking.get("/v1/complements", params={"item": other, "category_of": "drinks"}),
        asking.get("/v1/complements", params={"item": "tea", "exclude": other}),
        asking.get("/v1/pair", params={"a": "tea", "b": other}),
        asking.post("/v1/cart/complements", json={"items": ["tea", other]}),
        asking.post("/v1/cart/complements", json={"items": ["tea"], "exclude": [other]}),
        asking.get("/item", params={"id": other}),
    ]
    assert [answer.status_code for answer in found] == [404, 404, 200, 404, 200, 200, 404]
    assert found[0].json()["error"]["near"] == []
    assert (
        asking.get("/v1/complements", params={"item": "teaa"}).json()["error"]["near"][0]["id"]
        == "tea"
    )
    document = asking.get("/openapi.json").json()
    asked = document["paths"]["/v1/complements"]["get"]["parameters"]
    lengths = {p["name"]: p["schema"].get("items", p["schema"]).get("maxLength") for p in asked}
    assert (lengths["item"], lengths["exclude"], lengths["category"], lengths["category_of"]) == (
        None,
        None,
        256,
        256,
    )


def test_a_category_has_one_spelling_however_it_is_written(bundle: Path) -> None:
    served = LoadedBundle(PairTable.open(bundle))
    members = served.in_category("dairy")
    assert members.sum() == 6
    for name in ("DAIRY", "dAiRy", "dairy / Dairy", "dairy > dairy", "dairy/" * 30):
        assert np.array_equal(served.in_category(name), members)
    path = served.in_category("First Half / dairy")
    assert np.array_equal(path, members)
    assert np.array_equal(served.in_category("dairy / FIRST HALF"), members)
    assert not served.in_category("second half / dairy").any()
    for name in ("dary", "dairy / dary", "", "/", "first half / dairy / frozen"):
        with pytest.raises(Problem, match="there is no `category`"):
            served.in_category(name)


def test_a_request_names_few_categories(client: TestClient) -> None:
    few, many = {"category": ["dairy"] * 20}, {"category": ["dairy"] * 21}
    for filters, status in ((few, 200), (many, 422)):
        assert (
            client.get("/v1/complements", params={"item": "100", **filters}).status_code == status
        )
        assert (
            client.post("/v1/cart/complements", json={"items": ["100"], **filters}).status_code
            == status
        )
        assert client.get("/item", params={"id": "100", **filters}).status_code == status
