"""Baskets from tables with a column mapping: files, folders, globs, databases, addresses, data frames."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from neatrec.errors import SourceError, bad_file, must_be
from neatrec.io.addresses import DATABASES, READABLE, is_address, parse_address
from neatrec.io.assemble import BasketSink, CollectedLines, Taken, assemble, bought_items
from neatrec.io.bad_rows import BadRow, BadRows, lines_of, read_with_fallback, refuse_to_overwrite
from neatrec.io.columns import Columns, resolve
from neatrec.io.csv_text import basket_lines
from neatrec.io.databases import read_database
from neatrec.io.downloads import download
from neatrec.io.duckdb_session import ReadContext, described, explained, rows_in
from neatrec.io.files import REJECTS, SourceFile, find_files, open_file
from neatrec.io.items import (
    CATALOGUE_ROWS,
    ItemTable,
    compare_with_catalogue,
    merged,
    texts_in_catalogue,
    texts_in_lines,
)
from neatrec.io.options import SourceOptions
from neatrec.io.reading_rules import CHECKS, FIRST_BAD, RAW_ROLES, clean_rows
from neatrec.io.tables import ROW, InputTable, frame_table, open_filled, open_table, refuse_selection
from neatrec.io.times import with_times
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

FIRST_ROWS, SEVERAL = 1_000, 5
"""Rows that are looked at before all are read, and how many of them make a column wrong."""
OTHER_COLUMN = {
    "position": "Name another column with --position, or leave it out.",
    "quantity": "Name another column with --quantity, or leave it out.",
    "time": "Give its format, such as --time-format '%d %b %Y', or name another column with --time.",
}


def read_tables(source: str, options: SourceOptions, sink: BasketSink[Taken]) -> Taken:
    """What `sink` makes of a file, folder, glob or address."""
    address = parse_address(source, READABLE) if is_address(source) else None
    shown = address.shown if address else source

    def opened(folder: Path) -> list[InputTable]:
        if address is not None and address.scheme in DATABASES:
            return [read_database(address, folder, options)]
        files = find_files(source) if address is None else download(address, folder, options)
        return _line_tables(shown, files, folder, options)

    return _read(shown, options, opened, sink)


def read_frame(
    frame: Any, options: SourceOptions, sink: BasketSink[Taken], source: str = "", *, nested: bool = True
) -> Taken:
    """What `sink` makes of an Arrow-capable data frame; `nested` as in `ItemTable`."""
    if options.basket_per_line:
        raise must_be("basket_per_line", "left out for a data frame, which has columns", True)
    refuse_selection("a data frame", options)
    return _read(source or type(frame).__name__, options, lambda _: [frame_table(frame)], sink, nested=nested)


def _line_tables(source: str, files: Sequence[SourceFile], folder: Path, options: SourceOptions) -> list[InputTable]:
    if options.basket_per_line:
        return _list_tables(files, folder, options)
    wanted = [value for value in options.given().values() if isinstance(value, str)]
    opened = [open_table(file, folder, options, wanted) for file in files]
    tables = [table for table in opened if table is not None]
    if not tables:
        raise bad_file(source, "is empty", hint="The first line must hold the column names.")
    if len(tables) < len(files):
        log.warning("%s empty and passed over", plural(len(files) - len(tables), "file is", "files are"))
    return tables


def _list_tables(files: Sequence[SourceFile], folder: Path, options: SourceOptions) -> list[InputTable]:
    if options.basket or options.item:
        raise must_be("basket_per_line", "given without `basket` and `item`: its lines have no columns", True)
    tables = []
    for file in files:
        if file.kind not in ("csv", "gz", "empty"):
            raise must_be(
                "basket_per_line", f"left out for a file with columns, as {printable(file.shown)} is", file.kind
            )
        prefix = "" if len(files) == 1 else f"{file.path.name}:"
        how: dict[str, Any] = {"delimiter": options.delimiter, "encoding": options.encoding, "basket": prefix}
        text = None if file.kind == "empty" else basket_lines(file, folder, **how)
        if text is not None:
            tables.append(InputTable(file.shown, text.columns, csv=text))
    if not tables:
        raise bad_file(files[0].shown, "is empty")
    return tables


def _catalogue_tables(options: SourceOptions, folder: Path) -> list[InputTable]:
    if options.catalog is None:
        return []
    if not isinstance(options.catalog, Path):
        return [frame_table(options.catalog, "catalogue_frame")]
    if not os.path.exists(options.catalog):  # unlike Path.exists, never an OSError
        find_files(str(options.catalog))
    wanted = [options.item or "", options.catalog_item or "", options.name or "", *options.category]
    plain = replace(options, query=None, table=None)
    return [open_filled(open_file(options.catalog), folder, plain, wanted, CATALOGUE_ROWS)]


def _read(
    source: str,
    options: SourceOptions,
    opened: Callable[[Path], list[InputTable]],
    sink: BasketSink[Taken],
    *,
    nested: bool = True,
) -> Taken:
    def collect(context: ReadContext, found: Sequence[InputTable]) -> CollectedLines:
        connection, named = context.connection, options.catalog is not None
        tables, catalogue = (found[:-1], found[-1]) if named else (found, None)
        lines, in_catalogue = resolve(options, tables, catalogue)
        tables = [described(connection, table) for table in tables]
        lines = with_times(connection, tables, lines, options)
        tables, bad = stage(context, tables, lines)
        texts = texts_in_lines(connection, tables, lines)
        listed: frozenset[str] = frozenset()
        if catalogue and in_catalogue:
            known = texts_in_catalogue(connection, described(connection, catalogue), in_catalogue, context.folder)
            compare_with_catalogue(bought_items(connection), known, catalogue.shown)
            texts, listed = merged(known, texts), frozenset(known)
        levels = (in_catalogue.category if in_catalogue else ()) or lines.category
        has_names = bool(lines.name or (in_catalogue and in_catalogue.name))
        return assemble(context, lines, ItemTable(texts, levels, has_names, nested, listed), bad_rows=len(bad.rows))

    return sink.read(source, options, lambda folder: [*opened(folder), *_catalogue_tables(options, folder)], collect)


def stage(
    context: ReadContext, tables: Sequence[InputTable], lines: Columns, more_files: Sequence[str] = ()
) -> tuple[list[InputTable], BadRows]:
    """Loads all lines into the table `line`; returns the tables as they were read and the bad rows that were allowed.

    `more_files` are read too and, like the tables, not to be written over.
    """
    options, source = context.options, context.source
    if lines.time is None and (options.since or options.until):
        raise SourceError(
            "`since` and `until` need a column with times", hint="Name it with --time COLUMN.", argument="time"
        )
    named = [path for path in (options.catalog, options.exclude_items) if isinstance(path, Path)]
    files: list[str | Path] = [*(table.shown for table in tables if table.frame is None), *more_files, *named]
    if options.rejects is not None:
        refuse_to_overwrite(options.rejects, files)
    bad = BadRows(options.max_bad_rows or 0)
    create_lines(context.connection, lines)
    read, total = [], 0
    for table in tables:
        if not options.max_bad_rows:
            refuse_wrong_columns(context.connection, table, lines)
        table, rows = load_lines(context, table, lines, bad)
        log.debug("%s: %s", printable(table.shown), plural(rows, "row"))
        read.append(table)
        total += rows
    if not total:
        raise bad_file(source, "has column names and no rows", hint="Check the export that wrote it.")
    bad.check_limit(total)
    if bad.rows:
        rejects = options.rejects or default_rejects(source)
        refuse_to_overwrite(rejects, files)
        bad.write(rejects)
    return read, bad


def default_rejects(source: str) -> Path:
    """Where rejected rows of `source` go: a file in the working folder.

    >>> default_rejects("shop/orders.2024.csv").name, default_rejects("shop/*.csv").name
    ('orders.rejects.csv', 'source.rejects.csv')
    """
    stem = re.sub(r"[^\w-]+", "-", Path(source).name.split(".")[0]).strip("-")[:100]
    return Path(f"{stem or 'source'}{REJECTS}")


def create_lines(connection: Any, columns: Columns) -> None:
    fields = ["basket VARCHAR", "item VARCHAR", "position DOUBLE", "customer VARCHAR", "moment BIGINT"]
    fields += [f"a{i} VARCHAR" for i in range(len(columns.attributes))]
    connection.execute(f"CREATE TABLE line ({', '.join(fields)}, status UTINYINT)")


def load_lines(context: ReadContext, table: InputTable, columns: Columns, bad: BadRows) -> tuple[InputTable, int]:
    """Puts the lines of one table into `line`; returns the table as it was read, and its number of rows."""
    connection = context.connection

    def insert(table: InputTable) -> tuple[str, list[Any]]:
        select, parameters = clean_rows(table, columns, rejects=table.csv is not None)
        fields = ["basket", "item", "position" if columns.position else "NULL"]
        fields += ["customer" if columns.user else "NULL", "moment" if columns.time else "NULL"]
        fields += [f"a{i}" for i in range(len(columns.attributes))]
        return f"INSERT INTO line SELECT {', '.join(fields)}, status FROM ({select})", parameters

    before = rows_in(connection, "line")
    table, rejected = read_with_fallback(connection, table, insert, context.folder)
    rows = rows_in(connection, "line") - before + len(rejected)
    bad.add([*rejected, *_bad_values(connection, table, columns)])
    return table, rows


def refuse_wrong_columns(connection: Any, table: InputTable, columns: Columns) -> None:
    """An error where no value of a column among the first rows can be read: it is another column than was meant."""
    select, parameters = clean_rows(table, columns)
    by_role = columns.by_role()
    for role in (role for role in OTHER_COLUMN if role in by_role):
        checks = [check for check in CHECKS if check.role == role and check.condition != f"{role}_text IS NULL"]
        bad = " OR ".join(f"({check.condition})" for check in checks)
        which = f"CASE {' '.join(f'WHEN {check.condition} THEN {i}' for i, check in enumerate(checks))} ELSE 0 END"
        query = (
            f"SELECT count(*), count(*) FILTER ({bad}), first(raw_{role}), first({which}) "
            f"FROM (SELECT * FROM ({select}) WHERE {role}_text IS NOT NULL LIMIT {FIRST_ROWS})"
        )
        try:
            with explained(table):
                rows, wrong, value, index = connection.execute(query, parameters).fetchall()[0]
        except SourceError:
            return  # a file that must be read in another way is read again, and what is wrong with it is said then
        if rows == wrong >= SEVERAL:
            reason = checks[index].reason.format(value=printable(repr(value), 60))
            trouble = f"{reason}, and none of the first {rows:,} rows holds one"
            raise bad_file(table.shown, trouble, column=by_role[role], hint=OTHER_COLUMN[role])


def _bad_values(connection: Any, table: InputTable, columns: Columns) -> list[BadRow]:
    """Rows whose values cannot be read, with their lines; they leave the table `line`."""
    if not rows_in(connection, f"line WHERE status >= {FIRST_BAD}"):
        return []
    connection.execute("DELETE FROM line WHERE status >= ?", [FIRST_BAD])
    by_role = columns.by_role()
    roles = [role for role in RAW_ROLES if role in by_role]
    select, parameters = clean_rows(table, columns, numbered=table.csv is None)
    fields = ", ".join([ROW if table.csv is None else "NULL", "status", *(f"raw_{role}" for role in roles)])
    with explained(table):
        rows = connection.execute(
            f"SELECT {fields} FROM ({select}) WHERE status >= ?", [*parameters, FIRST_BAD]
        ).fetchall()
    places: list[tuple[int | None, str]] = [(row[0], "") for row in rows]
    if table.csv is not None:
        at = [table.columns.index(by_role[role]) for role in roles]
        places = lines_of(table.csv, at, [tuple("" if v is None else str(v) for v in row[2:]) for row in rows])
    bad = []
    for (_, status, *values), (line, record) in zip(rows, places, strict=True):
        check = CHECKS[status - FIRST_BAD]
        reason = check.reason.format(value=printable(repr(values[roles.index(check.role)]), 60))
        unit = "row" if table.csv is None else "line"
        bad.append(BadRow(table.shown, line, by_role[check.role], reason, unit, check.swallows, record.rstrip("\n")))
    return sorted(bad, key=lambda row: (row.line is None, row.line or 0))
