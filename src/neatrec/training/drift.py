"""The drift of a model from an older one: changed answers, cosine of the vectors, items that moved most."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from neatrec.models.base import Codes, Model

MAX_QUERIES = 1000
"""Best-selling items whose answers are compared."""
TOP = 10
MAX_LISTED = 20


@dataclass(frozen=True)
class MovedItem:
    """An item whose vector moved far."""

    id: str
    name: str
    sales: int
    cosine: float
    """Between its older vector, after alignment, and its newer one."""
    changed: float
    """Share of its top ten answers that are new."""


@dataclass(frozen=True)
class Drift:
    """The difference of two models over the items in both."""

    items: int
    items_new: int
    items_gone: int
    top10_changed: float | None
    """Share of the top ten answers of the best-selling items that are new, weighted by sales."""
    cosine: float | None
    """Mean cosine of the older and the newer vectors; None, as the others, where no item is in both."""
    cosine_aligned: float | None
    """The same after the best rotation of the older vectors onto the newer ones."""
    movers: tuple[MovedItem, ...]
    """The best-selling items whose vectors moved most."""

    def to_json(self) -> dict[str, Any]:
        """As notes and `--json` hold it."""
        return asdict(self)


def drift(old: Model, new: Model) -> Drift:
    """The drift from `old` to `new`, which must have item vectors of one length; items are matched by id."""
    place = pc.fill_null(pc.index_in(new.catalog.ids, value_set=old.catalog.ids), -1).to_numpy(zero_copy_only=False)
    both = np.flatnonzero((place >= 0) & (new.item_count > 0) & (old.item_count[np.maximum(place, 0)] > 0))
    before, now = _directions(old)[place[both]], _directions(new)[both]
    aligned = (before @ _rotation(before, now) * now).sum(axis=1)
    order = np.lexsort((both, -new.item_count[both]))[:MAX_QUERIES]
    queries = both[order].astype(np.int32)
    changed = _changed_share(old, new, place[queries].astype(np.int32), queries)
    sales = new.item_count[queries].astype(np.float64)
    far = np.lexsort((queries, aligned[order]))[:MAX_LISTED]
    return Drift(
        items=len(both),
        items_new=int((new.item_count > 0).sum()) - len(both),
        items_gone=int((old.item_count > 0).sum()) - len(both),
        top10_changed=_rounded((changed * sales).sum() / max(sales.sum(), 1.0)) if len(both) else None,
        cosine=_rounded((before * now).sum(axis=1).mean()) if len(both) else None,
        cosine_aligned=_rounded(aligned.mean()) if len(both) else None,
        movers=tuple(
            MovedItem(
                new.catalog.id(int(queries[i])),
                new.catalog.name(int(queries[i])),
                int(sales[i]),
                _rounded(aligned[order[i]]),
                _rounded(changed[i]),
            )
            for i in far
        ),
    )


def _directions(model: Model) -> npt.NDArray[np.float64]:
    vectors = np.asarray(model.item_vectors(), dtype=np.float64)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    out: npt.NDArray[np.float64] = vectors / np.where(length == 0, 1.0, length)
    return out


def _rotation(before: npt.NDArray[np.float64], now: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The orthogonal matrix R that brings before @ R nearest to now."""
    left, _, right = np.linalg.svd(before.T @ now)
    rotation: npt.NDArray[np.float64] = left @ right
    return rotation


def _changed_share(old: Model, new: Model, old_codes: Codes, new_codes: Codes) -> npt.NDArray[np.float64]:
    """The share of each item's newer top ten that is not in the older one, shape (items,)."""
    older = old.rank_carts([np.array([code]) for code in old_codes], TOP)
    newer = new.rank_carts([np.array([code]) for code in new_codes], TOP)
    out = np.zeros(len(new_codes))
    for row, (was, now) in enumerate(zip(older, newer, strict=True)):
        known = {old.catalog.id(int(code)) for code in was}
        added = [code for code in now if new.catalog.id(int(code)) not in known]
        out[row] = len(added) / max(len(now), 1)
    return out


def _rounded(number: float) -> float:
    return round(float(number), 4)
