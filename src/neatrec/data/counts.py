"""`Counts`: the pairs of some baskets, and the options they were counted with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN, Catalog, codes_in, frozen
from neatrec.errors import ParameterError, must_be, must_be_one_of, require_whole

MAX_BASKET_PAIRS = 200_000_000
DEEPEST = "deepest"
"""The `category_level` that stands for the catalogue's last level, whatever its name."""

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]


class PairArrays(NamedTuple):
    """Pairs for compiled code: those of item q are `item[start[q]:start[q + 1]]`, ascending."""

    start: Int64
    item: Int32
    times: Column


class Expected(Protocol):
    """How often pairs would be seen by chance."""

    def of(self, query: Int32, item: Int32, count: Column) -> Floats:
        """E of the aligned pairs (query, item) that were counted so often."""


@dataclass(frozen=True, eq=False)
class ExpectedLimit:
    """Only pairs whose expected count is small enough for their count."""

    expected: Expected
    largest: Floats
    """The largest expected count of each count from 0; larger counts than these have none."""

    def passes(self, query: Int32, item: Int32, count: Column) -> Mask:
        """Which of the aligned pairs are kept."""
        last = len(self.largest) - 1
        limit = np.where(count > last, np.inf, self.largest[np.minimum(count, last)])
        passes: Mask = self.expected.of(query, item, count) <= limit
        return passes


@dataclass(frozen=True)
class CountOptions:
    """Pairs to count and pairs to keep; margins are those of all pairs.

    >>> CountOptions(directed=False, min_count=5).min_count
    5
    """

    directed: bool = True
    """The query was added before the item; needs baskets in cart order."""
    min_basket: int = 2
    """Baskets with fewer lines are left out, counted before any other filter."""
    category_level: str | None = DEEPEST
    """Same-category pairs are removed at this level; None keeps them."""
    once_per_customer: bool = False
    """A pair counts at most once per customer."""
    forward: bool = False
    """Undirected: also count how often the query came first; needs baskets in cart order."""
    max_basket_pairs: int = MAX_BASKET_PAIRS
    """A basket with more pairs is refused with a sentence."""
    min_count: int = 1
    """Pairs with a smaller count are dropped."""
    max_pairs: int | None = None
    """With more pairs than this `min_count` is raised until the rest fits."""
    share: float = 1.0
    """The share of the pairs that are kept, the same ones in every count of the same items."""
    customers: bool = True
    """Also count the distinct customers of each pair, where users are known."""
    only: PairArrays | None = field(default=None, compare=False, repr=False)
    """Only these pairs are kept."""
    limit: ExpectedLimit | None = field(default=None, compare=False, repr=False)
    """Only pairs within this limit are kept."""

    def __post_init__(self) -> None:
        require_whole("max_pairs", self.max_pairs, or_none=True)
        for name in ("min_basket", "max_basket_pairs", "min_count"):
            require_whole(name, getattr(self, name))
        for name in ("directed", "once_per_customer", "forward", "customers"):
            if not isinstance(getattr(self, name), bool):
                raise must_be(name, "True or False", getattr(self, name))
        if self.forward and (self.directed or self.once_per_customer):
            raise must_be("forward", "False for directed pairs and once per customer", True)
        if self.category_level is not None and not isinstance(self.category_level, str):
            raise must_be(
                "category_level", f"a level's name, {DEEPEST!r} or None", self.category_level
            )

    def category_of(self, catalog: Catalog) -> Int32:
        """The category code of each item; all UNKNOWN where same-category pairs are kept."""
        if self.category_level is None:
            return np.full(len(catalog), UNKNOWN, dtype=np.int32)
        return catalog.category_of(None if self.category_level == DEEPEST else self.category_level)


@dataclass(frozen=True, eq=False)
class Margins:
    """The totals of a count, over all pairs that are counted, kept or not."""

    first: Int64
    """Records with the item first, shape (items,); undirected: records that hold the item."""
    second: Int64
    """Records with the item second, shape (items,); undirected: the same as `first`."""
    records: int
    """N: records in all."""
    pairs: int
    """Unique pairs; 0 where only margins were counted."""
    baskets: int
    """Baskets counted."""
    category: Int32
    """Category codes of the removal, shape (items,); UNKNOWN where all pairs are kept."""

    def __post_init__(self) -> None:
        for name, dtype in {"first": np.int64, "second": np.int64, "category": np.int32}.items():
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))

    def without(self, other: Margins) -> Margins:
        """The totals of the baskets that are not in `other`, which is a part of these."""
        return replace(
            self,
            first=self.first - other.first,
            second=self.second - other.second,
            records=self.records - other.records,
            baskets=self.baskets - other.baskets,
        )


