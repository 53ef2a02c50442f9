"""The API keeps what its OpenAPI document promises, whatever is asked."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.config import SchemathesisConfig
from starlette.testclient import TestClient

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


def test_the_document_says_how_a_key_is_sent(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in (None, "a-key-of-the-shop"):
        if key:
            monkeypatch.setenv("NEATREC_API_KEY", key)
        asking = TestClient(make_app(ServiceSettings(bundle)), headers={"X-API-Key": key or ""})
        paths = asking.get("/openapi.json").json()["paths"]
        wanted = [{"bearer": []}, {"header": []}] if key else None
        assert paths["/v1/model"]["get"].get("security") == wanted
        assert "security" not in paths["/healthz"]["get"]
