"""Answers in PostgreSQL or Redis. Readers see the old answers until the new ones are all there."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from neatrec.errors import ParameterError, must_be, require_extra
from neatrec.io.addresses import Address, parse_address
from neatrec.io.postgresql import CONNECT_SECONDS, own_words, postgresql_uri
from neatrec.release.export_rows import Tables

TABLE = "public.neatrec_complements"
KEY = "neatrec:complements"
"""The hash in Redis."""
TIMEOUT = 10
"""Seconds in which Redis must do one step."""
UNUSED = 3600
"""Seconds after which Redis drops what an export that was killed left behind."""
BATCH = 500
"""Items that Redis gets at a time."""
SQL_TYPES = {"string": "VARCHAR", "int32": "INTEGER", "int64": "BIGINT", "float": "REAL"}
SQL_TYPES["bool"] = "BOOLEAN"


def write_postgres(tables: Tables, address: str, table: str) -> None:
    """Replace the rows of `table` in one transaction; the table is made where it is not there.

    Other exports into it wait; readers do not.
    """
    schema, _, name = table.rpartition(".")
    quoted = ".".join(_quoted(part) for part in (schema or "public", name))
    parts = map(_without_nul, tables)
    first = next(parts)
    with _postgres(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT to_regclass('{quoted}') IS NULL")
        # IF NOT EXISTS would need the right to create, also where the table is there
        if cursor.fetchone() == (True,):
            cursor.execute(_create(quoted, first.schema))
        cursor.execute(f"LOCK TABLE {quoted} IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute(f"DELETE FROM {quoted}")
        for part in chain([first], parts):
            cursor.adbc_ingest(name, part, mode="append", db_schema_name=schema or "public")
        connection.commit()


@contextmanager
def _postgres(address: str) -> Iterator[Any]:
    require_extra("database", "an export into PostgreSQL")
    from adbc_driver_postgresql import dbapi

    server = parse_address(address, ("postgresql",))
    try:
        connection = dbapi.connect(postgresql_uri(server))
    except dbapi.Error as error:
        raise _failed(server, error) from error
    try:
        with connection:
            yield connection
    except dbapi.Error as error:
        hint = "Where the columns of a table are others, name another table with --table."
        raise _failed(server, error, hint) from error


def _without_nul(part: pa.Table) -> pa.Table:
    """PostgreSQL has no NUL in a text: the replacement character stands for it."""
    for place, field in enumerate(part.schema):
        if field.type == pa.string():
            part = part.set_column(
                place, field.name, pc.replace_substring(part[field.name], "\x00", "\ufffd")
            )
    return part


def write_redis(documents: Iterator[tuple[str, str]], address: str, key: str) -> None:
    """Replace the hash `key`, which maps ids to documents, by one RENAME."""
    require_extra("redis", "an export into Redis")
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    server = parse_address(address, ("redis", "rediss"))
    # the braces keep both keys on one machine of a cluster
    unfinished = f"{{{key}}}:{uuid.uuid4().hex}"
    try:
        client = redis.Redis.from_url(
            address,
            password=os.environ.get("REDIS_PASSWORD"),
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
        client.connection_pool.make_connection()  # connects to nothing yet; looks at the parameters
    except (TypeError, ValueError) as error:
        raise must_be("out", "an address such as redis://host:6379/0", server.shown) from error
    try:
        client.ping()
        try:
            while batch := list(islice(documents, BATCH)):
                client.hset(unfinished, mapping=dict[Any, Any](batch))
                client.expire(unfinished, UNUSED)
            swap = client.pipeline(transaction=True)
            if client.exists(unfinished):
                swap.persist(unfinished)
                swap.rename(unfinished, key)
            else:
                swap.delete(key)
            swap.execute()
        finally:
            client.unlink(unfinished)
    except redis.RedisError as error:
        raise _failed(server, error) from error
    finally:
        client.close()


def _failed(server: Address, error: Exception, hint: str | None = None) -> ParameterError:
    return ParameterError(
        f"{server.shown} refused or did not answer: {own_words(error)}", hint=hint
    )


def _quoted(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise must_be("table", "letters, digits and underscores, or SCHEMA.TABLE", name)
    return f'"{name}"'


def _create(table: str, schema: pa.Schema) -> str:
    columns = ", ".join(f"{_quoted(field.name)} {SQL_TYPES[str(field.type)]}" for field in schema)
    return f'CREATE TABLE IF NOT EXISTS {table} ({columns}, PRIMARY KEY ("query", "rank"))'
