"""The pages about serving keep their word: their code runs against a server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from neatrec.serve.app import make_app
from neatrec.serve.rules import read_rules
from neatrec.serve.settings import Settings

ROOT = Path(__file__).parents[2]
SHOP = (ROOT / "docs" / "behind-a-shop.md").read_text()
TESTING = (ROOT / "docs" / "ab-testing.md").read_text()
ADDRESS = "http://127.0.0.1:8000"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def url(bundle: Path, running: Callable[[Any], str]) -> str:
    return running(make_app(Settings(bundle)))


def run(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_example_prints_evidence(url: str) -> None:
    (code,) = blocks(SHOP, "python")
    said = run([sys.executable, "-c", code.replace(ADDRESS, url)])
    assert said.startswith("Salsa strong In ")
    assert "from bundle" in said


def test_the_curl_example_answers(url: str) -> None:
    code = next(code for code in blocks(SHOP, "sh") if "curl" in code)
    assert '"name":"Salsa"' in run(["sh", "-c", code.replace(ADDRESS, url)])


def test_the_javascript_example_answers_in_a_browser(url: str) -> None:
    """The page that runs it is the service's own, so that no other origin is involved."""
    from playwright.sync_api import sync_playwright

    (code,) = blocks(SHOP, "js")
    found = os.environ.get("NEATREC_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert found, "needs a real Chromium: install the package `chromium`"
    said: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(url)
        page.on("console", lambda message: said.append(message.text))
        page.evaluate(f"async () => {{ {code.replace(ADDRESS, url)} }}")
        browser.close()
    assert any("Salsa goes with Tortilla Chips" in line for line in said)


def test_the_rules_example_is_a_rules_file(tmp_path: Path) -> None:
    file = tmp_path / "rules.csv"
    file.write_text(blocks(SHOP, "text")[0])
    assert [rule.action for rule in read_rules(file).rules] == ["pin", "block"]


def test_every_option_of_the_pages_exists() -> None:
    told = run([sys.executable, "-m", "neatrec", "serve", "--help"])
    for option in set(re.findall(r"--[a-z][a-z-]+", SHOP)) - {"--basket", "--item", "--name", "--category", "--out"}:
        assert option in told, option


def test_every_metric_of_the_page_exists(bundle: Path) -> None:
    from neatrec.serve.metrics import Metrics

    text = Metrics().text().decode()
    for name in set(re.findall(r"`(neatrec_[a-z_]+)`", SHOP)):
        assert name.removesuffix("_total") in text, name


def test_the_code_of_the_testing_page_runs() -> None:
    (code,) = blocks(TESTING, "python")
    run([sys.executable, "-c", code])
