"""Changes between two bundles, and the items that changed most."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.serving import PairTable
from neatrec.serving.evidence import LIKELY

__all__ = ["BundleDiff", "compare"]

TOP = 10
"""Answers compared per item."""
MAX_LISTED = 20
"""Items listed."""
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class AnswerChange:
    """An item whose top ten answers with evidence changed."""

    id: str | int
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
    """Share of sales whose item has a certain or likely answer."""
    top10_changed: float
    """Share of the top ten answers with evidence that changed, weighted by sales."""
    items_new: int
    items_gone: int
    changes: tuple[AnswerChange, ...]
    """The largest, by sales and share changed."""

    def to_json(self) -> dict[str, Any]:
        """The fields as `neatrec publish --diff --json` prints them."""
        return asdict(self)


def compare(old: PairTable, new: PairTable, *, listed: int = MAX_LISTED) -> BundleDiff:
    """The changes from `old` to `new`; items are matched by id."""
    old_of = _old_codes(new, old)
    bought_old, bought_new = old.item_count > 0, new.item_count > 0
    both = np.flatnonzero(bought_new & (old_of >= 0) & bought_old[np.maximum(old_of, 0)])
    share = _changed(old, new, old_of)[both]
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


def top_answers(index: PairTable) -> tuple[Codes, Codes]:
    """The first ten answers with evidence of every item: queries, and their answers, best first.

    Answers without evidence are not served by default and change with every training.
    """
    found = index.answers
    shown = index.pairs.columns["grade"][found["pair"]] <= LIKELY
    query, item = found["query"][shown], found["item"][shown]
    first = np.arange(len(query)) - np.searchsorted(query, query) < TOP
    return query[first], item[first]


def _changed(old: PairTable, new: PairTable, old_of: Codes) -> npt.NDArray[np.float64]:
    """The share of new or removed answers among each new item's first ten, shape (new items,)."""
    (query, item), (old_query, old_item) = top_answers(new), top_answers(old)
    known = (old_of[query] >= 0) & (old_of[item] >= 0)
    as_old = old_of[query].astype(np.int64) * len(old) + old_of[item]
    same = known & np.isin(as_old, old_query.astype(np.int64) * len(old) + old_item)
    kept = np.bincount(query[same], minlength=len(new))
    before = np.append(np.bincount(old_query, minlength=len(old)), 0)[old_of]
    length = np.maximum(np.bincount(query, minlength=len(new)), before)
    return np.where(length > 0, 1.0 - kept / np.maximum(length, 1), 0.0)


def _change(old: PairTable, new: PairTable, code: int, old_code: int, share: float) -> AnswerChange:
    before, after = _names(old, old_code), _names(new, code)
    return AnswerChange(
        id=new.catalog.public_id(code),
        name=new.catalog.name(code),
        sales=int(new.item_count[code]),
        changed=share,
        gone=tuple(name for item, name in before.items() if item not in after),
        came=tuple(name for item, name in after.items() if item not in before),
    )


def _names(index: PairTable, code: int) -> dict[str, str]:
    """The names of the first ten answers with evidence, by id."""
    items = index.items_of(code, LIKELY)[:TOP]
    return {index.catalog.id(item): index.catalog.name(item) for item in items}
