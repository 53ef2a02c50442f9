"""A DuckDB database for one reading: bounded memory, no file but the source's, nothing kept."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neatrec.errors import InputError, ResourceError, SourceError
from neatrec.memory import total_memory
from neatrec.text import first_line, printable

if TYPE_CHECKING:
    import pyarrow as pa

    from neatrec.io.tables import InputTable

MEMORY_LIMIT = 2 << 30
TMPDIR = "TMPDIR says where temporary files go."
NOT_ALIKE = "All lines must end alike, and every quote be closed: export it again."


def memory_limit() -> int:
    """Bytes the database may use before it spills, at most half of the machine or container."""
    return min(MEMORY_LIMIT, total_memory() // 2)


def quoted(name: str) -> str:
    """`name` as an SQL identifier, whatever characters it holds.

    >>> quoted('order "id"; DROP')
    '"order ""id""; DROP"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """`text` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Database:
    """A connection that spills into `folder`; what DuckDB raises becomes an error of ours."""

    connection: Any
    folder: Path
    source: str

    def execute(
        self, sql: str, parameters: Iterable[Any] = (), table: InputTable | None = None
    ) -> None:
        """Run a statement that returns nothing; `table` is the one that it reads."""
        self.rows(sql, parameters, table)

    def rows(
        self, sql: str, parameters: Iterable[Any] = (), table: InputTable | None = None
    ) -> list[Any]:
        """All rows of a query; `table` is the one that it reads."""
        with self.own_errors(table):
            return list(self.connection.execute(sql, list(parameters)).fetchall())

    def arrow(self, sql: str) -> pa.Table:
        """The rows of a query as an Arrow table."""
        with self.own_errors():
            return self.connection.sql(sql).to_arrow_table()

    def count(self, table: str) -> int:
        """The number of rows of a table; "line WHERE ..." counts some of them."""
        return int(self.rows(f"SELECT count(*) FROM {table}")[0][0])

    @contextmanager
    def own_errors(self, table: InputTable | None = None) -> Iterator[None]:
        """What DuckDB raises meanwhile, as an error of ours, by its class."""
        import duckdb

        try:
            yield
        except (duckdb.Error, UnicodeDecodeError) as error:
            if table and table.failures:
                raise table.failures[0] from error
            raise self._refused(error, table) from error

    def _refused(self, error: Exception, table: InputTable | None) -> InputError:
        import duckdb

        free, folder = shutil.disk_usage(self.folder).free >> 20, printable(self.folder.parent)
        if isinstance(error, duckdb.IOException | duckdb.OutOfMemoryException) and not free:
            return ResourceError(f"the disk of {folder} is full", file=self.source, hint=TMPDIR)
        if isinstance(error, duckdb.OutOfMemoryException):
            needed = f"more than {memory_limit() >> 20:,} MiB of memory and the {free:,} MiB"
            message = f"{printable(self.source)} needs {needed} free in {folder}"
            return ResourceError(message, file=self.source, hint=TMPDIR)
        file = table.shown if table else self.source
        copy = rf"{re.escape(str(self.folder))}/[\w.-]+"
        words = re.sub(copy, lambda _: printable(file), _plain_words(error))
        hint = NOT_ALIKE if table and table.csv else None
        return SourceError(f"cannot read {printable(file)}: {words}", file=file, hint=hint)


@contextmanager
def open_database(files: Sequence[Path], source: str) -> Iterator[Database]:
    """A database that can read `files`, read and write in a folder of its own, and nothing else."""
    import duckdb

    try:
        temporary = tempfile.TemporaryDirectory(prefix="neatrec-", ignore_cleanup_errors=True)
    except OSError as error:
        message = f"there is no folder for temporary files: {error.strerror or printable(error)}"
        raise ResourceError(message, hint=TMPDIR) from error
    with temporary as name:
        folder = Path(name).resolve()
        config = {
            "memory_limit": f"{memory_limit() >> 20}MiB",
            "temp_directory": str(folder / "spill"),
        }
        with duckdb.connect(":memory:", config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET enable_progress_bar = false")
            connection.execute("SET python_enable_replacements = false")
            connection.execute("SET allowed_directories = ?", [[str(folder)]])
            connection.execute("SET allowed_paths = ?", [[str(file.resolve()) for file in files]])
            connection.execute("SET enable_external_access = false")
            yield Database(connection, folder, source)


def _plain_words(error: Exception) -> str:
    """The first line of a message of DuckDB, without the JSON that it wraps others in."""
    inner = re.search(r'"exception_message":"((?:[^"\\]|\\.)*)"', str(error))
    return printable(inner[1].replace('\\"', '"'), 300) if inner else first_line(error)
