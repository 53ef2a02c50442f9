"""Baskets out of loaded rows: filtered, folded, sorted.

The order of rows and files does not matter.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.baskets import Attribute, Baskets
from neatrec.data.catalog import Catalog, as_integers, string_array
from neatrec.errors import SourceError, bad_file
from neatrec.io.column_names import ATTRIBUTE, guess
from neatrec.io.columns import Columns
from neatrec.io.database import Database
from neatrec.io.items import build_catalog, describe_by_catalogue, describe_by_lines, name_items
from neatrec.io.options import SourceOptions
from neatrec.io.rows import LoadedRows, require_readable
from neatrec.io.rules import KEPT, NO_ID, RETURN, VOID
from neatrec.text import plural, printable

log = logging.getLogger(__name__)
GUEST = "guest:"
"""A basket without a user is a customer of its own, called this and the basket's id."""
NOT_SAID = "unknown"
"""The value of an attribute that a basket does not have."""
LONG_BASKET = 2 * 86_400_000_000  # microseconds


@dataclass(frozen=True)
class Lines:
    """The lines of a source that are kept, in the tables `kept` and `basket` of its database."""

    database: Database
    loaded: LoadedRows
    catalog: Catalog
    columns: Columns
    dropped: Mapping[str, int]
    """Reason -> rows."""

    def baskets(self) -> Baskets:
        """The baskets in memory, sorted by id, their lines by position, then item."""
        rows = self.database.arrow(
            "SELECT basket.code AS basket, kept.code AS item FROM kept JOIN basket USING (basket) "
            "GROUP BY ALL ORDER BY basket.code, min(position), kept.code"
        )
        columns = _basket_columns(self.database, self.columns)
        repeated = _lines(self.database) - len(rows)
        return Baskets(
            catalog=self.catalog,
            items=rows["item"].to_numpy(),
            offsets=np.searchsorted(rows["basket"].to_numpy(), np.arange(len(columns["ids"]) + 1)),
            ordered=self.columns.position is not None,
            dropped={**self.dropped, **({"repeated lines": repeated} if repeated else {})},
            source=self.database.source,
            integer_ids=_are_integers(self.loaded, self.columns.basket, columns["ids"]),
            **columns,
        )

    def require_pairs(self, baskets: Baskets) -> None:
        """An error where no basket holds two items: its column is not that of the basket."""
        if baskets.sizes.max() > 1:
            return
        column = self.columns.basket
        likely = guess("basket", [name for name in self.loaded.tables[0].columns if name != column])
        hint = "Name the column of the order with --basket."
        if likely:
            hint = f"Likely meant: --basket {printable(likely)}."
        each = f"gives each of {plural(len(baskets), 'basket')} one item"
        trouble = f"{each}, so nothing was bought together"
        raise bad_file(self.database.source, trouble, column=column, hint=hint)


def assemble(
    database: Database,
    options: SourceOptions,
    loaded: LoadedRows,
    catalogue: LoadedRows | None,
    *,
    details: Columns | None = None,
    nested: bool = True,
) -> Lines:
    """The lines that make baskets, filtered and checked, and the catalogue of their items.

    `details` are the columns of users and attributes in the table `detail`; without them they are
    read from the lines. With `nested` a category name below two parents is two categories.
    """
    columns = loaded.columns
    if columns.item_else:
        name_items(database, columns)
    loaded.clean(database, options, "line")
    dropped = {"bad rows": require_readable(database, loaded, "line", options)}
    if columns.void:
        voided = "SELECT basket FROM line WHERE void AND basket IS NOT NULL"
        database.execute(f"UPDATE line SET status = {VOID} WHERE basket IN ({voided})")
    statuses = dict(database.rows("SELECT status, count(*) FROM line GROUP BY status"))
    reasons = {NO_ID: "no basket or item id", VOID: "cancelled or refunded", RETURN: "returns"}
    dropped |= {reason: statuses.get(status, 0) for status, reason in reasons.items()}
    catalog = _catalog(database, options, loaded, catalogue, nested=nested)
    database.execute(
        "CREATE VIEW kept AS SELECT line.*, item_code.code FROM line JOIN item_code USING (item) "
        f"WHERE status = {KEPT}"
    )
    columns = details or columns
    _gather_baskets(database, columns, has_details=details is not None)
    dropped["excluded items"] = statuses.get(KEPT, 0) - _lines(database)
    _keep_period(database, options, columns, dropped)
    columns = _without_mixed_store(database, columns, options)
    _refuse_shared_baskets(database, columns)
    _refuse_flat_positions(database, columns)
    dropped = {reason: count for reason, count in dropped.items() if count}
    if not _lines(database):
        listed = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        left_out = f" (left out: {listed})" if listed else ""
        message = f"no basket lines are left of {printable(database.source)}{left_out}"
        hint = "Check the columns and the period."
        raise SourceError(message, file=database.source, hint=hint)
    return Lines(database, loaded, catalog, columns, dropped)


