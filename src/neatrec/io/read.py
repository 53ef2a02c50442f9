"""`read_baskets`: the one entry point for every kind of SOURCE, and `load` for commands."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from neatrec.errors import must_be
from neatrec.io.addresses import (
    READABLE,
    holds_password,
    is_address,
    parse_address,
    password_refused,
)
from neatrec.io.options import (
    SourceOptions,
    options_from,
    read_source_toml,
    refuse_options,
    require_attributes,
)
from neatrec.text import plural

if TYPE_CHECKING:
    from neatrec.data.baskets import Baskets
    from neatrec.simulator import PlantedTruth

log = logging.getLogger(__name__)


def read_baskets(source: Any, options: SourceOptions | None = None, **columns: Any) -> Baskets:
    """Read the baskets of `source`, sorted and checked; `dropped` counts the rows left out.

    Parameters
    ----------
    source
        A file, folder or glob of CSV, Parquet, JSON lines (each also gzipped) or Arrow; the address
        of a PostgreSQL database; a folder that `neatrec import` wrote; an
        Instacart-layout folder; a `source.toml`; "supermarket[:key=value,...]"; "complete-journey";
        or any data frame that supports Arrow (pandas, polars, pyarrow).
    options
        Columns and rules of the source.
    **columns
        Fields of `SourceOptions` by name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> read_baskets(pa.table({"order_id": [1, 1, 2], "sku": ["tea", "milk", "tea"]}))
    <Baskets 2 baskets, 3 lines, 2 items, unordered>
    """
    return _read(source, options_from(options, columns)).baskets


@dataclass(frozen=True)
class LoadedSource:
    """Baskets, and the planted pairs where they are simulated."""

    baskets: Baskets
    truth: PlantedTruth | None = None


def load(source: str, options: SourceOptions) -> LoadedSource:
    """The baskets of SOURCE; the log says which rows were left out."""
    loaded = _read(source, options, for_pairs=True)
    baskets = loaded.baskets
    sizes = {"line": baskets.lines, "basket": len(baskets), "item": len(baskets.catalog)}
    listed = ", ".join(plural(count, what) for what, count in sizes.items())
    log.info("read %s (%s)", listed, "in cart order" if baskets.ordered else "cart order not known")
    log_dropped(baskets.dropped)
    return loaded


def log_dropped(dropped: Mapping[str, int]) -> None:
    """Log the rows that were left out by reason."""
    for reason, count in dropped.items():
        if count:
            log.info("left out: %s (%s)", f"{count:,}", reason)


def _read(source: Any, options: SourceOptions, *, for_pairs: bool = False) -> LoadedSource:
    """The baskets of any source; with `for_pairs` an error where no basket holds two items."""
    from neatrec.io.source import open_source

    if isinstance(source, str | os.PathLike):
        source, options = resolve_options(os.fsdecode(source), options)
        if source.split(":", 1)[0] == "supermarket":
            return _read_supermarket(source, options)
    with open_source(source, options) as lines:
        baskets = lines.baskets()
        if for_pairs:
            lines.require_pairs(baskets)
    require_attributes(baskets.source, options, baskets)
    return LoadedSource(baskets)


def _read_supermarket(source: str, options: SourceOptions) -> LoadedSource:
    from neatrec.simulator import parse_supermarket_spec, supermarket

    refuse_options(source, options, allowed=("attributes",))
    market = supermarket(**parse_supermarket_spec(source))
    require_attributes(source, options, market.baskets)
    return LoadedSource(market.baskets, market.truth)


def as_baskets(
    orders: Any,
    columns: Mapping[str, Any] = MappingProxyType({}),
    options: SourceOptions | None = None,
) -> Baskets:
    """The baskets of anything that `neatrec.fit` takes.

    Beside the sources of `read_baskets` these are lists of items.
    """
    from neatrec.data.baskets import Baskets

    given = [*columns, *(["options"] if options is not None else [])]
    if given and isinstance(orders, list | tuple | Baskets):
        wanted = "given with a table of orders, which has columns"
        raise must_be(given[0], wanted, type(orders).__name__)
    if isinstance(orders, Baskets):
        return orders
    if isinstance(orders, list | tuple):
        return _from_lists(orders)
    if hasattr(orders, "collect") and hasattr(orders, "lazy"):  # a polars LazyFrame
        orders = orders.collect()
    elif hasattr(orders, "to_arrow_table"):  # a DuckDB relation
        orders = orders.to_arrow_table()
    return _read(orders, options_from(options, dict(columns)), for_pairs=True).baskets


def _from_lists(orders: Sequence[Any]) -> Baskets:
    from neatrec.data.baskets import Baskets

    if not orders:
        raise must_be("orders", "at least one basket", orders)
    for number, basket in enumerate(orders):
        what = f"orders[{number}]"
        if isinstance(basket, str) or not isinstance(basket, Sequence | set | frozenset):
            raise must_be(what, "a list of items", basket, hint="One list per basket.")
        # None, NaN: `str` would make an item of it
        if any(item is None or item != item for item in basket):
            raise must_be(what, "without missing items", basket, hint="Leave them out.")
    lists = [list(dict.fromkeys(map(str, basket))) for basket in orders]
    baskets = Baskets.from_lists(lists, ordered=False)
    are_integers = all(
        isinstance(item, Integral) and not isinstance(item, bool)
        for basket in orders
        for item in basket
    )
    return replace(baskets, catalog=replace(baskets.catalog, integer_ids=are_integers))


def resolve_options(source: str, options: SourceOptions) -> tuple[str, SourceOptions]:
    """Source and options of a `source.toml` under `options`; any other source as it is.

    An address with a password is refused here.
    """
    if source.endswith(".toml") and not is_address(source):
        source, from_file = read_source_toml(source)
        options = replace(from_file, **options.given())
    if is_address(source):
        parse_address(source, READABLE)
    elif holds_password(source) and not os.path.exists(source):
        raise password_refused("SOURCE")
    return source, options
