"""The README is true: its code and commands run and print the output shown, its links lead to
files."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from helpers.exports import write_export
from neatrec import read_baskets
from neatrec.cli.main import exit_code_of

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
KEY = "a-key-of-more-than-sixteen-letters"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


(PYTHON,) = blocks("python")
DEMO, ANSWERS = (block.splitlines() for block in blocks("text"))
TUTORIAL = [
    block.splitlines()
    for block in re.findall(
        r"```text\n(.*?)```", (ROOT / "docs" / "tutorial.md").read_text(), flags=re.DOTALL
    )
]
LINES = [
    line.removeprefix("$ ")
    for block in blocks("console")
    for line in block.split("\n")
    if line[:2] == "$ "
]
COMMANDS = [line for line in LINES if line.startswith("neatrec ")]


def neatrec(line: str) -> list[str]:
    return [sys.executable, "-m", *shlex.split(line, comments=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the README's commands name, and a store with one live bundle."""
    made = tmp_path_factory.mktemp("readme")
    write_export("orders.csv", made, baskets=3_000, items=300)
    (made / "keys.txt").write_text(KEY)
    with chdir(made):
        assert (
            exit_code_of(
                ["train", "orders.csv", "--model", "shrunk-lift", "--out", "last-night", "--quiet"]
            )
            == 0
        )
        assert exit_code_of(["publish", "last-night", "store", "--quiet"]) == 0
    return made


@pytest.fixture(scope="module")
def demo(folder: Path) -> subprocess.CompletedProcess[str]:
    """The output of the demo, which writes its bundle into the folder."""
    return subprocess.run(
        neatrec("neatrec demo"), cwd=folder, capture_output=True, text=True, timeout=300, check=True
    )


def test_python_and_the_tutorial_print_what_they_show(tmp_path: Path) -> None:
    write_export("orders.csv", tmp_path)
    orders, checked, answered = TUTORIAL

    def printed(*words: str) -> list[str]:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return (done.stderr + done.stdout).splitlines()

    assert (tmp_path / "orders.csv").read_text().splitlines()[: len(orders)] == orders
    trained = printed(sys.executable, "-c", f"{PYTHON}\nshop.save('bundle')")
    assert trained[-len(ANSWERS) :] == ANSWERS
    check = "\n".join(printed(*neatrec("neatrec check orders.csv")))
    assert not [line for line in checked if line.removesuffix(" ...") not in check]
    answers = printed(*neatrec("neatrec recommend bundle 'Tortilla Chips'"))
    assert not [line for line in answered if line not in answers]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_run(line: str, folder: Path) -> None:
    if line.startswith("neatrec serve"):
        with serving(neatrec(line.replace(" --open", "")), folder) as address:
            request = Request(address, headers={"x-api-key": KEY})
            assert b"What goes with what" in urlopen(request, timeout=60).read()
    else:
        with chdir(folder):
            assert exit_code_of(shlex.split(line, comments=True)[1:]) == 0


@contextmanager
def serving(words: Iterable[str], folder: Path) -> Iterator[str]:
    """The address of the service that `words` start."""
    with subprocess.Popen(
        [*words, "--port", "0"], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            line = next((line for line in process.stderr if " on http://" in line), "")
            assert line, "the service did not start"
            yield "http://" + line.partition(" on http://")[2].split()[0]
        finally:
            process.terminate()


def test_the_demo_prints_the_pairs_shown_in_at_most_fifteen_lines(folder, demo) -> None:
    printed = demo.stdout.splitlines()
    assert demo.stderr == ""
    assert len(printed) <= 15
    assert all(len(line) <= 80 for line in printed)
    assert any(line.endswith("x within December: seasonal.") for line in printed)
    assert DEMO
    assert not [line for line in DEMO if line not in printed]


def test_the_order_lines_shown_are_read_without_any_option(tmp_path: Path, folder: Path) -> None:
    (text,) = blocks("csv")
    (tmp_path / "two.csv").write_text(text)
    assert text.splitlines()[0] == (folder / "orders.csv").read_text().splitlines()[0]
    found = read_baskets(str(tmp_path / "two.csv"))
    assert found.sizes.tolist() == [2]
    assert sorted(found.catalog.name(code) for code in range(2)) == ["Guacamole", "Tortilla Chips"]
