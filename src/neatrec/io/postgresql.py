"""Rows of a PostgreSQL table or query, by its ADBC driver, as a Parquet file."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neatrec.errors import SourceError, bad_file, did_you_mean, require_extra
from neatrec.io.addresses import WHERE_SECRETS_ARE, Address
from neatrec.io.files import text_of
from neatrec.io.options import SourceOptions
from neatrec.io.tables import InputTable, spooled
from neatrec.text import plural, printable

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)
CONNECT_SECONDS = 5
"""For each address of a host, of which there are often two."""
MOST_LISTED = 20
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


def read_postgresql(address: Address, folder: Path, options: SourceOptions) -> InputTable:
    """The rows of the table or query that `options` name, as a file in `folder`."""
    require_extra("database", f"reading {address.scheme}://")
    from adbc_driver_postgresql import dbapi

    with _cursor(address) as cursor:
        try:
            sql, shown = _selection(cursor, address, options)
            reader = _reader(cursor, sql)
        except dbapi.Error as error:
            raise bad_file(address.shown, f"refuses the query: {own_words(error)}") from error
        log.info("reading %s", printable(shown))
        rows, table = spooled(shown, _watched(reader, address), folder)
    if not rows:
        raise SourceError(
            f"{printable(shown)} has no rows", file=address.shown, hint="Check what it selects."
        )
    return table


@contextmanager
def _cursor(address: Address) -> Iterator[Any]:
    """A cursor of a connection that is closed afterwards."""
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
    shown, name = _selected(address, cursor.fetchall(), options.table)
    return f"SELECT * FROM {name}", f"table {shown} of {address.shown}"


def _selected(
    address: Address, tables: Sequence[tuple[str, str, str]], name: str | None
) -> tuple[str, str]:
    """The table called `name`, or the only one: for messages, and in SQL."""
    if not tables:
        raise bad_file(address.shown, "holds no table that can be read")
    for full, shown, in_sql in tables:
        if name in (full, shown) or (name is None and len(tables) == 1):
            return shown, in_sql
    names = [shown for _, shown, _ in tables]
    more = ", …" if len(names) > MOST_LISTED else ""
    listed = ", ".join(printable(each, 60) for each in names[:MOST_LISTED]) + more
    if name is None:
        trouble = f"holds {plural(len(tables), 'table')}: {listed}"
        raise bad_file(address.shown, trouble, hint=CHOOSE)
    trouble = f"has no table {printable(repr(name))}; it has: {listed}"
    hint = did_you_mean(name, names, CHOOSE)
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


def _reader(cursor: Any, sql: str) -> pa.RecordBatchReader:
    """The rows of `sql`, read in a transaction that cannot write."""
    import pyarrow as pa

    cursor.execute("SET TRANSACTION READ ONLY")
    names = (schema := cursor.adbc_execute_schema(sql)).names
    cursor.execute(_with_odd_types_as_text(sql, schema))
    rows = cursor.fetch_record_batch()
    pairs = zip(rows.schema, names, strict=True)
    named = pa.schema([field.with_name(name) for field, name in pairs])
    return pa.RecordBatchReader.from_batches(named, (batch.rename_columns(names) for batch in rows))


def _with_odd_types_as_text(sql: str, schema: pa.Schema) -> str:
    """`sql`, in which PostgreSQL writes as text what Arrow cannot: enums, intervals, hosts."""
    import pyarrow.types as kinds

    storage = [getattr(field.type, "storage_type", field.type) for field in schema]
    odd = [
        str(field.type) != "extension<arrow.uuid>"
        and (kinds.is_binary(kind) or kinds.is_interval(kind))
        for field, kind in zip(schema, storage, strict=True)
    ]
    if not any(odd):
        return sql
    names = [f"c{i}" for i in range(len(odd))]
    columns = ", ".join(
        f"{name}::text" if is_odd else name for name, is_odd in zip(names, odd, strict=True)
    )
    return f"SELECT {columns} FROM ({sql}) AS source({', '.join(names)})"


def _watched(reader: pa.RecordBatchReader, address: Address) -> pa.RecordBatchReader:
    """The same rows; what the driver raises meanwhile becomes an error of ours."""
    import pyarrow as pa
    from adbc_driver_postgresql import dbapi

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except (dbapi.Error, OSError, pa.ArrowException) as error:
            trouble = f"failed while it was read: {own_words(error)}"
            hint = "Nothing was kept; run it again."
            raise bad_file(address.shown, trouble, hint=hint) from error

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


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
