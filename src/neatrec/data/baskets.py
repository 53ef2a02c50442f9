"""`Baskets` over one `Catalog`: frozen, validated once, passed everywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neatrec.data.catalog import UNKNOWN, Catalog, frozen, string_array
from neatrec.data.table_result import SHOWN_ROWS, TableResult
from neatrec.errors import BundleError, ParameterError, must_be
from neatrec.text import printable

FORMAT_VERSION = 1


STORES = (
    *("store_id", "store", "store_name", "shop_id", "shop", "branch_id", "branch"),
    *("filiale", "filial_id", "filial_nr", "filialnummer"),
    *("markt", "markt_id", "markt_nr", "marktnummer"),
)
"""Columns that name a store, in English and German: read as an attribute, strata by default."""


@dataclass(frozen=True)
class Attribute:
    """A column of the baskets, such as the store: a code for each basket and the names of the codes."""

    codes: npt.NDArray[np.int32]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Baskets(TableResult):
    """Shopping baskets as flat arrays.

    Basket b holds `items[offsets[b]:offsets[b + 1]]`: in cart order where `ordered`, otherwise in an order that
    means nothing. Users, times and attributes are known for all baskets or for none.
    """

    catalog: Catalog
    items: npt.NDArray[np.int32]
    """Item codes of all lines, shape (lines,)."""
    offsets: npt.NDArray[np.int64]
    """Where each basket starts and the last one ends, shape (baskets + 1,)."""
    ids: pa.LargeStringArray
    """Basket ids, as they stand in the source."""
    ordered: bool
    """Whether the order of the lines is the order in which they went into the cart."""
    users: npt.NDArray[np.int32] | None = None
    """User codes, shape (baskets,); they index `user_ids`."""
    user_ids: pa.LargeStringArray | None = None
    times: npt.NDArray[np.int64] | None = None
    """Microseconds since 1970, UTC, shape (baskets,)."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    """Further columns by name, for strata."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """What the source left out: reason -> rows or baskets."""
    source: str = ""
    """Where they came from, for reports."""
    integer_ids: bool = False
    """Whether basket ids came as integers, and go out as such."""

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "items", frozen(self.items, np.int32))
        keep(self, "offsets", frozen(self.offsets, np.int64))
        keep(self, "ids", string_array(self.ids))
        keep(self, "attributes", dict(self.attributes))
        keep(self, "dropped", dict(self.dropped))
        count = len(self.offsets) - 1
        if (
            self.offsets.ndim != 1
            or count < 0
            or self.offsets[0] != 0
            or self.offsets[-1] != len(self.items)
        ):
            raise ParameterError(
                f"`offsets` must run from 0 to the number of lines ({len(self.items):,}), got {self.offsets!r}"
            )
        if count and np.diff(self.offsets).min() < 0:
            raise ParameterError("`offsets` must not decrease")
        if len(self.items) and (self.items.min() < 0 or self.items.max() >= len(self.catalog)):
            raise ParameterError(
                f"`items` must be codes of the catalogue (0 to {len(self.catalog) - 1:,})"
            )
        if len(self.ids) != count or self.ids.null_count:
            raise ParameterError(
                f"`ids` must name each of the {count:,} baskets, got {len(self.ids):,} ids"
            )
        self._check_users(count)
        if self.times is not None:
            keep(self, "times", frozen(self.times, np.int64))
            if len(self.times) != count:
                raise must_be("times", f"{count} long, one for each basket", len(self.times))
        for name, attribute in self.attributes.items():
            codes = frozen(attribute.codes, np.int32)
            if len(codes) != count or (
                count and (codes.min() < 0 or codes.max() >= len(attribute.names))
            ):
                raise ParameterError(
                    f"attribute {printable(name)!r} must give each basket one of its names"
                )
            self.attributes[name] = Attribute(codes, tuple(attribute.names))  # type: ignore[index]

    def _check_users(self, count: int) -> None:
        if (self.users is None) != (self.user_ids is None):
            raise ParameterError("`users` and `user_ids` must be given together")
        if self.users is None or self.user_ids is None:
            return
        object.__setattr__(self, "users", frozen(self.users, np.int32))
        object.__setattr__(self, "user_ids", string_array(self.user_ids))
        if len(self.users) != count or (
            count and (self.users.min() < 0 or self.users.max() >= len(self.user_ids))
        ):
            raise ParameterError("`users` must give each basket a code of `user_ids`")

    @classmethod
    def from_lists(
        cls,
        baskets: Sequence[Sequence[str]],
        *,
        ordered: bool = True,
        users: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        catalog: Catalog | None = None,
    ) -> Baskets:
        """Make baskets from lists of item ids, in a notebook or a test.

        Parameters
        ----------
        baskets
            The item ids of each basket.
        ordered
            Whether the lists are in cart order.
        users
            The customer of each basket.
        ids
            The id of each basket; None: 1, 2, ...
        catalog
            Catalogue of the items; None: the items of the lists.

        Examples
        --------
        >>> b = Baskets.from_lists([["tea", "milk"], ["milk"]])
        >>> b.sizes.tolist(), b.catalog.ids.to_pylist()
        ([2, 1], ['milk', 'tea'])
        """
        catalog = catalog or Catalog.from_ids(
            sorted({item for basket in baskets for item in basket})
        )
        code = catalog.code_of
        user_names = sorted(set(users)) if users is not None else None
        user_code = {name: i for i, name in enumerate(user_names or [])}
        return cls(
            catalog=catalog,
            items=np.array([code[item] for basket in baskets for item in basket], dtype=np.int32),
            offsets=np.concatenate([[0], np.cumsum([len(basket) for basket in baskets])]),
            ids=string_array(ids if ids is not None else [str(i) for i in range(len(baskets))]),
            ordered=ordered,
            users=np.array([user_code[u] for u in users], dtype=np.int32)
            if users is not None
            else None,
            user_ids=string_array(user_names) if user_names is not None else None,
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        order = "in cart order" if self.ordered else "unordered"
        people = f", {len(self.user_ids):,} users" if self.user_ids is not None else ""
        return f"<Baskets {len(self):,} baskets, {len(self.items):,} lines, {len(self.catalog):,} items{people}, {order}>"

    def to_arrow(self) -> pa.Table:
        """One row per line: basket, item, and what is known of name, categories, user, time, cart position and
        attributes."""
        basket, item = pa.array(self.basket_of_line), pa.array(self.items)
        names = {} if self.catalog.names is None else {"name": self.catalog.names.take(item)}
        for level, known_names in zip(
            self.catalog.levels, self.catalog.category_names, strict=True
        ):
            codes = self.catalog.category_of(level)[self.items]
            index = pa.array(codes, mask=codes == UNKNOWN)
            names[level] = string_array(known_names).take(index)
        known: dict[str, Any] = {}
        if self.users is not None and self.user_ids is not None:
            known["user"] = self.user_ids.take(pa.array(self.users)).take(basket)
        if self.times is not None:
            known["time"] = pa.array(self.times, pa.timestamp("us", tz="UTC")).take(basket)
        if self.ordered:
            known["position"] = pa.array(
                np.arange(1, self.lines + 1) - self.offsets[:-1][self.basket_of_line]
            )
        for name, attribute in self.attributes.items():
            known[name] = pa.array(attribute.names).take(pa.array(attribute.codes)).take(basket)
        ids = {"basket": self.public_ids.take(basket), "item": self.catalog.public_ids.take(item)}
        return pa.table({**ids, **names, **known})

    def _head(self) -> tuple[pa.Table, int]:
        return self.select(np.arange(min(len(self), SHOWN_ROWS))).to_arrow().slice(
            0, SHOWN_ROWS
        ), self.lines

    def _caption(self) -> str:
        return repr(self)

    @property
    def lines(self) -> int:
        return len(self.items)

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Lines in each basket, shape (baskets,)."""
        return np.diff(self.offsets)

    @cached_property
    def item_counts(self) -> npt.NDArray[np.int64]:
        """Lines of each item, shape (items,)."""
        return np.bincount(self.items, minlength=len(self.catalog)).astype(np.int64)

    @cached_property
    def basket_of_line(self) -> npt.NDArray[np.int64]:
        """The basket of each line, shape (lines,)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def public_ids(self) -> pa.Array:
        """Basket ids of the type in which they came, for tables and files."""
        return self.ids.cast(pa.int64()) if self.integer_ids else self.ids

    @cached_property
    def hash(self) -> str:
        """SHA-256 over what the baskets hold (ids, lines, users, times, attributes), equal wherever they were read."""
        digest = hashlib.sha256(f"neatrec-baskets-{FORMAT_VERSION}|{self.ordered}".encode())
        digest.update(self.catalog.hash.encode())
        for text in (self.ids, self.user_ids):
            if text is not None:
                _update_with_strings(digest, text)
        for array in (self.offsets, self.items, self.users, self.times):
            digest.update(
                b"-" if array is None else array.astype(array.dtype.newbyteorder("<")).tobytes()
            )
        for name, attribute in sorted(self.attributes.items()):
            digest.update(
                json.dumps([name, attribute.names]).encode()
                + attribute.codes.astype("<i4").tobytes()
            )
        return digest.hexdigest()

    def select(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.integer[Any]]) -> Baskets:
        """The baskets of a mask or of an array of basket numbers, in that order, over the same catalogue."""
        numbers = (
            np.flatnonzero(chosen)
            if np.asarray(chosen).dtype == bool
            else np.asarray(chosen, dtype=np.int64)
        )
        sizes = self.sizes[numbers]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        lines = np.repeat(self.offsets[numbers] - offsets[:-1], sizes)
        lines += np.arange(len(lines))
        return replace(
            self,
            items=self.items[lines],
            offsets=offsets,
            ids=self.ids.take(pa.array(numbers)),
            users=None if self.users is None else self.users[numbers],
            times=None if self.times is None else self.times[numbers],
            attributes={
                n: Attribute(a.codes[numbers], a.names) for n, a in self.attributes.items()
            },
            dropped={},
        )

    def save(self, folder: str | Path) -> None:
        """Write `catalog.parquet`, `baskets.parquet`, `users.parquet` and `baskets.json` into `folder`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.catalog.save(folder / "catalog.parquet")
        columns: dict[str, Any] = {
            "basket_id": self.public_ids,
            "items": pa.LargeListArray.from_arrays(pa.array(self.offsets), pa.array(self.items)),
        }
        if self.users is not None:
            columns["user"] = pa.array(self.users)
            pq.write_table(
                pa.table({"user_id": self.user_ids}), folder / "users.parquet", compression="zstd"
            )
        if self.times is not None:
            columns["time"] = pa.array(self.times, pa.timestamp("us"))
        for name, attribute in self.attributes.items():
            columns[f"attribute:{name}"] = pa.array(attribute.codes)
        pq.write_table(pa.table(columns), folder / "baskets.parquet", compression="zstd")
        about = {
            "format": FORMAT_VERSION,
            "ordered": self.ordered,
            "source": self.source,
            "dropped": dict(self.dropped),
            "attributes": {
                name: list(attribute.names) for name, attribute in self.attributes.items()
            },
            "hash": self.hash,
        }
        (folder / "baskets.json").write_text(json.dumps(about, indent=2) + "\n")

    @classmethod
    def load(cls, folder: str | Path) -> Baskets:
        """Read what `save` wrote; a damaged or foreign folder is refused by name."""
        folder = Path(folder)
        try:
            about = json.loads((folder / "baskets.json").read_text())
            table = pq.read_table(folder / "baskets.parquet")
            users = (
                pq.read_table(folder / "users.parquet") if "user" in table.column_names else None
            )
        except (OSError, ValueError, pa.ArrowException) as error:
            raise BundleError(
                f"cannot read baskets from {printable(folder)}: {printable(error)}"
            ) from error
        _check_about(about, folder)
        catalog = Catalog.load(folder / "catalog.parquet")
        try:
            baskets = _assembled(catalog, about, table, users)
        except (ParameterError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
            reason = printable(error.args[0] if error.args else error)
            raise BundleError(
                f"{printable(folder / 'baskets.parquet')} does not hold the baskets it should: {reason}",
                file=str(folder / "baskets.parquet"),
            ) from error
        if baskets.hash != about["hash"]:
            raise BundleError(
                f"the baskets in {printable(folder)} are not those that were saved: the hash differs"
            )
        return baskets


ABOUT = {"ordered": bool, "source": str, "dropped": dict, "attributes": dict, "hash": str}
"""What `baskets.json` must hold beside its format."""


def _check_about(about: Any, folder: Path) -> None:
    """Refuse a `baskets.json` that is not what `save` writes."""
    file = folder / "baskets.json"
    if not isinstance(about, dict):
        raise _damaged(file, "it must hold an object")
    if about.get("format") != FORMAT_VERSION:
        found = printable(repr(about.get("format")))
        raise BundleError(
            f"{printable(folder)} has basket format {found}, this version reads {FORMAT_VERSION}"
        )
    for key, kind in ABOUT.items():
        if not isinstance(about.get(key), kind):
            raise _damaged(
                file, f"`{key}` is missing or not {'text' if kind is str else f'a {kind.__name__}'}"
            )
    for reason, rows in about["dropped"].items():
        if isinstance(rows, bool) or not isinstance(rows, int):
            raise _damaged(file, f"`dropped` must count {printable(reason)!r} in whole numbers")
    for name, names in about["attributes"].items():
        if not isinstance(names, list) or not all(isinstance(value, str) for value in names):
            raise _damaged(file, f"`attributes` must list the names of {printable(name)!r} as text")


def _damaged(file: Path, reason: str) -> BundleError:
    return BundleError(f"{printable(file)} is damaged: {reason}", file=str(file))


def _assembled(
    catalog: Catalog, about: Mapping[str, Any], table: pa.Table, users: pa.Table | None
) -> Baskets:
    """The baskets of what was read; whatever column is missing or of another type raises."""
    lists = pa.concat_arrays(
        [pa.array([], pa.large_list(pa.int32())), *_column(table, "items").chunks]
    )
    return Baskets(
        catalog=catalog,
        items=lists.values.to_numpy(),
        offsets=lists.offsets.to_numpy(),
        ids=string_array(_column(table, "basket_id")),
        ordered=about["ordered"],
        users=None if users is None else _whole(table, "user"),
        user_ids=None if users is None else string_array(_column(users, "user_id")),
        times=None
        if "time" not in table.column_names
        else pc.cast(table["time"], pa.int64()).to_numpy(),
        attributes={
            name: Attribute(_whole(table, f"attribute:{name}"), tuple(names))
            for name, names in about["attributes"].items()
        },
        dropped=about["dropped"],
        source=about["source"],
        integer_ids=pa.types.is_integer(_column(table, "basket_id").type),
    )


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        raise ParameterError(f"there is no column {printable(name)!r}")
    return table[name]


def _whole(table: pa.Table, name: str) -> npt.NDArray[Any]:
    column = _column(table, name)
    if not pa.types.is_integer(column.type) or column.null_count:
        raise ParameterError(
            f"column {printable(name)!r} must hold whole numbers, got {column.type}"
        )
    codes: npt.NDArray[Any] = column.to_numpy()
    return codes


def _update_with_strings(digest: Any, text: pa.LargeStringArray) -> None:
    """Lengths, then bytes: independent of how Arrow happens to slice its buffers."""
    digest.update(pc.binary_length(text).to_numpy(zero_copy_only=False).astype("<i8").tobytes())
    compact = pa.concat_arrays([text])
    _, _, data = compact.buffers()
    first, last = np.frombuffer(compact.buffers()[1], np.int64)[
        [compact.offset, compact.offset + len(compact)]
    ]
    digest.update(b"" if data is None else memoryview(data)[first:last])


def customers_return(baskets: Baskets) -> bool:
    """Whether some customer has more than one basket."""
    return baskets.users is not None and len(np.unique(baskets.users)) < len(baskets)
