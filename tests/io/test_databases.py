"""One shop in every kind of source: the same baskets; and what a database says when it cannot be read."""

import gzip
import json
import logging
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from helpers.postgres import PASSWORD, USER, PostgresServer
from neatrec.data import Baskets
from neatrec.errors import InputError, MissingDependencyError, SourceError
from neatrec.io import SourceOptions, read_baskets, read_source_toml
from neatrec.io.orders_folder import import_orders
from neatrec.io.read import resolve_options

ROWS = [
    ("1", "007", "Tea", "drinks", "ann", "2024-01-31T10:00:00", 1, "north"),
    ("1", "8", "Milk, whole", "dairy", "ann", "2024-01-31T10:00:00", 2, "north"),
    ("2", "8", "Milk, whole", "dairy", None, "2024-02-01T18:30:00", 1, "south"),
    ("2", "é9", "Café", "drinks", None, "2024-02-01T18:30:00", 3, "south"),
    ("3", "007", "Tea", "drinks", "bob", "2024-02-02T00:00:00", 0, "north"),
    ("3", "8", "Milk, whole", "dairy", "bob", "2024-02-02T00:00:00", 1, "north"),
]
NAMES = ("order_id", "sku", "name", "category", "customer_id", "created_at", "quantity", "store")
ORDERS = pa.table({name: [row[i] for row in ROWS] for i, name in enumerate(NAMES)})
ORDERS = ORDERS.set_column(0, "order_id", ORDERS["order_id"].cast(pa.int64()))
ORDERS = ORDERS.set_column(5, "created_at", ORDERS["created_at"].cast(pa.timestamp("us")))
CREATE = (
    "CREATE TABLE orders (order_id BIGINT, sku TEXT, name TEXT, category TEXT, customer_id TEXT, "
    "created_at TIMESTAMP, quantity INTEGER, store TEXT)"
)


def as_objects() -> list[dict[str, Any]]:
    rows = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    return [{**row, "order_id": int(row["order_id"])} for row in rows]


def write_json(path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in as_objects()).encode()
    path.write_bytes(gzip.compress(lines, mtime=0) if path.suffix == ".gz" else lines)


def write_json_list(path: Path) -> None:
    path.write_text(json.dumps(as_objects(), indent=1))


def write_arrow(path: Path) -> None:
    opened = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with opened(path, ORDERS.schema) as writer:
        writer.write_table(ORDERS, max_chunksize=2)


FILES = {
    "orders.csv": partial(csv.write_csv, ORDERS),
    "orders.parquet": partial(pq.write_table, ORDERS),
    "orders.jsonl": write_json,
    "orders.ndjson.gz": write_json,
    "orders.json": write_json_list,
    "orders.arrow": write_arrow,
    "orders.arrows": write_arrow,
}


@pytest.fixture(scope="session")
def expected() -> Baskets:
    return read_baskets(ORDERS)


@pytest.fixture(scope="session")
def shop(postgres_server: PostgresServer) -> PostgresServer:
    """The same orders in a database `shop`, among other tables."""
    postgres_server.execute("CREATE DATABASE shop")
    values = ", ".join(
        "(" + ", ".join("NULL" if value is None else f"'{value}'" for value in row) + ")"
        for row in ROWS
    )
    postgres_server.execute(
        CREATE,
        f"INSERT INTO orders VALUES {values}",
        "CREATE SCHEMA archive",
        "CREATE TABLE archive.lines AS SELECT * FROM orders",
        "CREATE TABLE nothing (order_id INTEGER, sku TEXT)",
        database="shop",
    )
    return postgres_server


def same(found: Baskets, expected: Baskets) -> bool:
    return found.hash == expected.hash and found.dropped == expected.dropped == {"returns": 1}


@pytest.mark.parametrize("name", FILES)
def test_one_hash_from_every_kind_of_file(name: str, tmp_path: Path, expected: Baskets) -> None:
    FILES[name](tmp_path / name)
    found = read_baskets(tmp_path / name)
    assert same(found, expected)
    assert found.times.tolist() == expected.times.tolist()
    assert found.attributes["store"].names == ("north", "south")
    assert found.source == str(tmp_path / name)


@pytest.mark.parametrize(
    "how", [{"table": "orders"}, {"table": "archive.lines"}, {"query": "SELECT * FROM orders"}]
)
def test_one_hash_from_postgresql(
    how, shop: PostgresServer, postgres: PostgresServer, expected: Baskets
) -> None:
    found = read_baskets(shop.address("shop"), **how)
    assert same(found, expected)
    assert found.source == f"postgresql://127.0.0.1:{shop.port}/shop"


