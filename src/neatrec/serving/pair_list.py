"""All pairs with evidence of a table: sorted, filtered and in pages."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.serving.evidence import PUBLIC, Evidence
from neatrec.serving.table import PairTable
from neatrec.text import no_formula

CHUNK = 1000
"""Pairs of a CSV file that are made at a time."""
LISTED = 10
"""Gone pairs that are named."""
Rows = npt.NDArray[np.int64]
Members = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class PairSelection:
    """The items that pairs must hold, each of shape (items,); None: any."""

    left: Members | None = None
    right: Members | None = None
    """One item of the pair in `left`, the other in `right`."""
    either: Members | None = None

    def fits(self, one: npt.NDArray[Any], other: npt.NDArray[Any]) -> Members:
        """Whether each pair fits."""
        left = _holds(self.left, one) & _holds(self.right, other)
        right = _holds(self.left, other) & _holds(self.right, one)
        return (left | right) & (_holds(self.either, one) | _holds(self.either, other))


def _holds(mask: Members | None, codes: npt.NDArray[Any]) -> Members:
    return np.ones(len(codes), dtype=np.bool_) if mask is None else mask[codes]


@dataclass(frozen=True)
class EarlierVersion:
    """The changes since the version before the live one."""

    version: str
    created: str
    items_new: int
    items_gone: int
    pairs_gone: int
    gone: tuple[tuple[str, str, str], ...]
    """The strongest of them: two names, the evidence it had in words."""
    sales: float
    """Share of sales whose item had an answer with evidence."""


class PairList:
    """The certain and likely pairs of a table, each once, the strongest first."""

    def __init__(self, table: PairTable, old: PairTable | None = None) -> None:
        """`old` is the version before, to compare with; it is not kept."""
        self.table = table
        self.pairs = table.pairs.evident
        """The row of each in the table of pairs."""
        self.one, self.other = table.pairs.one[self.pairs], table.pairs.other[self.pairs]
        columns = {name: values[self.pairs] for name, values in table.pairs.columns.items()}
        columns["strength"] = columns["lift_low"]
        columns.setdefault("customers", columns["count"])
        self.orders: dict[str, Rows] = {  # by name of the sort
            name: np.argsort(-columns[name], kind="stable")
            for name in ("beyond", "strength", "customers", "revenue")
            if name in columns
        }
        self.orders["sure"] = np.lexsort((columns["q"], columns["grade"]))
        self.is_new: Members | None = None
        self.earlier: EarlierVersion | None = None
        if old is not None:
            keys = pair_keys(self.one, self.other, len(table))
            self.is_new, self.earlier = _compare(old, table, keys)
            self.orders["new"] = np.flatnonzero(self.is_new)

    def __len__(self) -> int:
        return len(self.pairs)

    def find(
        self, sort: str, chosen: PairSelection, skip: int = 0, k: int | None = None
    ) -> tuple[int, Rows]:
        """The number of pairs that fit, and the rows of at most `k` of them after `skip`."""
        order = self.orders[sort]
        order = order[chosen.fits(self.one, self.other)[order]]
        return len(order), order[skip : None if k is None else skip + k]

    def evidence(self, places: Rows) -> list[tuple[int, int, Evidence]]:
        """The two codes and the evidence of some pairs; the more popular item first."""
        one, other = self.one[places], self.other[places]
        swap = self.table.item_count[other] > self.table.item_count[one]
        one, other = np.where(swap, other, one), np.where(swap, one, other)
        found = self.table.evidence_of(one, other, self.pairs[places])
        return list(zip(one.tolist(), other.tolist(), found, strict=True))

    def csv(self, sort: str, chosen: PairSelection) -> Iterator[str]:
        """All pairs that fit as CSV, a piece at a time."""
        _, places = self.find(sort, chosen)
        head = [f"{side}_{name}" for side in "ab" for name in ("id", "name", "category")]
        yield _lines([[*head, "grade", "strength", *PUBLIC, "new", "evidence"]])
        for begin in range(0, len(places), CHUNK):
            part = places[begin : begin + CHUNK]
            pairs = zip(part.tolist(), self.evidence(part), strict=True)
            yield _lines([self._cells(row, *pair) for row, pair in pairs])

    def _cells(self, row: int, one: int, other: int, evidence: Evidence) -> list[Any]:
        catalog, new = self.table.catalog, None if self.is_new is None else bool(self.is_new[row])
        texts: list[str] = []
        for code in (one, other):
            path = " / ".join(catalog.category_path(code))
            texts += map(no_formula, (catalog.id(code), catalog.name(code), path))
        values = [_cell(value) for value in (*evidence.to_dict().values(), new)]
        return [*texts, evidence.grade, evidence.strength, *values, evidence.words()]


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return "; ".join(value) if isinstance(value, list) else value


def _lines(rows: list[list[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def pair_keys(one: npt.NDArray[Any], other: npt.NDArray[Any], items: int) -> Rows:
    """A number for each pair, whichever item stands first."""
    first, second = np.minimum(one, other).astype(np.int64), np.maximum(one, other)
    keys: Rows = first * items + second
    return keys


def _compare(old: PairTable, new: PairTable, keys: Rows) -> tuple[Members, EarlierVersion]:
    """Which pairs of `new`, with these keys, are new since `old`, and which pairs are gone.

    Items are matched by id.
    """
    now = np.array(
        [new.catalog.code_of.get(item, -1) for item in old.catalog.ids.to_pylist()], dtype=np.int64
    )
    pairs = old.pairs.evident
    one, other = old.pairs.one[pairs], old.pairs.other[pairs]
    there = (now[one] >= 0) & (now[other] >= 0)
    before = np.where(there, pair_keys(now[one], now[other], len(new)), -1)
    gone = np.flatnonzero(~np.isin(before, keys))
    first = gone[:LISTED]
    evidence = old.evidence_of(one[first], other[first], pairs[first])
    names = ([old.catalog.name(int(code)) for code in codes[first]] for codes in (one, other))
    shares = old.coverage()
    sold, sold_before = np.flatnonzero(new.item_count > 0), now[old.item_count > 0]
    kept = int(np.isin(sold, sold_before).sum())
    return ~np.isin(keys, before), EarlierVersion(
        version=old.version,
        created=old.manifest.created,
        items_new=len(sold) - kept,
        items_gone=len(sold_before) - kept,
        pairs_gone=len(gone),
        gone=tuple(zip(*names, [one.words() for one in evidence], strict=True)),
        sales=shares["certain"]["sales"] + shares["likely"]["sales"],
    )
