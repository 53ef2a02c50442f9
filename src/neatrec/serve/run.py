"""Start the server: one process, or several workers."""

from __future__ import annotations

import ipaddress
import logging
import os
import shutil
import socket
import tempfile
from typing import Any

import uvicorn

from neatrec.errors import ResourceError, must_be
from neatrec.serve import keys, metrics
from neatrec.serve import settings as told
from neatrec.serve.app import make_app
from neatrec.serve.gate import App
from neatrec.serve.settings import Settings
from neatrec.text import printable

log = logging.getLogger(__name__)

DRAIN = 30
"""Seconds that requests in progress are given after SIGTERM."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_open_door(host: str, settings: Settings) -> None:
    """Anything but loopback needs a key."""
    if not is_loopback(host) and not keys.read_keys(settings.key_file):
        hint = f"Set {keys.VARIABLE}, or give --api-key-file."
        raise must_be("host", "a loopback address unless there is an API key", host, hint=hint)


def refuse_taken_port(host: str, port: int) -> None:
    """A port that another program has is said in a sentence, before the bundle is opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        why = printable(error.strerror or error)
        raise ResourceError(
            f"port {port} of {printable(host)} cannot be used: {why}", hint="Give another --port."
        ) from error


def serve(settings: Settings, *, host: str, port: int, workers: int, log_config: dict[str, Any] | None) -> None:
    """Serve until told to end. SIGTERM and Ctrl-C let requests in progress finish."""
    refuse_open_door(host, settings)
    refuse_taken_port(host, port)
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "log_config": log_config,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": DRAIN,
        "backlog": 4096,
        "ws": "none",
    }
    app = make_app(settings)  # a bad bundle is refused here, not by every worker
    log.info("serving %s on http://%s:%d (Ctrl-C ends it)", printable(settings.bundle), printable(host), port)
    if workers == 1:
        uvicorn.run(app, **options)
        return
    del app
    shared = tempfile.mkdtemp(prefix="neatrec-metrics-")
    os.environ |= {told.VARIABLE: settings.to_json(), metrics.SHARED: shared}
    try:
        uvicorn.run("neatrec.serve.run:worker_app", factory=True, workers=workers, **options)
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def worker_app() -> App:
    """The application of one of several workers, which learn the settings from the environment."""
    return make_app(Settings.from_json(os.environ[told.VARIABLE]))