def test_a_query_is_a_file_for_commands_and_text_in_python(
    tmp_path, shop, postgres, expected: Baskets
) -> None:
    file = tmp_path / "orders.sql"
    file.write_text("-- orders\nSELECT * FROM orders -- all of them\n;\n-- end\n")
    toml = tmp_path / "source.toml"
    toml.write_text(f'source = "{shop.address("shop")}"\nquery = "orders.sql"\n')
    source, options = read_source_toml(toml)
    assert (source, options) == (shop.address("shop"), SourceOptions(query=file))
    assert same(read_baskets(toml), expected)
    assert same(read_baskets(shop.address("shop"), query=str(file)), expected)


def test_orders_are_imported_from_a_database_without_its_login(
    tmp_path, shop, postgres, expected, caplog
) -> None:
    caplog.set_level(logging.DEBUG)
    done = import_orders(shop.address("shop"), tmp_path / "store", SourceOptions(table="orders"))
    assert (done.baskets, done.lines) == (3, 5)
    assert read_baskets(tmp_path / "store").hash == expected.hash
    kept = b"".join(file.read_bytes() for file in (tmp_path / "store").rglob("*") if file.is_file())
    for secret in (PASSWORD, f"{USER}@"):
        assert secret.encode() not in kept
        assert secret not in caplog.text


def test_types_that_only_postgresql_knows_are_text(postgres: PostgresServer) -> None:
    uuid = "2b783de4-50e5-4dc7-99b1-e2cc637f74dc"
    postgres.execute("CREATE TYPE channel AS ENUM ('shop', 'web')")
    found = read_baskets(
        postgres.address(),
        query=f"SELECT '{uuid}'::uuid AS order_id, inet '10.0.0.1' AS sku, 1.50::numeric AS quantity, "
        "'web'::channel AS store, timestamptz '2024-01-31 12:00+02' AS created_at, interval '1 day' AS name, "
        "'{1,2}'::int[] AS extra, '{\"a\": 1}'::jsonb AS more, 1 AS x, 2 AS x",
    )
    assert found.ids.to_pylist() == [uuid]
    assert found.catalog.ids.to_pylist() == ["10.0.0.1/32"]
    assert found.attributes["store"].names == ("web",)
    assert found.catalog.name(0) == "1 day"
    assert found.times.tolist() == [1_706_695_200_000_000]


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({}, r"/shop holds 3 tables that can be read: archive\.lines, nothing, orders\. Choose one with --table NAME"),
        ({"table": "order"}, r"/shop has no table 'order'; it has: .*Did you mean 'orders'\?"),
        ({"table": "nothing"}, "table nothing of postgresql://.*/shop has column names but no rows"),
        ({"query": "SELECT * FROM gone"}, 'refuses the query: relation "gone" does not exist$'),
        ({"query": "SELEC 1"}, 'refuses the query: syntax error at or near "SELEC"$'),
        ({"query": "SELECT 1; SELECT 2"}, "refuses the query: cannot insert multiple commands"),
        ({"query": "SELECT 1 AS order_id, 1 / 0 AS sku"}, "refuses the query: division by zero$"),
        ({"query": "DELETE FROM orders RETURNING *"}, "refuses the query: cannot execute DELETE in a read-only"),
        ({"query": "SELECT 1 AS a, 2 AS b"}, "the query on .* has no column known to be the basket; .*: a, b"),
        (
            {
                "query": "SELECT g AS order_id, CASE WHEN g = 100000 THEN pg_terminate_backend(pg_backend_pid())::text "
                "ELSE 'a' END AS sku FROM generate_series(1, 200000) AS g"
            },
            "shop failed while it was read: terminating connection due to administrator command. Nothing was kept",
        ),
    ],
)  # fmt: skip
def test_what_postgresql_refuses_is_one_sentence(
    how, match, shop: PostgresServer, postgres: PostgresServer
) -> None:
    with pytest.raises(SourceError, match=match) as caught:
        read_baskets(shop.address("shop"), **how)
    assert "\n" not in str(caught.value)


