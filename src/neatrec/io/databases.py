"""Rows of a database: PostgreSQL, Snowflake and BigQuery by their ADBC drivers, SQLite and DuckDB files."""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from neatrec.errors import MissingDependencyError, SourceError, bad_file, did_you_mean, must_be, require_extra
from neatrec.io.addresses import WHERE_SECRETS_ARE, Address, in_time
from neatrec.io.duckdb_session import lock, memory_limits
from neatrec.io.files import SourceFile, unreadable
from neatrec.io.options import SourceOptions
from neatrec.io.tables import InputTable, quoted, spooled
from neatrec.text import plural, printable

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)
BATCH_ROWS = 65_536
CONNECT_SECONDS = 5
"""For each address of a host, of which there are often two."""
MOST_LISTED = 20
CHOOSE = "Choose one with --table NAME, or select rows with --query FILE.sql."


class DatabaseTable(NamedTuple):
    """A table or view; one that is visible needs no schema before its name."""

    schema: str
    name: str
    visible: bool

    @property
    def shown(self) -> str:
        return self.name if self.visible else f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"


@dataclass(frozen=True)
class OpenDatabase:
    """A connection: what tables there are (None: cannot be listed), and the rows of a SELECT."""

    shown: str
    reader: Callable[[str], pa.RecordBatchReader]
    tables: Callable[[], list[DatabaseTable]] | None
    errors: tuple[type[Exception], ...]
    """What the driver raises."""
    quote: str = '"'
    """Around the name of a table that cannot be looked up."""


def read_database(source: Address | SourceFile, folder: Path, options: SourceOptions) -> InputTable:
    """The rows of the table or query that `options` name, as a file in `folder`."""
    kind = source.scheme if isinstance(source, Address) else source.kind
    with _OPEN[kind](source, folder) as database:
        try:
            sql, shown = _selection(database, options)
            reader = database.reader(sql)
        except database.errors as error:
            raise bad_file(database.shown, f"refuses the query: {own_words(error)}") from error
        log.info("reading %s", printable(shown))
        rows, table = spooled(shown, _watched(reader, database), folder)
    if not rows:
        raise SourceError(f"{printable(shown)} has no rows", file=database.shown, hint="Check what it selects.")
    return table


def _watched(reader: pa.RecordBatchReader, database: OpenDatabase) -> pa.RecordBatchReader:
    """The same rows; what the driver raises meanwhile becomes an error of ours."""
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except (*database.errors, OSError, pa.ArrowException) as error:
            trouble = f"failed while it was read: {own_words(error)}"
            raise bad_file(database.shown, trouble, hint="Nothing was kept; run it again.") from error

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _selection(database: OpenDatabase, options: SourceOptions) -> tuple[str, str]:
    """The SELECT to run, and what to call its rows."""
    if options.query is not None:
        return _query(options.query), f"the query on {database.shown}"
    if database.tables is None:
        if options.table is None:
            raise bad_file(database.shown, "does not say what to read", hint=CHOOSE)
        if not re.fullmatch(r"[\w$]+([.-][\w$]+)*", options.table):
            raise must_be("table", "a name such as orders or shop.orders", options.table)
        name = f"{database.quote}{options.table}{database.quote}"
        return f"SELECT * FROM {name}", f"table {options.table} of {database.shown}"
    table = _chosen(database, database.tables(), options.table)
    return f"SELECT * FROM {table.sql}", f"table {table.shown} of {database.shown}"


def _chosen(database: OpenDatabase, tables: Sequence[DatabaseTable], name: str | None) -> DatabaseTable:
    """The table called `name`, or the only one."""
    shown = [table.shown for table in tables]
    if not tables:
        raise bad_file(database.shown, "holds no table that can be read")
    for table in tables:
        if name in (table.shown, f"{table.schema}.{table.name}") or (name is None and len(tables) == 1):
            return table
    more = ", …" if len(shown) > MOST_LISTED else ""
    listed = ", ".join(printable(each, 60) for each in shown[:MOST_LISTED]) + more
    if name is None:
        raise bad_file(database.shown, f"holds {plural(len(tables), 'table')}: {listed}", hint=CHOOSE)
    trouble, hint = f"has no table {printable(repr(name))}; it has: {listed}", did_you_mean(name, shown, CHOOSE)
    raise bad_file(database.shown, trouble, argument="table", hint=hint)


def _query(query: str | Path) -> str:
    """The text of one SELECT, without the semicolon at its end."""
    text, shown = query, "the query"
    if isinstance(query, Path):
        shown = printable(query)
        try:
            text = query.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise SourceError(
                unreadable(query, error).message, file=str(query), hint="--query takes a file that holds a SELECT."
            ) from error
        except ValueError as error:  # no UTF-8
            raise SourceError(f"{shown} is not UTF-8", file=str(query)) from error
    text = re.sub(r";(?:\s|--[^\n]*\n)*\Z", "", f"{text}\n")
    if not text.strip():
        raise SourceError(f"{shown} is empty", hint="It must hold one SELECT.", argument="query")
    return text + "\n"  # a comment on its last line ends there


