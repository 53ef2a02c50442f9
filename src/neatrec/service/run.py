"""Start the server: one process, or several workers."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from neatrec.errors import NeatrecError, ResourceError, must_be
from neatrec.service.app import make_app
from neatrec.service.metrics import SHARED
from neatrec.service.middleware import KEY_VARIABLE, is_loopback, read_keys
from neatrec.service.settings import VARIABLE, ServiceSettings
from neatrec.text import printable

log = logging.getLogger(__name__)

DRAIN = 30
"""Seconds that requests in progress are given after SIGTERM."""
ENDING = (signal.SIGINT, signal.SIGTERM)
FAILURE = "failure.txt"
"""In the folder that the workers share: why one of them cannot start."""


def require_api_key(host: str, settings: ServiceSettings) -> None:
    """Anything but loopback needs a key."""
    if not is_loopback(host) and not read_keys(settings.key_file):
        hint = f"Set {KEY_VARIABLE}, or give --api-key-file."
        raise must_be("host", "a loopback address unless there is an API key", host, hint=hint)


def bound(host: str, port: int) -> socket.socket:
    """A socket of this address; a port in use is reported before the bundle is opened."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        why = printable(error.strerror or error)
        raise ResourceError(
            f"port {port} of {printable(host)} cannot be used: {why}", hint="Give another --port or --host."
        ) from error
    return listener


def serve(
    settings: ServiceSettings,
    *,
    host: str,
    port: int,
    workers: int,
    log_config: dict[str, Any] | None,
    ready: Callable[[str], object] = lambda address: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; requests in progress finish, then the signal has its usual effect.

    `ready` is called with the address once the service accepts connections.
    """
    require_api_key(host, settings)
    settings = replace(settings, host=host)
    with bound(host, port) as listener:
        port = listener.getsockname()[1]  # port 0: the one that was free
        app = make_app(settings)  # a bad bundle is refused here, not by every worker
        with announced(settings.bundle, host, port, ready):
            if workers == 1:
                uvicorn.Server(uvicorn.Config(app, **options(host, port, log_config))).run([listener])
                return
            del app
            listener.close()  # the workers' own supervisor opens it
            serve_by_workers(settings, workers, options(host, port, log_config))


def options(host: str, port: int, log_config: dict[str, Any] | None) -> dict[str, Any]:
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


def serve_by_workers(settings: ServiceSettings, workers: int, uvicorn_options: dict[str, Any]) -> None:
    """Several processes, which read the settings from the environment and count into files of one folder."""
    shared = tempfile.mkdtemp(prefix="neatrec-metrics-")
    failure = Path(shared) / FAILURE
    os.environ |= {VARIABLE: settings.to_json(), SHARED: shared}
    try:
        with signals_after(unless=failure.exists) as asked:
            uvicorn.run("neatrec.service.run:worker_app", factory=True, workers=workers, **uvicorn_options)
        if failure.exists():
            raise NeatrecError(failure.read_text())
        if not asked:  # where a caller has these signals ignored, one may have come and change nothing here
            raise NeatrecError("the workers ended without being asked to", hint="The lines above say why.")
    finally:
        shutil.rmtree(shared, ignore_errors=True)


@contextmanager
def announced(bundle: Path, host: str, port: int, ready: Callable[[str], object]) -> Iterator[None]:
    """Log the address of the service once it accepts connections."""
    over = threading.Event()
    address = f"[{host}]" if ":" in host else host

    def wait_until_listening() -> None:
        while not over.wait(0.02):
            try:
                socket.create_connection((host, port), timeout=1).close()
            except OSError:
                continue
            url = f"http://{printable(address)}:{port}"
            log.info("serving %s on %s (Ctrl-C ends it)", printable(bundle), url)
            ready(url)
            return

    waiting = threading.Thread(target=wait_until_listening, name="neatrec-announce", daemon=True)
    waiting.start()
    try:
        yield
    finally:
        over.set()
        waiting.join()


@contextmanager
def signals_after(unless: Callable[[], bool]) -> Iterator[list[int]]:
    """The signals that ended the block, raised again afterwards: uvicorn's supervisor swallows them.

    `unless`: whether they came from a worker that cannot start, and are not raised.
    """
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
    for one in asked if not unless() else ():
        signal.raise_signal(one)


def worker_app() -> ASGIApp:
    """The application of one of several workers, which read the settings from the environment.

    One that cannot open any bundle ends the service: its supervisor would start it again and again.
    """
    try:
        return make_app(ServiceSettings.from_json(os.environ[VARIABLE]))
    except NeatrecError as error:
        (Path(os.environ[SHARED]) / FAILURE).write_text(f"a worker cannot start: {error}")
        os.kill(os.getppid(), signal.SIGTERM)
        raise SystemExit(1) from None
