"""The README keeps its word: its code runs, its commands run, its links lead to files."""

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from helpers.exports import write_export
from neatrec import read_baskets
from neatrec.cli.main import exit_code_of
from neatrec.serving import ServingTable

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
HOME = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
KEY = "a-key-of-more-than-sixteen-letters"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


PYTHON = blocks("python")
SHOWN = [line for block in blocks("text") for line in block.splitlines()]
LINES = [line.removeprefix("$ ") for block in blocks("console") for line in block.split("\n") if line[:2] == "$ "]
COMMANDS = [line for line in LINES if line.startswith("neatrec ")]  # pip is what set this up


def neatrec(line: str) -> list[str]:
    return [sys.executable, "-m", *shlex.split(line, comments=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the README's commands speak of, and a store that has been live for a night."""
    made = tmp_path_factory.mktemp("readme")
    write_export("orders.csv", made, baskets=3_000, items=300)
    (made / "keys.txt").write_text(KEY)
    with chdir(made):
        assert exit_code_of(["train", "orders.csv", "--model", "shrunk-lift", "--out", "last-night", "--quiet"]) == 0
        assert exit_code_of(["publish", "last-night", "store", "--quiet"]) == 0
    return made


@pytest.fixture(scope="module")
def demo(folder: Path) -> subprocess.CompletedProcess[str]:
    """The demo, whose bundle lies in the folder."""
    return subprocess.run(neatrec("neatrec demo"), cwd=folder, capture_output=True, text=True, timeout=300, check=True)


def test_it_is_short_and_the_answer_stands_on_the_first_screen() -> None:
    lines = TEXT.splitlines()
    assert len(lines) <= 100
    seen = [re.sub(r"\(https://[^)]*\)", "", line) for line in lines if not line.startswith("Made from")]
    assert not [line for line in seen if len(line) > 120]
    top = "\n".join(lines[:30])
    for needed in (
        "item-page.png",
        "pip install 'neatrec[all]'",
        "neatrec demo",
        "make demo",
        "neatrec serve orders.csv",
    ):
        assert needed in top


def test_links_are_absolute_and_those_to_us_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    ours = [link.removeprefix(HOME + "/") for link in links if link.startswith(HOME)]
    assert len(ours) > 10
    assert all(link.startswith("https://") for link in links)
    assert not [path for path in ours if not (ROOT / path).is_file()]


@pytest.mark.parametrize("code", PYTHON)
def test_python_runs(code: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Tortilla Chips" in done.stdout


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_run(line: str, folder: Path, demo: subprocess.CompletedProcess[str]) -> None:
    if line.startswith("neatrec demo"):
        assert demo.stdout
    elif line.startswith("neatrec serve"):
        with serving(neatrec(line), folder) as address:
            request = Request(address, headers={"x-api-key": KEY})
            assert b"What goes with what" in urlopen(request, timeout=60).read()
    else:
        with chdir(folder):
            assert exit_code_of(shlex.split(line, comments=True)[1:]) == 0


@contextmanager
def serving(words: Iterable[str], folder: Path) -> Iterator[str]:
    """The address of the service that `words` start."""
    with subprocess.Popen([*words, "--port", "0"], cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = next((line for line in process.stderr if " on http://" in line), "")
            assert line, "the service did not start"
            yield "http://" + line.partition(" on http://")[2].split()[0]
        finally:
            process.terminate()


def test_the_demo_prints_the_pairs_shown_in_at_most_fifteen_lines_and_attaches_its_report(folder, demo) -> None:
    printed = demo.stdout.splitlines()
    assert demo.stderr == ""
    assert len(printed) <= 15
    assert all(len(line) <= 80 for line in printed)
    assert any("overall, 1.0x within December: seasonal." in line for line in printed)
    assert len(SHOWN) == 5
    assert not [line for line in SHOWN if line not in printed]
    attached = ServingTable.open(folder / "neatrec-demo" / "bundle").attachment
    assert "bayes" in {model["name"] for model in attached["leaderboard"]["models"]}


def test_the_order_lines_shown_are_read_without_any_option(tmp_path: Path, folder: Path) -> None:
    (text,) = blocks("csv")
    (tmp_path / "four.csv").write_text(text)
    assert text.splitlines()[0] == (folder / "orders.csv").read_text().splitlines()[0]
    found = read_baskets(str(tmp_path / "four.csv"))
    assert found.sizes.tolist() == [2, 2]
    assert sorted(found.catalog.name(code) for code in range(2)) == ["Guacamole", "Tortilla Chips"]
