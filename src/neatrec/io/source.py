"""`open_source`: files, a database, a data frame or a known layout, opened as `Lines`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neatrec.errors import bad_file, must_be
from neatrec.io.addresses import READABLE, is_address, parse_address
from neatrec.io.assemble import Lines, assemble, bought_items
from neatrec.io.column_names import CATEGORY
from neatrec.io.columns import resolve
from neatrec.io.csv_text import basket_lines
from neatrec.io.database import Database, open_database, workspace
from neatrec.io.datasets import (
    JOURNEY,
    JOURNEY_NAME,
    instacart_files,
    is_instacart,
    journey_files,
    read_instacart,
    read_journey,
)
from neatrec.io.files import SourceFile, find_files, open_file
from neatrec.io.items import (
    CATALOGUE_ROWS,
    ItemTable,
    compare_with_catalogue,
    merged,
    name_items,
    texts_in_catalogue,
    texts_in_lines,
)
from neatrec.io.options import SourceOptions
from neatrec.io.postgresql import read_postgresql
from neatrec.io.staging import Reading, stage, with_number_styles
from neatrec.io.tables import (
    InputTable,
    as_arrow,
    described,
    frame_table,
    open_filled,
    open_table,
    refuse_selection,
)
from neatrec.io.times import with_times
from neatrec.text import plural, printable

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


@contextmanager
def open_source(source: Any, options: SourceOptions) -> Iterator[Lines]:
    """The lines of a path, an address or a data frame; `lines.baskets()` gives the baskets."""
    if not isinstance(source, str):
        table = as_arrow(source)
        with workspace() as folder, _opened(folder, options, type(source).__name__) as reading:
            yield _read_frame(reading, table)
    elif source.split(":", 1)[0] == JOURNEY:
        files = journey_files(source, options)
        paths = list(files.values())
        with workspace() as folder, _opened(folder, options, JOURNEY_NAME, paths) as reading:
            yield read_journey(reading, files)
    elif is_instacart(source):
        files = instacart_files(source, options)
        paths = list(files.values())
        with workspace() as folder, _opened(folder, options, source, paths) as reading:
            yield read_instacart(reading, files)
    elif is_address(source):
        address = parse_address(source, READABLE)
        with workspace() as folder, _opened(folder, options, address.shown) as reading:
            table = read_postgresql(address, folder, options)
            yield _read_tables(reading, [described(reading.database, table)])
    else:
        found = find_files(source)
        paths = [file.path for file in found]
        with workspace() as folder, _opened(folder, options, source, paths) as reading:
            yield _read_tables(reading, _line_tables(reading, found))


@contextmanager
def _opened(
    folder: Path, options: SourceOptions, source: str, files: Sequence[Path] = ()
) -> Iterator[Reading]:
    """A database in which `files` and the catalogue can be read."""
    catalogue = [options.catalog] if isinstance(options.catalog, Path) else []
    with open_database(folder, [*files, *catalogue], source) as database:
        yield Reading(database, options)


def _read_frame(reading: Reading, frame: pa.Table) -> Lines:
    if reading.options.basket_per_line:
        raise must_be("basket_per_line", "left out for a data frame, which has columns", True)
    refuse_selection("a data frame", reading.options)
    return _read_tables(reading, [frame_table(reading.database, frame)])


def _read_tables(reading: Reading, tables: Sequence[InputTable]) -> Lines:
    """The lines of tables of order lines: columns, times, numbers, bad rows, items, baskets."""
    database, options = reading.database, reading.options
    catalogue = _catalogue(database, options)
    columns, in_catalogue = resolve(options, tables, catalogue)
    columns = with_times(database, tables, columns, options)
    columns = with_number_styles(database, tables, columns)
    name_items(database, tables, columns)
    bad_rows = stage(reading, tables, columns)
    texts = texts_in_lines(database, tables, columns)
    if catalogue and in_catalogue:
        in_catalogue = with_number_styles(database, [catalogue], in_catalogue)
        known = texts_in_catalogue(database, catalogue, in_catalogue)
        compare_with_catalogue(bought_items(database), known, catalogue.shown)
        texts = merged(known, texts)
    levels = (in_catalogue.category if in_catalogue else ()) or columns.category
    levels = tuple(level.removeprefix(CATEGORY) for level in levels)
    has_names = bool(columns.name or (in_catalogue and in_catalogue.name))
    items = ItemTable(texts, levels, has_names)
    return assemble(reading, columns, tables, items, bad_rows=bad_rows)


def _line_tables(reading: Reading, files: Sequence[SourceFile]) -> list[InputTable]:
    database, options = reading.database, reading.options
    if options.basket_per_line:
        return _list_tables(reading, files)
    wanted = [value for value in options.given().values() if isinstance(value, str)]
    opened = [open_table(database, file, options, wanted) for file in files]
    tables = [table for table in opened if table is not None]
    if not tables:
        hint = "The first line must hold the column names."
        raise bad_file(database.source, "is empty", hint=hint)
    if len(tables) < len(files):
        empty = plural(len(files) - len(tables), "file is", "files are")
        log.warning("%s empty and passed over", empty)
    return tables


def _list_tables(reading: Reading, files: Sequence[SourceFile]) -> list[InputTable]:
    """Files with one basket per line."""
    database, options = reading.database, reading.options
    if options.basket or options.item:
        wanted = "given without `basket` and `item`: its lines have no columns"
        raise must_be("basket_per_line", wanted, True)
    tables = []
    for file in files:
        if file.kind not in ("csv", "gz", "empty"):
            wanted = f"left out for a file with columns, as {printable(file.shown)} is"
            raise must_be("basket_per_line", wanted, file.kind)
        prefix = "" if len(files) == 1 else f"{file.path.name}:"
        form = {"delimiter": options.delimiter, "encoding": options.encoding}
        text = None
        if file.kind != "empty":
            text = basket_lines(file, database.folder, **form, prefix=prefix)
        if text is not None:
            tables.append(described(database, InputTable(file.shown, text.columns, csv=text)))
    if not tables:
        raise bad_file(files[0].shown, "is empty")
    return tables


def _catalogue(database: Database, options: SourceOptions) -> InputTable | None:
    if options.catalog is None:
        return None
    if not isinstance(options.catalog, Path):
        return frame_table(database, as_arrow(options.catalog), "catalogue_frame")
    if not os.path.exists(options.catalog):  # unlike Path.exists, never an OSError
        find_files(str(options.catalog))
    named = (options.item, options.catalog_item, options.name, *options.category)
    plain = replace(options, query=None, table=None)
    file = open_file(options.catalog)
    return open_filled(database, file, plain, [name or "" for name in named], CATALOGUE_ROWS)
