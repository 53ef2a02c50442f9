"""Shared fixtures: the real data where it is, a small simulated shop everywhere."""

import logging
import os
import re
import shutil
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from helpers.postgres import PASSWORD, PostgresServer, programs, running_postgres
from helpers.redis_server import REDIS_PASSWORD, RedisServer, running_redis

# No deadline: how long an example takes says more about the machine than about the code. The same
# examples in every run of `make test`, so that a change fails by its own fault; `make test-long`
# looks for new ones.
settings.register_profile("neatrec", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("neatrec")

# a shell that starts the tests in the background has them ignore Ctrl-C, and so would every process
# they start and stop
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


HERE = Path(__file__).parent
SLOW_FOLDERS = {
    "cli",
    "embeddings",
    "gpu",
    "leaderboard",
    "release",
    "report",
    "reproduction",
    "service",
    "spark",
    "training",
}
"""Folders whose tests run commands, services or whole pipelines, or compile the training
kernels."""
SLOW_MODELS = re.compile(r"\[.*(?:neat|item2vec|triple2vec|sgd|adagrad)")
"""Tests with an embedding model as parameter: its kernels take some ten seconds to compile."""
SLOW_IMPORTS = re.compile(
    r"^\s*(?:import|from) (?:subprocess|multiprocessing|playwright|torch|pyspark)\b", re.MULTILINE
)
"""Imports of a test module, or of a helper, that start processes, a browser, Java or
torch."""
HELPER = re.compile(r"^from helpers\.(\w+) import", re.MULTILINE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what `make test-fast` leaves out, by the rules above, and whatever needs the
    real data."""
    for item in items:
        if (
            _is_slow_file(item.path)
            or SLOW_MODELS.search(item.name)
            or item.get_closest_marker("real")
        ):
            item.add_marker(pytest.mark.slow)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import the slow folders where they would be deselected."""
    slow = collection_path.parent == HERE and collection_path.name in SLOW_FOLDERS
    return True if slow and "not slow" in config.option.markexpr else None


@cache
def _is_slow_file(file: Path) -> bool:
    text = file.read_text()
    texts = [
        text,
        *((HERE / "helpers" / f"{name}.py").read_text() for name in HELPER.findall(text)),
    ]
    return file.relative_to(HERE).parts[0] in SLOW_FOLDERS or any(
        SLOW_IMPORTS.search(text) for text in texts
    )


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """A command sets the log up for its process; the next tests of this one shall not notice."""
    _reset_log()
    yield
    _reset_log()


def _reset_log() -> None:
    ours = logging.getLogger("neatrec")
    ours.handlers, ours.propagate = [], True
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "neatrec":
            logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def instacart_folder() -> Path:
    """The folder of the Instacart 2017 files, official table names as CSV, CSV.gz or Parquet."""
    data = os.environ.get("NEATREC_DATA")
    if not data:
        pytest.skip(
            "needs the Instacart 2017 orders: set NEATREC_DATA to a folder that holds instacart/"
        )
    folder = Path(data) / "instacart"
    if not any(folder.glob("order_products__train*")):
        pytest.skip(
            "needs the Instacart 2017 orders: "
            f"NEATREC_DATA is {data}, which has no instacart/ with them"
        )
    return folder


@pytest.fixture(scope="session")
def instacart(instacart_folder: Path) -> Any:
    """Their train orders."""
    from neatrec.io import read_baskets  # not there on a bare GPU machine

    return read_baskets(instacart_folder)


@pytest.fixture(scope="session")
def small_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report; a test that changes it takes a copy."""
    from helpers.small_report import write_small_report

    write_small_report(out := tmp_path_factory.mktemp("small") / "report")
    return out


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A real PostgreSQL, started for these tests."""
    if programs() is None:
        pytest.skip("needs PostgreSQL: install the Debian package 'postgresql'")
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> PostgresServer:
    """The same, with its password where libpq looks for it."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return postgres_server


@pytest.fixture(scope="session")
def redis_process() -> Iterator[RedisServer]:
    """A real Redis, started for these tests."""
    if shutil.which("redis-server") is None:
        pytest.skip("needs Redis: install the Debian package 'redis-server'")
    with running_redis() as server:
        yield server


@pytest.fixture
def redis_server(redis_process: RedisServer, monkeypatch: pytest.MonkeyPatch) -> RedisServer:
    """The same, with its password in the environment."""
    monkeypatch.setenv("REDIS_PASSWORD", REDIS_PASSWORD)
    return redis_process
