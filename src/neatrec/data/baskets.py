"""`Baskets` over one `Catalog`: frozen, validated once, passed everywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.catalog import UNKNOWN, Catalog, codes_in, frozen, string_array
from neatrec.data.table_result import SHOWN_ROWS, TableResult
from neatrec.errors import ParameterError, must_be

STORES = (
    *("store_id", "store", "store_name", "shop_id", "shop", "branch_id", "branch"),
    *("filiale", "filial_id", "filial_nr", "filialnummer"),
    *("markt", "markt_id", "markt_nr", "marktnummer"),
)
"""Columns that name a store, in English and German: read as an attribute, strata by default."""


@dataclass(frozen=True)
class Attribute:
    """A column of the baskets, such as the store: a code per basket and the names of the codes."""

    codes: npt.NDArray[np.int32]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Baskets(TableResult):
    """Shopping baskets as flat arrays.

    Basket b holds `items[offsets[b]:offsets[b + 1]]`, in cart order where `ordered`. Users, times
    and attributes are known for all baskets or for none.
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
    """Rows or baskets that the source left out, by reason."""
    source: str = ""
    """Where they came from, for reports."""
    integer_ids: bool = False
    """Whether basket ids came as integers, and go out as such."""

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "offsets", frozen(self.offsets, np.int64))
        keep(self, "ids", string_array(self.ids))
        keep(self, "dropped", dict(self.dropped))
        count, lines = len(self.offsets) - 1, len(self.items)
        if count < 0 or self.offsets[0] != 0 or self.offsets[-1] != lines:
            raise must_be("offsets", f"from 0 to the number of lines ({lines:,})", self.offsets)
        if count and np.diff(self.offsets).min() < 0:
            raise must_be("offsets", "rising", self.offsets)
        keep(self, "items", codes_in("items", self.items, (lines,), len(self.catalog)))
        if len(self.ids) != count or self.ids.null_count:
            raise must_be("ids", f"{count:,} long, one per basket", self.ids.to_pylist())
        if (self.users is None) != (self.user_ids is None):
            raise ParameterError("`users` and `user_ids` must be given together")
        if self.users is not None:
            keep(self, "user_ids", string_array(self.user_ids))
            users = len(self.user_ids or ())
            keep(self, "users", codes_in("users", self.users, (count,), users))
        if self.times is not None:
            keep(self, "times", frozen(self.times, np.int64))
            if len(self.times) != count:
                raise must_be("times", f"{count:,} long, one per basket", len(self.times))
        coded = {
            name: Attribute(codes_in(name, each.codes, (count,), len(each.names)), each.names)
            for name, each in self.attributes.items()
        }
        keep(self, "attributes", coded)

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
            users=None if users is None else np.array([user_code[u] for u in users], np.int32),
            user_ids=None if user_names is None else string_array(user_names),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        order = "in cart order" if self.ordered else "unordered"
        people = f", {len(self.user_ids):,} users" if self.user_ids is not None else ""
        sizes = f"{len(self):,} baskets, {self.lines:,} lines, {len(self.catalog):,} items"
        return f"<Baskets {sizes}{people}, {order}>"

    def to_arrow(self) -> pa.Table:
        """One row per line.

        Columns: basket, item and, if given, name, category levels, user, time, position in the
        cart and attributes.
        """
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
            first = self.offsets[:-1][self.basket_of_line]
            known["position"] = pa.array(np.arange(1, self.lines + 1) - first)
        if self.catalog.prices is not None:
            prices = self.catalog.prices[self.items]
            known["price"] = pa.array(prices, mask=np.isnan(prices))
        for name, attribute in self.attributes.items():
            known[name] = pa.array(attribute.names).take(pa.array(attribute.codes)).take(basket)
        ids = {"basket": self.public_ids.take(basket), "item": self.catalog.public_ids.take(item)}
        return pa.table({**ids, **names, **known})

    def _head(self) -> tuple[pa.Table, int]:
        first = self.select(np.arange(min(len(self), SHOWN_ROWS)))
        return first.to_arrow().slice(0, SHOWN_ROWS), self.lines

    def _caption(self) -> str:
        return repr(self)

    @property
    def lines(self) -> int:
        """The number of lines."""
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
        """SHA-256 over ids, lines, users, times and attributes, equal wherever they were read."""
        digest = hashlib.sha256(f"neatrec-baskets-1|{self.ordered}".encode())
        digest.update(self.catalog.hash.encode())
        for text in (self.ids, self.user_ids):
            if text is not None:
                _update_with_strings(digest, text)
        for array in (self.offsets, self.items, self.users, self.times):
            little = None if array is None else array.astype(array.dtype.newbyteorder("<"))
            digest.update(b"-" if little is None else little.tobytes())
        for name, attribute in sorted(self.attributes.items()):
            digest.update(json.dumps([name, attribute.names]).encode())
            digest.update(attribute.codes.astype("<i4").tobytes())
        return digest.hexdigest()

    def select(self, selected: npt.NDArray[np.bool_] | npt.NDArray[np.integer[Any]]) -> Baskets:
        """The baskets of a mask, or those with these numbers in this order."""
        if np.asarray(selected).dtype == bool:
            numbers, lines = np.flatnonzero(selected), np.repeat(selected, self.sizes)
        else:
            numbers, lines = np.asarray(selected, dtype=np.int64), None
        sizes = self.sizes[numbers]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        if lines is None:
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
                name: Attribute(attribute.codes[numbers], attribute.names)
                for name, attribute in self.attributes.items()
            },
            dropped={},
        )


def _update_with_strings(digest: Any, text: pa.LargeStringArray) -> None:
    """Lengths, then bytes: independent of how Arrow happens to slice its buffers."""
    digest.update(pc.binary_length(text).to_numpy(zero_copy_only=False).astype("<i8").tobytes())
    compact = pa.concat_arrays([text])
    _, _, data = compact.buffers()
    ends = [compact.offset, compact.offset + len(compact)]
    first, last = np.frombuffer(compact.buffers()[1], np.int64)[ends]
    digest.update(b"" if data is None else memoryview(data)[first:last])


def customers_return(baskets: Baskets) -> bool:
    """Whether some customer has more than one basket."""
    return baskets.users is not None and len(np.unique(baskets.users)) < len(baskets)
