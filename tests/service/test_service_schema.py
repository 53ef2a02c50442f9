"""The API keeps what its OpenAPI document promises, whatever is asked."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.config import SchemathesisConfig
from starlette.testclient import TestClient

from helpers.service_bundle import id_of
from neatrec.service import schemas
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings


@pytest.fixture(scope="session")
def api(bundle: Path) -> Any:
    rejections = {
        "expected-statuses": ["400", "404", "405", "413", "414", "422"]
    }  # too long is refused as such
    config = SchemathesisConfig.from_dict({"checks": {"negative_data_rejection": rejections}})
    return schemathesis.openapi.from_asgi(
        "/openapi.json", make_app(ServiceSettings(bundle)), config=config
    )


OPERATIONS = [
    ("/v1/complements", "GET"),
    ("/v1/cart/complements", "POST"),
    ("/v1/pair", "GET"),
    ("/v1/items", "GET"),
    ("/v1/pairs", "GET"),
    ("/v1/items/{item}", "GET"),
    ("/v1/model", "GET"),
    ("/healthz", "GET"),
    ("/readyz", "GET"),
]
calm = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE


@pytest.mark.parametrize(
    ("path", "method", "mode"),
    [*((*each, POSITIVE) for each in OPERATIONS), *((*each, NEGATIVE) for each in OPERATIONS[:5])],
)
def test_what_the_document_allows_is_answered_and_what_it_forbids_refused(
    api, path: str, method: str, mode
) -> None:
    @calm
    @given(case=api[path][method].as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate()

    check()


@pytest.mark.parametrize(("path", "method"), OPERATIONS[:3])
def test_any_filters_on_items_that_exist_are_answered_as_it_promises(
    api: Any, path: str, method: str
) -> None:
    known = {"item": "100", "a": "100", "b": id_of("Marinara Sauce")}

    @calm
    @given(case=api[path][method].as_strategy(generation_mode=POSITIVE))
    def check(case: schemathesis.Case) -> None:
        for place in (case.query, case.path_parameters):
            place.update({name: item for name, item in known.items() if name in place})
        if path == "/v1/cart/complements":
            case.body["items"] = ["100", id_of("Salsa")]
        case.call_and_validate()

    check()


def test_the_document_has_an_example_for_every_answer(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    components = document["components"]["schemas"]
    assert len(components) > 10
    for name, schema in components.items():
        getattr(schemas, name).model_validate(schema["example"])
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, said in operation["responses"].items():
                if "text/csv" in said["content"]:
                    continue
                content = said["content"]["application/json"]
                assert content["schema"]["$ref"]
                if status != "200":
                    schemas.ErrorOut.model_validate(content["example"])
    posted = document["paths"]["/v1/cart/complements"]["post"]
    assert posted["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith(
        "/CartQuery"
    )
    assert set(posted["responses"]) == {"200", "401", "404", "408", "413", "422", "503"}
    assert set(document["paths"]) == {
        "/v1/complements",
        "/v1/cart/complements",
        "/v1/items/{item}",
        "/v1/pair",
        "/v1/pairs",
        "/v1/pairs.csv",
        "/v1/items",
        "/v1/model",
        "/healthz",
        "/readyz",
    }


@pytest.mark.parametrize("key", [None, "a-key-of-the-shop"])
def test_the_document_says_how_a_key_is_sent(
    bundle: Path, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key:
        monkeypatch.setenv("NEATREC_API_KEY", key)
    asking = TestClient(make_app(ServiceSettings(bundle)), headers={"X-API-Key": key or ""})
    document = asking.get("/openapi.json").json()
    assert document == asking.get("/openapi.json").json()
    schemes = document["components"]["securitySchemes"]
    assert {(scheme["type"], scheme.get("scheme")) for scheme in schemes.values()} == {
        ("http", "bearer"),
        ("http", "basic"),
        ("apiKey", None),
    }
    assert ({} in document["security"]) == (key is None)
    assert [name for entry in document["security"] for name in entry] == list(schemes)
    assert document["paths"]["/healthz"]["get"]["security"] == []
