"""What every request passes first: a bound on how many are worked on, keys, the size of the body, headers, metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from neatrec.service.hosts import is_called_rightly
from neatrec.service.limits import LARGEST_BODY
from neatrec.service.metrics import Metrics
from neatrec.service.problems import Problem, busy, no_key, too_large, wrong_host

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)

OPEN = frozenset({"/healthz", "/readyz"})
"""Probes need no key and are never shed."""
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    b"base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class RequestMiddleware:
    """The outermost layer."""

    def __init__(self, app: App, library: Any, metrics: Metrics, most: int, host: str | None = None) -> None:
        self.app = app
        self.library = library
        self.metrics = metrics
        self.most = most
        self.host = host
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["path"] in OPEN:
            await self._serve(scope, receive, send)
            return
        if self.in_flight >= self.most:
            self.metrics.shed.inc()
            self.metrics.requests.labels("other", "503", self.library.edition.main.short).inc()
            for message in SHED:
                await send(dict(message))
            return
        self.in_flight += 1
        try:
            # all that arrived at the same moment are counted before the first of them is worked on
            await asyncio.sleep(0)
            await self._serve(scope, receive, send)
        finally:
            self.in_flight -= 1

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        sent: list[int] = []

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent.append(message["status"])
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        edition = self.library.edition
        scope["neatrec"] = edition  # one request, one edition
        try:
            self._check(scope)
            await self.app(scope, receive, with_headers)
        except Problem as problem:
            await refuse(problem, with_headers)
        except Exception:  # the last resort: one failed request must not end the connection without an answer
            log.exception("a request failed")
            if not sent:
                await refuse(Problem(500, "Fault", "the service failed", hint="Its log says why."), with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            version = edition.main.short
            self.metrics.requests.labels(route, str(sent[0] if sent else 0), version).inc()
            self.metrics.latency.labels(route, version).observe(time.perf_counter() - started)

    def _check(self, scope: Scope) -> None:
        headers, is_probe = dict(scope["headers"]), scope["path"] in OPEN
        if not is_probe and not self.library.keys and not is_called_rightly(headers.get(b"host"), self.host):
            raise wrong_host()
        allowed = self.library.keys.admit(headers.get(b"authorization"), headers.get(b"x-api-key"))
        if not allowed and not is_probe:
            raise no_key()
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            raise too_large(LARGEST_BODY)


async def refuse(problem: Problem, send: Send) -> None:
    """Send `problem` as the answer."""
    for message in messages(problem):
        await send(message)


def messages(problem: Problem, more: Headers = ()) -> tuple[Message, Message]:
    """What is sent for `problem`, with `more` headers."""
    body = json.dumps(problem.to_dict()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if problem.status == 503:
        headers.append((b"retry-after", b"1"))
    if problem.status == 401:
        headers.append((b"www-authenticate", b'Basic realm="neatrec", charset="UTF-8"'))
    start = {"type": "http.response.start", "status": problem.status, "headers": [*headers, *more]}
    return start, {"type": "http.response.body", "body": body}


SHED = messages(busy(), HEADERS)
"""Made once: in the moments when it is needed there is no time to make it."""
