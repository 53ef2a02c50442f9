"""The pages about serving keep their word: their code runs against a server."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers.browser import chromium
from neatrec.cli.main import exit_code_of
from neatrec.models import Run, make_model
from neatrec.service.app import make_app
from neatrec.service.rules import read_rules
from neatrec.service.settings import ServiceSettings
from neatrec.serving import PairTable, save_indexed
from neatrec.simulator import supermarket
from neatrec.training.train import DEFAULT_MODEL

ROOT = Path(__file__).parents[2]
SHOP = (ROOT / "docs" / "how-to" / "behind-a-shop.md").read_text()
EVIDENCE = (ROOT / "docs" / "explanation" / "evidence.md").read_text()
NIGHT = (ROOT / "docs" / "how-to" / "nightly.md").read_text()
TESTING = (ROOT / "docs" / "how-to" / "ab-test.md").read_text()
BENCH = (ROOT / "docs" / "how-to" / "workbench.md").read_text()
ADDRESS = "http://127.0.0.1:8000"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder after `neatrec demo`: the bundle is made as the demo makes it, the report is left out."""
    folder = tmp_path_factory.mktemp("demo")
    baskets = supermarket(seed=0).baskets
    model = make_model(DEFAULT_MODEL).fit(baskets, Run(rng=0))
    save_indexed(model, folder / "neatrec-demo" / "bundle", baskets, seed=0)
    return folder


@pytest.fixture(scope="module")
def demo(demo_folder: Path) -> Path:
    return demo_folder / "neatrec-demo" / "bundle"


@pytest.fixture(scope="module")
def url(demo: Path, running: Callable[[Any], str]) -> str:
    return running(make_app(ServiceSettings(demo)))


def run(words: list[str], folder: Path | None = None) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=500, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_in_python_curl_and_javascript_answer(url: str) -> None:
    """JavaScript runs in a page of the service itself, so that no other origin is involved."""
    (code,) = blocks(SHOP, "python")
    said = run([sys.executable, "-c", code.replace(ADDRESS, url)])
    assert said.startswith("Guacamole certain Bought together by ")
    assert "from bundle" in said
    code = next(code for code in blocks(SHOP, "sh") if "curl" in code)
    assert '"name":"Guacamole"' in run(["sh", "-c", code.replace(ADDRESS, url)])
    (code,) = blocks(SHOP, "js")
    logged: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.goto(url)
        page.on("console", lambda message: logged.append(message.text))
        page.evaluate(f"async () => {{ {code.replace(ADDRESS, url)} }}")
    assert any("Marinara Sauce goes with Spaghetti" in line for line in logged)


def test_the_rules_example_is_a_rules_file_of_the_demos_shop(tmp_path: Path, demo: Path) -> None:
    file = tmp_path / "rules.csv"
    file.write_text(blocks(SHOP, "text")[0])
    rules = read_rules(file)
    assert [rule.action for rule in rules.rules] == ["pin", "block"]
    held = set(PairTable.open(demo).catalog.ids.to_pylist())
    assert rules.unknown(held.__contains__, date(2026, 1, 1)) == 0


@pytest.mark.parametrize("page", [EVIDENCE, NIGHT], ids=["evidence", "every-night"])
def test_the_commands_run_on_the_demos_shop(
    page: str, demo_folder: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(demo_folder)
    lines = [
        line
        for block in blocks(page, "console")
        for line in block.splitlines()
        if line.startswith("$ neatrec")
    ]
    assert len(lines) >= 2
    for line in lines:
        assert exit_code_of(shlex.split(line, comments=True)[2:]) == 0, capsys.readouterr().err


def test_the_pages_of_the_workbench_are_there_and_its_list_of_pairs_is_a_file(
    url: str, demo: Path, tmp_path
) -> None:
    paths = re.findall(r"`(/[a-z]*)(\?[a-z=&]*)?`", BENCH)
    assert {"/", "/pairs", "/item", "/pair"} <= {path for path, _ in paths}
    catalog = PairTable.open(demo).catalog
    given = {name: catalog.id(number) for name, number in {"id": 0, "a": 0, "b": 1}.items()}
    for path, query in paths:
        if path != "/rules":  # of editors
            asked = {name: given[name] for name in re.findall("[a-z]+", query)}
            assert httpx.get(url + path, params=asked).status_code == 200
    (code,) = blocks(BENCH, "sh")
    said = run(["sh", "-c", code.replace(ADDRESS, url)], tmp_path)
    assert '"name":"Tortilla Chips"' in said
    assert (tmp_path / "pairs.csv").read_text().startswith("a_id,a_name,")


def test_the_commands_of_the_workbench_start_it(demo_folder: Path) -> None:
    """Its last one, after those that make the files; pictures and links at the same time."""
    lines = [
        line.removeprefix("$ ") for each in blocks(BENCH, "console") for line in each.split("\n")
    ]
    served = [shlex.split(line) for line in lines if line.startswith("neatrec serve")]
    for line in lines:
        if not line.startswith("neatrec"):
            run(["sh", "-c", line], demo_folder)
    options = [word for words in served for word in words[3:]]
    assert {"--image-url", "--link-url", "--rules", "--editor-key-file"} <= set(options)
    words = [sys.executable, "-m", "neatrec", *served[-1][1:3], *options, "--port", "0"]
    with subprocess.Popen(words, cwd=demo_folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = next(line for line in process.stderr or () if "serving " in line)
            page = httpx.get(re.findall(r"http://[\d.:]+", said)[0] + "/item?id=10524", timeout=60)
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert 'src="https://cdn.shop.example/10524.jpg"' in page.text
    assert 'href="https://shop.example/products/10524"' in page.text
    assert "Log in to edit" in page.text


def test_every_metric_of_the_page_exists(bundle: Path) -> None:
    from neatrec.service.metrics import Metrics

    text = Metrics().text().decode()
    for name in set(re.findall(r"`(neatrec_[a-z_]+)`", SHOP + BENCH)):
        assert name.removesuffix("_total") in text, name


def test_the_code_of_the_testing_page_runs() -> None:
    (code,) = blocks(TESTING, "python")
    run([sys.executable, "-c", code])
