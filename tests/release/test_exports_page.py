"""The page about exports keeps its word: its commands and its code run, on the demo's shop."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.postgres import PostgresServer
from helpers.redis_server import RedisServer
from neatrec.cli.main import app
from neatrec.models import Run, make_model
from neatrec.serving import PairTable, recommend, save_indexed
from neatrec.simulator import supermarket

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "exports.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def neatrec(line: str) -> str:
    done = CliRunner().invoke(app, shlex.split(line, comments=True)[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """After `neatrec demo`, with fewer baskets and a faster model, and the product export of its shop at Shopify."""
    made = tmp_path_factory.mktemp("exports")
    baskets = supermarket(baskets=2_500, seed=0).baskets
    model = make_model("shrunk-lift").fit(baskets, Run(threads=1))
    save_indexed(model, made / "neatrec-demo" / "bundle", baskets, seed=0, k=10)
    with (made / "products_export.csv").open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerow(["Handle", "Title", "Variant SKU"])
        csv.writer(out).writerows(
            [f"handle-{item}", "Title", item] for item in baskets.catalog.ids.to_pylist()
        )
    return made


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def test_the_commands_write_what_they_name(here: Path) -> None:
    lines = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    assert len(lines) >= 4
    for line in lines:
        neatrec(line)
        named = re.search(r"--out (\S+)", line)
        assert named
        assert Path(named[1]).exists()


def test_the_databases_answer_as_shown(
    here: Path, postgres: PostgresServer, redis_server: RedisServer
) -> None:
    from adbc_driver_postgresql import dbapi

    (sql,) = blocks("sql")
    item = re.search(r"query = '(\d+)'", sql)
    assert item
    wanted = [
        line["id"]
        for line in recommend(PairTable.open("neatrec-demo/bundle"), [item[1]], 10).rows()
    ]
    first, second = next(block for block in blocks("sh") if "postgresql://" in block).splitlines()
    neatrec(first.replace("postgresql://shop@127.0.0.1:5432/shop", postgres.address()))
    with dbapi.connect(postgres.address()) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        assert [row[0] for row in cursor.fetchall()] == wanted[:4]
    neatrec(second.replace("redis://127.0.0.1:6379", redis_server.address))
    (words,) = (block.split() for block in blocks("sh") if block.startswith("redis-cli"))
    found = json.loads(redis_server.client().execute_command(*words[1:]))
    assert [line["id"] for line in found["complements"]] == wanted