def own_words(error: Exception) -> str:
    """What the database says, in one line, without what its driver adds.

    >>> own_words(Exception('NOT_FOUND: Failed to prepare query: ERROR:  relation "x" does not exist\\nLINE 1: ...'))
    'relation "x" does not exist'
    """
    text = str(error)
    said = re.search(r"(?:ERROR|FATAL|PANIC):\s+(.+)", text)
    first = said[1] if said else text.strip().split("\n", 1)[0]
    first = re.sub(r"\.? (SQLSTATE|Vendor code): \w+\.?$", "", first)
    return printable(re.sub(r"^([A-Z_]+: )?(\[\w+\] )?(Failed to connect: )?", "", first), 300)


def postgresql_uri(address: Address) -> str:
    """The address with all text as UTF-8 and a limit to the wait for its host, otherwise as it was given."""
    settings = ["client_encoding=utf8"]
    if not _has_timeout(address):
        settings.append(f"connect_timeout={CONNECT_SECONDS}")
    return address.text + ("&" if "?" in address.text else "?") + "&".join(settings)


def _has_timeout(address: Address) -> bool:
    """Whether the address or the environment says how long libpq waits."""
    return "connect_timeout=" in address.text or "PGCONNECT_TIMEOUT" in os.environ


def connected(address: Address, connect: Callable[..., Any], **how: Any) -> Any:
    """The connection, or a TimeoutError in time, unless somebody said how long to wait."""
    return connect(**how) if _has_timeout(address) else in_time(lambda: connect(**how))


def _read_by(cursor: Any, sql: str) -> pa.RecordBatchReader:
    cursor.execute(sql)
    return cursor.fetch_record_batch()


@contextmanager
def _postgresql(address: Address, folder: Path) -> Iterator[OpenDatabase]:
    import pyarrow as pa

    require_extra("database", f"reading {address.scheme}://")
    with _cursor("postgresql", address, uri=postgresql_uri(address)) as (cursor, errors):

        def tables() -> list[DatabaseTable]:
            cursor.execute(
                "SELECT nspname::text, relname::text, pg_table_is_visible(c.oid) FROM pg_class AS c "
                "JOIN pg_namespace AS n ON n.oid = relnamespace WHERE relkind IN ('r', 'v', 'm', 'p', 'f') "
                "AND NOT relispartition AND nspname <> 'information_schema' AND nspname !~ '^pg_' "
                "AND has_table_privilege(c.oid, 'SELECT') ORDER BY 1, 2"
            )
            return [DatabaseTable(*row) for row in cursor.fetchall()]

        def reader(sql: str) -> pa.RecordBatchReader:
            cursor.execute("SET TRANSACTION READ ONLY")
            schema = cursor.adbc_execute_schema(sql)
            rows = _read_by(cursor, _with_odd_types_as_text(sql, schema))
            named = pa.schema([field.with_name(name) for field, name in zip(rows.schema, schema.names, strict=True)])
            return pa.RecordBatchReader.from_batches(named, (batch.rename_columns(named.names) for batch in rows))

        yield OpenDatabase(address.shown, reader, tables, errors)


def _with_odd_types_as_text(sql: str, schema: pa.Schema) -> str:
    """`sql` with what only PostgreSQL can write as text (enums, intervals, addresses of hosts) written by it."""
    import pyarrow.types as kinds

    storage = [getattr(field.type, "storage_type", field.type) for field in schema]
    odd = [
        str(field.type) != "extension<arrow.uuid>" and (kinds.is_binary(kind) or kinds.is_interval(kind))
        for field, kind in zip(schema, storage, strict=True)
    ]
    if not any(odd):
        return sql
    names = [f"c{i}" for i in range(len(odd))]
    chosen = ", ".join(f"{name}::text" if is_odd else name for name, is_odd in zip(names, odd, strict=True))
    return f"SELECT {chosen} FROM ({sql}) AS source({', '.join(names)})"


@contextmanager
def _snowflake(address: Address, folder: Path) -> Iterator[OpenDatabase]:
    """snowflake://USER@ACCOUNT/DATABASE/SCHEMA?warehouse=...&role=..."""
    parts = urlsplit(address.text)
    database, schema = (unquote(part) for part in (*parts.path.strip("/").split("/"), "", "")[:2])
    parameters = {"account": parts.netloc.rpartition("@")[2], "db": database, "schema": schema}
    parameters |= {key: value for key, value in parse_qsl(parts.query) if key in ("warehouse", "role", "region")}
    settings = {f"adbc.snowflake.sql.{key}": value for key, value in parameters.items() if value}
    login = {"username": unquote(parts.username or ""), "password": os.environ.get("SNOWFLAKE_PASSWORD", "")}
    timeout = {"adbc.snowflake.sql.client_option.login_timeout": "10s"}
    with _cursor("snowflake", address, db_kwargs={**settings, **login, **timeout}) as (cursor, errors):
        # names are not quoted: Snowflake then does not ask for their case
        yield OpenDatabase(address.shown, partial(_read_by, cursor), None, errors, quote="")