def _catalog(
    database: Database,
    options: SourceOptions,
    loaded: LoadedRows,
    catalogue: LoadedRows | None,
    *,
    nested: bool,
) -> Catalog:
    """The catalogue by the lines and a table of items."""
    describe_by_lines(database)
    described = [loaded.columns]
    if catalogue is not None:
        catalogue.clean(database, options, "catalogue_line")
        describe_by_catalogue(database, catalogue)
        described = [catalogue.columns, loaded.columns]
    levels = next((each.category for each in described if each.category), ())
    has_names = any(each.name for each in described)
    catalog = build_catalog(database, options, levels, has_names=has_names, nested=nested)
    are_integers = _are_integers(loaded, loaded.columns.item, catalog.ids)
    return replace(catalog, integer_ids=are_integers)


def _are_integers(loaded: LoadedRows, column: str, ids: pa.LargeStringArray) -> bool:
    """Whether a column of ids holds integers in every table."""
    kinds = {table.column(column).kind for table in loaded.tables}
    return kinds == {"integer"} and as_integers(ids) is not None


def _lines(database: Database) -> int:
    return int(database.rows("SELECT coalesce(sum(lines), 0) FROM basket")[0][0])


def _gather_baskets(database: Database, columns: Columns, *, has_details: bool) -> None:
    """The table `basket`: id, lines, customer, time and attributes.

    Of customer and attributes the smallest and the largest value, to find mixed ones.
    """
    values = ["customer", *(f"a{i}" for i in range(len(columns.attributes)))]
    always = (
        "basket, 0 AS code, count(*) AS lines, min(moment) AS moment, max(moment) AS last_moment, "
        "min(position) = max(position) AS flat"
    )
    both = ", ".join(f"min({value}) AS {value}, max({value}) AS other_{value}" for value in values)
    select = f"SELECT {always}, {both} FROM kept GROUP BY basket"
    if has_details:
        both = ", ".join(f"{value}, {value} AS other_{value}" for value in values)
        gathered = f"(SELECT {always} FROM kept GROUP BY basket) AS gathered"
        select = f"SELECT gathered.*, {both} FROM {gathered} LEFT JOIN detail USING (basket)"
    database.execute(f"CREATE TABLE basket AS {select}")


def _keep_period(
    database: Database, options: SourceOptions, columns: Columns, dropped: dict[str, int]
) -> None:
    """Leave out baskets outside the period, and number the others by id."""
    if columns.time:
        before = _lines(database)
        database.execute("DELETE FROM basket WHERE moment IS NULL")
        timed = _lines(database)
        if options.first_moment is not None:
            database.execute("DELETE FROM basket WHERE moment < ?", [options.first_moment])
        if options.end_moment is not None:
            database.execute("DELETE FROM basket WHERE moment >= ?", [options.end_moment])
        dropped["no time"] = before - timed
        dropped["outside since and until"] = timed - _lines(database)
        if long := database.count(f"basket WHERE last_moment - moment > {LONG_BASKET}"):
            baskets = plural(long, "basket stretches", "baskets stretch")
            log.warning("%s over more than two days: are basket ids used again?", baskets)
    numbered = "CAST(row_number() OVER (ORDER BY basket) - 1 AS INTEGER) AS code"
    database.execute(
        f"CREATE OR REPLACE TABLE basket AS SELECT * REPLACE ({numbered}) FROM basket "
        "ORDER BY basket"
    )


