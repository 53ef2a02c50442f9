"""Shared fixtures: the real data where it is, a small simulated shop everywhere."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: how long an example takes says more about the machine than about the code. The same examples in every
# run of `make test`, so that a change fails by its own fault; `make test-long` looks for new ones.
settings.register_profile("neatrec", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("neatrec")

# a shell that starts the tests in the background has them ignore Ctrl-C, and so would every process they start and stop
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SLOW_FOLDERS = {"cli", "gpu", "leaderboard", "release", "report", "reproduction", "service", "spark", "training"}
"""Folders whose tests run commands, services or whole pipelines."""
SLOW_IMPORTS = re.compile(
    r"^\s*(?:import|from) (?:subprocess|multiprocessing|playwright|torch|pyspark)\b", re.MULTILINE
)
"""A test module that starts processes, a browser, Java or torch."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what `make test-fast` leaves out: by folder, by import, and whatever needs the real data."""
    here = Path(__file__).parent
    slow_file: dict[Path, bool] = {}
    for item in items:
        if item.path not in slow_file:
            folder = item.path.relative_to(here).parts[0]
            slow_file[item.path] = folder in SLOW_FOLDERS or bool(SLOW_IMPORTS.search(item.path.read_text()))
        if slow_file[item.path] or item.get_closest_marker("real"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """A command sets the log up for its process; the next tests of this one shall not notice."""
    _reset_log()
    yield
    _reset_log()


def _reset_log() -> None:
    ours = logging.getLogger("neatrec")
    ours.handlers, ours.propagate = [], True
    ours.setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def instacart_folder() -> Path:
    """The folder of the Instacart 2017 files, official table names as CSV, CSV.gz or Parquet."""
    data = os.environ.get("NEATREC_DATA")
    if not data:
        pytest.skip("needs the Instacart 2017 orders: set NEATREC_DATA to a folder that holds instacart/")
    folder = Path(data) / "instacart"
    if not any(folder.glob("order_products__train*")):
        pytest.skip(f"needs the Instacart 2017 orders: NEATREC_DATA is {data}, which has no instacart/ with them")
    return folder
