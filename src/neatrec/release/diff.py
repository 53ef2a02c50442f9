"""What changed between two bundles, and for which items most."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.serving import PairTable
from neatrec.serving.evidence import LIKELY

TOP = 10
"""Answers compared per item."""
MAX_LISTED = 20
"""Items listed."""
BLOCK = 20_000
"""Items compared at a time."""

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class AnswerChange:
    """An item whose top ten answers with evidence changed."""

    id: str
    name: str
    sales: int
    """Its lines in the newer bundle's training baskets."""
    changed: float
    """Share of its top ten answers with evidence that are new or gone."""
    gone: tuple[str, ...]
    came: tuple[str, ...]
    """Names, best first."""


@dataclass(frozen=True)
class BundleDiff:
    """The difference between two bundles: pairs of (older, newer)."""

    versions: tuple[str, str]
    rows: tuple[int, int]
    """Training lines."""
    items: tuple[int, int]
    """Items that a training basket holds."""
    coverage: tuple[float, float]
    """Share of sales whose item has an answer that is certain or likely."""
    top10_changed: float
    """Share of the top ten answers with evidence that changed, over items in both, weighted by sales."""
    items_new: int
    items_gone: int
    changes: tuple[AnswerChange, ...]
    """The largest, by sales and share changed."""

    def to_json(self) -> dict[str, Any]:
        """As `neatrec publish --diff --json` prints it."""
        return asdict(self)


def compare(old: PairTable, new: PairTable, *, listed: int = MAX_LISTED) -> BundleDiff:
    """The changes from `old` to `new`; items are matched by id."""
    old_of = _old_codes(new, old)
    bought_old, bought_new = old.item_count > 0, new.item_count > 0
    both = np.flatnonzero(bought_new & (old_of >= 0) & bought_old[np.maximum(old_of, 0)])
    share = _changed(old, new, both, old_of)
    sales = new.item_count[both].astype(np.float64)
    order = np.lexsort((both, -sales * share))[:listed]
    return BundleDiff(
        versions=(old.version, new.version),
        rows=(old.manifest.lines, new.manifest.lines),
        items=(int(bought_old.sum()), int(bought_new.sum())),
        coverage=(_sales_coverage(old), _sales_coverage(new)),
        top10_changed=float((share * sales).sum() / max(sales.sum(), 1.0)),
        items_new=int(bought_new.sum()) - len(both),
        items_gone=int(bought_old.sum()) - len(both),
        changes=tuple(
            _change(old, new, int(both[i]), int(old_of[both[i]]), float(share[i]))
            for i in order
            if share[i] > 0
        ),
    )


def _sales_coverage(index: PairTable) -> float:
    shares = index.coverage()
    return shares["certain"]["sales"] + shares["likely"]["sales"]


def _old_codes(new: PairTable, old: PairTable) -> Codes:
    """The old code of each new item, -1 where there is none, shape (new items,)."""
    if new.catalog.hash == old.catalog.hash:
        return np.arange(len(new), dtype=np.int32)
    lookup = old.catalog.code_of
    return np.array([lookup.get(item, -1) for item in new.catalog.ids.to_pylist()], dtype=np.int32)


def top_answers(index: PairTable, codes: npt.NDArray[np.integer[Any]]) -> Codes:
    """The top ten answers with evidence of some items, -1 where there are fewer, shape (items, 10).

    Answers without evidence are not served by default and change with every training: they would hide the rest.
    """
    out = np.full((len(codes), TOP), -1, dtype=np.int32)
    start, lengths = index.start[codes], index.start[codes + 1] - index.start[codes]
    row = np.repeat(np.arange(len(codes)), lengths)
    before = np.cumsum(lengths) - lengths
    place = np.arange(len(row)) + np.repeat(start - before, lengths)
    shown = index.pairs.columns["grade"][index.answers["pair"][place]] <= LIKELY
    counted = np.concatenate([[0], np.cumsum(shown)])
    rank = counted[:-1] - np.repeat(counted[before], lengths)
    kept = shown & (rank < TOP)
    out[row[kept], rank[kept]] = index.answers["item"][place[kept]]
    return out


def _changed(
    old: PairTable, new: PairTable, both: npt.NDArray[np.intp], old_of: Codes
) -> npt.NDArray[np.float64]:
    """The share of each item's top ten that changed, shape (both,)."""
    out = np.zeros(len(both))
    for begin in range(0, len(both), BLOCK):
        part = both[begin : begin + BLOCK]
        before, after = top_answers(old, old_of[part]), top_answers(new, part)
        as_old = np.where(after >= 0, old_of[np.maximum(after, 0)], -2)
        kept = ((as_old[:, :, None] == before[:, None, :]) & (as_old >= 0)[:, :, None]).sum(
            axis=(1, 2)
        )
        length = np.maximum((before >= 0).sum(axis=1), (after >= 0).sum(axis=1))
        out[begin : begin + BLOCK] = 1.0 - kept / np.maximum(length, 1)
        out[begin : begin + BLOCK][length == 0] = 0.0
    return out


def _change(old: PairTable, new: PairTable, code: int, old_code: int, share: float) -> AnswerChange:
    before = {
        old.catalog.id(c): old.catalog.name(c)
        for c in top_answers(old, np.array([old_code]))[0]
        if c >= 0
    }
    after = {
        new.catalog.id(c): new.catalog.name(c)
        for c in top_answers(new, np.array([code]))[0]
        if c >= 0
    }
    return AnswerChange(
        id=new.catalog.id(code),
        name=new.catalog.name(code),
        sales=int(new.item_count[code]),
        changed=share,
        gone=tuple(name for item, name in before.items() if item not in after),
        came=tuple(name for item, name in after.items() if item not in before),
    )