def test_the_password_comes_from_the_environment_or_pgpass(
    tmp_path: Path, shop: PostgresServer, monkeypatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(
        SourceError,
        match=r"cannot connect .*password authentication failed.*PGPASSWORD or ~/\.pgpass",
    ):
        read_baskets(shop.address("shop"), table="orders")
    monkeypatch.delenv("PGPASSWORD")
    with pytest.raises(
        SourceError, match=r"cannot connect to .*no password supplied.*PGPASSWORD or ~/\.pgpass"
    ):
        read_baskets(shop.address("shop"), table="orders")
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"127.0.0.1:{shop.port}:shop:*:{PASSWORD}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    assert read_baskets(shop.address("shop"), table="orders").lines == 5


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:hunter2@localhost/shop",
        "postgres://ann:hunter2/x@localhost/shop",
        "postgresql://ann:hunter2?@localhost/shop",
        "postgresql://localhost/shop?user=ann&password=hunter2",
        "jdbc:postgresql://ann:hunter2@localhost/shop",
        " postgresql://ann:hunter2@localhost/shop",
        "postgresql://ann%3Ahunter2@localhost/shop",
        "postgresql://localhost/shop?pass%77ord=hunter2",
        "postgresql://localhost/shop#password=hunter2",
        "postgresql://localhost/shop?options=-c;password=hunter2",
        "s3://key:hunter2@bucket/orders.csv",
        "jdbc:sqlserver://localhost:1433;databaseName=shop;user=ann;password=hunter2",
        "jdbc:oracle:thin:ann/hunter2@localhost:1521/shop",
        "host=localhost user=ann password=hunter2",
        "postgresql;//ann:hunter2@localhost/shop",
        "postgresql//ann:hunter2@localhost/shop",
        "ann:hunter2@localhost/shop",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(
    address: str, tmp_path: Path, caplog
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "source.toml").write_text(f'source = "{address}"\n')
    for source in (address, str(tmp_path / "source.toml")):
        for read in (read_baskets, lambda source: resolve_options(source, SourceOptions())):
            with pytest.raises(
                SourceError, match=r"(address|SOURCE) must not contain a password"
            ) as caught:
                read(source)
            assert "hunter2" not in f"{caught.value} {caught.value.to_dict()} {caplog.text}"


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("mysql://localhost/shop", "mysql:// is not an address that can be read"),
        ("jdbc:postgresql://localhost/shop", "jdbc:postgresql:// .* must begin with postgresql://"),
        ("https://shop.example/o.csv?sign=1", "https:// .* Download or export"),
    ],
)
def test_an_address_that_cannot_be_read_says_why(source: str, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        read_baskets(source)
    assert "sign=1" not in str(caught.value)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neatrec.errors.find_spec", lambda module: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'neatrec\[database\]'"):
        read_baskets("postgresql://localhost/shop")


def test_an_unreachable_host_is_one_sentence_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that accepts and says nothing; the timeout is shortened here."""
    monkeypatch.setattr("neatrec.io.postgresql.CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        with pytest.raises(
            SourceError,
            match=r"cannot connect to postgresql://127\.0\.0\.1:\d+/shop: .*timeout expired",
        ):
            read_baskets(f"postgresql://127.0.0.1:{silent.getsockname()[1]}/shop?sslmode=disable")
        assert time.monotonic() - started < 10
        port = silent.getsockname()[1]
    with pytest.raises(SourceError, match=r"Connection refused\. Check host, port and network"):
        read_baskets(f"postgresql://127.0.0.1:{port}/shop")


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("o.jsonl", b'{"order_id": 1, "sku": "a"}\n{"order_id":\n', r"o\.jsonl, line 2: is not JSON: "),
        ("o.jsonl", b'{"order_id": 1, "sku": "\xff"}\n', r"o\.jsonl, line 1: is not JSON: .*utf-8"),
        ("o.jsonl", b"order_id,sku\n1,tea\n", r"o\.jsonl, line 1: is not JSON"),
        ("o.jsonl", b"\n", r"o\.jsonl is empty"),
        ("o.json", b"[1, 2]", r"o\.json must hold one JSON object per line, such as .*jq -c"),
        ("o.json", b'{\n"orders": [{"order_id": 1}]\n}', "has no column known to be the basket; .*: orders"),
        ("o.json", b'{"order_id": 1, "sku": ["tea", "milk"]}\n', r"'sku': cannot be read as item, .*VARCHAR\[\]"),
        ("o.csv", b'{"order_id": 1}\n', "has no column known to be the item; its columns are: order_id"),
        ("o.sqlite", b"SQLite format 3\0 and nothing else", "is an SQLite database: export the order"),
        ("o.arrow", b"ARROW1 and nothing else", "is not a complete Arrow file"),
        ("o.feather", b"FEA1....", "is an old Feather file: write it as Parquet"),
        ("o.jsonl.gz", gzip.compress(b'{"order_id": 1}\n' * 9, mtime=0)[:-9], "is not a complete gzip file"),
    ],
)  # fmt: skip
def test_a_file_of_a_known_kind_that_is_broken_says_so(
    tmp_path: Path, name: str, content: bytes, match: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=match) as caught:
        read_baskets(tmp_path / name)
    assert "\n" not in str(caught.value)
