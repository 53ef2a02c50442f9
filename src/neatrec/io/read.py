"""`read_baskets`: the one entry point for every kind of SOURCE, and `load` for commands."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from neatrec.errors import must_be
from neatrec.io.addresses import DATABASE_FILES, holds_password, is_address, parse_address, password_refused
from neatrec.io.options import SourceOptions, options_from, read_source_toml, refuse_options, require_attributes
from neatrec.text import plural

if TYPE_CHECKING:
    from neatrec.data.baskets import Baskets
    from neatrec.io.assemble import BasketSink, Taken
    from neatrec.simulator import PlantedTruth, Supermarket

log = logging.getLogger(__name__)


def read_baskets(source: Any, options: SourceOptions | None = None, **columns: Any) -> Baskets:
    """The baskets of `source`, sorted and checked, with what was left out counted in `dropped`.

    `source` is a file, folder or glob of CSV, Parquet, JSON lines (each also packed with gzip) or Arrow; a DuckDB or
    SQLite file; the address of a database; a folder that `neatrec import` or `Baskets.save` wrote; an Instacart-layout
    folder; a `source.toml`; "supermarket[:key=value,...]"; "complete-journey"; or any data frame that speaks Arrow
    (pandas, polars, pyarrow). `columns` are `SourceOptions` by name.

    >>> import pyarrow as pa
    >>> read_baskets(pa.table({"order_id": [1, 1, 2], "sku": ["tea", "milk", "tea"]}))
    <Baskets 2 baskets, 3 lines, 2 items, unordered>
    """
    chosen = options_from(options, columns)
    if not isinstance(source, str | os.PathLike):
        from neatrec.io.assemble import IN_MEMORY
        from neatrec.io.tabular import read_frame

        return read_frame(source, chosen, IN_MEMORY)
    path = os.fspath(source)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    return read_named(*resolve_options(path, chosen))


def as_baskets(
    orders: Any, items: Sequence[str] | None = None, columns: Mapping[str, Any] = MappingProxyType({})
) -> Baskets:
    """The baskets of anything that `neatrec.fit` takes: what `read_baskets` reads, lists of items, or a sparse matrix
    with the names of its columns in `items`."""
    from neatrec.data.baskets import Baskets

    is_matrix, is_lists = hasattr(orders, "tocsr"), isinstance(orders, list | tuple)
    if items is not None and not is_matrix:
        raise must_be("items", "given with a sparse matrix", items)
    if columns and (is_matrix or is_lists or isinstance(orders, Baskets)):
        raise must_be(next(iter(columns)), "given with a table of orders, which has columns", type(orders).__name__)
    if isinstance(orders, Baskets):
        return orders
    if is_matrix:
        return _from_matrix(orders.tocsr(copy=True), items)
    if is_lists:
        if not orders:
            raise must_be("orders", "at least one basket", orders)
        for number, basket in enumerate(orders):
            if isinstance(basket, str) or not isinstance(basket, Sequence | set | frozenset):
                raise must_be(f"orders[{number}]", "a list of items", basket, hint="One list per basket.")
            if any(item is None or item != item for item in basket):  # None, NaN: `str` would make an item of it
                raise must_be(f"orders[{number}]", "without missing items", basket, hint="Leave them out.")
        return Baskets.from_lists([list(dict.fromkeys(map(str, basket))) for basket in orders], ordered=False)
    if hasattr(orders, "collect") and hasattr(orders, "lazy"):  # a polars LazyFrame
        orders = orders.collect()
    elif hasattr(orders, "to_arrow_table"):  # a DuckDB relation
        orders = orders.to_arrow_table()
    return read_baskets(orders, **columns)


def _from_matrix(matrix: Any, items: Sequence[str] | None) -> Baskets:
    import pyarrow as pa

    from neatrec.data.baskets import Baskets
    from neatrec.data.catalog import Catalog

    if items is None or len(items) != matrix.shape[1]:
        raise must_be("items", f"{matrix.shape[1]:,} names, one per column of the matrix", items)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    catalog = Catalog.from_ids(list(map(str, items)))
    ids = pa.array([str(number) for number in range(matrix.shape[0])], pa.large_string())
    return Baskets(catalog=catalog, items=matrix.indices, offsets=matrix.indptr, ids=ids, ordered=False)


def resolve_options(source: str, options: SourceOptions) -> tuple[str, SourceOptions]:
    """What a `source.toml` says with `options` laid over it; any other source as it is.

    An address with a password in it goes no further than here.
    """
    if source.endswith(".toml") and not is_address(source):
        source, from_file = read_source_toml(source)
        options = replace(from_file, **options.given())
    if not is_address(source) and holds_password(source) and not os.path.exists(source):
        raise password_refused("SOURCE")
    if is_address(source) and (address := parse_address(source)).scheme in DATABASE_FILES:
        source = address.shown.removeprefix(f"{address.scheme}:///")
    return source, options


def read_named(source: str, options: SourceOptions) -> Baskets:
    """The baskets of a source that is no `source.toml`."""
    from neatrec.io.assemble import IN_MEMORY

    baskets = take_source(source, options, IN_MEMORY, lambda baskets: baskets)
    require_attributes(source, options, baskets)
    return baskets


def take_source(
    source: str, options: SourceOptions, sink: BasketSink[Taken], take_baskets: Callable[[Baskets], Taken]
) -> Taken:
    """What `sink` makes of lines in files or a database, or `take_baskets` of baskets that are simulated or saved."""
    from neatrec.data.baskets import Baskets
    from neatrec.io.basket_store import is_store, take_store
    from neatrec.io.datasets import JOURNEY, is_instacart, take_instacart, take_journey
    from neatrec.io.tabular import read_tables

    if is_supermarket(source):
        return take_baskets(read_supermarket(source, options).baskets)
    if is_saved(source):
        refuse_options(source, options, allowed=("attributes",))
        baskets = Baskets.load(source)
        require_attributes(source, options, baskets)
        return take_baskets(baskets)
    if is_address(source):
        return read_tables(source, options, sink)
    if source.split(":", 1)[0] == JOURNEY:
        return take_journey(source, options, sink)
    if is_store(source):
        return take_store(source, options, sink)
    return take_instacart(source, options, sink) if is_instacart(source) else read_tables(source, options, sink)


def is_saved(source: str) -> bool:
    """Whether `Baskets.save` wrote the folder `source`."""
    return all(os.path.isfile(os.path.join(source, name)) for name in ("baskets.parquet", "baskets.json"))


def is_supermarket(source: str) -> bool:
    """Whether `source` asks for the simulated shop."""
    return source.split(":", 1)[0] == "supermarket"


def read_supermarket(source: str, options: SourceOptions) -> Supermarket:
    """The simulated shop `source` describes: its baskets, and the truth."""
    from neatrec.simulator import parse_supermarket_spec, supermarket

    refuse_options(source, options, allowed=("attributes",))
    market = supermarket(**parse_supermarket_spec(source))
    require_attributes(source, options, market.baskets)
    return market


@dataclass(frozen=True)
class LoadedSource:
    """Baskets, and what really goes with what where they are simulated."""

    baskets: Baskets
    truth: PlantedTruth | None = None


def load(source: str, options: SourceOptions) -> LoadedSource:
    """The baskets of SOURCE with what was left out in the log."""
    source, options = resolve_options(source, options)
    market = read_supermarket(source, options) if is_supermarket(source) else None
    loaded = LoadedSource(market.baskets, market.truth) if market else LoadedSource(read_named(source, options))
    log_summary(loaded.baskets)
    return loaded


def log_summary(baskets: Baskets) -> None:
    """One line for what was read, one for each reason something was left out."""
    order = "in cart order" if baskets.ordered else "cart order not known"
    log.info(
        "read %s, %s, %s (%s)",
        plural(baskets.lines, "line"),
        plural(len(baskets), "basket"),
        plural(len(baskets.catalog), "item"),
        order,
    )
    log_dropped(baskets.dropped)


def log_dropped(dropped: Mapping[str, int]) -> None:
    """One line for each reason something was left out."""
    for reason, count in dropped.items():
        if count:
            log.info("left out: %s (%s)", f"{count:,}", reason)
