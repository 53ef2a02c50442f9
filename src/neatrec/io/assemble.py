"""Baskets out of the table of lines: filtered, folded, sorted; the order of rows and files does not matter."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.baskets import Attribute, Baskets
from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import SourceError
from neatrec.io.columns import Columns
from neatrec.io.duckdb_session import ReadContext, in_database, rows_in, workspace
from neatrec.io.files import unreadable
from neatrec.io.items import ItemTable, build_catalog
from neatrec.io.options import SourceOptions
from neatrec.io.reading_rules import NO_ID, RETURN
from neatrec.io.tables import InputTable
from neatrec.text import plural, printable

log = logging.getLogger(__name__)
GUEST = "guest:"
"""A basket without a user is a customer of its own, called this and the basket's id."""
NOT_SAID = "unknown"
"""The value of an attribute that a basket does not have."""
LONG_BASKET = 2 * 86_400_000_000  # microseconds


@dataclass(frozen=True)
class CollectedLines:
    """Lines and baskets that are to be kept, in the database's tables `kept` and `basket`; nothing is in memory yet."""

    context: ReadContext
    catalog: Catalog
    columns: Columns
    dropped: Mapping[str, int]
    """Reason -> rows, so far."""
    lines: int
    """Before repeated lines of a basket become one."""
    items: ItemTable
    code_of: Mapping[str, int]
    """Every item id that is kept, variants included -> its code."""

    def without_repeats(self, lines: int) -> dict[str, int]:
        """What was left out in all when `lines` are left."""
        repeated = {"repeated lines": self.lines - lines} if lines < self.lines else {}
        return {**self.dropped, **repeated}

    def baskets(self, lines: str, first: int, end: int) -> dict[str, Any]:
        """What `Baskets` takes for baskets number `first` to `end`, whose lines (basket, item, place) stand in `lines`
        (SQL): sorted by id, lines by position then item."""
        rows = self.context.connection.execute(
            f"SELECT basket, item FROM {lines} ORDER BY basket, place, item"
        ).fetchnumpy()
        return {
            "catalog": self.catalog,
            "items": np.asarray(rows["item"], dtype=np.int32),
            "offsets": np.searchsorted(np.asarray(rows["basket"]), np.arange(first, end + 1)),
            "ordered": self.columns.position is not None,
            **_basket_columns(self.context.connection, self.columns, [first, end]),
        }


def assemble(
    context: ReadContext, columns: Columns, items: ItemTable, *, bad_rows: int = 0, has_details: bool = False
) -> CollectedLines:
    """What of the table of lines makes baskets, filtered and checked.

    With `has_details` users and attributes stand in the table `detail` (basket, customer, a0, ...), otherwise in the
    lines.
    """
    connection = context.connection
    excluded = read_excluded(context.options.exclude_items) | set(context.options.exclude_item)
    catalog, code_of = build_catalog(bought_items(connection), items, excluded)
    dropped = {"bad rows": bad_rows, **_count_left_out(connection)}
    kept = rows_in(connection, "line WHERE status = 0")
    _number_items(connection, code_of)
    connection.execute(
        "CREATE VIEW kept AS SELECT line.*, item_code.code FROM line JOIN item_code USING (item) WHERE status = 0"
    )
    _gather_baskets(connection, columns, has_details)
    dropped["excluded items"] = kept - _lines(connection)
    _keep_period(connection, context.options, columns, dropped)
    columns = _without_mixed_store(connection, columns, context.options)
    _refuse_shared_baskets(connection, columns)
    _refuse_flat_positions(connection, columns)
    dropped = {reason: count for reason, count in dropped.items() if count}
    lines = _lines(connection)
    if not lines:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        raise SourceError(
            f"no basket lines are left of {printable(context.source)}" + (f" (left out: {reasons})" if reasons else ""),
            file=context.source,
            hint="Check the columns and the period.",
        )
    return CollectedLines(context, catalog, columns, dropped, lines, items, code_of)


LINES_OF_BASKETS = (
    "(SELECT basket.code AS basket, kept.code AS item, min(position) AS place FROM kept JOIN basket USING (basket) "
    "GROUP BY basket.code, kept.code)"
)


def whole(collected: CollectedLines) -> Baskets:
    """All baskets in memory."""
    found = collected.baskets(LINES_OF_BASKETS, 0, rows_in(collected.context.connection, "basket"))
    return Baskets(**found, dropped=collected.without_repeats(len(found["items"])), source=collected.context.source)


