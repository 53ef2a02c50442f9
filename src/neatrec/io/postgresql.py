"""Rows of a PostgreSQL table or query, by its ADBC driver."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neatrec.errors import SourceError, bad_file, did_you_mean, require_extra
from neatrec.io.addresses import WHERE_SECRETS_ARE, Address
from neatrec.io.database import Database
from neatrec.io.files import text_of
from neatrec.io.options import SourceOptions
from neatrec.io.tables import InputTable, stream_table
from neatrec.text import plural, printable

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)
CONNECT_SECONDS = 5
"""For each address of a host, of which there are often two."""
MAX_LISTED = 20
CHOOSE = "Choose one with --table NAME, or select rows with --query FILE.sql."
READABLE_TABLES = (
    "SELECT nspname::text || '.' || relname::text, "
    "CASE WHEN pg_table_is_visible(c.oid) THEN '' ELSE nspname::text || '.' END || relname::text, "
    "format('%I.%I', nspname, relname) FROM pg_class AS c "
    "JOIN pg_namespace AS n ON n.oid = relnamespace WHERE relkind IN ('r', 'v', 'm', 'p', 'f') "
    "AND NOT relispartition AND nspname <> 'information_schema' AND nspname !~ '^pg_' "
    "AND has_table_privilege(c.oid, 'SELECT') ORDER BY 1"
)
"""Of each table or view its name with its schema, its name for messages, its name in SQL."""


@contextmanager
def open_postgresql(
    database: Database, address: Address, options: SourceOptions
) -> Iterator[InputTable]:
    """The rows of the table or query that `options` name."""
    require_extra("database", f"reading {address.scheme}://")
    from adbc_driver_postgresql import dbapi

    failures: list[SourceError] = []
    with _cursor(address) as cursor:
        try:
            sql, shown = _selection(cursor, address, options)
            names, rows = _reader(cursor, sql, address, failures)
        except dbapi.Error as error:
            raise bad_file(address.shown, f"refuses the query: {own_words(error)}") from error
        log.info("reading %s", printable(shown))
        yield stream_table(database, shown, names, rows, failures)


@contextmanager
def _cursor(address: Address) -> Iterator[Any]:
    from adbc_driver_postgresql import dbapi

    try:
        connection = dbapi.connect(postgresql_uri(address))
    except dbapi.Error as error:
        words = own_words(error)
        hint = None if "FATAL:" in str(error) else "Check host, port and network."
        hint = WHERE_SECRETS_ARE["postgresql"] if "password" in words else hint
        raise SourceError(
            f"cannot connect to {printable(address.shown)}: {words}", file=address.shown, hint=hint
        ) from error
    with connection, connection.cursor() as cursor:
        yield cursor


def _selection(cursor: Any, address: Address, options: SourceOptions) -> tuple[str, str]:
    """The SELECT to run, and a name for its rows."""
    if options.query is not None:
        return _query(options.query), f"the query on {address.shown}"
    cursor.execute(READABLE_TABLES)
    tables = cursor.fetchall()
    for full, shown, in_sql in tables:
        if options.table in (full, shown) or (options.table is None and len(tables) == 1):
            return f"SELECT * FROM {in_sql}", f"table {shown} of {address.shown}"
    names = [shown for _, shown, _ in tables]
    more = ", …" if len(names) > MAX_LISTED else ""
    listed = ", ".join(printable(each, 60) for each in names[:MAX_LISTED]) + more
    if options.table is None:
        trouble = f"holds {plural(len(tables), 'table')} that can be read: {listed or 'none'}"
        raise bad_file(address.shown, trouble, hint=CHOOSE)
    trouble = f"has no table {printable(repr(options.table))}; it has: {listed or 'none'}"
    hint = did_you_mean(options.table, names, CHOOSE)
    raise bad_file(address.shown, trouble, argument="table", hint=hint)


def _query(query: str | Path) -> str:
    """The text of one SELECT, without the semicolon at its end."""
    text, shown = query, "the query"
    if isinstance(query, Path):
        shown = printable(query)
        text = text_of(query, hint="--query takes a file that holds a SELECT.")
    text = re.sub(r";(?:\s|--[^\n]*\n)*\Z", "", f"{text}\n")
    if not text.strip():
        raise SourceError(f"{shown} is empty", hint="It must hold one SELECT.", argument="query")
    return text + "\n"  # a comment on its last line ends there


def _reader(
    cursor: Any, sql: str, address: Address, failures: list[SourceError]
) -> tuple[list[str], pa.RecordBatchReader]:
    """The names of the columns of `sql`, and its rows, read in a transaction that cannot write.

    PostgreSQL writes types without an Arrow equivalent as text: enums, UUIDs, intervals, hosts.
    """
    import pyarrow as pa

    cursor.execute("SET TRANSACTION READ ONLY")
    schema = cursor.adbc_execute_schema(sql)
    columns = [f"c{i}::text" if _is_odd(each.type) else f"c{i}" for i, each in enumerate(schema)]
    names = [f"c{i}" for i in range(len(schema))]
    if columns != names:
        sql = f"SELECT {', '.join(columns)} FROM ({sql}) AS source({', '.join(names)})"
    cursor.execute(sql)
    rows = cursor.fetch_record_batch()
    batches = _batches(rows, address, failures)
    return schema.names, pa.RecordBatchReader.from_batches(rows.schema, batches)


def _is_odd(kind: pa.DataType) -> bool:
    import pyarrow as pa

    is_extension = isinstance(kind, pa.BaseExtensionType)
    return is_extension or pa.types.is_binary(kind) or pa.types.is_interval(kind)


def _batches(
    rows: pa.RecordBatchReader, address: Address, failures: list[SourceError]
) -> Iterator[pa.RecordBatch]:
    """The same rows; `failures` tells why they broke off."""
    import pyarrow as pa
    from adbc_driver_postgresql import dbapi

    try:
        yield from rows
    except (dbapi.Error, OSError, pa.ArrowException) as error:
        trouble = f"failed while it was read: {own_words(error)}"
        failures.append(bad_file(address.shown, trouble, hint="Nothing was kept; run it again."))
        raise


def own_words(error: Exception) -> str:
    """The first line of the database's message, without what its driver adds.

    >>> own_words(Exception('NOT_FOUND: Failed to prepare query: ERROR:  relation "x" is gone'))
    'relation "x" is gone'
    """
    text = str(error)
    said = re.search(r"(?:ERROR|FATAL|PANIC):\s+(.+)", text)
    first = said[1] if said else text.strip().split("\n", 1)[0]
    first = re.sub(r"\.? (SQLSTATE|Vendor code): \w+\.?$", "", first)
    return printable(re.sub(r"^([A-Z_]+: )?(\[\w+\] )?(Failed to connect: )?", "", first), 300)


def postgresql_uri(address: Address) -> str:
    """The address with all text as UTF-8 and a limit to the wait for its host."""
    settings = ["client_encoding=utf8"]
    if "connect_timeout=" not in address.text and "PGCONNECT_TIMEOUT" not in os.environ:
        settings.append(f"connect_timeout={CONNECT_SECONDS}")
    return address.text + ("&" if "?" in address.text else "?") + "&".join(settings)
