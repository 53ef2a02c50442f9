"""`InputTable`: a CSV, Parquet file or data frame that the database can scan, its columns known.

Rows in another form (of a server, Arrow, JSON) become Parquet first: they are scanned several
times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from neatrec.errors import SourceError, bad_file, must_be, writing
from neatrec.io.csv_text import CsvText, prepare_csv
from neatrec.io.database import TMPDIR, Database, plain_words
from neatrec.io.files import SourceFile, unreadable
from neatrec.io.options import SourceOptions
from neatrec.text import printable

if TYPE_CHECKING:
    import pyarrow as pa


MAX_LINE = 16_000_000
ROW = '"neatrec: number of the row"'
"""In SQL; tables may have columns called row_number and the like."""
DATA_FRAME = "the data frame"
"""How errors call a table that is no file."""
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


def quoted(name: str) -> str:
    """`name` as an SQL identifier, whatever characters it holds.

    >>> quoted('order "id"; DROP')
    '"order ""id""; DROP"'
    """
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class SqlColumn:
    """A column of a table: its name in SQL and its DuckDB type."""

    name: str
    type: str

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
    """A table that the database can scan: its name for messages, its columns and its file."""

    shown: str
    columns: tuple[str, ...]
    csv: CsvText | None = None
    parquet: Path | None = None
    relation: str | None = None
    """The name of a data frame in the database."""
    types: tuple[SqlColumn, ...] = ()
    """Names in SQL and types, by position."""

    def column(self, name: str) -> SqlColumn:
        """The column called `name`."""
        return self.types[self.columns.index(name)]

    def scan(self, *, rejects: bool = False, numbered: bool = False) -> tuple[str, list[Any]]:
        """The SQL after FROM, and its parameters.

        With `rejects` rows that are no CSV records are set aside in the table `rejected`, otherwise
        passed over. With `numbered` there is a column `ROW`, counted from 1 without them.
        """
        scan, parameters = str(self.relation), list[Any]()
        if self.csv is not None:
            scan, parameters = _csv_scan(self.csv, len(self.columns), rejects)
        elif self.parquet is not None:
            scan, parameters = "read_parquet(?, binary_as_string = true)", [str(self.parquet)]
        if numbered:  # rows are counted as they come, which is the order of the file
            scan = f"(SELECT *, row_number() OVER () AS {ROW} FROM {scan})"
        return scan, parameters


def _csv_scan(csv: CsvText, columns: int, rejects: bool) -> tuple[str, list[Any]]:
    """Every option is given: DuckDB has nothing to guess."""
    aside = "rejects_table = 'rejected', rejects_scan = 'rejected_scan', rejects_limit = 0"
    keep = f"store_rejects = true, {aside}" if rejects else "ignore_errors = true"
    names = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(columns))
    options = (
        "auto_detect = false, header = false, strict_mode = true, null_padding = false, "
        f"quote = '\"', escape = '\"', max_line_size = {MAX_LINE}, buffer_size = {2 * MAX_LINE}, "
        f"columns = {{{names}}}, {keep}"
    )
    parameters = [str(csv.path), csv.delimiter, csv.skip]
    return f"read_csv(?, delim = ?, skip = ?, {options})", parameters


def open_table(
    database: Database,
    file: SourceFile,
    options: SourceOptions | None = None,
    wanted: Collection[str] = (),
) -> InputTable | None:
    """The table in `file`, or None when the file is empty."""
    options = options or SourceOptions()
    refuse_selection(file.shown, options)
    folder, table = database.folder, None
    if file.kind == "parquet":
        path = plain_path(file.path, folder)
        table = InputTable(file.shown, _parquet_columns(file), parquet=path)
    elif file.kind == "arrow":
        table = _arrow_table(file, folder)
    elif file.kind == "json":
        from neatrec.io.json_lines import json_table

        table = json_table(database, file)
    elif file.kind != "empty":
        form = {"delimiter": options.delimiter, "encoding": options.encoding}
        text = prepare_csv(file, folder, **form, wanted=wanted)
        if text is not None:
            text = replace(text, path=plain_path(text.path, folder))
            table = InputTable(file.shown, text.columns, csv=text)
    return None if table is None else described(database, table)


def open_filled(
    database: Database,
    file: SourceFile,
    options: SourceOptions | None = None,
    wanted: Collection[str] = (),
    what: str = "rows of a table",
) -> InputTable:
    """As `open_table`; an empty file is an error: it must have rows of `what`."""
    table = open_table(database, file, options, wanted)
    if table is None:
        raise bad_file(file.shown, f"is empty: it must hold {what}")
    return table


def described(database: Database, table: InputTable) -> InputTable:
    """`table` with the SQL name and type of each column."""
    scan, parameters = table.scan()
    rows = database.rows(f"DESCRIBE SELECT * FROM {scan}", parameters, table)
    return replace(table, types=tuple(SqlColumn(name, kind) for name, kind, *_ in rows))


def refuse_selection(shown: str, options: SourceOptions) -> None:
    """An error for `query` and `table` where there is no database."""
    for name in ("query", "table"):
        if (value := getattr(options, name)) is not None:
            wanted = f"given with a database, which {printable(shown)} is not"
            raise must_be(name, wanted, str(value))


def spooled(shown: str, reader: pa.RecordBatchReader, folder: Path) -> tuple[int, InputTable]:
    """The number of rows, and the rows as a Parquet file in `folder`.

    What `reader` raises must be an error of ours.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    # extension types of a driver become their storage, except UUIDs, whose bytes are no text
    plain = {
        i: field.type.storage_type
        for i, field in enumerate(reader.schema)
        if isinstance(field.type, pa.BaseExtensionType) and field.type != pa.uuid()
    }
    schema = pa.schema(
        [field.with_type(plain.get(i, field.type)) for i, field in enumerate(reader.schema)]
    )
    target, rows = folder / f"rows-{uuid4().hex}.parquet", 0
    try:
        with writing("into", folder, TMPDIR), pq.ParquetWriter(target, schema) as writer:
            for batch in reader:
                columns = [
                    column.storage if i in plain else column
                    for i, column in enumerate(batch.columns)
                ]
                writer.write_batch(pa.record_batch(columns, schema=schema))
                rows += batch.num_rows
    except pa.ArrowException as error:
        raise SourceError(
            f"{printable(shown)} has a column of an unusual type: {printable(error)}",
            hint="Leave it out, or make it text.",
        ) from error
    return rows, InputTable(shown, tuple(schema.names), parquet=target)


