"""`read_baskets`: one door for every kind of SOURCE."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from neatrec.data.baskets import Baskets
from neatrec.io.options import SourceOptions, options_from, refuse_options, require_attributes
from neatrec.io.source_toml import read_source_toml

if TYPE_CHECKING:
    from neatrec.simulator import Supermarket


def read_baskets(source: Any, options: SourceOptions | None = None, **columns: Any) -> Baskets:
    """The baskets of `source`, sorted and checked, with what was left out counted in `dropped`.

    `source` is a file, folder or glob of CSV, CSV.gz or Parquet; an Instacart-layout folder; a folder that
    `Baskets.save` wrote; a `source.toml`; "supermarket[:key=value,...]"; "complete-journey"; or any data frame that
    speaks Arrow (pandas, polars, pyarrow). `columns` are `SourceOptions` by name.

    >>> import pyarrow as pa
    >>> read_baskets(pa.table({"order_id": [1, 1, 2], "sku": ["tea", "milk", "tea"]}))
    <Baskets 2 baskets, 3 lines, 2 items, unordered>
    """
    chosen = options_from(options, columns)
    if not isinstance(source, str | os.PathLike):
        from neatrec.io.tabular import read_frame

        return read_frame(source, chosen)
    path = os.fspath(source)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    return read_named(*resolve_options(path, chosen))


def resolve_options(source: str, options: SourceOptions) -> tuple[str, SourceOptions]:
    """What a `source.toml` says with `options` laid over it; any other source as it is."""
    if not source.endswith(".toml"):
        return source, options
    source, told = read_source_toml(source)
    return source, replace(told, **options.given())


def read_named(source: str, options: SourceOptions) -> Baskets:
    """The baskets of a source that is no `source.toml`."""
    if is_supermarket(source):
        return read_supermarket(source, options).baskets
    if source.split(":", 1)[0] == "complete-journey":
        from neatrec.io.complete_journey import read_journey

        return read_journey(source, options)
    if is_saved(source):
        return _saved(source, options)
    from neatrec.io.assemble import IN_MEMORY
    from neatrec.io.instacart import is_instacart, read_instacart
    from neatrec.io.tabular import read_tables

    return read_instacart(source, options) if is_instacart(source) else read_tables(source, options, IN_MEMORY)


def is_saved(source: str) -> bool:
    """Whether `Baskets.save` wrote the folder `source`."""
    return all(os.path.isfile(os.path.join(source, name)) for name in ("baskets.parquet", "baskets.json"))


def _saved(source: str, options: SourceOptions) -> Baskets:
    refuse_options(source, options, allowed=("attributes",))
    baskets = Baskets.load(source)
    require_attributes(source, options, baskets)
    return baskets


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
