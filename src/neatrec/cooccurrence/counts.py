"""The records of counting: options (`CountOptions`), totals (`Margins`) and pairs (`CooccurrenceCounts`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN, Catalog, frozen
from neatrec.errors import ParameterError, must_be, require_whole

MAX_BASKET_PAIRS = 200_000_000
DEEPEST = "deepest"
"""The `category_level` that stands for the catalogue's last level, whatever its name."""

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Totals = npt.NDArray[Any]
"""Int64, or float64 where baskets are weighted."""


@dataclass(frozen=True)
class CountOptions:
    """What is counted; saved with every result.

    >>> CountOptions(window=5, directed=False).window
    5
    """

    window: int | None = None
    """None: all pairs of a basket; w: positions at most w apart, before same-category pairs are dropped."""
    directed: bool = True
    """(query, item): query was added before item; needs baskets in cart order."""
    min_basket: int = 2
    """Baskets with fewer lines are left out, counted before any other filter."""
    category_level: str | None = DEEPEST
    """Same-category pairs are removed at this level; None keeps them."""
    once_per_customer: bool = False
    """A pair counts at most once per customer."""
    max_basket_pairs: int = MAX_BASKET_PAIRS
    """A basket with more pairs is refused with a sentence."""
    half_life: float | None = None
    """Days: a basket counts 2^(-age / half-life) of one, see `recency.py`; None: every basket counts one."""
    as_of: int | None = None
    """What ages are measured from, in microseconds since 1970; None: the newest basket."""

    def __post_init__(self) -> None:
        require_whole("window", self.window, or_none=True)
        require_whole("min_basket", self.min_basket)
        require_whole("max_basket_pairs", self.max_basket_pairs)
        for name in ("directed", "once_per_customer"):
            if not isinstance(getattr(self, name), bool):
                raise must_be(name, "True or False", getattr(self, name))
        if self.category_level is not None and not isinstance(self.category_level, str):
            raise must_be("category_level", f"a level's name, {DEEPEST!r} or None", self.category_level)

    def category_of(self, catalog: Catalog) -> Int32:
        """The category code of each item at this level; all UNKNOWN where same-category pairs are kept."""
        if self.category_level is None:
            return np.full(len(catalog), UNKNOWN, dtype=np.int32)
        return catalog.category_of(None if self.category_level == DEEPEST else self.category_level)