def _without_mixed_store(database: Database, columns: Columns, options: SourceOptions) -> Columns:
    """The columns without a store that nobody named and that has two values in some basket."""
    is_guessed = not options.attributes and len(columns.attributes) == 1
    if not is_guessed or not database.count("basket WHERE a0 <> other_a0"):
        return columns
    store = printable(repr(columns.attributes[0]))
    log.warning("column %s has two values in some baskets: it is not read", store)
    return replace(columns, attributes=())


def _refuse_shared_baskets(database: Database, columns: Columns) -> None:
    """A basket of two users is two baskets under one id: nothing good can be counted from it."""
    names = {"customer": columns.user}
    names |= {f"a{i}": name for i, name in enumerate(columns.attributes)}
    for value, name in names.items():
        mixed = database.rows(
            f"SELECT basket, {value}, other_{value} FROM basket WHERE {value} <> other_{value} "
            "ORDER BY basket LIMIT 1"
        )
        if mixed:
            basket, one, other = (printable(repr(part), 60) for part in mixed[0])
            column = f"column {printable(repr(name))}"
            hint = "Basket ids must be unique over users, shops and days; or leave the column out"
            raise SourceError(
                f"basket {basket} has two values in {column}: {one} and {other}",
                column=name,
                hint=f"{hint} with --user none." if value == "customer" else f"{hint}.",
            )


def _refuse_flat_positions(database: Database, columns: Columns) -> None:
    """A column with one value for all lines of a basket is no cart order."""
    if columns.position is None:
        return
    name = printable(repr(columns.position))
    several = database.count("basket WHERE lines > 1")
    flat = database.count("basket WHERE lines > 1 AND flat")
    if several and flat == several:
        raise SourceError(
            f"column {name} has one value in each basket: it gives no order",
            column=columns.position,
            hint="Use --position none if the cart order is not known.",
        )


def _basket_columns(database: Database, columns: Columns) -> dict[str, Any]:
    """Ids, times, users and attributes of all baskets, in their order."""
    table = database.arrow("SELECT * FROM basket ORDER BY code")
    ids = string_array(table["basket"])
    found: dict[str, Any] = {"ids": ids}
    if columns.time:
        found["times"] = table["moment"].to_numpy()
    if columns.user:
        found["users"], found["user_ids"] = coded(_users(string_array(table["customer"]), ids))
    attributes = found["attributes"] = {}
    for i, name in enumerate(columns.attributes):
        codes, names = coded(pc.fill_null(string_array(table[f"a{i}"]), NOT_SAID))
        attributes[name.removeprefix(ATTRIBUTE)] = Attribute(codes, tuple(names.to_pylist()))
    return found


def _users(users: pa.LargeStringArray, ids: pa.LargeStringArray) -> pa.LargeStringArray:
    """`users`, with one of its own for each basket without any."""
    if not users.null_count:
        return users
    count = plural(users.null_count, "basket")
    log.info("%s without a user: each counts as a customer of its own", count)
    prefix, nothing = (pa.scalar(text, pa.large_string()) for text in (GUEST, ""))
    return pc.coalesce(users, pc.binary_join_element_wise(prefix, ids, nothing))


def coded(values: pa.LargeStringArray) -> tuple[npt.NDArray[np.int32], pa.LargeStringArray]:
    """Codes into the sorted distinct values."""
    encoded = values.dictionary_encode()
    names = encoded.dictionary
    order = pc.sort_indices(names).to_numpy()
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[encoded.indices.to_numpy()], string_array(names.take(pa.array(order)))
