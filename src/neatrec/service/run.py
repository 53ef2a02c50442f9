"""Start the server: one process, or several workers."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from neatrec.errors import NeatrecError, ResourceError, must_be
from neatrec.service.app import make_app
from neatrec.service.keys import KEY_VARIABLE, read_keys
from neatrec.service.metrics import SHARED
from neatrec.service.middleware import is_loopback
from neatrec.service.settings import ServiceSettings
from neatrec.text import printable

log = logging.getLogger(__name__)

DRAIN = 5
"""Seconds that requests in progress are given after SIGTERM."""
END = 6
"""Seconds after which a worker that has not ended is killed."""
PIPELINED = 8
"""Requests of one connection that wait for the one before them."""
BACKLOG = 4096
ENDING = (signal.SIGINT, signal.SIGTERM)
CANNOT_START = 3
"""The exit code of a worker without a valid bundle."""
FAILURE = "failure.txt"
"""In the folder that the workers share: why one of them cannot start."""


class Protocol(HttpToolsProtocol):
    """Ends a connection that sends many requests without waiting: each would be held in memory."""

    def on_message_begin(self) -> None:
        """Count the requests that wait for the one before them."""
        if len(self.pipeline) >= PIPELINED:
            raise ValueError("too many requests are waiting")  # answered with 400, and the end
        super().on_message_begin()


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
            f"port {port} of {printable(host)} cannot be used: {why}",
            hint="Give another --port or --host.",
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
    """Serve until SIGTERM or Ctrl-C; requests in progress finish, then the signal acts as usual.

    `ready` is called with the address once connections are accepted.
    """
    require_api_key(host, settings)
    settings = replace(settings, host=host)
    with bound(host, port) as listener:
        app = make_app(settings)  # a bad bundle is refused here, not by every worker
        listener.listen(BACKLOG)  # who connects from now on waits until the application runs
        name, port = f"[{host}]" if ":" in host else host, listener.getsockname()[1]
        address = f"http://{printable(name)}:{port}"
        log.info("serving %s on %s (Ctrl-C ends it)", printable(settings.bundle), address)
        threading.Thread(target=ready, args=(address,), daemon=True).start()
        if workers == 1:
            uvicorn_server(app, log_config).run([listener])
            return
        del app
        serve_by_workers(settings, listener, workers, log_config)


def uvicorn_server(app: Any, log_config: dict[str, Any] | None) -> uvicorn.Server:
    """The server of one process."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        log_config=log_config,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN,
        backlog=BACKLOG,
    )
    return uvicorn.Server(config)


def serve_by_workers(
    settings: ServiceSettings,
    listener: socket.socket,
    workers: int,
    log_config: dict[str, Any] | None,
) -> None:
    """Several processes, which count into files of one folder; one that dies is replaced."""
    shared = tempfile.mkdtemp(prefix="neatrec-metrics-")
    os.environ[SHARED] = shared

    start = partial(_start_worker, settings, listener, log_config)
    with ending_signals() as signals:
        running = [start() for _ in range(workers)]
        try:
            while not signals:
                wait([process.sentinel for process in running], timeout=0.2)
                for process in [each for each in running if not each.is_alive()]:
                    if process.exitcode == CANNOT_START:
                        raise NeatrecError((Path(shared) / FAILURE).read_text())
                    if not signals:
                        log.error("worker %d ended (%s)", process.pid, process.exitcode)
                        mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
                        running[running.index(process)] = start()
        finally:
            end(running)
            shutil.rmtree(shared, ignore_errors=True)
    signal.raise_signal(signals[0])


def _start_worker(
    settings: ServiceSettings, listener: socket.socket, log_config: dict[str, Any] | None
) -> SpawnProcess:
    arguments = (settings, listener, log_config)
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    return process


def end(running: list[SpawnProcess]) -> None:
    """Ask the workers to end, and kill the others."""
    deadline = time.monotonic() + END
    for process in running:
        process.terminate()
    for process in running:
        process.join(max(deadline - time.monotonic(), 0))
        process.kill()
        process.join()


@contextmanager
def ending_signals() -> Iterator[list[int]]:
    """The signals that ask the service to end, as they come."""
    signals: list[int] = []
    before = {
        number: signal.signal(number, lambda came, _: signals.append(came)) for number in ENDING
    }
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def work(
    settings: ServiceSettings, listener: socket.socket, log_config: dict[str, Any] | None
) -> None:
    """One of several workers; it ends with the process that started it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    end_with = threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True)
    end_with.start()
    try:
        uvicorn_server(make_app(settings), log_config).run([listener])
    except NeatrecError as error:
        failure = Path(os.environ[SHARED]) / FAILURE
        failure.write_text(f"a worker cannot start: {error}")
        sys.exit(CANNOT_START)
    except KeyboardInterrupt:  # uvicorn raises the signal again once it has ended
        pass


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
