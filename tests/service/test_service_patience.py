"""Slow and vanished callers, and work that must not stop the others."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from neatrec.service.app import make_app
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.settings import ServiceSettings


def posted(app: Any, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is sent for a cart whose body arrives as `messages`, and after them nothing more."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(dict(message))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/cart/complements",
        "raw_path": b"/v1/cart/complements",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-length", b"50")],
        "server": ("shop", 80),
        "client": ("caller", 1),
    }

    async def ask() -> None:
        # without a deadline of the service the test would wait for ever
        await asyncio.wait_for(app(scope, receive, send), 60)

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
    assert b"the body must arrive within 0.1 seconds" in body["body"]
    rest = {"type": "http.request", "body": b'{"items": ["101"]}', "more_body": False}
    assert posted(app, [rest])[0]["status"] == 200


def test_a_caller_who_goes_away_leaves_no_traceback(
    bundle: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(ServiceSettings(bundle))
    posted(
        app,
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}],
    )
    assert not caplog.records


def test_near_names_are_searched_beside_the_event_loop(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(ServiceSettings(bundle))
    where: list[threading.Thread] = []
    known = LoadedBundle.known

    def watched(bundle: LoadedBundle, item: str) -> int:
        where.append(threading.current_thread())
        return known(bundle, item)

    monkeypatch.setattr(LoadedBundle, "known", watched)

    async def ask() -> list[int]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://shop"
        ) as asking:
            paths = (
                "/v1/pair?a=100&b=spagheti",
                "/v1/pair?a=spagheti&b=100",
                "/v1/complements?item=spagheti",
            )
            return [(await asking.get(path)).status_code for path in paths]

    assert asyncio.run(ask()) == [404, 404, 404]
    assert where
    assert threading.current_thread() not in where