@dataclass(frozen=True, eq=False)
class Counts:
    """Pairs of items and how often they were bought together, sorted by query, then item.

    Undirected: each pair once, query < item. `symmetric()` has both directions.
    """

    catalog: Catalog
    options: CountOptions
    margins: Margins
    start: Int64
    """Where the pairs of each query start, shape (items + 1,)."""
    item: Int32
    columns: Mapping[str, Column]
    """By name, each as long as `item`; counts are int32, so convert them before a product.

    count; reverse (directed: the count of (item, query)); customers (distinct, where users are
    known); forward (undirected: baskets in which the query came first); and whatever was added.
    """
    mirrored: bool = False
    """Whether (q, v) and (v, q) both stand here with the sum of both directions."""

    @classmethod
    def of_pairs(
        cls,
        catalog: Catalog,
        options: CountOptions,
        margins: Margins,
        query: Int32,
        columns: Mapping[str, Column],
        *,
        mirrored: bool = False,
    ) -> Counts:
        """From pairs that are sorted by query, then item; `columns` has the items, too."""
        found = dict(columns)
        in_row = np.bincount(query, minlength=len(catalog))
        start = np.concatenate([[0], np.cumsum(in_row)])
        return cls(catalog, options, margins, start, found.pop("item"), found, mirrored)

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "start", frozen(self.start, np.int64))
        keep(self, "item", codes_in("item", self.item, self.item.shape, len(self.catalog)))
        found = {name: frozen(values, values.dtype) for name, values in self.columns.items()}
        keep(self, "columns", found)
        for name, values in found.items():
            if len(values) != len(self.item):
                raise must_be(name, f"as long as `item` ({len(self.item):,})", len(values))
        items = len(self.catalog)
        if len(self.start) != items + 1 or len(self.margins.first) != items:
            raise ParameterError(f"`start` and `margins` must cover the {items:,} items")

    def __len__(self) -> int:
        return len(self.item)

    def __repr__(self) -> str:
        directed = "directed" if self.options.directed else "undirected"
        kind = "symmetric" if self.mirrored else directed
        return f"<Counts {len(self):,} {kind} pairs of {self.margins.records:,} records>"

    @cached_property
    def query(self) -> Int32:
        """The first item of each pair, shape (pairs,)."""
        return np.repeat(np.arange(len(self.catalog), dtype=np.int32), np.diff(self.start))

    @property
    def count(self) -> Column:
        """Records of each pair."""
        return self.columns["count"]

    def column(self, name: str) -> Column:
        """A column by its name."""
        if name not in self.columns:
            raise must_be_one_of("column", list(self.columns), name)
        return self.columns[name]

    def row(self, query: int) -> slice:
        """Where the pairs of one query stand.

        >>> pairs.item[pairs.row(3)]  # doctest: +SKIP
        """
        return slice(int(self.start[query]), int(self.start[query + 1]))

    def arrays(self) -> PairArrays:
        """The pairs for compiled code."""
        return PairArrays(self.start, self.item, self.count)

    def find(self, queries: npt.ArrayLike, items: npt.ArrayLike) -> Int64:
        """Positions of aligned pairs, -1 where absent; undirected pairs in either order."""
        from neatrec.compiled import find_pairs

        one, other = np.asarray(queries, dtype=np.int32), np.asarray(items, dtype=np.int32)
        if not (self.options.directed or self.mirrored):
            one, other = np.minimum(one, other), np.maximum(one, other)
        found: Int64 = find_pairs(self.start, self.item, one, other)
        return found

    def values(self, name: str, queries: npt.ArrayLike, items: npt.ArrayLike) -> Column:
        """A column at aligned pairs, 0 where a pair is not here."""
        return at(self.column(name), self.find(queries, items), 0)

    def where(self, selected: Mask | Int64) -> Counts:
        """The pairs of a mask, or of ascending positions."""
        columns = {name: values[selected] for name, values in self.columns.items()}
        columns["item"] = self.item[selected]
        query = self.query[selected]
        return Counts.of_pairs(
            self.catalog, self.options, self.margins, query, columns, mirrored=self.mirrored
        )

    def with_columns(self, **columns: Column) -> Counts:
        """The same pairs with more columns."""
        return replace(self, columns={**self.columns, **columns})

    def matrix(self, name: str = "count") -> Any:
        """A sparse matrix (items, items) of a column."""
        from scipy.sparse import csr_matrix

        size = len(self.catalog)
        return csr_matrix((self.column(name), self.item, self.start), shape=(size, size))

    def symmetric(self) -> Counts:
        """Undirected pairs as (q, v) and (v, q); directed pairs as they are.

        Margins are the row sums, N their sum.
        """
        from scipy.sparse import csr_matrix

        if self.mirrored or self.options.directed:
            return self
        size, number = len(self.catalog), np.arange(1, len(self) + 1)
        one_way = csr_matrix((number, self.item, self.start), shape=(size, size))
        both = csr_matrix(one_way + one_way.T)
        both.sort_indices()
        columns = {name: values[both.data - 1] for name, values in self.columns.items()}
        columns.pop("forward", None)  # that of (v, q) differs
        m = self.margins
        return replace(
            self,
            margins=replace(m, records=int(m.first.sum()), pairs=both.nnz),
            start=both.indptr,
            item=both.indices,
            columns=columns,
            mirrored=True,
        )


def at(values: Column | None, position: Int64, missing: float) -> Column:
    """`values` at `position`, `missing` where that is -1 or there are no values."""
    if values is None or not len(values):
        return np.full(len(position), missing)
    return np.where(position < 0, missing, values[np.maximum(position, 0)])
