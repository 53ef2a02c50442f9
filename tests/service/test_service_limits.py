"""What the API refuses, and that it says why."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings

LARGE = json.dumps({"items": ["100"] * 10, "k": 5, "category": ["x" * 200] * 6000})

REFUSED = [
    ("k 0", "GET", "/v1/complements?item=100&k=0", None, 422),
    ("k negative", "GET", "/v1/complements?item=100&k=-1", None, 422),
    ("k 101", "GET", "/v1/complements?item=100&k=101", None, 422),
    ("k huge", "GET", "/v1/complements?item=100&k=1e9", None, 422),
    ("k huge digits", "GET", "/v1/complements?item=100&k=1000000000", None, 422),
    ("k text", "GET", "/v1/complements?item=100&k=abc", None, 422),
    ("k empty", "GET", "/v1/complements?item=100&k=", None, 422),
    ("k other digits", "GET", "/v1/complements?item=100&k=%D9%A3", None, 422),
    ("k twice", "GET", "/v1/complements?item=100&k=1&k=2", None, 422),
    ("no item", "GET", "/v1/complements", None, 422),
    ("empty item", "GET", "/v1/complements?item=", None, 422),
    ("two items", "GET", "/v1/complements?item=100&item=101", None, 422),
    ("NUL", "GET", "/v1/complements?item=100%00", None, 422),
    ("257 characters", "GET", f"/v1/complements?item={'x' * 257}", None, 404),
    ("dots", "GET", "/v1/complements?item=../../x", None, 404),
    ("dots in the path", "GET", "/v1/items/..%2F..%2Fx", None, 404),
    ("NUL in the path", "GET", "/v1/items/x%00", None, 404),
    ("257 in the path", "GET", f"/v1/items/{'x' * 257}", None, 404),
    ("not UTF-8", "GET", "/v1/complements?item=%ff", None, 422),
    ("bad level", "GET", "/v1/complements?item=100&min_evidence=sum", None, 422),
    ("bad boolean", "GET", "/v1/complements?item=100&diversify=maybe", None, 422),
    ("unknown parameter", "GET", "/v1/complements?item=100&limit=5", None, 422),
    ("long query", "GET", "/v1/complements?item=100&" + "exclude=xxxxxxxx&" * 3000, None, 414),
    ("many excluded", "GET", "/v1/complements?item=100" + "&exclude=1" * 101, None, 422),
    ("empty search", "GET", "/v1/items?q=%20", None, 422),
    ("long search", "GET", f"/v1/items?q={'x' * 257}", None, 422),
    ("one of a pair", "GET", "/v1/pair?a=100", None, 422),
    ("large body", "POST", "/v1/cart/complements", LARGE, 413),
    ("no body", "POST", "/v1/cart/complements", "", 422),
    ("not JSON", "POST", "/v1/cart/complements", "{", 422),
    ("not an object", "POST", "/v1/cart/complements", "[]", 422),
    ("empty cart", "POST", "/v1/cart/complements", '{"items": []}', 422),
    ("101 in the cart", "POST", "/v1/cart/complements", json.dumps({"items": ["1"] * 101}), 422),
    ("cart k 0", "POST", "/v1/cart/complements", '{"items": ["100"], "k": 0}', 422),
    ("cart k text", "POST", "/v1/cart/complements", '{"items": ["100"], "k": "5"}', 422),
    ("cart NUL", "POST", "/v1/cart/complements", '{"items": ["\\u0000"]}', 422),
    ("cart 257", "POST", "/v1/cart/complements", json.dumps({"items": ["x" * 257]}), 404),
    ("cart unknown entry", "POST", "/v1/cart/complements", '{"items": ["100"], "limit": 1}', 422),
    ("deep body", "POST", "/v1/cart/complements", "[" * 100_000, 422),
    ("no such path", "GET", "/v1/nothing", None, 404),
    ("no such method", "DELETE", "/v1/complements", None, 405),
    ("static escape", "GET", "/static/..%2Fapp.py", None, 404),
]


@pytest.mark.parametrize(
    ("what", "method", "path", "body", "status"), REFUSED, ids=[row[0] for row in REFUSED]
)
def test_the_table_of_limits(
    client, what: str, method: str, path: str, body: str | None, status: int
) -> None:
    answer = client.request(method, path, content=body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["message"]
    assert set(error) >= {"kind", "message", "hint"}


def test_the_sentences_say_what_to_do(client: TestClient) -> None:
    def said(path: str) -> tuple[str, str | None]:
        error = client.get(path).json()["error"]
        return error["message"], error["hint"]

    assert (
        said("/v1/complements?item=100&k=101")[0]
        == "`k` must be a whole number from 1 to 100, got '101'"
    )
    assert said("/v1/complements?item=100&min_evidnce=some")[1] == "Did you mean 'min_evidence'?"
    assert said("/v1/complements?item=100&min_evidence=certan")[1] == "Did you mean 'certain'?"
    assert said("/v1/complements")[0] == "`item` is missing"
    cart = client.post("/v1/cart/complements", json={"items": ["100"], "k": 500}).json()["error"]
    assert "`k`" in cart["message"]


def test_a_length_of_thousands_of_digits_is_too_large(client: TestClient) -> None:
    for digits in (8, 5000):
        answer = client.post(
            "/v1/cart/complements", content=b"{}", headers={"content-length": "9" * digits}
        )
        assert answer.status_code == 413


def test_a_body_without_a_length_is_counted(client: TestClient) -> None:
    def parts():
        for _ in range(1100):
            yield b" " * 1024

    answer = client.post("/v1/cart/complements", content=parts())
    assert answer.status_code == 413


def test_too_many_at_once_are_shed_and_probes_are_not(bundle: Path) -> None:
    app = make_app(ServiceSettings(bundle, in_flight=4))

    async def flood() -> tuple[list[int], int]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as asking:
            answers = await asyncio.gather(
                *(asking.get("/v1/complements?item=100") for _ in range(40))
            )
            shed = next(answer for answer in answers if answer.status_code == 503)
            assert shed.headers["retry-after"] == "1"
            assert shed.json()["error"]["kind"] == "Busy"
            probe, *_ = await asyncio.gather(
                asking.get("/healthz"), *(asking.get("/v1/complements?item=100") for _ in range(20))
            )
            counted = (await asking.get("/metrics")).text.split("\n")
            line = next(
                line
                for line in counted
                if line.startswith("neatrec_requests_total") and 'status="503"' in line
            )
            assert line.endswith(f" {36 + 16}.0")
            later = await asking.get("/v1/complements?item=100")
            assert later.status_code == 200
            return [answer.status_code for answer in answers], probe.status_code

    statuses, probe = asyncio.run(flood())
    assert statuses.count(200) == 4
    assert statuses.count(503) == 36
    assert probe == 200


def test_a_fault_of_ours_is_an_error_without_a_traceback(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(ServiceSettings(bundle))
    monkeypatch.setattr("neatrec.service.api.goes_with", lambda *_, **__: 1 / 0)
    with TestClient(app, raise_server_exceptions=False) as broken:
        answer = broken.get("/v1/complements?item=100")
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "the service failed"
    assert "Traceback" not in answer.text
