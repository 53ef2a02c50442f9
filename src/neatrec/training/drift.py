"""How far a model that began from an older one has come: answers, directions, and which items moved most."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from neatrec.models.base import Codes, Model

ASKED = 1000
"""Best-selling items whose first answers are compared."""
FIRST = 10
LISTED = 20


@dataclass(frozen=True)
class MovedItem:
    """An item whose vector has turned far."""

    id: str
    name: str
    sales: int
    cosine: float
    """Between its older vector, after alignment, and its newer one."""
    changed: float
    """Share of its first ten answers that are new."""


@dataclass(frozen=True)
class Drift:
    """Two models over items that both have learned about."""

    items: int
    items_new: int
    items_gone: int
    top10_changed: float | None
    """Share of the first ten answers of the best-selling items that are new, weighed by sales."""
    cosine: float | None
    """Mean over items, between older and newer vectors as they are; None, as the others, where no item is in both."""
    cosine_aligned: float | None
    """The same after the rotation that brings the older vectors nearest to the newer ones."""
    movers: tuple[MovedItem, ...]
    """Of the best-selling items those whose vectors turned most."""

    def to_json(self) -> dict[str, Any]:
        """As notes and `--json` hold it."""
        return {**asdict(self), "movers": [asdict(mover) for mover in self.movers]}


def drift(old: Model, new: Model) -> Drift:
    """How far `new` is from `old`; both must have item vectors of one length. Items are the same by their ids."""
    place = pc.fill_null(pc.index_in(new.catalog.ids, value_set=old.catalog.ids), -1).to_numpy(zero_copy_only=False)
    both = np.flatnonzero((place >= 0) & (new.item_count > 0) & (old.item_count[np.maximum(place, 0)] > 0))
    before, now = _directions(old)[place[both]], _directions(new)[both]
    turned = (before @ _rotation(before, now) * now).sum(axis=1)
    order = np.lexsort((both, -new.item_count[both]))[:ASKED]
    asked = both[order].astype(np.int32)
    changed = _changed(old, new, place[asked].astype(np.int32), asked)
    sales = new.item_count[asked].astype(np.float64)
    far = np.lexsort((asked, turned[order]))[:LISTED]
    return Drift(
        items=len(both),
        items_new=int((new.item_count > 0).sum()) - len(both),
        items_gone=int((old.item_count > 0).sum()) - len(both),
        top10_changed=_rounded((changed * sales).sum() / max(sales.sum(), 1.0)) if len(both) else None,
        cosine=_rounded((before * now).sum(axis=1).mean()) if len(both) else None,
        cosine_aligned=_rounded(turned.mean()) if len(both) else None,
        movers=tuple(
            MovedItem(
                new.catalog.id(int(asked[i])),
                new.catalog.name(int(asked[i])),
                int(sales[i]),
                _rounded(turned[order[i]]),
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


def _changed(old: Model, new: Model, old_codes: Codes, new_codes: Codes) -> npt.NDArray[np.float64]:
    """For each item the share of its first ten newer answers that are not among its older ones, shape (items,)."""
    older = old.recommend_carts([np.array([code]) for code in old_codes], FIRST)
    newer = new.recommend_carts([np.array([code]) for code in new_codes], FIRST)
    out = np.zeros(len(new_codes))
    for row, (was, now) in enumerate(zip(older, newer, strict=True)):
        known = {old.catalog.id(int(code)) for code in was}
        came = [code for code in now if new.catalog.id(int(code)) not in known]
        out[row] = len(came) / max(len(now), 1)
    return out


def _rounded(number: float) -> float:
    return round(float(number), 4)
