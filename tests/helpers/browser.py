"""A real Chromium for the tests of pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of this machine; without one the test is skipped with a sentence."""
    found = os.environ.get("NEATREC_CHROMIUM") or next(
        (path for path in map(shutil.which, NAMES) if path), None
    )
    if not found:
        pytest.skip("the page is tested in a real Chromium: install the package `chromium`")
    with sync_playwright() as driver:
        # containers run as root, where Chromium's own sandbox cannot
        made = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()
