"""The checks of every request: key, host name, body size, number in progress; headers, metrics."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Sequence
from typing import Any

from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neatrec.service.keys import Keys
from neatrec.service.problems import RequestError, refused
from neatrec.service.settings import (
    BODY_SECONDS,
    MAX_BODY,
    MAX_QUERY_STRING,
    AddressTemplate,
    ServiceSettings,
)

Headers = Sequence[tuple[bytes, bytes]]

log = logging.getLogger(__name__)

PROBES = frozenset({"/healthz", "/readyz"})
"""They need no key and are never refused."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src {images}; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def security_headers(images: AddressTemplate | None) -> Headers:
    """Headers of every answer: the page takes nothing from elsewhere but `images`."""
    sources = "'self'" if images is None else f"'self' {images.origin}"
    return (
        (b"content-security-policy", POLICY.format(images=sources).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
        (b"cross-origin-opener-policy", b"same-origin"),
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def with_trusted_hosts(app: ASGIApp, host: str) -> ASGIApp:
    """`app` for requests to `host` or to this machine's own names.

    A page from anywhere can give its own name the address 127.0.0.1 after it was loaded, and then
    read what this service answers: the same origin for the browser. The request carries that name.
    """
    names = ["localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host]
    return TrustedHostMiddleware(app, allowed_hosts=names, www_redirect=False)


class RequestMiddleware:
    """Refuses before it works.

    A request without a valid key takes no slot, and its connection is closed.
    """

    def __init__(self, app: ASGIApp, watcher: Any, settings: ServiceSettings) -> None:
        """Without keys, only probes and requests to the host or a loopback name are answered."""
        host = settings.host
        self.probes = app
        self.app = app if watcher.keys or host is None else with_trusted_hosts(app, host)
        self.watcher = watcher
        self.max_in_flight = settings.in_flight
        self.headers = security_headers(settings.image_url)
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["path"] in PROBES:
            await self._serve(self.probes, scope, receive, send)
            return
        if (refusal := self._refusal(scope)) is not None:
            await self._serve(refusal.response(), scope, receive, send)
            return
        self.in_flight += 1
        try:
            # all that arrived at the same moment are counted before the first of them is worked on
            await asyncio.sleep(0)
            await self._serve(self.app, scope, receive, send)
        finally:
            self.in_flight -= 1

    def _refusal(self, scope: Scope) -> RequestError | None:
        """Why a request is not worked on: no key, too large a body, too many requests."""
        headers = dict(scope["headers"])
        if self.watcher.keys:
            readers = Keys(self.watcher.keys.valid + self.watcher.editor_keys.valid)
            if not readers.admit(headers):
                return refused(401)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MAX_BODY:
            return refused(413)
        if len(scope["query_string"]) > MAX_QUERY_STRING:
            return refused(414)
        if self.in_flight >= self.max_in_flight:
            self.watcher.metrics.shed.inc()
            return refused(503)
        return None

    async def _serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        if self.watcher.rules_changed():
            await asyncio.to_thread(self.watcher.take_rules)
        snapshot = self.watcher.snapshot
        scope["neatrec"] = snapshot  # one request, one snapshot
        answer = ResponseSender(send, self.headers, without_body=scope["method"] == "HEAD")
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the server's own scope stays: it sends no body
        try:
            body = LimitedBody(receive) if scope["method"] == "POST" else receive
            await app(scope, body, answer.send)
        except RequestError as problem:
            await problem.response()(scope, receive, answer.send)
        except Exception:  # one failed request must not end the connection without an answer
            log.exception("a request failed")
            if not answer.status:
                await refused(500).response()(scope, receive, answer.send)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.watcher.metrics.count_request(
                route, answer.status, snapshot.bundle.short, time.perf_counter() - started
            )


class ResponseSender:
    """Sends an answer with our headers, without a body where none is wanted."""

    def __init__(self, send: Send, headers: Headers, *, without_body: bool) -> None:
        self._send, self.headers, self.without_body = send, headers, without_body
        self.status = 0
        """0: nothing was sent."""

    async def send(self, message: Message) -> None:
        """Send a message of the application."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], *self.headers]
        elif self.without_body:
            message = {**message, "body": b""}
        await self._send(message)


class LimitedBody:
    """Receives a body, which must be neither too large nor too slow, whatever it declares."""

    def __init__(self, receive: Receive) -> None:
        self.receive, self.size = receive, 0
        self.deadline = time.monotonic() + BODY_SECONDS

    async def __call__(self) -> Message:
        """The next message."""
        try:
            async with asyncio.timeout(self.deadline - time.monotonic()):
                message = await self.receive()
        except TimeoutError as error:
            raise refused(408) from error
        self.size += len(message.get("body", b""))
        if self.size > MAX_BODY:
            raise refused(413)
        return message