@dataclass(frozen=True, eq=False)
class Margins:
    """The totals of a count, over all pairs that are counted, kept or not."""

    first: Totals
    """Records with the item first, shape (items,); undirected: records that hold the item. Floats where weighted."""
    second: Totals
    """Records with the item second, shape (items,); undirected: the same as `first`."""
    records: int
    """N: records in all."""
    pairs: int
    """Unique pairs; 0 while they are being counted and when only margins are counted."""
    baskets: int
    """Baskets counted."""
    category: Int32
    """The category codes used for removal, shape (items,); all UNKNOWN where same-category pairs are kept."""

    @classmethod
    def of(cls, either: Int64, second: Int64, counting: CountOptions, category: Int32, baskets: int) -> Margins:
        """From the records of each item in either place, and in the second."""
        first, second = (either - second, second) if counting.directed else (either, either)
        return cls(first, second, int(either.sum()) // 2, 0, baskets, category)

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            totals = np.asarray(getattr(self, name))
            object.__setattr__(self, name, frozen(totals, np.float64 if totals.dtype.kind == "f" else np.int64))
        object.__setattr__(self, "category", frozen(self.category, np.int32))
        if not self.first.shape == self.second.shape == self.category.shape == (len(self.first),):
            raise ParameterError("`first`, `second` and `category` must have one value for each item")


@dataclass(frozen=True, eq=False)
class PairBlock:
    """Some of the pairs with their counts, as `keep` sees them: arrays of one length, in no promised order."""

    query: Int32
    item: Int32
    count: Int64
    reverse: Int64 | None = None
    """Directed: the count of (item, query)."""
    customers: Int64 | None = None
    """Distinct customers of the pair, where users are known."""

    @classmethod
    def empty(cls, pairs: int, *, reverse: bool, customers: bool) -> PairBlock:
        """A block to be written into."""
        return cls(
            np.empty(pairs, dtype=np.int32),
            np.empty(pairs, dtype=np.int32),
            np.empty(pairs, dtype=np.int64),
            np.empty(pairs, dtype=np.int64) if reverse else None,
            np.empty(pairs, dtype=np.int64) if customers else None,
        )

    @classmethod
    def joined(cls, blocks: list[PairBlock]) -> PairBlock:
        """All pairs of at least one block."""
        columns: Any = zip(*(block.columns for block in blocks), strict=True)
        whole: list[Any] = [None if column[0] is None else np.concatenate(column) for column in columns]
        return cls(*whole)

    def __len__(self) -> int:
        return len(self.query)

    def where(self, chosen: npt.NDArray[Any] | slice) -> PairBlock:
        """The pairs of a mask, of a slice, or of an array of places in that order."""
        columns: list[Any] = [None if column is None else column[chosen] for column in self.columns]
        return PairBlock(*columns)

    @property
    def columns(self) -> tuple[Int32, Int32, Int64, Int64 | None, Int64 | None]:
        return self.query, self.item, self.count, self.reverse, self.customers


class PairPart(NamedTuple):
    """The kept pairs of some queries, sorted by query, then item: all of them, and none of other queries."""

    pairs: PairBlock
    seen: int
    """How many pairs there are before `keep`."""
    forward: Int64 | None = None
    """In how many baskets the query came before the item, where that is known."""


Keep = Callable[[PairBlock, Margins], Mask]
"""Whether each pair of a block is kept. It looks at a pair and the margins only: how pairs are cut into
blocks is up to the engine. If it also has a `prefilter` method (see `FilteredPairs`), compiled code drops most pairs
first."""


@dataclass(frozen=True, eq=False)
class CooccurrenceCounts:
    """Pairs and how often they were bought together, sorted by query, then item.

    Undirected: each pair once, query < item. `symmetric()` gives both directions.
    """

    catalog: Catalog
    counting: CountOptions
    margins: Margins
    query: Int32
    item: Int32
    count: Int64
    reverse: Int64 | None = None
    """Directed: the count of (item, query), 0 when never seen."""
    customers: Int64 | None = None
    """Distinct customers of the pair, where users are known."""
    mirrored: bool = False
    """Whether (q, v) and (v, q) both stand here with the sum of both directions: what `symmetric` gives."""

    def __post_init__(self) -> None:
        columns = {"query": np.int32, "item": np.int32, "count": np.int64, "reverse": np.int64, "customers": np.int64}
        for name, dtype in columns.items():
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, frozen(values, dtype))
                if len(values) != len(self.query):
                    raise ParameterError(
                        f"`{name}` must be as long as `query` ({len(self.query):,}), got {len(values):,}"
                    )
        items = len(self.catalog)
        if len(self.margins.first) != items:
            raise ParameterError(f"`margins` must cover the {items:,} items of the catalogue")
        for name in ("query", "item"):
            codes = getattr(self, name)
            if len(codes) and (codes.min() < 0 or codes.max() >= items):
                raise ParameterError(f"`{name}` must be codes of the catalogue (0 to {items - 1:,})")
        step = np.diff(self.query)
        if not np.all((step > 0) | ((step == 0) & (np.diff(self.item) > 0))):
            raise ParameterError("pairs must be unique and sorted by query, then item")

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        kind = "symmetric" if self.mirrored else "directed" if self.counting.directed else "undirected"
        return f"<CooccurrenceCounts {len(self):,} {kind} pairs of {self.margins.records:,} records>"

    @cached_property
    def indptr(self) -> Int64:
        """Where each query's pairs start, shape (items + 1,): those of q are `indptr[q]:indptr[q + 1]`."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.query, minlength=len(self.catalog)))]).astype(np.int64)

    def row(self, query: int) -> slice:
        """Where the pairs of one query stand.

        >>> pairs.item[pairs.row(3)]  # doctest: +SKIP
        """
        return slice(int(self.indptr[query]), int(self.indptr[query + 1]))

    def symmetric(self) -> CooccurrenceCounts:
        """Both (q, v) and (v, q) with the sum of both directions; margins are the row sums, N the sum of those.

        Distinct customers are known again only for undirected counts: one customer may have bought both ways.
        """
        if self.mirrored:
            return self
        either = self._mirrored(self.count if self.reverse is None else self.count + self.reverse)
        customers = None if self.counting.directed or self.customers is None else self._mirrored(self.customers)
        return CooccurrenceCounts(
            self.catalog,
            self.counting,
            self._symmetric_margins(either.nnz),
            query=np.repeat(np.arange(len(self.catalog), dtype=np.int32), np.diff(either.indptr)),
            item=either.indices,
            count=either.data,
            customers=None if customers is None else customers.data,
            mirrored=True,
        )

    def _mirrored(self, values: Int64) -> Any:
        """A sparse matrix that holds `values`, all above 0, at (query, item) and at (item, query)."""
        from scipy.sparse import csr_matrix

        one_way = csr_matrix((values, self.item, self.indptr), shape=(len(self.catalog),) * 2)
        # a directed pair seen both ways meets its own mirror image, which holds the same sum
        both_ways = one_way.maximum(one_way.T.tocsr())
        both_ways.sort_indices()
        return both_ways

    def _symmetric_margins(self, pairs: int) -> Margins:
        m = self.margins
        row_sum = m.first + m.second if self.counting.directed else m.first
        return Margins(row_sum, row_sum, int(row_sum.sum()), pairs, m.baskets, m.category)
