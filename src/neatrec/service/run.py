"""Start the server: one process, or several workers."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from neatrec.errors import NeatrecError, ResourceError, must_be
from neatrec.service import api_keys as keys
from neatrec.service import metrics
from neatrec.service import settings as told
from neatrec.service.app import make_app
from neatrec.service.hosts import is_loopback
from neatrec.service.middleware import App
from neatrec.service.settings import ServiceSettings
from neatrec.text import printable

log = logging.getLogger(__name__)

DRAIN = 30
"""Seconds that requests in progress are given after SIGTERM."""
ENDING = (signal.SIGINT, signal.SIGTERM)


def require_api_key(host: str, settings: ServiceSettings) -> None:
    """Anything but loopback needs a key."""
    if not is_loopback(host) and not keys.read_keys(settings.key_file):
        hint = f"Set {keys.VARIABLE}, or give --api-key-file."
        raise must_be("host", "a loopback address unless there is an API key", host, hint=hint)


def bound(host: str, port: int) -> socket.socket:
    """A socket of this address; a port that another program has is said in a sentence, before the bundle is opened."""
    door = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
    except OSError as error:
        door.close()
        why = printable(error.strerror or error)
        raise ResourceError(
            f"port {port} of {printable(host)} cannot be used: {why}", hint="Give another --port or --host."
        ) from error
    return door


def serve(settings: ServiceSettings, *, host: str, port: int, workers: int, log_config: dict[str, Any] | None) -> None:
    """Serve until told to end. SIGTERM and Ctrl-C let requests in progress finish, and then do what they always do."""
    require_api_key(host, settings)
    settings = replace(settings, host=host)
    with bound(host, port) as door:
        port = door.getsockname()[1]  # port 0: the one that was free
        app = make_app(settings)  # a bad bundle is refused here, not by every worker
        with announced(settings.bundle, host, port):
            if workers == 1:
                uvicorn.Server(uvicorn.Config(app, **options(host, port, log_config))).run([door])
                return
            del app
            door.close()  # the workers' own supervisor opens it
            serve_by_workers(settings, workers, options(host, port, log_config))


def options(host: str, port: int, log_config: dict[str, Any] | None) -> dict[str, Any]:
    """What uvicorn is told."""
    return {
        "host": host,
        "port": port,
        "log_config": log_config,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": DRAIN,
        "backlog": 4096,
        "ws": "none",
        # a worker that opens a large bundle on a busy machine answers late; uvicorn would kill it after five seconds
        "timeout_worker_healthcheck": 60,
    }


def serve_by_workers(settings: ServiceSettings, workers: int, told_uvicorn: dict[str, Any]) -> None:
    """Several processes, which learn the settings from the environment and count into files of one folder."""
    shared = tempfile.mkdtemp(prefix="neatrec-metrics-")
    os.environ |= {told.VARIABLE: settings.to_json(), metrics.SHARED: shared}
    try:
        with signals_after() as asked:
            uvicorn.run("neatrec.service.run:worker_app", factory=True, workers=workers, **told_uvicorn)
        if not asked:  # where a caller has these signals ignored, one may have come and change nothing here
            raise NeatrecError("the workers ended without being asked to", hint="The lines above say why.")
    finally:
        shutil.rmtree(shared, ignore_errors=True)


@contextmanager
def announced(bundle: Path, host: str, port: int) -> Iterator[None]:
    """Says where the service is as soon as somebody can connect."""
    over = threading.Event()
    address = f"[{host}]" if ":" in host else host

    def wait_until_listening() -> None:
        while not over.wait(0.02):
            try:
                socket.create_connection((host, port), timeout=1).close()
            except OSError:
                continue
            log.info("serving %s on http://%s:%d (Ctrl-C ends it)", printable(bundle), printable(address), port)
            return

    knocking = threading.Thread(target=wait_until_listening, name="neatrec-announce", daemon=True)
    knocking.start()
    try:
        yield
    finally:
        over.set()
        knocking.join()


@contextmanager
def signals_after() -> Iterator[list[int]]:
    """The signals that asked the block to end, which meet the caller again afterwards: uvicorn's supervisor ends as if
    nobody had asked."""
    asked: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDING}
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield asked
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writing)
        with os.fdopen(reading, "rb") as received:
            came = received.read() or b""
    asked += [byte for byte in dict.fromkeys(came) if byte in ENDING]
    for one in asked:
        signal.raise_signal(one)


def worker_app() -> App:
    """The application of one of several workers, which learn the settings from the environment."""
    return make_app(ServiceSettings.from_json(os.environ[told.VARIABLE]))