def _arrow_table(file: SourceFile, folder: Path) -> InputTable:
    """The rows of an Arrow file: read, not mapped, because a damaged file may end anywhere."""
    import pyarrow as pa

    try:
        source = pa.OSFile(str(file.path))
        with source:
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            opened = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            rows = pa.RecordBatchReader.from_batches(opened.schema, _checked(file, opened))
            return spooled(file.shown, rows, folder)[1]
    except (pa.ArrowException, OSError, ValueError) as error:  # names that are not UTF-8 too
        raise _damaged(file, "Arrow", error) from error


def _checked(file: SourceFile, opened: Any) -> Iterator[pa.RecordBatch]:
    """The batches of an Arrow file or stream, each with all its offsets and texts validated."""
    import pyarrow as pa

    try:
        batches = getattr(opened, "num_record_batches", None)
        each = opened if batches is None else map(opened.get_batch, range(batches))
        for batch in each:
            batch.validate(full=True)
            yield batch
    except (pa.ArrowException, OSError) as error:
        raise _damaged(file, "Arrow", error) from error


def as_arrow(frame: Any) -> pa.Table:
    """An Arrow-capable data frame as an Arrow table."""
    import pyarrow as pa

    if (
        not hasattr(frame, "__arrow_c_stream__")
        and not hasattr(frame, "__dataframe__")
        and not isinstance(frame, dict)
    ):
        raise SourceError(
            f"cannot read {type(frame).__name__} as a table of orders",
            hint="Pass a path, a pandas, polars or pyarrow table, or a DuckDB relation; to "
            "`neatrec.fit` and `fit` of a model also lists of items.",
        )
    try:
        table = frame if isinstance(frame, pa.Table) else pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SourceError(
            f"cannot read {type(frame).__name__} as a table: {printable(error)}",
            hint="Pass a pandas, polars or pyarrow table whose columns each hold one type; ids may "
            "be cast to str.",
        ) from error
    if not table.num_rows:
        raise SourceError("the data frame has no rows")
    return table


def frame_table(database: Database, table: pa.Table, relation: str = "frame") -> InputTable:
    """The table of an Arrow table, registered in the database."""
    import duckdb

    names = tuple(str(name) for name in table.column_names)
    renamed = table.rename_columns([f"c{i}" for i in range(len(names))])
    try:
        database.connection.register(relation, renamed)
    except duckdb.Error as error:
        raise SourceError(f"cannot read the data frame: {plain_words(error)}") from error
    return described(database, InputTable(DATA_FRAME, names, relation=relation))


def refuse_doubles(table: InputTable, used: Sequence[str]) -> None:
    """A column name that stands twice cannot be meant by its name."""
    for name, count in Counter(table.columns).items():
        if count > 1 and name in used:
            raise bad_file(
                table.shown, f"occurs {count} times", column=name, hint="Rename one of them."
            )


def _parquet_columns(file: SourceFile) -> tuple[str, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = tuple(pq.read_schema(file.path).names)
    except OSError as error:
        if error.errno:
            raise unreadable(file.path, error) from error
        raise _damaged(file, "Parquet", error) from error
    except (pa.ArrowException, ValueError) as error:
        raise _damaged(file, "Parquet", error) from error
    if not names:
        raise bad_file(file.shown, "has no columns", hint="Check the export that wrote it.")
    return names


def _damaged(file: SourceFile, kind: str, error: Exception) -> SourceError:
    trouble = f"is not a complete {kind} file: {printable(error)}"
    return bad_file(file.shown, trouble, hint="Copy or export it again.")


def plain_path(path: Path, folder: Path) -> Path:
    """A path that DuckDB takes literally.

    Names with * or [ would be read as patterns, so they get a link.
    """
    if path.parent == folder:
        return path
    link = folder / f"link-{uuid4().hex}"
    link.symlink_to(path.resolve())
    return link
