"""`InputTable`: a CSV, Parquet, JSON or Arrow file or a data frame, as the database can scan it."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from neatrec.errors import SourceError, bad_file, must_be
from neatrec.io.csv_text import CsvText, prepare_csv
from neatrec.io.database import Database, literal, quoted
from neatrec.io.files import SourceFile
from neatrec.io.options import SourceOptions
from neatrec.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

MAX_LINE = 16_000_000
DATA_FRAME = "the data frame"
"""The name of a table without a file in errors."""
KINDS = {
    "text": re.compile(r"VARCHAR|ENUM\(.*|JSON", re.DOTALL),
    "float": re.compile("FLOAT|DOUBLE"),
    "decimal": re.compile(r"DECIMAL\(\d+,\s*[1-9]\d*\)"),
    "moment": re.compile("DATE|TIMESTAMP.*"),
    "integer": re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?"),
    # "NULL": a column with nothing in it
    "other": re.compile(r'DECIMAL\(\d+,\s*0\)|UUID|BOOLEAN|TIME|"NULL"'),
}
"""Types of DuckDB whose values can be ids: anything but bytes, lists and the like."""


@dataclass(frozen=True)
class SqlColumn:
    """A column of a table: its name in SQL and its DuckDB type."""

    name: str
    type: str = "VARCHAR"

    @property
    def sql(self) -> str:
        """The quoted name."""
        return quoted(self.name)

    @property
    def kind(self) -> str:
        """One of KINDS; "" where no value can be an id."""
        return next((kind for kind, pattern in KINDS.items() if pattern.fullmatch(self.type)), "")


@dataclass(frozen=True)
class InputTable:
    """A table that the database can scan once: its name for messages, and the SQL after FROM."""

    shown: str
    scan: str
    parameters: tuple[Any, ...] = ()
    columns: tuple[str, ...] = ()
    sql_columns: tuple[SqlColumn, ...] = ()
    """Names in SQL and types, by position."""
    csv: CsvText | None = None
    failures: list[SourceError] = field(default_factory=list)
    """Why a stream broke off."""

    def column(self, name: str) -> SqlColumn:
        """The column called `name`."""
        return self.sql_columns[self.columns.index(name)]


def open_table(
    database: Database, file: SourceFile, options: SourceOptions, wanted: Collection[str] = ()
) -> InputTable | None:
    """The table in `file`, or None when the file is empty; `wanted` are columns it may have."""
    refuse_selection(file.shown, options)
    if options.basket_per_line and file.kind not in ("csv", "gz", "empty"):
        trouble = f"left out for a file with columns, as {printable(file.shown)} is"
        raise must_be("basket_per_line", trouble, True)
    if file.kind == "parquet":
        path = _plain_path(file.path, database.folder)
        scan = "read_parquet(?, binary_as_string = true)"
        return described(database, InputTable(file.shown, scan, (str(path),)))
    if file.kind == "arrow":
        failures: list[SourceError] = []
        rows = _arrow_batches(file, failures)
        return stream_table(database, file.shown, rows.schema.names, rows, failures)
    if file.kind == "json":
        return _json_table(database, file)
    text = prepare_csv(file, database.folder, options, wanted) if file.kind != "empty" else None
    return None if text is None else _csv_table(database, file, text)


def _csv_table(database: Database, file: SourceFile, text: CsvText) -> InputTable:
    """Every option is given: DuckDB has nothing to guess.

    Lines that are no records are set aside in the table `rejected`.
    """
    names = [f"c{i}" for i in range(len(text.columns))]
    types = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
    scan = (
        "read_csv(?, delim = ?, skip = ?, auto_detect = false, header = false, strict_mode = true, "
        f"null_padding = false, quote = '\"', escape = '\"', max_line_size = {MAX_LINE}, "
        f"buffer_size = {2 * MAX_LINE}, columns = {{{types}}}, store_rejects = true, "
        "rejects_table = 'rejected', rejects_scan = 'rejected_scan', rejects_limit = 0)"
    )
    path = _plain_path(text.path, database.folder)
    parameters = (str(path), text.delimiter, text.skip)
    return InputTable(
        file.shown, scan, parameters, text.columns, tuple(map(SqlColumn, names)), csv=text
    )


def described(database: Database, table: InputTable) -> InputTable:
    """`table` with the name and type of each column."""
    rows = database.rows(f"DESCRIBE SELECT * FROM {table.scan}", table.parameters, table)
    columns = tuple(SqlColumn(name, kind) for name, kind, *_ in rows)
    names = table.columns or tuple(column.name for column in columns)
    return replace(table, columns=names, sql_columns=columns)


def refuse_selection(shown: str, options: SourceOptions) -> None:
    """An error for `query` and `table` where there is no database."""
    for name in ("query", "table"):
        if (value := getattr(options, name)) is not None:
            wanted = f"given with a database, which {printable(shown)} is not"
            raise must_be(name, wanted, str(value))


def stream_table(
    database: Database,
    shown: str,
    names: Sequence[str],
    reader: pa.RecordBatchReader,
    failures: list[SourceError],
) -> InputTable:
    """The rows of `reader`, which can be read once and notes in `failures` why it broke off."""
    import pyarrow as pa

    in_sql = [f"c{i}" for i in range(len(names))]  # unlike each other, as `names` may not be
    plain = reader.schema.empty_table().rename_columns(in_sql)
    batches = (batch.rename_columns(in_sql) for batch in reader)
    relation = f"stream{uuid4().hex}"
    with database.own_errors(InputTable(shown, "")):
        types = database.connection.from_arrow(plain).types
        renamed = pa.RecordBatchReader.from_batches(plain.schema, batches)
        database.connection.register(relation, renamed)
    columns = tuple(SqlColumn(name, str(kind)) for name, kind in zip(in_sql, types, strict=True))
    return InputTable(shown, relation, (), tuple(names), columns, failures=failures)


def _arrow_batches(file: SourceFile, failures: list[SourceError]) -> pa.RecordBatchReader:
    """The rows of an Arrow file: read, not mapped, because a damaged file may end anywhere."""
    import pyarrow as pa

    try:
        source = pa.OSFile(str(file.path))
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        opened = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        opened.schema.names  # noqa: B018 - names that are not UTF-8 raise here
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(file, "Arrow", error) from error
    return pa.RecordBatchReader.from_batches(opened.schema, _validated(file, opened, failures))


def _validated(
    file: SourceFile, opened: Any, failures: list[SourceError]
) -> Iterator[pa.RecordBatch]:
    """The batches of an Arrow file or stream, each with all its offsets and texts validated."""
    import pyarrow as pa

    try:
        batches = getattr(opened, "num_record_batches", None)
        for batch in opened if batches is None else map(opened.get_batch, range(batches)):
            batch.validate(full=True)
            yield batch
    except (pa.ArrowException, OSError) as error:
        failures.append(_damaged(file, "Arrow", error))
        raise


def _json_table(database: Database, file: SourceFile) -> InputTable:
    """One row per object, one column per key: numbers stay numbers, the rest is text."""
    with file.path.open("rb") as stream:
        packed = "gzip" if stream.read(2) == b"\x1f\x8b" else "none"
    parameters = (str(_plain_path(file.path, database.folder)), packed)
    form = "?, format = 'auto', compression = ?"
    guessed = f"read_json({form}, sample_size = -1)"
    try:
        table = described(database, InputTable(file.shown, guessed, parameters))
    except SourceError as error:
        raise _no_json(file, packed) or error from error
    if table.columns == ("json",):  # what the database calls a row that is no object
        trouble = 'must hold one JSON object per line, such as {"order_id": 1, "sku": "tea"}'
        raise bad_file(file.shown, trouble, hint="`jq -c '.[]'` turns a list into lines.")
    # texts that look like dates or UUIDs are ids as they stand
    numbers = ("integer", "float", "")
    types = {
        column.name: column.type if column.kind in numbers else "VARCHAR"
        for column in table.sql_columns
    }
    listed = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in types.items())
    scan = f"read_json({form}, columns = {{{listed}}})"
    return replace(table, scan=scan, sql_columns=tuple(SqlColumn(*each) for each in types.items()))


def _no_json(file: SourceFile, packed: str) -> SourceError | None:
    """The first line that does not parse: the database counts lines by thread."""
    number = 0
    try:
        with (gzip.open if packed == "gzip" else open)(file.path, "rb") as stream:
            for line in stream:
                number += 1
                if line.strip():
                    json.loads(line)
    except (OSError, EOFError) as error:
        return _damaged(file, "gzip", error)
    except ValueError as error:  # no JSON, or no UTF-8
        hint = "Each line must hold one object; cut-off exports end in the middle of one."
        return bad_file(file.shown, f"is not JSON: {printable(error)}", line=number, hint=hint)
    return None


def as_arrow(frame: Any) -> pa.Table:
    """An Arrow-capable data frame as an Arrow table."""
    import pyarrow as pa

    try:
        table = frame if isinstance(frame, pa.Table) else pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SourceError(
            f"cannot read {type(frame).__name__} as a table of orders: {printable(error)}",
            hint="Pass a path, or a pandas, polars or pyarrow table whose columns each hold one "
            "type; ids may be cast to str. `neatrec.fit` takes lists of items too.",
        ) from error
    if not table.num_rows:
        raise SourceError("the data frame has no rows")
    return table


def frame_table(database: Database, table: pa.Table) -> InputTable:
    """The table of a data frame."""
    return stream_table(database, DATA_FRAME, table.column_names, table.to_reader(), [])


def refuse_doubles(table: InputTable, used: Sequence[str]) -> None:
    """A column name that stands twice cannot be meant by its name."""
    for name, count in Counter(table.columns).items():
        if count > 1 and name in used:
            trouble = f"occurs {count} times"
            raise bad_file(table.shown, trouble, column=name, hint="Rename one of them.")


def _damaged(file: SourceFile, kind: str, error: Exception) -> SourceError:
    trouble = f"is not a complete {kind} file: {printable(error)}"
    return bad_file(file.shown, trouble, hint="Copy or export it again.")


def _plain_path(path: Path, folder: Path) -> Path:
    """A path that DuckDB takes literally: names with * or [ would be read as patterns."""
    if path.parent == folder:
        return path
    link = folder / f"link-{uuid4().hex}"
    link.symlink_to(path.resolve())
    return link
