"""All pairs with evidence of a bundle: sorted, filtered and in pages, at millions of pairs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.serving.evidence import PairEvidence
from neatrec.serving.table import ServingTable
from neatrec.text import no_formula

CHUNK = 1000
"""Pairs of a CSV file that are made at a time."""
FEW = 0.1
"""A filter that leaves the pairs of some items, at most this share of all, goes through their lists; any other through
all pairs, one after another, which is faster for each."""
NUMBERS = ("count", "customers", "weighted", "expected", "lift", "lift_low", "lift_high", "q")

Codes = npt.NDArray[np.int32]
Members = npt.NDArray[np.bool_]


@compiled
def _rows_by_item(one, other, start, item):
    """The row of each pair in the lists of its two items: item i goes with item[start[i]:start[i + 1]], ascending."""
    rows = np.empty(len(item), dtype=np.int32)
    for row in range(len(one)):
        for a, b in ((one[row], other[row]), (other[row], one[row])):
            rows[start[a] + np.searchsorted(item[start[a] : start[a + 1]], b)] = row
    return rows


@compiled
def _fitting(lists, among, masks):
    """The rows of all pairs with one item in `left` and one in `right`, and any in `either`, each once, in no order.

    `lists`: start, items and rows of the items' pairs; `masks`: left, right, either. One item of each such pair is in
    `among`: the lists of other items are not looked at.
    """
    start, item, rows = lists
    left, right, either = masks
    most = 0
    for a in range(len(among)):
        if among[a]:
            most += start[a + 1] - start[a]
    out = np.empty(most, dtype=np.int32)
    found = 0
    for a in range(len(among)):
        if not among[a]:
            continue
        for place in range(start[a], start[a + 1]):
            b = item[place]
            if b < a and among[b]:
                continue  # found in the list of b
            if ((left[a] and right[b]) or (left[b] and right[a])) and (either[a] or either[b]):
                out[found] = rows[place]
                found += 1
    return out[:found]


@compiled
def _mark(one, other, left, right, either, marked):
    """Mark the pairs that fit, as in `_fitting`; returns how many."""
    total = 0
    for row in range(len(one)):
        a, b = one[row], other[row]
        good = ((left[a] and right[b]) or (left[b] and right[a])) and (either[a] or either[b])
        marked[row] = good
        total += good
    return total


@compiled
def _take(order, marked, skip, k):
    """The rows of `order` that are marked, `skip` of them left out, at most `k`."""
    out = np.empty(k, dtype=np.int64)
    found = -skip
    for place in range(len(order)):
        if found == k:
            break
        if marked[order[place]]:
            if found >= 0:
                out[found] = order[place]
            found += 1
    return out[: max(found, 0)]


@dataclass(frozen=True)
class PairSelection:
    """Which items the pairs must hold, each of shape (items,); None: any."""

    left: Members | None = None
    right: Members | None = None
    """One item of the pair in `left`, the other in `right`."""
    either: Members | None = None

    @property
    def is_empty(self) -> bool:
        return self.left is None and self.right is None and self.either is None


@dataclass(frozen=True)
class EarlierVersion:
    """What changed since the version before the live one."""

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
    """The certain and likely pairs of a serving table, each once, with an order for each way of sorting."""

    def __init__(self, index: ServingTable, old: ServingTable | None = None) -> None:
        """`old` is the version before, to compare with; it is not kept."""
        self.index = index
        self.one, self.other, columns = index.with_evidence()
        people = columns["count" if index.pairs.customers is None else "customers"]
        orders = {
            "strength": np.arange(len(self.one)),
            "customers": np.argsort(-people, kind="stable"),
            "sure": np.lexsort((columns["q"], columns["grade"])),
        }
        self.is_new: Members | None = None
        self.earlier: EarlierVersion | None = None
        if old is not None:
            self.is_new, self.earlier = _compare(old, index, pair_keys(self.one, self.other, len(index)))
            orders["new"] = np.flatnonzero(self.is_new)
        self.orders = {name: order.astype(np.int32) for name, order in orders.items()}
        self._ranks = {name: _inverse(self.orders[name]) for name in ("customers", "sure")}
        """Row -> place in that order. By strength, and so among those that are new, a row is its own place."""
        self._rows = _rows_by_item(self.one, self.other, *index.evident_pairs[:2])
        """The row of each entry of `evident_pairs`."""

    def __len__(self) -> int:
        return len(self.one)

    def find(
        self, sort: str, chosen: PairSelection, skip: int = 0, k: int | None = None
    ) -> tuple[int, npt.NDArray[np.int64]]:
        """How many pairs fit, and the rows of at most `k` of them after the first `skip`. By `new`: only those."""
        order = self.orders[sort]
        end = len(order) if k is None else skip + k
        if chosen.is_empty:
            return len(order), order[skip:end].astype(np.int64)
        start, item, _ = self.index.evident_pairs
        every = np.ones(len(self.index), dtype=np.bool_)
        masks = [every if mask is None else mask for mask in (chosen.left, chosen.right, chosen.either)]
        sizes = [int(np.diff(start)[mask].sum()) for mask in masks]
        if min(sizes) > FEW * len(self):
            marked = np.zeros(len(self), dtype=np.bool_)
            total = int(_mark(self.one, self.other, *masks, marked))
            if self.is_new is not None and sort == "new":
                total = int((marked & self.is_new).sum())
            return total, _take(order, marked, skip, max(min(end, total) - skip, 0))
        rows = _fitting((start, item, self._rows), masks[int(np.argmin(sizes))], tuple(masks))
        if self.is_new is not None and sort == "new":
            rows = rows[self.is_new[rows]]
        rank = self._ranks.get(sort)
        places = rows if rank is None else rank[rows]
        if end < len(places):
            places = np.partition(places, end)[:end]
        first = np.sort(places)[skip:]
        return len(rows), (first if rank is None else order[first]).astype(np.int64)

    def evidence(self, rows: npt.NDArray[np.int64]) -> list[tuple[int, int, PairEvidence]]:
        """The two codes and the evidence of the pairs in these rows; the more popular item first."""
        one, other = self.one[rows], self.other[rows]
        swap = self.index.item_count[other] > self.index.item_count[one]
        one, other = np.where(swap, other, one), np.where(swap, one, other)
        return list(zip(one.tolist(), other.tolist(), self.index.evidence_of(one, other), strict=True))

    def csv(self, sort: str, chosen: PairSelection, public: bool) -> Iterator[str]:
        """All pairs that fit as CSV, a piece at a time; counts are withheld from the `public`."""
        catalog, (_, rows) = self.index.catalog, self.find(sort, chosen)
        weighted = self.index.pairs.weighted is not None
        numbers = [name for name in NUMBERS if not public and (weighted or name != "weighted")]
        head = [f"{side}_{name}" for side in "ab" for name in ("id", "name", "category")]
        yield _lines([[*head, "grade", "strength", *numbers, "new", "evidence"]])
        for begin in range(0, len(rows), CHUNK):
            part = rows[begin : begin + CHUNK]
            lines = []
            for row, (a, b, evidence) in zip(part.tolist(), self.evidence(part), strict=True):
                known = evidence.to_dict()
                texts = [
                    no_formula(text)
                    for code in (a, b)
                    for text in (catalog.id(code), catalog.name(code), " / ".join(catalog.category_path(code)))
                ]
                new = "" if self.is_new is None else str(bool(self.is_new[row])).lower()
                values = ["" if known[name] is None else f"{known[name]:.6g}" for name in numbers]
                lines.append([*texts, evidence.grade, evidence.strength, *values, new, evidence.words(public)])
            yield _lines(lines)


def _inverse(order: Codes) -> Codes:
    """The place of each row in `order`."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=order.dtype)
    return place


