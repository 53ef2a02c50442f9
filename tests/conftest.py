"""Shared fixtures: the real data where it is, a small simulated shop everywhere."""

from __future__ import annotations

import logging
import os
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
