"""What every request passes first: API key, host name, body size, a bound on requests in progress, headers, metrics."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import logging
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neatrec.errors import SourceError, must_be
from neatrec.service.problems import Problem, refused
from neatrec.service.settings import BODY_SECONDS, MAX_BODY, AddressTemplate, ServiceSettings
from neatrec.text import printable

Headers = Sequence[tuple[bytes, bytes]]

log = logging.getLogger(__name__)

KEY_VARIABLE = "NEATREC_API_KEY"
MAX_KEYS = 2
"""Keys that are valid at once: the old one and the new one, while callers change over."""
MIN_KEY = 16
"""Characters of a key."""
MAX_DIGITS = 20
"""Of a declared length: Python refuses to read thousands."""
PROBES = frozenset({"/healthz", "/readyz"})
"""They need no key and are never refused."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src {images}; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
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

    A page from anywhere can give its own name the address 127.0.0.1 after it was loaded, and then read what a service
    on this machine answers: for the browser that is the same origin. Such a request still carries the page's name.
    """
    names = ["localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host]
    return TrustedHostMiddleware(app, allowed_hosts=names, www_redirect=False)


@dataclass(frozen=True)
class Keys:
    """The valid API keys; without any, every request is allowed."""

    valid: tuple[bytes, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return bool(self.valid)

    def admit(self, authorization: bytes | None, api_key: bytes | None) -> bool:
        """Whether one of these two headers holds a key: a proxy may use Authorization for itself."""
        found = [self.find(given or b"") for given in (api_key, _offered(authorization or b""))]
        return any(key is not None for key in found)  # both are compared: the time reveals nothing

    def find(self, offered: bytes) -> bytes | None:
        """The valid key that equals `offered`. All are compared, whichever it is: the time reveals nothing."""
        matches = [key for key in self.valid if hmac.compare_digest(offered, key)]
        return matches[0] if matches else None


def read_keys(file: Path | None, argument: str = "api-key-file") -> Keys:
    """The keys of `file` (one per line), else those of NEATREC_API_KEY (separated by commas); at most two."""
    if file is None:
        return _checked(re.split(r"[,\s]+", os.environ.get(KEY_VARIABLE, "")), KEY_VARIABLE)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        hint = f"One key of at least {MIN_KEY} characters per line, such as `openssl rand -hex 24` prints."
        raise SourceError(f"cannot read the keys in {printable(file)}: {why}", file=str(file), hint=hint) from error
    keys = _checked(text.split("\n"), argument)
    if not keys:
        hint = "One key per line, at most two."
        raise SourceError(f"there is no key in {printable(file)}", file=str(file), hint=hint)
    return keys


def _checked(texts: list[str], argument: str) -> Keys:
    keys = [text.strip().encode() for text in texts if text.strip()]
    if len(keys) > MAX_KEYS:
        raise must_be(argument, f"at most {MAX_KEYS} keys", len(keys))
    if any(len(key) < MIN_KEY for key in keys):
        # the key itself must not stand in a message
        raise must_be(argument, f"keys of at least {MIN_KEY} characters", min(map(len, keys)))
    return Keys(tuple(keys))


def _offered(authorization: bytes) -> bytes | None:
    """The key in an Authorization header: a bearer token, or the password a browser asked for."""
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return None
    return None


class RequestMiddleware:
    def __init__(self, app: ASGIApp, watcher: Any, settings: ServiceSettings) -> None:
        """Without keys, only requests to the host of `settings` or a loopback name are answered, except probes."""
        host = settings.host
        self.probes = app
        self.app = app if watcher.keys or host is None else with_trusted_hosts(app, host)
        self.watcher, self.metrics = watcher, watcher.metrics
        self.max_in_flight = settings.in_flight
        self.headers = security_headers(settings.image_url)
        self.busy = refused(503).response()  # made once: there is no time for it under load
        self.busy.raw_headers += self.headers
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["path"] in PROBES:
            await self._serve(self.probes, scope, receive, send)
            return
        if self.in_flight >= self.max_in_flight:
            self.metrics.shed.inc()
            self.metrics.requests.labels("other", "503", self.watcher.snapshot.main.short).inc()
            await self.busy(scope, receive, send)
            return
        self.in_flight += 1
        try:
            # all that arrived at the same moment are counted before the first of them is worked on
            await asyncio.sleep(0)
            await self._serve(self.app, scope, receive, send)
        finally:
            self.in_flight -= 1

    async def _serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        sent: list[int] = []

        if self.watcher.rules_changed():
            await asyncio.to_thread(self.watcher.take_rules)
        snapshot = self.watcher.snapshot
        scope["neatrec"] = snapshot  # one request, one snapshot
        is_head = scope["method"] == "HEAD"
        if is_head:
            scope = {**scope, "method": "GET"}  # the server's own scope stays: it sends no body
        cached = self._cache_headers(scope, snapshot.tag)
        held = _held(scope) if cached else []
        without_body = is_head

        async def with_headers(message: Message) -> None:
            nonlocal without_body
            if message["type"] == "http.response.start":
                if message["status"] == 200 and b"*" in held:  # whatever there is, the caller has it
                    without_body, message = True, {**message, "status": 304, "headers": []}
                sent.append(message["status"])
                more = cached if message["status"] in (200, 304) else ()
                message["headers"] = [*message["headers"], *more, *self.headers]
            elif without_body:
                message = {**message, "body": b""}
            await send(message)

        try:
            self._check(scope)
            if snapshot.tag in held:
                await with_headers({"type": "http.response.start", "status": 304, "headers": []})
                await with_headers({"type": "http.response.body", "body": b""})
                return
            body = limited(receive) if scope["method"] == "POST" else receive
            await app(scope, body, with_headers)
        except Problem as problem:
            await problem.response()(scope, receive, with_headers)
        except Exception:  # the last resort: one failed request must not end the connection without an answer
            log.exception("a request failed")
            if not sent:
                await refused(500).response()(scope, receive, with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            version = snapshot.main.short
            self.metrics.requests.labels(route, str(sent[0] if sent else 0), version).inc()
            self.metrics.latency.labels(route, version).observe(time.perf_counter() - started)

    def _cache_headers(self, scope: Scope, tag: bytes) -> Headers:
        """Of answers that stay the same as long as the snapshot: whoever keeps one asks whether it still holds."""
        if scope["method"] != "GET" or not scope["path"].startswith("/v1/"):
            return ()
        keep = b"private, no-cache" if self.watcher.keys else b"no-cache"
        return ((b"etag", tag), (b"cache-control", keep))

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if self.watcher.keys and scope["path"] not in PROBES:
            valid = Keys(self.watcher.keys.valid + self.watcher.editor_keys.valid)  # who may edit may read
            if not valid.admit(headers.get(b"authorization"), headers.get(b"x-api-key")):
                raise refused(401)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > MAX_DIGITS or int(length) > MAX_BODY:
            raise refused(413, MAX_BODY)


def _held(scope: Scope) -> list[bytes]:
    """The entity tags of answers that the caller holds; `*`: whatever there is."""
    held = dict(scope["headers"]).get(b"if-none-match", b"")
    return [each.strip().removeprefix(b"W/") for each in held.split(b",")] if held else []


def limited(receive: Receive) -> Receive:
    """`receive` for a body that is neither too large, whatever length was declared, nor too slow."""
    size, deadline = 0, time.monotonic() + BODY_SECONDS

    async def receive_in_time() -> Message:
        nonlocal size
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                message = await receive()
        except TimeoutError as error:
            raise refused(408, BODY_SECONDS) from error
        size += len(message.get("body", b""))
        if size > MAX_BODY:
            raise refused(413, MAX_BODY)
        return message

    return receive_in_time
