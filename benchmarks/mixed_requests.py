"""Valid and invalid requests at a fixed rate, each unlike the others: what a service meets in a long day."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

CONNECTIONS = 16
LATENCY_EVERY = 100
"""Requests per measured latency."""


class Request(NamedTuple):
    """A request as it goes over the wire, and the statuses that are right."""

    content: bytes
    statuses: tuple[int, ...]


def get(path: str, *statuses: int, accept: str = "*/*") -> Request:
    return Request(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n".encode(), statuses or (200,))


def post(path: str, body: bytes, *statuses: int) -> Request:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return Request(head.encode() + body, statuses or (200,))


def requests_of(items: int, seed: int) -> Iterator[Request]:
    """Requests to a service over `serve_load.big_bundle`, without end: of 20, five are wrong."""
    rng = random.Random(seed)

    def word() -> str:
        return "".join(rng.choices("abcdefghij kläöü日%<>&", k=rng.randint(1, 40)))

    def item() -> int:
        return rng.randrange(items)

    kinds: list[Callable[[], Request]] = [
        *[lambda: get(f"/v1/complements?item={item()}&k=10&min_evidence=guess")] * 8,
        lambda: get(f"/v1/complements?item={item()}&k={rng.randint(1, 100)}&exclude={item()}&min_evidence=guess"),
        lambda: get(f"/v1/complements?item={item()}&category=category%20{item() % 400}"),
        lambda: get(f"/v1/items/{item()}/complements"),
        lambda: get(f"/v1/pair?a={item()}&b={item()}"),
        lambda: post("/v1/cart/complements", json.dumps({"items": [str(item()) for _ in range(3)]}).encode()),
        lambda: get(f"/item?id={item()}", accept="text/html"),
        lambda: get(f"/v1/items?q={quote(word())}", 200, 422),
        lambda: get(f"/v1/complements?item={quote(word())}", 404, 422),
        lambda: get(f"/v1/complements?item={item()}&{quote(word(), safe='')}={quote(word())}", 422),
        lambda: get(f"/{quote(word())}", 404, accept="text/html"),
        lambda: get(f"/v1/complements?item={item()}&category={quote(word())}", 404, 422),
        lambda: post("/v1/cart/complements", word().encode(), 422),
    ]
    while True:
        yield rng.choice(kinds)()


async def ask(port: int, request: Request, connection: list[Any]) -> int:
    """The status of an answer; `connection` is kept open between requests."""
    if not connection:
        connection += await asyncio.open_connection("127.0.0.1", port)
    reader, writer = connection
    writer.write(request.content)
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
    await reader.readexactly(length)
    if b"connection: close" in lines:
        writer.close()
        connection.clear()
    return int(head.split(b" ", 2)[1])


class Asked(NamedTuple):
    """What a run of requests met."""

    statuses: Counter[int]
    wrong: list[tuple[int, str]]
    """Statuses that were not expected, with the request."""
    broken: int
    """Requests without an answer: the connection was closed or refused."""
    latencies: list[float]
    """Seconds of every so many requests."""


async def ask_at(port: int, rate: float, items: int, until: Callable[[], bool], seed: int = 0) -> Asked:
    """Requests at a fixed rate over some connections until it is over; a request that fails is not sent again."""
    asked = Asked(Counter(), [], 0, [])
    broken = 0
    source = requests_of(items, seed)
    started, sent = time.perf_counter(), 0

    async def caller() -> None:
        nonlocal sent, broken
        connection: list[Any] = []
        while not until():
            due, number = started + sent / rate, sent
            sent += 1
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            request, before = next(source), time.perf_counter()
            try:
                status = await ask(port, request, connection)
            except (OSError, asyncio.IncompleteReadError):
                broken += 1
                connection.clear()
                continue
            asked.statuses[status] += 1
            if number % LATENCY_EVERY == 0:
                asked.latencies.append(time.perf_counter() - before)
            if status not in request.statuses:
                asked.wrong.append((status, request.content[:200].decode("ascii", "replace")))
        if connection:
            connection[1].close()

    await asyncio.gather(*(caller() for _ in range(CONNECTIONS)))
    return asked._replace(broken=broken)
