"""A Redis of the tests' own, in a temporary folder: started once per session, gone afterwards."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REDIS_PASSWORD = "correct horse"


@dataclass(frozen=True)
class RedisServer:
    """A running server, whose password is in no address: set REDIS_PASSWORD."""

    port: int

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.address, password=REDIS_PASSWORD, decode_responses=True)


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """A new server; `redis-server` must be there."""
    program = shutil.which("redis-server")
    assert program is not None
    folder = Path(tempfile.mkdtemp(prefix="neatrec-redis-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        made = RedisServer(probe.getsockname()[1])
    settings = {
        "port": made.port,
        "bind": "127.0.0.1",
        "dir": folder,
        "requirepass": REDIS_PASSWORD,
        "save": "",
    }
    words = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
    server = subprocess.Popen(
        [program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        import redis

        for _ in range(600):
            try:
                made.client().ping()
                break
            except redis.ConnectionError:
                assert server.poll() is None, "redis-server ended"
                time.sleep(0.05)
        yield made
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)
