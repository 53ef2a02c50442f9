"""`open_source`: files, a database, a data frame or a known layout, opened as `Lines`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from neatrec.errors import bad_file, must_be
from neatrec.io.addresses import READABLE, is_address, parse_address
from neatrec.io.assemble import Lines, assemble
from neatrec.io.columns import map_roles
from neatrec.io.database import Database, open_database
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
from neatrec.io.items import CATALOGUE_ROWS
from neatrec.io.options import SourceOptions
from neatrec.io.postgresql import open_postgresql
from neatrec.io.rows import load_rows
from neatrec.io.rules import require_time
from neatrec.io.tables import InputTable, as_arrow, frame_table, open_table, refuse_selection
from neatrec.text import plural

log = logging.getLogger(__name__)


@contextmanager
def open_source(source: Any, options: SourceOptions) -> Iterator[Lines]:
    """The lines of a path, an address or a data frame; `lines.baskets()` gives the baskets."""
    catalogue = [options.catalog] if isinstance(options.catalog, Path) else []
    if not isinstance(source, str):
        frame = as_arrow(source)
        refuse_selection("a data frame", options)
        if options.basket_per_line:
            raise must_be("basket_per_line", "left out for a data frame, which has columns", True)
        with open_database(catalogue, type(source).__name__) as database:
            yield _read_tables(database, options, [frame_table(database, frame)])
    elif source.split(":", 1)[0] == JOURNEY:
        files = journey_files(source, options)
        with open_database(list(files.values()), JOURNEY_NAME) as database:
            yield read_journey(database, options, files)
    elif is_instacart(source):
        files = instacart_files(source, options)
        with open_database(list(files.values()), source) as database:
            yield read_instacart(database, options, files)
    elif is_address(source):
        address = parse_address(source, READABLE)
        with (
            open_database(catalogue, address.shown) as database,
            open_postgresql(database, address, options) as table,
        ):
            yield _read_tables(database, options, [table])
    else:
        found = find_files(source)
        with open_database([*(file.path for file in found), *catalogue], source) as database:
            yield _read_tables(database, options, _line_tables(database, options, found))


def _read_tables(database: Database, options: SourceOptions, tables: Sequence[InputTable]) -> Lines:
    """The lines of tables whose columns are given or guessed."""
    catalogue = _catalogue(database, options)
    columns, in_catalogue = map_roles(options, tables, catalogue)
    require_time(columns, options)
    loaded = load_rows(database, tables, columns, "raw")
    items = None
    if catalogue and in_catalogue:
        items = load_rows(database, [catalogue], in_catalogue, "raw_catalogue")
    return assemble(database, options, loaded, items)


def _line_tables(
    database: Database, options: SourceOptions, files: Sequence[SourceFile]
) -> list[InputTable]:
    wanted = [value for value in options.given().values() if isinstance(value, str)]
    opened = [open_table(database, file, options, wanted) for file in files]
    tables = [table for table in opened if table is not None]
    if not tables:
        hint = "The first line must hold the column names."
        raise bad_file(database.source, "is empty", hint=hint)
    if len(tables) < len(files):
        empty = plural(len(files) - len(tables), "file is", "files are")
        log.warning("%s empty and skipped", empty)
    return tables


def _catalogue(database: Database, options: SourceOptions) -> InputTable | None:
    if options.catalog is None:
        return None
    if not isinstance(options.catalog, Path):
        return frame_table(database, as_arrow(options.catalog))
    if not os.path.exists(options.catalog):  # unlike Path.exists, never an OSError
        find_files(str(options.catalog))
    named = (options.item, options.catalog_item, options.name, *options.category)
    plain = replace(options, query=None, table=None, basket_per_line=False)
    table = open_table(database, open_file(options.catalog), plain, [name or "" for name in named])
    if table is None:
        raise bad_file(options.catalog, f"is empty: it must hold {CATALOGUE_ROWS}")
    return table
