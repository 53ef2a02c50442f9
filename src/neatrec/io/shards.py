"""Baskets on disk, shard by shard: what does not fit into memory is cut once and read one piece at a time."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import BundleError, require_whole, writing
from neatrec.io.assemble import LINES_OF_BASKETS, BasketSink, CollectedLines, attribute_of, coded
from neatrec.io.duckdb_session import memory_limits, rows_in
from neatrec.io.options import SourceOptions
from neatrec.text import plural, printable

FORMAT_VERSION = 1
ABOUT, CATALOG = "shards.json", "catalog.parquet"
SHARD_LINES = 1 << 21
"""Lines per shard by default: about 25 MB while it is read."""
MEMORY = 1 << 30
"""Bytes the database may use while it cuts, by default."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShardFolder(Sequence[Baskets]):
    """Shards over one catalogue, read from disk each time they are asked for: a `BasketStream`."""

    folder: Path
    catalog: Catalog
    ordered: bool
    source: str
    dropped: Mapping[str, int]
    sizes: tuple[tuple[int, int], ...]
    """Baskets and lines of each shard."""

    @property
    def baskets(self) -> int:
        return sum(baskets for baskets, _ in self.sizes)

    @property
    def lines(self) -> int:
        return sum(lines for _, lines in self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, number: int) -> Baskets:  # type: ignore[override]
        number = range(len(self))[number]
        file = self.folder / _name(number)
        try:
            table = pq.read_table(file, page_checksum_verification=True)
            shard = _from_table(table, self.catalog, self.ordered, self.source)
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise BundleError(
                f"cannot read the shard {printable(file)}: {printable(error)}",
                file=str(file),
                hint="Run the command again: it writes the shards again.",
            ) from error
        if (len(shard), shard.lines) != self.sizes[number]:
            raise BundleError(f"the shard {printable(file)} is not the one that was written", file=str(file))
        return shard

    def save(self) -> None:
        """Write the catalogue and `shards.json`: from then on `open_shards` finds them."""
        self.catalog.save(self.folder / CATALOG)
        about = {
            "format": FORMAT_VERSION,
            "ordered": self.ordered,
            "source": self.source,
            "dropped": dict(self.dropped),
            "sizes": [list(size) for size in self.sizes],
        }
        (self.folder / ABOUT).write_text(json.dumps(about) + "\n")


