"""The Instacart 2017 layout: a folder with the official tables as CSV, CSV.gz or Parquet."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neatrec.data.baskets import Baskets
from neatrec.errors import SourceError
from neatrec.io.assemble import IN_MEMORY, BasketSink, CollectedLines, Taken, assemble
from neatrec.io.column_names import missing_column
from neatrec.io.columns import Columns
from neatrec.io.duckdb_session import database, described, workspace
from neatrec.io.files import ENDINGS, open_file
from neatrec.io.item_texts import load_whole, texts_in_catalogue
from neatrec.io.items import ItemTexts, build_catalog
from neatrec.io.options import SourceOptions, refuse_options, require_attributes
from neatrec.io.tables import InputTable, open_table
from neatrec.io.tabular import bought_items, read_excluded, stage
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

LINES = ("order_products__prior", "order_products__train")
REQUIRED = ("orders", "products", "aisles", "departments")
ATTRIBUTES = ("eval_set", "order_dow", "order_hour_of_day")
ALLOWED = ("attributes", "exclude_items", "max_bad_rows", "rejects", "delimiter", "encoding")

LINE_COLUMNS = Columns("order_id", "product_id", position="add_to_cart_order", user="user_id", attributes=ATTRIBUTES)
ORDER_COLUMNS = Columns("order_id", "order_id", user="user_id", attributes=ATTRIBUTES)
PRODUCT_COLUMNS = Columns("product_id", "product_id", name="product_name", category=("department_id", "aisle_id"))


def is_instacart(source: str) -> bool:
    """Whether `source` is a folder with some of the official tables in it."""
    folder = Path(source)
    if not os.path.isdir(folder):  # unlike Path.is_dir, never an OSError
        return False
    found = [name for name in (*LINES, *REQUIRED) if _file(folder, name)]
    return any(name in found for name in LINES) or {"aisles", "departments"} <= set(found)


def read_instacart(source: str, options: SourceOptions) -> Baskets:
    """The orders in cart order, with users, department > aisle as category path, and every product."""
    baskets = take_instacart(source, options, IN_MEMORY)
    require_attributes(source, options, baskets)
    return baskets


def take_instacart(source: str, options: SourceOptions, ending: BasketSink[Taken]) -> Taken:
    """What `ending` makes of the orders."""
    refuse_options(source, options, ALLOWED)
    with workspace(ending.inside) as folder:
        tables = {name: _open(file, folder, options) for name, file in _files(Path(source)).items()}
        with database(list(tables.values()), folder, ending.memory) as connection:
            tables = {name: described(connection, table) for name, table in tables.items()}
            return ending.take(_assembled(connection, tables, options, folder, source))


def _file(folder: Path, name: str) -> Path | None:
    found = [folder / f"{name}{ending}" for ending in ENDINGS if (folder / f"{name}{ending}").is_file()]
    if len(found) > 1:
        log.warning("%s is there more than once; %s is read", name, printable(found[0].name))
    return found[0] if found else None


def _files(folder: Path) -> dict[str, Path]:
    """InputTable -> file; a missing table is named."""
    files = {name: file for name in (*LINES, *REQUIRED) if (file := _file(folder, name))}
    missing = [name for name in REQUIRED if name not in files]
    if not any(name in files for name in LINES):
        missing.insert(0, " or ".join(LINES))
    if missing:
        raise SourceError(
            f"{printable(folder)} looks like the Instacart tables but has no {', no '.join(missing)}",
            file=str(folder),
            hint="Each may be a .csv, .csv.gz or .parquet; for other tables give the file of the lines and --catalog.",
        )
    return files


def _open(file: Path, folder: Path, options: SourceOptions) -> InputTable:
    table = open_table(open_file(file), folder, delimiter=options.delimiter, encoding=options.encoding)
    if table is None:
        raise SourceError(f"{printable(file)} is empty", file=str(file))
    return table


def _assembled(
    connection: Any, tables: dict[str, InputTable], options: SourceOptions, folder: Path, source: str
) -> CollectedLines:
    lines = [_with(tables[name], _bare(LINE_COLUMNS)) for name in LINES if name in tables]
    files = [table.shown for table in tables.values()]
    _, bad = stage(connection, lines, _bare(LINE_COLUMNS), options, folder, source, files)
    _load_orders(connection, _with(tables["orders"], ORDER_COLUMNS), folder)
    products = texts_in_catalogue(connection, _with(tables["products"], PRODUCT_COLUMNS), PRODUCT_COLUMNS, folder)
    names = [_names(connection, tables[f"{what}s"], what, folder) for what in ("department", "aisle")]
    bought = bought_items(connection)
    _say_what_is_missing(bought, products, names)
    texts = {
        # an id that its table does not hold is its own name
        item: ItemTexts(
            about.name, None, tuple(known.get(key, key) for known, key in zip(names, about.path, strict=True))
        )
        for item, about in products.items()
    }
    catalog, code_of = build_catalog(
        bought, texts, ("department", "aisle"), excluded=read_excluded(options.exclude_items)
    )
    return assemble(
        connection, catalog, code_of, LINE_COLUMNS, options, source=source, bad_rows=len(bad.rows), has_details=True
    )


def _say_what_is_missing(
    bought: Iterable[str], products: Mapping[str, ItemTexts], names: Sequence[Mapping[str | None, str | None]]
) -> None:
    """A word on ids that the tables of products, departments and aisles do not hold."""
    unknown = sum(item not in products for item in bought)
    if unknown:
        log.warning("%s not in products: no name, no category", plural(unknown, "item bought is", "items bought are"))
    for level, (what, known) in enumerate(zip(("departments", "aisles"), names, strict=True)):
        absent = {about.path[level] for about in products.values()} - set(known) - {None}
        if absent:
            log.warning("%s not in %s: the id stands for the name", plural(len(absent), "id is", "ids are"), what)


def _bare(columns: Columns) -> Columns:
    """What the lines themselves hold: users and attributes stand in the orders."""
    return Columns(columns.basket, columns.item, position=columns.position)


def _with(table: InputTable, columns: Columns) -> InputTable:
    for role, column in columns.by_role().items():
        if column not in table.columns:
            raise missing_column(table.shown, {role.split()[0]: column}, role.split()[0], table.columns)
    return table


def _load_orders(connection: Any, table: InputTable, folder: Path) -> None:
    """The table `detail`: basket, customer and attributes."""
    chosen = ", ".join(["basket", "customer", *(f"a{i}" for i in range(len(ATTRIBUTES)))])
    load_whole(connection, table, ORDER_COLUMNS, f"CREATE TABLE detail AS SELECT {chosen}", folder)
    twin = connection.execute("SELECT basket FROM detail GROUP BY basket HAVING count(*) > 1 LIMIT 1").fetchall()
    if twin:
        raise SourceError(
            f"{printable(table.shown)}: order {printable(repr(twin[0][0]))} stands twice",
            file=table.shown,
            column="order_id",
            hint="Keep one row an order.",
        )


def _names(connection: Any, table: InputTable, what: str, folder: Path) -> dict[str | None, str | None]:
    """Id -> name of aisles or departments; an id without a name keeps its id."""
    columns = Columns(f"{what}_id", f"{what}_id", name=what)
    rows = texts_in_catalogue(connection, _with(table, columns), columns, folder)
    return {item: about.name or item for item, about in rows.items()}
