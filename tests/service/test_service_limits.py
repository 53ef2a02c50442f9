"""Requests that the API refuses, with the reason; slow and vanished callers."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings

ITEM, CART = "/v1/complements?item=100", "/v1/cart/complements"
WRONG = (
    *("k=0", "k=-1", "k=101", "k=1e9", "k=1000000000", "k=abc", "k=", "k=%D9%A3"),
    *("min_evidence=sum", "diversify=maybe", "limit=5", "same_category=first"),
    *("month=13", "include=explain", "exclude=1" + "&exclude=1" * 100),
    "category=dairy" + "&category=dairy" * 20,
)
WRONG_BODIES = (
    *("", "{", "[]", '{"items": []}', json.dumps({"items": ["1"] * 101})),
    *('{"items": ["100"], "k": 0}', '{"items": ["100"], "k": "5"}', '{"items": ["\\u0000"]}'),
    '{"items": ["100"], "limit": 1}',
)
LARGE = json.dumps({"items": ["100"] * 10, "category": ["x" * 200] * 6000})
FORM = "application/x-www-form-urlencoded"
REFUSED = [
    *((f"{ITEM}&{query}", None, 422) for query in WRONG),
    *((CART, body, 422) for body in WRONG_BODIES),
    ("/v1/complements", None, 422),
    ("/v1/complements?item=", None, 422),
    ("/v1/complements?item=%00", None, 422),
    ("/v1/items?q=%20", None, 422),
    (f"/v1/items?q={'x' * 257}", None, 422),
    ("/v1/pair?a=100", None, 422),
    (f"/v1/complements?item={'x' * 257}", None, 404),
    ("/v1/complements?item=../../x", None, 404),
    ("/v1/items/..%2F..%2Fx", None, 404),
    ("/v1/items/x%00", None, 422),
    ("/v1/nothing", None, 404),
    ("/static/..%2Fapp.py", None, 404),
    (f"{ITEM}&" + "exclude=xxxxxxxx&" * 3000, None, 414),
    (CART, "[" * 100_000, 422),
    (CART, LARGE, 413),
]


@pytest.mark.parametrize(("path", "body", "status"), REFUSED, ids=range(len(REFUSED)))
def test_the_table_of_limits(client: TestClient, path: str, body: str | None, status: int) -> None:
    answer = client.request("GET" if body is None else "POST", path, content=body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["message"]
    assert set(error) >= {"kind", "message", "hint"}


def test_the_sentences_say_what_to_do(client: TestClient) -> None:
    for query, said in (
        ("item=100&k=101", "`k` must be less than or equal to 100, got '101'"),
        ("item=100&k=x", "`k` must be a valid integer, got 'x'"),
        ("item=100&item=101", "`item` must be given once, got ['100', '101']"),
        ("item=100&min_evidnce=some", "there is no parameter 'min_evidnce'"),
        ("item=100&same_category=x", "`same_category` must be 'last', 'exclude' or 'mix', got 'x'"),
        ("", "`item` is missing"),
    ):
        assert client.get(f"/v1/complements?{query}").json()["error"]["message"] == said
    form = client.post(CART, content='{"items": ["100"]}', headers={"content-type": FORM})
    assert (
        form.json()["error"]["hint"] == 'Send JSON such as {"items": ["id"]} as application/json.'
    )


def test_too_many_at_once_are_shed_and_probes_are_not(bundle: Path) -> None:
    transport = httpx.ASGITransport(app=make_app(ServiceSettings(bundle, in_flight=4)))

    async def flood() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as asking:
            many = (asking.get(ITEM) for _ in range(40))
            answers = await asyncio.gather(*many, asking.get("/healthz"))
            return [*answers, await asking.get("/metrics"), await asking.get(ITEM)]

    *answers, probe, metrics, later = asyncio.run(flood())
    shed = [answer for answer in answers if answer.status_code == 503]
    assert [answer.status_code for answer in answers].count(200) == 4
    assert len(shed) == 36
    assert (shed[0].headers["retry-after"], shed[0].json()["error"]["kind"]) == ("1", "Busy")
    assert (probe.status_code, later.status_code) == (200, 200)
    assert re.search(r'neatrec_requests_total.*status="503".* 36\.0\n', metrics.text)


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


SCOPE = {
    **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST"},
    **{"scheme": "http", "path": CART, "raw_path": CART.encode(), "query_string": b""},
    **{"root_path": "", "headers": [(b"content-length", b"50")]},
    **{"server": ("shop", 80), "client": ("caller", 1)},
}


def posted(app: Any, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answer to a cart whose body arrives as `messages`, and after them nothing more."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(dict(message))

    async def ask() -> None:
        # without a deadline of the service the test would wait for ever
        await asyncio.wait_for(app(dict(SCOPE), receive, send), 60)

    asyncio.run(ask())
    return sent


def test_a_body_that_does_not_arrive_gives_its_place_back(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neatrec.service.middleware.BODY_SECONDS", 0.1)
    app = make_app(ServiceSettings(bundle, in_flight=1))
    part = {"type": "http.request", "body": b"{", "more_body": True}
    start, body = posted(app, [part])
    assert start["status"] == 408
    assert (b"connection", b"close") in start["headers"]
    assert b"the body must arrive within" in body["body"]
    rest = {"type": "http.request", "body": b'{"items": ["101"]}', "more_body": False}
    assert posted(app, [rest])[0]["status"] == 200
