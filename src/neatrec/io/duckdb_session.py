"""A database for one reading: bounded memory, no file but the source's, nothing left behind."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from neatrec.errors import ResourceError, SourceError
from neatrec.io.options import SourceOptions
from neatrec.io.tables import TMPDIR, InputTable, SqlColumn
from neatrec.memory import total_memory
from neatrec.text import first_line, printable

log = logging.getLogger(__name__)
T = TypeVar("T")
MEMORY_LIMIT, MORE_MEMORY = 600 << 20, 4 << 30
DISK_FULL = r"(?i)duckdb_temp|no space left|file too large|quota exceeded"
"""What the database reports when its temporary files do not fit."""


@dataclass(frozen=True)
class ReadContext:
    """One reading of a source: the open database, the folder for temporary files, and what was asked for."""

    connection: Any
    folder: Path
    options: SourceOptions
    source: str


def memory_limits(usual: int | None = None) -> list[int]:
    """Bytes the database may use before it spills: at most `usual` (None: MEMORY_LIMIT), and where joins and groups of
    very many lines do not fit into that, at most MORE_MEMORY; never more than half of the machine or container."""
    half = total_memory() // 2
    return list(dict.fromkeys([min(usual or MEMORY_LIMIT, half), min(MORE_MEMORY, half)]))


@contextmanager
def workspace(inside: Path | None = None) -> Iterator[Path]:
    """A folder for unpacked and spilled data (in `inside`, default TMPDIR), gone afterwards."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="neatrec-", dir=inside, ignore_cleanup_errors=True)
    except OSError as error:
        raise ResourceError(
            f"there is no folder for temporary files: {error.strerror or printable(error)}",
            hint=TMPDIR,
        ) from error
    with folder as name:
        yield Path(name).resolve()


def in_database(
    tables: Sequence[InputTable], folder: Path, work: Callable[[Any], T], limits: Sequence[int] = (), source: str = ""
) -> T:
    """What `work` makes of a connection that can read `tables` and nothing else.

    It spills into `folder` past the first of `limits` (default: `memory_limits`); where that does not do, `work` begins
    again with the next one.
    """
    paths = [name for table in tables for name in both_names(table.path)]
    *usual, most = limits or memory_limits()
    for limit in usual:
        try:
            with session(paths, folder, limit) as connection:
                return work(connection)
        except ResourceError as error:
            if "Out of Memory" not in str(error):
                raise
            log.info("%s does not fit into %d MiB: reading it with more memory", printable(source), limit >> 20)
    with session(paths, folder, most) as connection:
        return work(connection)


@contextmanager
def session(paths: Sequence[str], folder: Path, memory: int | None = None) -> Iterator[Any]:
    """A connection that can read the files `paths` and those in `folder`; past `memory` bytes it spills there."""
    import duckdb

    limit = f"{(memory or memory_limits()[0]) >> 20}MiB"
    spill = folder / "spill"
    connection = duckdb.connect(":memory:", config={"memory_limit": limit, "temp_directory": str(spill)})
    try:
        lock(connection, folder, paths)
        yield connection
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise ResourceError(
            f"the source needs more memory or temporary disk than there is: {first_line(error)}",
            hint=_where_space_is_needed(folder),
        ) from error
    except duckdb.Error as error:
        raise SourceError(f"cannot read the source: {first_line(error)}") from error
    finally:
        connection.close()


def lock(connection: Any, folder: Path, paths: Sequence[str] = ()) -> None:
    """Let a connection read `paths`, read and write in `folder`, where it spills, and reach nothing else."""
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET allowed_directories = ?", [[str(folder)]])
    connection.execute("SET allowed_paths = ?", [list(paths)])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _where_space_is_needed(folder: Path) -> str:
    if folder.parent == Path(tempfile.gettempdir()).resolve():
        return TMPDIR
    return f"Free some space in {printable(folder.parent)}, where temporary files went."


def both_names(path: Path | None) -> list[str]:
    """`path`, and what it is a link to."""
    return [] if path is None else [str(path), str(path.resolve())]


@contextmanager
def explained(table: InputTable) -> Iterator[None]:
    """What the database says of `table`, as an error of ours."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise ResourceError(
            f"{printable(table.shown)} needs more memory or temporary disk than there is: {first_line(error)}",
            file=table.shown,
            hint=TMPDIR,
        ) from error
    except (duckdb.Error, UnicodeDecodeError) as error:
        if re.search(DISK_FULL, str(error)):
            raise  # not the table's fault: `in_database` names the folder that is full
        raise SourceError(f"cannot read {printable(table.shown)}: {first_line(error)}", file=table.shown) from error


def rows_in(connection: Any, table: str) -> int:
    """How many rows a table has; "line WHERE ..." counts some of them."""
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def described(connection: Any, table: InputTable) -> InputTable:
    """`table` with the SQL name and type of each column."""
    scan, parameters = table.scan()
    with explained(table):
        if table.frame is not None:
            connection.register(table.relation, table.frame)
        rows = connection.execute(f"DESCRIBE SELECT * FROM {scan}", parameters).fetchall()
    return replace(table, types=tuple(SqlColumn(name, kind) for name, kind, *_ in rows))
