"""Answers in databases: written again they are the same, and a reader never sees half of them."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from helpers.postgres import PostgresServer
from helpers.redis_server import RedisServer
from helpers.toyshop import toy_baskets
from neatrec.errors import ParameterError, SourceError
from neatrec.io import postgresql
from neatrec.models import Run, make_model
from neatrec.release import ExportOptions, export_answers, export_databases, export_rows
from neatrec.serving import PairTable, save_indexed

TABLE = "neatrec_complements"
Rows = list[tuple[Any, ...]]


def shop_of(count: int, folder: Path) -> PairTable:
    baskets = toy_baskets(count)
    save_indexed(
        make_model("shrunk-lift").fit(baskets, Run(threads=1)),
        folder / str(count),
        baskets,
        seed=0,
        k=20,
    )
    return PairTable.open(folder / str(count))


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> tuple[PairTable, PairTable]:
    """The same shop on two nights."""
    folder = tmp_path_factory.mktemp("databases")
    return shop_of(400, folder), shop_of(600, folder)


def wanted(index: PairTable, folder: Path) -> Rows:
    """The rows of the Parquet export, which other tests check."""
    export_answers(index, ExportOptions(out=folder / "wanted.parquet"))
    table = pq.read_table(folder / "wanted.parquet")
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def postgres_rows(server: PostgresServer, table: str = TABLE) -> Rows:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(server.address()) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        return sorted(cursor.fetchall())


def never_mixed(write: Callable[[PairTable], object], read: Callable[[], Any], nights: Any) -> None:
    """Export the two nights in turn while a reader polls: all it sees is one night or the other, and both."""
    write(nights[0])
    first = read()
    write(nights[1])
    second = read()
    assert first != second
    seen: list[Any] = []
    done = threading.Event()

    def poll() -> None:
        while not done.is_set():
            seen.append(read())

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        for turn in range(200):
            write(nights[turn % 2])
            if turn > 4 and first in seen and second in seen:
                break
    finally:
        done.set()
        reader.join()
    assert first in seen
    assert second in seen
    assert all(found in (first, second) for found in seen)


def test_postgres_holds_the_answers_once(
    indexes, postgres: PostgresServer, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(export_rows, "BLOCK", 7)
    for index in (indexes[1], indexes[0], indexes[0]):
        done = export_answers(index, ExportOptions(out=postgres.address()))
    assert done.target == "postgres"
    assert postgres_rows(postgres) == wanted(indexes[0], tmp_path)


def test_a_reader_of_postgres_never_sees_a_mix(
    indexes, postgres: PostgresServer, monkeypatch
) -> None:
    monkeypatch.setattr(export_rows, "BLOCK", 5)
    where = ExportOptions(out=postgres.address(), table="public.polled")
    never_mixed(
        lambda index: export_answers(index, where),
        lambda: postgres_rows(postgres, "polled"),
        indexes,
    )


def test_an_export_into_postgres_that_fails_leaves_the_old_rows(
    indexes, postgres: PostgresServer, tmp_path
) -> None:
    where = ExportOptions(out=postgres.address(), table="public.other_columns")
    postgres.execute(
        "CREATE TABLE other_columns (query text, note text)",
        "INSERT INTO other_columns VALUES ('a', 'b')",
    )
    with pytest.raises(
        ParameterError, match=r'"query_name" does not exist in target table .*another table'
    ):
        export_answers(indexes[0], where)
    assert postgres_rows(postgres, "other_columns") == [("a", "b")]


def test_redis_holds_one_document_per_item(
    indexes, redis_server: RedisServer, tmp_path: Path
) -> None:
    for index in (indexes[1], indexes[0], indexes[0]):
        export_answers(index, ExportOptions(out=redis_server.address))
    rows = wanted(indexes[0], tmp_path)
    client = redis_server.client()
    held = {item: json.loads(text) for item, text in client.hgetall("neatrec:complements").items()}
    assert held.keys() == {row[0] for row in rows}
    found = [
        (item, line["rank"], line["id"])
        for item, text in held.items()
        for line in text["complements"]
    ]
    assert sorted(found) == [(row[0], row[2], row[3]) for row in rows]
    assert client.ttl("neatrec:complements") == -1
    assert client.keys("*writing*") == client.keys("{*") == []


def test_a_reader_of_redis_never_sees_a_mix(
    indexes, redis_server: RedisServer, monkeypatch
) -> None:
    monkeypatch.setattr(export_rows, "BLOCK", 5)
    client = redis_server.client()
    where = ExportOptions(out=redis_server.address, table="polled")
    never_mixed(
        lambda index: export_answers(index, where), lambda: client.hgetall("polled"), indexes
    )


@pytest.mark.parametrize(
    "address", ["postgresql://ann:secret@h/db", "redis://:secret@h", "redis://h?password=secret"]
)
def test_a_password_in_an_address_is_refused_and_not_repeated(indexes, address: str) -> None:
    with pytest.raises(SourceError, match="address must not contain a password") as caught:
        export_answers(indexes[0], ExportOptions(out=address))
    assert "secret" not in str(caught.value)


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
def test_a_server_that_is_not_there_is_told_in_one_sentence(
    indexes, silent: int, scheme: str, monkeypatch
) -> None:
    for module in (postgresql, export_databases):
        monkeypatch.setattr(module, "CONNECT_SECONDS", 2)
    monkeypatch.setattr(export_databases, "TIMEOUT", 2)
    monkeypatch.setenv("PGPASSWORD", "the password")
    for port in (1, silent):
        address = f"{scheme}://127.0.0.1:{port}"
        with pytest.raises(ParameterError, match=f"{address} refused or did not ans") as caught:
            export_answers(indexes[0], ExportOptions(out=address))
        assert "\n" not in str(caught.value)
        assert "the password" not in str(caught.value)
