"""docs/reference/own-data.md keeps its word."""

import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from neatrec.io import SourceOptions, read_baskets, read_source_toml

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "own-data.md").read_text()
ORDERS = """order_id,sku,title,shelf,customer,added
1,b1,Beef Hot Dogs,meat,ann,1
1,b2,Hot Dog Buns,bread,ann,2
1,b3,Bananas,fruit,ann,3
2,b1,Beef Hot Dogs,meat,bob,1
2,b2,Hot Dog Buns,bread,bob,2
3,b3,Bananas,fruit,eve,1
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_its_python_runs(code: str, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text(ORDERS)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "<Baskets 3 baskets, 6 lines, 3 items, 3 users, unordered>" in done.stdout


def test_its_command_names_columns_that_work(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text(ORDERS)
    (command,) = blocks("console")
    words = shlex.split(command.removeprefix("$ neatrec check "))
    options = dict(zip((word.removeprefix("--") for word in words[1::2]), words[2::2], strict=True))
    baskets = read_baskets(tmp_path / words[0], **options)
    assert (len(baskets), baskets.ordered) == (3, True)


def test_its_source_toml_is_valid(tmp_path: Path) -> None:
    (toml,) = blocks("toml")
    (tmp_path / "source.toml").write_text(toml)
    source, options = read_source_toml(tmp_path / "source.toml")
    assert source.endswith("orders/*.parquet")
    assert options.category == ("department", "shelf")


def test_it_names_every_option() -> None:
    for field in fields(SourceOptions):
        assert re.search(rf"\b{field.name}\b|--{field.name.replace('_', '-')}", TEXT), field.name


def test_it_names_every_reason(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text(
        "order_id,sku,at,qty\n1,tea,2024-01-01,1\n1,tea,2024-01-01,1\n1,bag,2024-01-01,1\n,tea,2024-01-01,1\n"
        "2,tea,2023-01-01,1\n3,tea,,1\n1,jam,2024-01-01,0\n1,salt\n"
    )
    dropped = read_baskets(
        tmp_path / "o.csv", basket="order_id", item="sku", time="at", quantity="qty", since="2024-01-01",
        exclude_item="bag", max_bad_rows=1,
    ).dropped  # fmt: skip
    assert len(dropped) == 7
    for reason in dropped:
        assert f"| `{reason}` |" in TEXT