def cut_shards(
    source: str,
    options: SourceOptions,
    folder: Path,
    *,
    shard_lines: int = SHARD_LINES,
    at_least: int = 1,
    memory: int | None = None,
) -> ShardFolder:
    """The baskets of `source` as shards in `folder`, which is made: of about `shard_lines` lines, no basket cut in two.

    Files are gone through within `memory` bytes; None: within the usual limit, and again with more where that is too
    little. Rows may come in any order, since baskets are put together and sorted by the database, which spills into
    `folder`. Shard after shard they are what `read_baskets` gives. Sources that are made or kept in memory (simulated,
    saved) are read whole and then cut. Shards are smaller where there would be fewer than about `at_least` of them.
    """
    from neatrec.io.read import resolve_options, take_source

    require_whole("shard_lines", shard_lines)
    source, options = resolve_options(source, options)

    def fitting(lines: int) -> int:
        return min(shard_lines, max(1, lines // at_least))

    with writing("shards into", folder, "Free some space on the disk, or write the bundle elsewhere."):
        folder.mkdir(parents=True, exist_ok=True)
        limits = [memory] if memory else memory_limits(MEMORY)
        sink = BasketSink(lambda collected: _cut(collected, folder, fitting(collected.lines)), folder, limits)
        return take_source(source, options, sink, lambda baskets: write_shards(baskets, folder, fitting(baskets.lines)))


def write_shards(baskets: Baskets, folder: Path, shard_lines: int = SHARD_LINES) -> ShardFolder:
    """Baskets that are in memory, cut into shards in `folder`."""
    shard_of = (baskets.offsets[1:] - 1) // shard_lines  # by a basket's last line
    parts = [baskets.select(np.flatnonzero(shard_of == number)) for number in np.unique(shard_of)]
    for number, part in enumerate(parts):
        _write(part, folder, number)
    sizes = tuple((len(part), part.lines) for part in parts)
    return _saved(ShardFolder(folder, baskets.catalog, baskets.ordered, baskets.source, baskets.dropped, sizes))


def open_shards(folder: Path) -> ShardFolder:
    """The shards that another process cut in `folder`."""
    try:
        about = json.loads((folder / ABOUT).read_text())
        if about["format"] != FORMAT_VERSION:
            raise BundleError(f"{printable(folder)} has shards of format {about['format']!r}, not {FORMAT_VERSION}")
        sizes = tuple((int(baskets), int(lines)) for baskets, lines in about["sizes"])
        catalog = Catalog.load(folder / CATALOG)
        return ShardFolder(folder, catalog, about["ordered"], about["source"], about["dropped"], sizes)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(
            f"cannot read the shards in {printable(folder)}: {printable(error)}",
            file=str(folder),
            hint="All processes must see the folder of the bundle under the same name.",
        ) from error


def _cut(collected: CollectedLines, folder: Path, shard_lines: int) -> ShardFolder:
    """Sort all lines once on disk, then write range after range of the baskets."""
    connection = collected.context.connection
    connection.execute(f"CREATE TABLE cart AS SELECT * FROM {LINES_OF_BASKETS} ORDER BY basket, place, item")
    dropped = collected.without_repeats(rows_in(connection, "cart"))
    connection.execute("DROP VIEW kept")
    connection.execute("DROP TABLE line")
    ranges = connection.execute(
        "SELECT min(code), max(code) + 1 FROM (SELECT code, (sum(lines) OVER (ORDER BY code) - 1) // ? AS shard "
        "FROM basket) GROUP BY shard ORDER BY shard",
        [shard_lines],
    ).fetchall()
    sizes = []
    for number, (first, end) in enumerate(ranges):
        shard = Baskets(**collected.baskets(f"cart WHERE basket >= {first} AND basket < {end}", first, end))
        _write(shard, folder, number)
        sizes.append((len(shard), shard.lines))
    ordered, source = collected.columns.position is not None, collected.context.source
    return _saved(ShardFolder(folder, collected.catalog, ordered, source, dropped, tuple(sizes)))


def _saved(shards: ShardFolder) -> ShardFolder:
    shards.save()
    log.info("%s of %s, one in memory at a time", plural(len(shards), "shard"), plural(shards.lines, "line"))
    return shards


def _name(number: int) -> str:
    return f"shard-{number:06d}.parquet"


def _write(shard: Baskets, folder: Path, number: int) -> None:
    columns: dict[str, Any] = {
        "basket_id": shard.ids,
        "items": pa.LargeListArray.from_arrays(pa.array(shard.offsets), pa.array(shard.items)),
    }
    if shard.users is not None and shard.user_ids is not None:
        columns["user"] = shard.user_ids.take(pa.array(shard.users))
    if shard.times is not None:
        columns["time"] = pa.array(shard.times)
    for name, attribute in shard.attributes.items():
        columns[f"attribute:{name}"] = string_array(attribute.names).take(pa.array(attribute.codes))
    pq.write_table(pa.table(columns), folder / _name(number), compression="zstd", write_page_checksum=True)


def _from_table(table: pa.Table, catalog: Catalog, ordered: bool, source: str) -> Baskets:
    """A shard; users and attributes are coded by what stands in it."""
    lists = pa.concat_arrays([pa.array([], pa.large_list(pa.int32())), *table["items"].chunks])
    users, user_ids = coded(string_array(table["user"])) if "user" in table.column_names else (None, None)
    return Baskets(
        catalog=catalog,
        items=lists.values.to_numpy(),
        offsets=lists.offsets.to_numpy(),
        ids=string_array(table["basket_id"]),
        ordered=ordered,
        users=users,
        user_ids=user_ids,
        times=table["time"].to_numpy() if "time" in table.column_names else None,
        attributes={
            column.removeprefix("attribute:"): attribute_of(string_array(table[column]))
            for column in table.column_names
            if column.startswith("attribute:")
        },
        source=source,
    )
