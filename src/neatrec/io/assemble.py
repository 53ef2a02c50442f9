"""Baskets out of the table of lines: filtered, folded, sorted.

The order of rows and files does not matter.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
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
from neatrec.io.files import text_of
from neatrec.io.items import ItemTable, build_catalog
from neatrec.io.options import SourceOptions
from neatrec.io.reading_rules import NO_ID, RETURN, VOID
from neatrec.io.staging import Reading
from neatrec.io.tables import InputTable
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
    source: str
    catalog: Catalog
    columns: Columns
    names: tuple[str, ...]
    """All columns of the first table."""
    integers: frozenset[str]
    """Those of basket and item whose ids came as integers."""
    dropped: Mapping[str, int]
    """Reason -> rows."""
    count: int
    """Lines, before repeated lines of a basket become one."""

    def baskets(self) -> Baskets:
        """The baskets in memory, sorted by id, their lines by position, then item."""
        rows = self.database.execute(
            "SELECT basket.code AS basket, kept.code AS item FROM kept JOIN basket USING (basket) "
            "GROUP BY ALL ORDER BY basket.code, min(position), kept.code"
        ).fetchnumpy()
        baskets = self.database.count("basket")
        repeated = self.count - len(rows["item"])
        columns = _basket_columns(self.database, self.columns)
        are_integers = "basket" in self.integers and as_integers(columns["ids"]) is not None
        return Baskets(
            catalog=self.catalog,
            items=np.asarray(rows["item"], dtype=np.int32),
            offsets=np.searchsorted(np.asarray(rows["basket"]), np.arange(baskets + 1)),
            ordered=self.columns.position is not None,
            dropped={**self.dropped, **({"repeated lines": repeated} if repeated else {})},
            source=self.source,
            integer_ids=are_integers,
            **columns,
        )

    def require_pairs(self, baskets: Baskets) -> None:
        """An error where no basket holds two items: its column is not that of the basket."""
        if len(baskets.sizes) and baskets.sizes.max() > 1:
            return
        column = self.columns.basket
        others = [name for name in self.names if name != column]
        likely = guess("basket", others)
        hint = "Name the column of the order with --basket."
        if likely:
            hint = f"Likely meant: --basket {printable(likely)}."
        each = f"gives each of {plural(len(baskets), 'basket')} one item"
        trouble = f"{each}, so nothing was bought together"
        raise bad_file(self.source, trouble, column=column, hint=hint)


def assemble(
    reading: Reading,
    columns: Columns,
    tables: Sequence[InputTable],
    items: ItemTable,
    *,
    bad_rows: int = 0,
    has_details: bool = False,
) -> Lines:
    """The lines of the table `line` that make baskets, filtered and checked.

    With `has_details` users and attributes are read from the table `detail` (basket, customer, a0,
    ...), otherwise from the lines.
    """
    database, options = reading.database, reading.options
    excluded = read_excluded(options.exclude_items) | set(options.exclude_item)
    catalog, code_of = build_catalog(bought_items(database), items, excluded)
    integers = _integers(tables, columns)
    if "item" in integers and as_integers(catalog.ids) is not None:
        catalog = replace(catalog, integer_ids=True)
    dropped = {"bad rows": bad_rows, **_count_left_out(database)}
    kept = database.count("line WHERE status = 0")
    _number_items(database, code_of)
    database.execute(
        "CREATE VIEW kept AS SELECT line.*, item_code.code FROM line JOIN item_code USING (item) "
        "WHERE status = 0"
    )
    _gather_baskets(database, columns, has_details)
    dropped["excluded items"] = kept - _lines(database)
    _keep_period(database, options, columns, dropped)
    columns = _without_mixed_store(database, columns, options)
    _refuse_shared_baskets(database, columns)
    _refuse_flat_positions(database, columns)
    dropped = {reason: count for reason, count in dropped.items() if count}
    lines = _lines(database)
    if not lines:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        left_out = f" (left out: {reasons})" if reasons else ""
        message = f"no basket lines are left of {printable(database.source)}{left_out}"
        hint = "Check the columns and the period."
        raise SourceError(message, file=database.source, hint=hint)
    names = tables[0].columns
    return Lines(database, database.source, catalog, columns, names, integers, dropped, lines)


def _integers(tables: Sequence[InputTable], columns: Columns) -> frozenset[str]:
    """Those of basket and item whose column holds integers in every table."""
    named = {"basket": columns.basket, "item": columns.item}
    return frozenset(
        role
        for role, name in named.items()
        if all(table.column(name).kind == "integer" for table in tables)
    )


def bought_items(database: Database) -> dict[str, int]:
    """Item id -> lines that are kept."""
    return dict(database.rows("SELECT item, count(*) FROM line WHERE status = 0 GROUP BY item"))


def read_excluded(path: Path | None) -> frozenset[str]:
    """Ids in a text file, one per line."""
    if path is None:
        return frozenset()
    lines = text_of(path, hint="Write one item id per line, in UTF-8.").splitlines()
    return frozenset(line.strip() for line in lines if line.strip())


def _count_left_out(database: Database) -> dict[str, int]:
    """The rows left out so far, reason -> number."""
    rows = dict(database.rows("SELECT status, count(*) FROM line GROUP BY status"))
    reasons = {NO_ID: "no basket or item id", VOID: "cancelled or refunded", RETURN: "returns"}
    return {reason: rows.get(status, 0) for status, reason in reasons.items()}


def _lines(database: Database) -> int:
    return int(database.rows("SELECT coalesce(sum(lines), 0) FROM basket")[0][0])


def _number_items(database: Database, code_of: Mapping[str, int]) -> None:
    numbers = np.fromiter(code_of.values(), dtype=np.int32, count=len(code_of))
    codes = pa.table({"item": string_array(code_of), "code": pa.array(numbers)})
    database.connection.register("codes", codes)
    database.execute("CREATE TABLE item_code AS SELECT * FROM codes")
    database.connection.unregister("codes")


def _gather_baskets(database: Database, columns: Columns, has_details: bool) -> None:
    """The table `basket`: id, lines, customer, time and attributes.

    Of customer and attributes the smallest and the largest value, to find mixed ones.
    """
    values = ["customer", *(f"a{i}" for i in range(len(columns.attributes)))]
    always = (
        "basket, 0 AS code, count(*) AS lines, min(moment) AS moment, max(moment) AS last_moment, "
        "min(position) = max(position) AS flat"
    )
    if has_details:
        both = ", ".join(f"{v}, {v} AS other_{v}" for v in values)
        gathered = f"SELECT {always} FROM kept GROUP BY basket"
        joined = f"({gathered}) gathered LEFT JOIN detail USING (basket)"
        select = f"SELECT gathered.*, {both} FROM {joined}"
    else:
        both = ", ".join(f"min({v}) AS {v}, max({v}) AS other_{v}" for v in values)
        select = f"SELECT {always}, {both} FROM kept GROUP BY basket"
    database.execute(f"CREATE TABLE basket AS {select}")


def _keep_period(
    database: Database, options: SourceOptions, columns: Columns, dropped: dict[str, int]
) -> None:
    """Leave out baskets outside the period, and number the others by id."""
    before = _lines(database)
    if columns.time:
        database.execute("DELETE FROM basket WHERE moment IS NULL")
        dropped["no time"] = before - _lines(database)
        before = _lines(database)
        if options.first_moment is not None:
            database.execute("DELETE FROM basket WHERE moment < ?", [options.first_moment])
        if options.end_moment is not None:
            database.execute("DELETE FROM basket WHERE moment >= ?", [options.end_moment])
        dropped["outside since and until"] = before - _lines(database)
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
            f"column {name} has one value in each basket: it does not say the order",
            column=columns.position,
            hint="Use --position none if the cart order is not known.",
        )
    if flat > 0.1 * several:
        baskets = plural(flat, "basket has", "baskets have")
        log.warning("%s one position for all their lines: is %s the cart order?", baskets, name)


def _basket_columns(database: Database, columns: Columns) -> dict[str, Any]:
    """Ids, times, users and attributes of all baskets, in their order."""
    table = database.execute("SELECT * FROM basket ORDER BY code", as_arrow=True)
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
