"""A real Chromium for the tests of pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of this machine; a test without one fails, it does not skip."""
    found = os.environ.get("NEATREC_CHROMIUM") or next((path for path in map(shutil.which, NAMES) if path), None)
    assert found, "the page is tested in a real Chromium: install the package `chromium`, or run `make test` as root"
    with sync_playwright() as driver:
        # containers run as root, where Chromium's own sandbox cannot
        made = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()