@contextmanager
def _bigquery(address: Address, folder: Path) -> Iterator[OpenDatabase]:
    """bigquery://PROJECT/DATASET"""
    project, _, dataset = address.shown.removeprefix("bigquery://").partition("/")
    named = {"project_id": project, "dataset_id": dataset.strip("/")}
    settings = {f"adbc.bigquery.sql.{key}": value for key, value in named.items() if value}
    with _cursor("bigquery", address, db_kwargs=settings) as (cursor, errors):
        yield OpenDatabase(address.shown, partial(_read_by, cursor), None, errors, quote="`")


@contextmanager
def _cursor(driver: str, address: Address, **how: Any) -> Iterator[tuple[Any, tuple[type[Exception], ...]]]:
    """A connection by an ADBC driver, closed afterwards, and what it raises."""
    module = f"adbc_driver_{driver}"
    if find_spec(module) is None:
        raise MissingDependencyError(
            f"reading {address.scheme}:// needs {module}, not installed here",
            hint=f"pip install {module.replace('_', '-')}",
        )
    adbc = importlib.import_module(f"{module}.dbapi")
    try:
        connection = connected(address, adbc.connect, **how)
    except (adbc.Error, TimeoutError) as error:
        words = own_words(error)
        hint = None if "FATAL:" in str(error) else "Check host, port and network."
        hint = WHERE_SECRETS_ARE[driver] if "password" in words else hint
        raise SourceError(
            f"cannot connect to {printable(address.shown)}: {words}", file=address.shown, hint=hint
        ) from error
    with connection, connection.cursor() as cursor:
        yield cursor, (adbc.Error,)


@contextmanager
def _sqlite(file: SourceFile, folder: Path) -> Iterator[OpenDatabase]:
    import sqlite3
    from urllib.request import pathname2url

    errors = (sqlite3.Error, sqlite3.Warning)

    def tables() -> list[DatabaseTable]:
        rows = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~' "
            "ORDER BY name"
        )
        return [DatabaseTable("main", name, True) for (name,) in rows.fetchall()]

    try:
        connection = sqlite3.connect(f"file:{pathname2url(str(file.path.absolute()))}?mode=ro", uri=True)
        connection.execute("SELECT count(*) FROM sqlite_master")
    except errors as error:
        raise SourceError(f"cannot read {printable(file.shown)}: {own_words(error)}", file=file.shown) from error
    try:
        yield OpenDatabase(file.shown, lambda sql: _sqlite_rows(connection, sql), tables, errors)
    finally:
        connection.close()


def _sqlite_rows(connection: Any, sql: str) -> pa.RecordBatchReader:
    """All values as text: a column of SQLite may hold several types."""
    import pyarrow as pa

    cursor = connection.execute(sql)
    if cursor.description is None:
        raise must_be("query", "a SELECT", sql.strip())
    schema = pa.schema([(name, pa.string()) for name, *_ in cursor.description])

    def batches() -> Iterator[pa.RecordBatch]:
        while rows := cursor.fetchmany(BATCH_ROWS):
            columns = [pa.array(list(map(_sqlite_text, column)), pa.string()) for column in zip(*rows, strict=True)]
            yield pa.record_batch(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _sqlite_text(value: Any) -> str | None:
    """
    >>> [_sqlite_text(value) for value in ("007", 7, 7.0, 0.5, b"\\x01", None)]
    ['007', '7', '7', '0.5', '01', None]
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@contextmanager
def _duckdb(file: SourceFile, folder: Path) -> Iterator[OpenDatabase]:
    import duckdb

    config = {"temp_directory": str(folder / "spill"), "memory_limit": f"{memory_limits()[0] >> 20}MiB"}
    try:
        connection = duckdb.connect(str(file.path.absolute()), read_only=True, config=config)
    except duckdb.Error as error:
        raise SourceError(
            f"cannot read {printable(file.shown)}: {own_words(error)}",
            file=file.shown,
            hint="Close what else has it open; a file of a newer DuckDB needs a newer one here.",
        ) from error

    def tables() -> list[DatabaseTable]:
        rows = connection.execute(
            "SELECT table_schema, table_name, table_schema = current_schema() FROM information_schema.tables "
            "WHERE table_catalog = current_database() ORDER BY ALL"
        )
        return [DatabaseTable(*row) for row in rows.fetchall()]

    def reader(sql: str) -> pa.RecordBatchReader:
        rows = connection.sql(sql)
        if rows is None:
            raise must_be("query", "a SELECT", sql.strip())
        return rows.to_arrow_reader(BATCH_ROWS)

    try:
        lock(connection, folder)
        yield OpenDatabase(file.shown, reader, tables, (duckdb.Error,))
    finally:
        connection.close()


_OPEN: dict[str, Callable[..., Any]] = {
    "postgresql": _postgresql,
    "snowflake": _snowflake,
    "bigquery": _bigquery,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
}
