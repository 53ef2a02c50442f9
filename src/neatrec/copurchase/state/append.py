"""`append`: baskets into a state, whole or not at all.

Counts add up over customers: those of all baskets are those of the customers who did not come today, which stay, and
those of the others, whose older baskets are taken out and put in again together with the new ones. So a pair that a
customer buys again counts as one customer, and only the baskets of today's customers are looked at.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.baskets import Baskets
from neatrec.copurchase.records import Counting
from neatrec.copurchase.state import folder as disk
from neatrec.copurchase.state.counts import MARGINS, CountState, open_state
from neatrec.copurchase.state.gather import gathered
from neatrec.copurchase.state.rows import NO_ROWS, Rows, all_rows, combined, cut, merged, read_rows, write_rows
from neatrec.copurchase.state.segments import already_there, rebased, users_with, values_with, write_segment
from neatrec.copurchase.state.shelf import Shelf, empty_shelf
from neatrec.errors import ParameterError
from neatrec.text import printable

FOLD = 8
"""Additions are folded into the large file of pairs once they hold one row for so many of its rows."""
FEW_ROWS = 1 << 20
"""Fewer rows than this are not folded."""
MANY_FILES = 64
"""More additions than this are folded."""
Engine = Mapping[str, Any]


@dataclass(frozen=True)
class Added:
    """What one call added."""

    baskets: int
    skipped: int
    """Baskets that were in the state already."""
    total: int
    """Baskets in the state now."""


@dataclass(frozen=True, eq=False)
class _Arrival:
    """What is new, over tables that hold the old and the new."""

    shelf: Shelf
    users: pa.LargeStringArray | None
    values: dict[str, list[str]]
    new: Baskets
    skipped: int
    old: list[Baskets]


def append(
    folder: str | Path, baskets: Baskets, counting: Counting, *, engine: Engine | None = None
) -> tuple[CountState, Added]:
    """Add the baskets that are new to the state in `folder` (made where there is none) and count their pairs.

    A state must have been made with the same `counting`. A basket that it holds already is left out; one that differs
    from what it holds under the same id is an error. `engine` goes to `count`.
    """
    folder = Path(folder)
    if counting.window is not None:
        raise ParameterError("`window` must be None for a state: it keeps all pairs of a basket", argument="window")
    counting = replace(counting, once_per_customer=False)  # both counts are kept
    with disk.locked(folder):
        before = open_state(folder)
        disk.sweep(folder, None if before is None else before.about)
        if before is not None:
            _refuse_other(before, baskets, counting)
        arrival = _arrival(before, baskets)
        if before is not None and not len(arrival.new):
            return before, Added(0, arrival.skipped, before.about["baskets"])
        with tempfile.TemporaryDirectory(prefix="neatrec-", ignore_cleanup_errors=True) as room:
            about = _written(folder, before, arrival, counting, engine or {}, Path(room))
        disk.commit(folder, about)
        after = open_state(folder)
    if after is None:
        raise ParameterError(f"the state in {printable(folder)} went away while it was written")
    return after, Added(len(arrival.new), arrival.skipped, after.about["baskets"])


def _refuse_other(state: CountState, baskets: Baskets, counting: Counting) -> None:
    """Only what the state has been counting can be added to it."""
    facts = _facts(baskets)
    told = {
        **{name: (state.about[name], facts[name], what) for name, what in FACTS.items()},
        "min_basket": (state.counting.min_basket, counting.min_basket, "a smallest basket of {}"),
        "category_level": (state.counting.category_level, counting.category_level, "pairs of one {} left out"),
        "directed": (state.counting.directed, counting.directed, "pairs in cart order: {}"),
    }
    for argument, (was, asked, what) in told.items():
        if was != asked:
            old, new = (printable(what.format(_word(value))) for value in (was, asked))
            raise ParameterError(
                f"the state {printable(state.folder)} was made with {old}, got {new}",
                argument=argument,
                hint="Use the same options as before, or make a new state in another folder.",
            )


FACTS = {"ordered": "cart order known: {}", "has_users": "users known: {}", "has_times": "times known: {}"}
FACTS |= {"attribute_names": "the columns {}"}


def _facts(baskets: Baskets) -> dict[str, Any]:
    return {
        "ordered": baskets.ordered,
        "has_users": baskets.users is not None,
        "has_times": baskets.times is not None,
        "attribute_names": sorted(baskets.attributes),
    }


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "no category" if value is None else str(value)


def _arrival(before: CountState | None, baskets: Baskets) -> _Arrival:
    shelf = (empty_shelf(baskets.catalog) if before is None else before.shelf).with_items_of(baskets.catalog)
    users = users_with(None if before is None else before.users, baskets)
    values = values_with({} if before is None else before.about["attributes"], baskets)
    catalog = shelf.catalog(by_arrival=True)
    numbered = rebased(baskets, catalog, shelf.numbers_of(baskets.catalog), users, values)
    old = [] if before is None else before.segments(catalog, users, values)
    there = np.zeros(len(numbered), dtype=bool)
    for part in old:
        there |= already_there(numbered, part)
    return _Arrival(shelf, users, values, numbered.select(~there), int(there.sum()), old)


def _written(
    folder: Path, before: CountState | None, arrival: _Arrival, counting: Counting, engine: Engine, room: Path
) -> dict[str, Any]:
    """The files of the next state are there; what `state.json` is to say of them."""
    was: dict[str, Any] = {} if before is None else before.about
    number = was.get("generation", 0) + 1
    items, margins, segment, pairs = (f"{name}-{number}.parquet" for name in ("items", "margins", "baskets", "pairs"))
    tally = _Tally(len(arrival.shelf.ids), directed=counting.directed)
    rows = tally.watching(_new_rows(arrival, counting, engine, room))
    files, written = _write_pairs(folder, was, pairs, rows)
    totals = tally.totals
    if before is not None:
        totals[:, : before.totals.shape[1]] += before.totals
    arrival.shelf.write(folder / items)
    pq.write_table(pa.table(list(totals), names=MARGINS), folder / margins, write_page_checksum=True)
    write_segment(folder / segment, arrival.new)
    users = None
    if arrival.users is not None:
        users = f"users-{number}.parquet"
        pq.write_table(
            pa.table({"user_id": arrival.users}), folder / users, compression="zstd", write_page_checksum=True
        )
    segments = [*was.get("segments", ()), segment]
    return {
        "generation": number,
        "counting": {name: getattr(counting, name) for name in ("directed", "min_basket", "category_level")},
        **_facts(arrival.new),
        "levels": list(arrival.shelf.levels),
        "nested": arrival.shelf.nested,
        "attributes": arrival.values,
        "baskets": was.get("baskets", 0) + len(arrival.new),
        "baskets_counted": was.get("baskets_counted", 0) + int((arrival.new.sizes >= counting.min_basket).sum()),
        "customers_return": was.get("customers_return", False) or _return(arrival),
        "items": items,
        "margins": margins,
        "users": users,
        "segments": segments,
        "pairs": files,
        "rows": written,
        "files": [items, margins, *([users] if users else []), *segments, *files],
    }


def _return(arrival: _Arrival) -> bool:
    """Whether a customer of the new baskets has two."""
    if arrival.new.users is None:
        return False
    twice = len(np.unique(arrival.new.users)) < len(arrival.new)
    return twice or any(len(part) for part in _older(arrival))


def _older(arrival: _Arrival) -> list[Baskets]:
    """The older baskets of the customers who came again."""
    if arrival.new.users is None or arrival.users is None:
        return []
    today = np.zeros(len(arrival.users), dtype=bool)
    today[arrival.new.users] = True
    return [part.select(today[part.users]) for part in arrival.old if part.users is not None]


def _new_rows(arrival: _Arrival, counting: Counting, engine: Engine, room: Path) -> Iterator[Rows]:
    """What the new baskets add to the counts, in order."""
    older = [part for part in _older(arrival) if len(part)]
    if not older:
        return gathered(arrival.new, counting, room, engine)
    together, apart = room / "together", room / "apart"
    together.mkdir()
    apart.mkdir()
    with_today = gathered([*older, arrival.new], counting, together, engine)
    without = (rows.minus() for rows in gathered(older, counting, apart, engine))
    return cut(combined([NO_ROWS, *with_today, *without]))


class _Tally:
    """The margins of rows, taken as they go by."""

    def __init__(self, items: int, *, directed: bool) -> None:
        self.totals: npt.NDArray[np.int64] = np.zeros((len(MARGINS), items), dtype=np.int64)
        self._directed = directed

    def watching(self, groups: Iterable[Rows]) -> Iterator[Rows]:
        for rows in groups:
            for place, values in ((0, rows.count), (2, rows.customers)):
                for offset, item in ((0, rows.first), (1, rows.second)):
                    # whole numbers below 2^53 are exact as floats
                    share = np.bincount(item, values, self.totals.shape[1]).astype(np.int64)
                    for row in (place + offset,) if self._directed else (place, place + 1):
                        self.totals[row] += share
            yield rows


def _write_pairs(folder: Path, was: Mapping[str, Any], name: str, rows: Iterator[Rows]) -> tuple[list[str], list[int]]:
    """The files of pairs and how many rows each has: one more, or all in one where many have come together."""
    files, sizes = list(was.get("pairs", ())), list(was.get("rows", ()))
    written = write_rows(folder / name, rows)
    later = sum(sizes[1:]) + written
    if not files or (len(files) < MANY_FILES and (later < FEW_ROWS or later * FOLD < sizes[0])):
        return [*files, name], [*sizes, written]
    more = all_rows(folder / later_name for later_name in [*files[1:], name])
    whole = name.replace("pairs-", "pairs-all-")
    return [whole], [write_rows(folder / whole, merged(read_rows(folder / files[0]), more))]
