"""`read_baskets`: one door for every kind of SOURCE."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from neatrec.baskets import Baskets
from neatrec.sources.mapping import SourceOptions, options_from, refuse_options, require_attributes
from neatrec.sources.source_toml import read_source_toml


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
        from neatrec.sources.tabular import read_frame

        return read_frame(source, chosen)
    path = os.fspath(source)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if path.endswith(".toml"):
        path, told = read_source_toml(path)
        chosen = replace(told, **chosen.given())
    return _read_named(path, chosen)


def _read_named(source: str, options: SourceOptions) -> Baskets:
    kind = source.split(":", 1)[0]
    if kind == "supermarket":
        return _supermarket(source, options)
    if kind == "complete-journey":
        from neatrec.sources.journey import read_journey

        return read_journey(source, options)
    if (Path(source) / "baskets.json").is_file():
        refuse_options(source, options, allowed=())
        return Baskets.load(source)
    from neatrec.sources.instacart import is_instacart, read_instacart
    from neatrec.sources.tabular import read_tables

    return read_instacart(source, options) if is_instacart(source) else read_tables(source, options)


def _supermarket(source: str, options: SourceOptions) -> Baskets:
    from neatrec.sources.supermarket import parse_supermarket_spec, supermarket

    refuse_options(source, options, allowed=("attributes",))
    baskets = supermarket(**parse_supermarket_spec(source)).baskets
    require_attributes(source, options, baskets)
    return baskets