Taken = TypeVar("Taken")


@dataclass(frozen=True)
class BasketSink(Generic[Taken]):
    """What becomes of the baskets that were gathered, and where the database works meanwhile."""

    take: Callable[[CollectedLines], Taken]
    inside: Path | None = None
    """A folder for temporary files; None: TMPDIR."""
    memory: Sequence[int] = ()
    """Bytes the database may use, one after the other as in `in_database`."""

    def read(
        self,
        source: str,
        options: SourceOptions,
        opened: Callable[[Path], Sequence[InputTable]],
        collect: Callable[[ReadContext, Sequence[InputTable]], CollectedLines],
    ) -> Taken:
        """What becomes of the lines that `collect` finds in the tables `opened`, given a folder for temporary files."""
        with workspace(self.inside) as folder:
            tables = opened(folder)

            def work(connection: Any) -> Taken:
                return self.take(collect(ReadContext(connection, folder, options, source), tables))

            return in_database(tables, folder, work, self.memory, source)


IN_MEMORY = BasketSink(whole)


def bought_items(connection: Any) -> dict[str, int]:
    """Item id -> lines that are kept."""
    return dict(connection.execute("SELECT item, count(*) FROM line WHERE status = 0 GROUP BY item").fetchall())


def read_excluded(path: Path | None) -> frozenset[str]:
    """Ids in a text file, one per line."""
    if path is None:
        return frozenset()
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{printable(path)} is not UTF-8", file=str(path), hint="Write one item id per line, in UTF-8."
        ) from error
    return frozenset(line.strip() for line in lines if line.strip())


def _count_left_out(connection: Any) -> dict[str, int]:
    """What was left out so far, reason -> rows."""
    rows = dict(connection.execute("SELECT status, count(*) FROM line GROUP BY status").fetchall())
    return {"no basket or item id": rows.get(NO_ID, 0), "returns": rows.get(RETURN, 0)}


def _lines(connection: Any) -> int:
    return int(connection.execute("SELECT coalesce(sum(lines), 0) FROM basket").fetchall()[0][0])


def _number_items(connection: Any, code_of: Mapping[str, int]) -> None:
    numbers = np.fromiter(code_of.values(), dtype=np.int32, count=len(code_of))
    codes = pa.table({"item": string_array(code_of), "code": pa.array(numbers)})
    connection.register("codes", codes)
    connection.execute("CREATE TABLE item_code AS SELECT * FROM codes")
    connection.unregister("codes")


def _gather_baskets(connection: Any, columns: Columns, has_details: bool) -> None:
    """The table `basket`: id, lines, customer, time and attributes (smallest and largest value, to find mixed ones)."""
    values = ["customer", *(f"a{i}" for i in range(len(columns.attributes)))]
    always = (
        "basket, 0 AS code, count(*) AS lines, min(moment) AS moment, max(moment) AS last_moment, "
        "min(position) = max(position) AS flat"
    )
    if has_details:
        both = ", ".join(f"{v}, {v} AS other_{v}" for v in values)
        gathered = f"SELECT {always} FROM kept GROUP BY basket"
        joined = f"({gathered}) gathered LEFT JOIN detail USING (basket)"
        connection.execute(f"CREATE TABLE basket AS SELECT gathered.*, {both} FROM {joined}")
    else:
        both = ", ".join(f"min({v}) AS {v}, max({v}) AS other_{v}" for v in values)
        connection.execute(f"CREATE TABLE basket AS SELECT {always}, {both} FROM kept GROUP BY basket")


def _keep_period(connection: Any, options: SourceOptions, columns: Columns, dropped: dict[str, int]) -> None:
    """Leave out baskets outside the period, and number the others by id."""
    before = _lines(connection)
    if columns.time:
        connection.execute("DELETE FROM basket WHERE moment IS NULL")
        dropped["no time"] = before - _lines(connection)
        before = _lines(connection)
        if options.first_moment is not None:
            connection.execute("DELETE FROM basket WHERE moment < ?", [options.first_moment])
        if options.end_moment is not None:
            connection.execute("DELETE FROM basket WHERE moment >= ?", [options.end_moment])
        dropped["outside since and until"] = before - _lines(connection)
        if long := rows_in(connection, f"basket WHERE last_moment - moment > {LONG_BASKET}"):
            log.warning(
                "%s over more than two days: are basket ids used again?",
                plural(long, "basket stretches", "baskets stretch"),
            )
    connection.execute(
        "CREATE OR REPLACE TABLE basket AS SELECT * REPLACE (CAST(row_number() OVER (ORDER BY basket) - 1 AS INTEGER) "
        "AS code) FROM basket ORDER BY basket"
    )