def _lines(rows: list[list[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def pair_keys(one: npt.NDArray[Any], other: npt.NDArray[Any], items: int) -> npt.NDArray[np.int64]:
    """A number for each pair, whichever item stands first."""
    keys: npt.NDArray[np.int64] = np.minimum(one, other).astype(np.int64) * items + np.maximum(one, other)
    return keys


LISTED = 10
"""Gone pairs that are named."""


def _compare(old: ServingTable, new: ServingTable, keys: npt.NDArray[np.int64]) -> tuple[Members, EarlierVersion]:
    """Which of the pairs of `new` with these keys are new since `old`, and what became of the others; items are matched
    by id."""
    now = np.array([new.catalog.code_of.get(item, -1) for item in old.catalog.ids.to_pylist()], dtype=np.int64)
    one, other, _ = old.with_evidence()
    before = np.where((now[one] >= 0) & (now[other] >= 0), pair_keys(now[one], now[other], len(new)), -1)
    gone = np.flatnonzero(~np.isin(before, keys))
    first = gone[:LISTED]
    words = [evidence.words() for evidence in old.evidence_of(one[first], other[first])]
    names = ([old.catalog.name(int(code)) for code in codes[first]] for codes in (one, other))
    shares = old.coverage()
    sold, sold_before = set(np.flatnonzero(new.item_count > 0).tolist()), set(now[old.item_count > 0].tolist())
    return ~np.isin(keys, before), EarlierVersion(
        version=old.version,
        created=old.manifest.created,
        items_new=len(sold - sold_before),
        items_gone=int((old.item_count > 0).sum()) - len(sold & sold_before),
        pairs_gone=len(gone),
        gone=tuple(zip(*names, words, strict=True)),
        sales=shares["certain"]["sales"] + shares["likely"]["sales"],
    )
