"""The README keeps its word: its code runs, its commands run, its first screen shows the result."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from neatrec.serving import ServingTable

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text()
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
SHOWN = [line for block in re.findall(r"```text\n(.*?)```", TEXT, flags=re.DOTALL) for line in block.splitlines()]
SHELL = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", TEXT, flags=re.DOTALL)
    for line in block.split("\n")
    if line.startswith("$ neatrec")
]

ORDERS = """order_id,sku,title,shelf,customer,added
1,b1,Beef Hot Dogs,meat,ann,1
1,b2,Hot Dog Buns,bread,ann,2
1,b3,Bananas,fruit,ann,3
2,b1,Beef Hot Dogs,meat,bob,1
2,b2,Hot Dog Buns,bread,bob,2
3,b3,Bananas,fruit,eve,1
3,b4,Oat Milk,dairy,eve,2
"""


@pytest.fixture
def shop_folder(tmp_path: Path) -> Path:
    """A folder with the file that the README's examples speak of."""
    (tmp_path / "orders.csv").write_text(ORDERS)
    return tmp_path


def test_the_result_stands_in_the_first_thirty_lines() -> None:
    top = "\n".join(TEXT.split("\n")[:30])
    for needed in ("pip install", "neatrec demo", "make demo", "--basket"):
        assert needed in top


def test_there_is_code_to_run() -> None:
    assert PYTHON
    assert SHELL


@pytest.mark.parametrize("code", PYTHON)
def test_python_blocks_run(code: str, shop_folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=shop_folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", SHELL)
def test_commands_run(line: str, shop_folder: Path) -> None:
    words = shlex.split(line, comments=True)
    done = subprocess.run(
        [sys.executable, "-m", "neatrec", *words[1:]], cwd=shop_folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_the_demo_prints_the_lines_shown_in_at_most_fifteen_and_attaches_its_report(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "neatrec", "demo"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    assert done.stderr == ""
    printed = done.stdout.splitlines()
    assert len(printed) <= 15
    assert all(len(line) <= 80 for line in printed)
    assert any("overall, 1.0x within December: seasonal." in line for line in printed)
    assert SHOWN
    for line in SHOWN:
        assert line in printed
    attached = ServingTable.open(tmp_path / "neatrec-demo" / "bundle").attachment
    assert attached is not None
    assert "bayes" in {model["name"] for model in attached["leaderboard"]["models"]}
