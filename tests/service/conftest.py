"""Bundles of the small shop, and servers over them."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

from helpers.service_bundle import write_bundle
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("serve") / "bundle")


@pytest.fixture(scope="session")
def short_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with a table of three answers an item."""
    return write_bundle(tmp_path_factory.mktemp("serve") / "short", k=3)


@pytest.fixture(scope="session")
def gaussian_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with variances."""
    return write_bundle(tmp_path_factory.mktemp("serve") / "neat", model="neat", dim=8, epochs=2)


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEATREC_API_KEY", raising=False)


@pytest.fixture(scope="session")
def client(bundle: Path) -> Iterator[TestClient]:
    with TestClient(make_app(ServiceSettings(bundle))) as made:
        yield made


class Running:
    """A server in a thread of this process, on a free port."""

    def __init__(self, app: Any) -> None:
        config = uvicorn.Config(app, port=0, log_config=None, access_log=False)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            if not self.thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join()


@pytest.fixture(scope="session")
def running() -> Iterator[Callable[[Any], str]]:
    """Start a server over an application; gives its address."""
    servers: list[Running] = []

    def start(app: Any) -> str:
        servers.append(Running(app))
        return servers[-1].url

    yield start
    for server in servers:
        server.stop()
