"""`Rows`: pairs under one sorted key with their counts, summed, merged, and read and written a group at a time.

The key of a pair is low << 32 | high << 1 | way: low < high are the items' numbers in the state, way is 1 where high
was added first (always 0 where cart order is not known). So both ways of a pair stand next to each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.copurchase.records import Int32, Int64
from neatrec.copurchase.screen import Screen
from neatrec.copurchase.state.kernels import merge, screened
from neatrec.errors import BundleError
from neatrec.text import printable

GROUP = 1 << 20
"""Rows of a group of the file, about."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Pairs by ascending key, each once, except while they are being gathered."""

    key: Int64
    count: Int64
    """Records of the pair."""
    customers: Int64
    """Its distinct customers; the same as `count` where customers are not known."""

    def __len__(self) -> int:
        return len(self.key)

    def where(self, chosen: npt.NDArray[Any] | slice) -> Rows:
        return Rows(self.key[chosen], self.count[chosen], self.customers[chosen])

    def minus(self) -> Rows:
        """Rows that take these away."""
        return Rows(self.key, -self.count, -self.customers)

    @property
    def first(self) -> Int64:
        """The item that was added first, as the state numbers it."""
        return np.where(self.key & 1, self._high, self._low)

    @property
    def second(self) -> Int64:
        return np.where(self.key & 1, self._low, self._high)

    @property
    def _low(self) -> Int64:
        return self.key >> 32

    @property
    def _high(self) -> Int64:
        return (self.key >> 1) & 0x7FFFFFFF

    def passing(self, value: Int64, codes: Int32, screen: Screen, *, directed: bool) -> Int64:
        """The places of the rows that pass the screen; `codes` turns the state's numbers into catalogue codes."""
        chosen = np.empty(len(self), dtype=np.int64)
        vectors = map(_plain, screen.vectors())
        return chosen[
            : screened(_plain(self.key), _plain(value), _plain(codes), directed, screen.min_count, *vectors, chosen)
        ]

    def reverse(self, values: Int64, chosen: Int64) -> Int64:
        """`values` of the other way of the pairs at `chosen`, 0 where it was never seen; both ways must stand here."""
        out = np.zeros(len(chosen), dtype=np.int64)
        for step in (-1, 1):
            beside = np.clip(chosen + step, 0, len(self) - 1)
            other = (beside != chosen) & (self.key[beside] >> 1 == self.key[chosen] >> 1)
            out[other] = values[beside[other]]
        return out


NO_ROWS = Rows(*(np.zeros(0, dtype=np.int64) for _ in range(3)))


def keys_of(first: npt.NDArray[Any], second: npt.NDArray[Any], *, directed: bool) -> Int64:
    """The keys of pairs of items.

    >>> keys_of(np.array([1, 2]), np.array([2, 1]), directed=True).tolist() == [1 << 32 | 4, 1 << 32 | 5]
    True
    """
    low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second).astype(np.int64)
    keys: Int64 = low << 32 | high << 1
    return keys | (first > second) if directed else keys


def combined(parts: Sequence[Rows]) -> Rows:
    """One row a key with the sums of all parts; pairs that come to nothing are gone."""
    key, count, customers = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("key", "count", "customers")
    )
    if not len(key):
        return NO_ROWS
    order = np.argsort(key, kind="stable")  # made of sorted stretches: a merge
    key = key[order]
    start = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    rows = Rows(key[start], np.add.reduceat(count[order], start), np.add.reduceat(customers[order], start))
    return rows if rows.count.all() else rows.where(rows.count != 0)


def merged(groups: Iterable[Rows], more: Rows) -> Iterator[Rows]:
    """The groups of a file with `more` added, in order; no pair's two ways are parted."""
    done = 0
    for group in groups:
        end = done + int(np.searchsorted(more.key[done:], group.key[-1] | 1, side="right"))
        yield group if end == done else _sum(group, more.where(slice(done, end)))
        done = end
    yield from cut(more.where(slice(done, None)))


def _sum(one: Rows, other: Rows) -> Rows:
    """`combined` of two that are sorted already, in one walk."""
    room = Rows(*(np.empty(len(one) + len(other), dtype=np.int64) for _ in range(3)))
    both = (one.key, one.count, one.customers, other.key, other.count, other.customers)
    return room.where(slice(merge(*map(_plain, both), room.key, room.count, room.customers)))


def _plain(values: Any) -> Any:
    """Read-only and in one piece: the kernel is compiled once."""
    out = np.ascontiguousarray(values).view()
    out.flags.writeable = False
    return out


def cut(rows: Rows, size: int = GROUP) -> Iterator[Rows]:
    """The rows in groups of about `size`, both ways of a pair in one group."""
    start = 0
    while start < len(rows):
        end = min(start + size, len(rows))
        end += int(end < len(rows) and rows.key[end] >> 1 == rows.key[end - 1] >> 1)
        yield rows.where(slice(start, end))
        start = end


def write_rows(path: Path, groups: Iterable[Rows]) -> int:
    """The rows as Parquet with a checksum on every page; gives back how many there are."""
    schema = pa.schema([(name, pa.int64()) for name in ("key", "count", "customers")])
    written = 0
    with pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=["count", "customers"],
        column_encoding={"key": "DELTA_BINARY_PACKED"},
        write_page_checksum=True,
    ) as writer:
        for group in groups:
            writer.write_table(pa.table([group.key, group.count, group.customers], schema=schema), len(group))
            written += len(group)
    return written


def read_rows(path: Path) -> Iterator[Rows]:
    """The groups of a file that `write_rows` wrote."""
    with damage_told(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        for number in range(file.num_row_groups):
            group = file.read_row_group(number)
            if len(group):
                yield Rows(*(column.to_numpy() for column in group.columns))


def all_rows(paths: Iterable[Path]) -> Rows:
    """The sum of some files, in memory."""
    return combined([NO_ROWS, *(group for path in paths for group in read_rows(path))])


@contextmanager
def damage_told(path: Path) -> Iterator[None]:
    """A file of the state that cannot be read is named, with the way out."""
    try:
        yield
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise BundleError(
            f"{printable(path)} of the state is damaged: {printable(error)}",
            file=str(path),
            hint="Put the folder back from a copy, or make a new state from all baskets.",
        ) from error
