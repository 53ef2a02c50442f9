"""`CountState`: the counts of all baskets added so far, and the answer a recount of them would give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.baskets import Baskets
from neatrec.catalog import Catalog, string_array
from neatrec.copurchase.records import CoPurchases, Counting, Int32, Keep, Margins, PairBlock
from neatrec.copurchase.screen import Screen, kept, screen_of
from neatrec.copurchase.state.folder import read_manifest
from neatrec.copurchase.state.rows import Rows, all_rows, damage_told, merged, read_rows
from neatrec.copurchase.state.segments import Names, as_read, joined, read_segment
from neatrec.copurchase.state.shelf import Shelf

MARGINS = ("first", "second", "first_customers", "second_customers")


@dataclass(frozen=True, eq=False)
class CountState:
    """One folder as it stands. `append` gives the next one."""

    folder: Path
    about: dict[str, Any]
    shelf: Shelf
    users: pa.LargeStringArray | None
    totals: npt.NDArray[np.int64]
    """Margins of the items by arrival, one row for each of MARGINS, shape (4, items)."""

    @property
    def counting(self) -> Counting:
        """What is counted; whether once a customer is for `count` to say."""
        return Counting(**self.about["counting"])

    @property
    def ordered(self) -> bool:
        return bool(self.about["ordered"])

    @property
    def customers_return(self) -> bool:
        """Whether users are known and one of them has two baskets."""
        return bool(self.about["customers_return"])

    @cached_property
    def catalog(self) -> Catalog:
        """The catalogue that a reader of all baskets would make."""
        return self.shelf.catalog()

    @cached_property
    def codes(self) -> Int32:
        """The catalogue code of each item by arrival, shape (items,)."""
        return np.array([self.catalog.code_of[item] for item in self.shelf.ids], dtype=np.int32)

    def margins(self, *, once_per_customer: bool = False) -> Margins:
        """The totals as a recount gives them, without the number of pairs."""
        first, second = (np.zeros(len(self.codes), dtype=np.int64) for _ in range(2))
        first[self.codes], second[self.codes] = self.totals[2:] if once_per_customer else self.totals[:2]
        records = int(first.sum()) // (1 if self.counting.directed else 2)
        category = self.counting.category_of(self.catalog)
        return Margins(first, second, records, 0, self.about["baskets_counted"], category)

    def count(self, keep: Keep, *, once_per_customer: bool = False) -> CoPurchases:
        """The pairs that `keep` leaves, as `neatrec.copurchase.count` of all baskets would give them."""
        counting = replace(self.counting, once_per_customer=once_per_customer)
        margins = self.margins(once_per_customer=once_per_customer)
        screen = screen_of(keep, margins)
        known = self.users is not None
        blocks, pairs = [PairBlock.room(0, reverse=counting.directed, customers=known)], 0
        for rows in self._rows():
            pairs += len(rows)
            blocks.append(kept(self._block(rows, counting, screen), margins, keep))
        found = PairBlock.joined(blocks)
        found = found.where(np.lexsort((found.item, found.query)))
        return CoPurchases(self.catalog, counting, replace(margins, pairs=pairs), *found.columns)  # type: ignore[arg-type]

    def _block(self, rows: Rows, counting: Counting, screen: Screen) -> PairBlock:
        """The pairs that pass the screen."""
        value = rows.customers if counting.once_per_customer else rows.count
        chosen = rows.passing(value, self.codes, screen, directed=counting.directed)
        reverse = rows.reverse(value, chosen) if counting.directed else None
        few = rows.where(chosen)
        query, item = self.codes[few.first], self.codes[few.second]
        if not counting.directed:
            query, item = np.minimum(query, item), np.maximum(query, item)
        return PairBlock(query, item, value[chosen], reverse, None if self.users is None else few.customers)

    def _rows(self) -> Iterator[Rows]:
        """All pairs in order."""
        base, *more = (self.folder / name for name in self.about["pairs"])
        return merged(read_rows(base), all_rows(more))

    def segments(
        self, catalog: Catalog | None = None, users: pa.LargeStringArray | None = None, values: Names | None = None
    ) -> list[Baskets]:
        """The baskets in the order they were added, over the items by arrival; the tables may have grown since."""
        catalog = self.shelf.catalog(by_arrival=True) if catalog is None else catalog
        users = self.users if users is None else users
        values = self.about["attributes"] if values is None else values
        found = []
        for path in (self.folder / name for name in self.about["segments"]):
            with damage_told(path):
                found.append(read_segment(path, catalog, ordered=self.ordered, users=users, values=values))
        return found

    def baskets(self) -> Baskets:
        """All baskets, as a reader of their files would give them."""
        return as_read(joined(self.segments()), self.catalog)


def open_state(folder: str | Path) -> CountState | None:
    """The state in `folder`; None where there is none yet."""
    folder = Path(folder)
    about = read_manifest(folder)
    if about is None:
        return None
    with damage_told(folder / about["items"]):
        shelf = Shelf.read(folder / about["items"], tuple(about["levels"]), nested=about["nested"])
    users = None
    if about["users"] is not None:
        with damage_told(folder / about["users"]):
            users = string_array(pq.read_table(folder / about["users"], page_checksum_verification=True)["user_id"])
    with damage_told(folder / about["margins"]):
        table = pq.read_table(folder / about["margins"], page_checksum_verification=True)
        totals = np.array([table[name].to_numpy() for name in MARGINS])
    return CountState(folder, about, shelf, users, totals)