def _without_mixed_store(connection: Any, columns: Columns, options: SourceOptions) -> Columns:
    """The columns without a store that was taken by its name and has two values in some basket."""
    if options.attributes or len(columns.attributes) != 1 or not rows_in(connection, "basket WHERE a0 <> other_a0"):
        return columns
    log.warning("column %s has two values in some baskets: it is not read", printable(repr(columns.attributes[0])))
    return replace(columns, attributes=())


def _refuse_shared_baskets(connection: Any, columns: Columns) -> None:
    """A basket of two users is two baskets under one id: nothing good can be counted from it."""
    roles = {"customer": ("user", columns.user)}
    roles |= {f"a{i}": ("attribute", name) for i, name in enumerate(columns.attributes)}
    for value, (role, name) in roles.items():
        mixed = connection.execute(
            f"SELECT basket, {value}, other_{value} FROM basket WHERE {value} <> other_{value} ORDER BY basket LIMIT 1"
        ).fetchall()
        if mixed:
            raise shared_basket(mixed[0], role, name)


def shared_basket(found: Iterable[Any], role: str, column: str | None) -> SourceError:
    """The error for a basket with two values of what can have one only: `found` are its id and the values."""
    basket, one, other = (printable(repr(part), 60) for part in found)
    return SourceError(
        f"basket {basket} has two values in column {printable(repr(column))}: {one} and {other}",
        column=column,
        hint=f"Basket ids must be unique over users, shops and days; or leave the {role} column out.",
    )


def _refuse_flat_positions(connection: Any, columns: Columns) -> None:
    """A column that is the same for all lines of a basket is no cart order: the order must not be taken for known."""
    if columns.position is None:
        return
    several = rows_in(connection, "basket WHERE lines > 1")
    flat = rows_in(connection, "basket WHERE lines > 1 AND flat")
    if several and flat == several:
        raise SourceError(
            f"column {printable(repr(columns.position))} has one value in each basket: it does not say the order",
            column=columns.position,
            hint="Leave --position out where cart order is not known.",
        )
    if flat > 0.1 * several:
        log.warning(
            "%s one position for all their lines: is %s the cart order?",
            plural(flat, "basket has", "baskets have"),
            printable(repr(columns.position)),
        )


def _basket_columns(connection: Any, columns: Columns, numbers: list[int]) -> dict[str, Any]:
    """Ids, times, users and attributes of the baskets from the first of `numbers` to the second, in their order."""
    query = "SELECT * FROM basket WHERE code >= ? AND code < ? ORDER BY code"
    table = connection.sql(query, params=numbers).to_arrow_table()
    ids = string_array(table["basket"])
    found: dict[str, Any] = {"ids": ids}
    if columns.time:
        found["times"] = table["moment"].to_numpy()
    if columns.user:
        users = string_array(table["customer"])
        if users.null_count:
            log.info("%s without a user: each counts as a customer of its own", plural(users.null_count, "basket"))
            prefix, nothing = (pa.scalar(text, pa.large_string()) for text in (GUEST, ""))
            users = pc.coalesce(users, pc.binary_join_element_wise(prefix, ids, nothing))
        found["users"], names = coded(users)
        found["user_ids"] = names
    found["attributes"] = {}
    for i, name in enumerate(columns.attributes):
        found["attributes"][name] = attribute_of(pc.fill_null(string_array(table[f"a{i}"]), NOT_SAID))
    return found


def attribute_of(values: pa.LargeStringArray) -> Attribute:
    """The attribute with these values, one per basket."""
    codes, names = coded(values)
    return Attribute(codes, tuple(names.to_pylist()))


def coded(values: pa.LargeStringArray) -> tuple[npt.NDArray[np.int32], pa.LargeStringArray]:
    """Codes into the sorted distinct values."""
    encoded = values.dictionary_encode()
    names = encoded.dictionary
    order = pc.sort_indices(names).to_numpy()
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[encoded.indices.to_numpy()], string_array(names.take(pa.array(order)))
