"""docs/how-to/databases.md keeps its word: its commands, SQL, TOML and Python run against a real PostgreSQL."""

import re
import shlex
from pathlib import Path

import pytest

from helpers.postgres import PostgresServer
from neatrec.cli.main import exit_code_of

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "databases.md").read_text()
ADDRESS = "postgresql://shop@localhost/shop"
TABLES = (
    "CREATE ROLE shop LOGIN SUPERUSER PASSWORD 'correct horse'",
    "CREATE TABLE products AS SELECT i::text AS sku, 'Item ' || i AS title, 'shelf ' || i % 4 AS shelf "
    "FROM generate_series(0, 19) AS i",
    "CREATE TABLE orders AS SELECT i AS id, 'c' || i % 90 AS customer_id, "
    "current_timestamp - (i % 200 + 1) * interval '1 day' AS created_at, i % 50 = 0 AS cancelled "
    "FROM generate_series(1, 1000) AS i",
    "CREATE TABLE order_lines AS SELECT id AS order_id, ((id * 7 + line * (id % 3 + 1)) % 20)::text AS sku "
    "FROM orders, generate_series(1, 4) AS line",
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.fixture(scope="module")
def page_server(postgres_server: PostgresServer) -> PostgresServer:
    postgres_server.execute("CREATE DATABASE page")
    postgres_server.execute(*TABLES, database="page")
    return postgres_server


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the page names."""
    monkeypatch.chdir(tmp_path)
    for name, sql in zip(("orders.sql", "yesterday.sql"), blocks("sql"), strict=True):
        (tmp_path / name).write_text(sql.replace("DATE '2026-01-01'", "DATE '2020-01-01'"))
    return tmp_path


@pytest.mark.parametrize("block", blocks("sh"))
def test_its_commands_run(
    block, here: Path, page_server: PostgresServer, postgres: PostgresServer, capsys
) -> None:
    for line in block.splitlines():
        command = line.replace(ADDRESS, page_server.address("page", user="shop"))
        assert exit_code_of(shlex.split(command)[1:]) == 0, capsys.readouterr().err


def test_its_source_toml_and_python_read_the_orders(
    here, page_server, postgres: PostgresServer, capsys
) -> None:
    toml, python = (
        block.replace(ADDRESS, page_server.address("page", user="shop"))
        for block in (*blocks("toml"), *blocks("python"))
    )
    (here / "source.toml").write_text(toml.replace("2026-01-01", "2020-01-01"))
    assert exit_code_of(["check", "source.toml"]) == 0
    assert "980 baskets" in capsys.readouterr().out
    found: dict[str, object] = {}
    exec(python, found)
    assert str(found["baskets"]).startswith("<Baskets 1,000 baskets")
