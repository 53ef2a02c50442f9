"""A DuckDB database for one reading: bounded memory, no file but the source's, nothing kept."""

from __future__ import annotations

import logging
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
    from neatrec.io.tables import InputTable

log = logging.getLogger(__name__)
MEMORY_LIMIT, MORE_MEMORY = 600 << 20, 4 << 30
TMPDIR = "TMPDIR says where temporary files go."
NOT_ALIKE = "All lines must end alike, and every quote be closed: export it again."


def memory_limits() -> tuple[int, int]:
    """Bytes the database may use before it spills, and where very many lines do not fit into that.

    Neither is more than half of the machine or container.
    """
    half = total_memory() // 2
    return min(MEMORY_LIMIT, half), min(MORE_MEMORY, half)


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder for unpacked and spilled data, gone afterwards."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="neatrec-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ResourceError(
            f"there is no folder for temporary files: {error.strerror or printable(error)}",
            hint=TMPDIR,
        ) from error
    with folder as name:
        yield Path(name).resolve()


@dataclass(frozen=True)
class Database:
    """A connection that spills into `folder`; what DuckDB raises becomes an error of ours."""

    connection: Any
    folder: Path
    source: str

    def execute(
        self,
        sql: str,
        parameters: Iterable[Any] = (),
        table: InputTable | None = None,
        *,
        as_arrow: bool = False,
    ) -> Any:
        """Run a statement that reads `table`; again with more memory where that helps."""
        import duckdb

        parameters = list(parameters)
        try:
            try:
                return self._run(sql, parameters, as_arrow)
            except duckdb.OutOfMemoryException:
                self._raise_limit()
                return self._run(sql, parameters, as_arrow)
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise self._refused(error, table) from error

    def _refused(self, error: Exception, table: InputTable | None) -> InputError:
        """The error for an exception of DuckDB, by its class."""
        import duckdb

        free, room = shutil.disk_usage(self.folder).free >> 20, printable(self.folder.parent)
        if isinstance(error, duckdb.OutOfMemoryException):
            needed = f"more than {memory_limits()[1] >> 20:,} MiB of memory and the {free:,} MiB"
            message = f"{printable(self.source)} needs {needed} free in {room}"
            return ResourceError(message, file=self.source, hint=TMPDIR)
        if isinstance(error, duckdb.IOException) and not free:
            return ResourceError(f"the disk of {room} is full", file=self.source, hint=TMPDIR)
        file = table.shown if table else self.source
        copy = rf"{re.escape(str(self.folder))}/[\w.-]+"
        words = re.sub(copy, lambda _: printable(file), plain_words(error))
        hint = NOT_ALIKE if table and table.csv else None
        return SourceError(f"cannot read {printable(file)}: {words}", file=file, hint=hint)

    def _run(self, sql: str, parameters: list[Any], as_arrow: bool) -> Any:
        if as_arrow:
            return self.connection.sql(sql, params=parameters).to_arrow_table()
        return self.connection.execute(sql, parameters)

    def _raise_limit(self) -> None:
        usual, most = memory_limits()
        log.info(
            "%s does not fit into %d MiB: reading it with more memory",
            printable(self.source),
            usual >> 20,
        )
        self.connection.execute(f"SET memory_limit = '{most >> 20}MiB'")

    def rows(
        self, sql: str, parameters: Iterable[Any] = (), table: InputTable | None = None
    ) -> list[Any]:
        """All rows of a query."""
        return list(self.execute(sql, parameters, table).fetchall())

    def count(self, table: str) -> int:
        """The number of rows of a table; "line WHERE ..." counts some of them."""
        return int(self.rows(f"SELECT count(*) FROM {table}")[0][0])


@contextmanager
def open_database(folder: Path, files: Sequence[Path], source: str) -> Iterator[Database]:
    """A database that can read `files`, read and write in `folder`, and reach nothing else."""
    import duckdb

    config = {
        "memory_limit": f"{memory_limits()[0] >> 20}MiB",
        "temp_directory": str(folder / "spill"),
    }
    connection = duckdb.connect(":memory:", config=config)
    try:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET allowed_directories = ?", [[str(folder)]])
        connection.execute("SET allowed_paths = ?", [[str(file.resolve()) for file in files]])
        connection.execute("SET enable_external_access = false")
        yield Database(connection, folder, source)
    finally:
        connection.close()


def plain_words(error: Exception) -> str:
    """The first line of a message of DuckDB, without the JSON that it wraps others in."""
    inner = re.search(r'"exception_message":"((?:[^"\\]|\\.)*)"', str(error))
    return printable(inner[1].replace('\\"', '"'), 300) if inner else first_line(error)
