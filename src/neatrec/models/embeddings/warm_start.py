"""A fit that begins where another model stands: items matched by their ids, new ones where their category is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.errors import must_be
from neatrec.models.embeddings.kernels.layout import Table

if TYPE_CHECKING:
    from neatrec.models.embeddings.model import EmbeddingModel

SHARE = 5
"""A warm start takes one epoch for so many of a fit from nothing, unless told how many."""

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int32]


@dataclass(frozen=True)
class MatchedItems:
    """Which items (or users) of the older model are which of the new one, shape (new,): -1 for those it never saw."""

    old: Rows
    category: Rows | None = None
    """Of items: the category of each new one, shape (new,)."""

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        return self.old >= 0


def matched_items(old: EmbeddingModel, catalog: Catalog, level: str | None) -> MatchedItems:
    """Items by id; one that no basket of the older model held was never learned, and counts as new."""
    code = _places(catalog.ids, old.catalog.ids)
    learned = old.item_count[np.maximum(code, 0)] > 0
    return MatchedItems(np.where(learned, code, -1).astype(np.int32), catalog.category_of(level))


def matched_users(old: EmbeddingModel, users: pa.LargeStringArray) -> MatchedItems:
    """Users by id; nobody where the older bundle did not keep its users."""
    if old.user_ids is None:
        return MatchedItems(np.full(len(users), -1, dtype=np.int32))
    return MatchedItems(_places(users, old.user_ids))


def _places(wanted: pa.LargeStringArray, held: pa.LargeStringArray) -> Rows:
    found = pc.fill_null(pc.index_in(wanted, value_set=held), -1).to_numpy(zero_copy_only=False)
    return np.asarray(found, dtype=np.int32)


def lay(into: Table, old: npt.NDArray[Any], matched: MatchedItems, row_of: Rows) -> None:
    """Put `old` (older rows first) into the view `into`, whose row of the new one `i` is `row_of[i]`.

    A new item gets the mean of the known items of its category; without any it stays as it is, random.
    """
    into[row_of[matched.known]] = old[matched.old[matched.known]]
    for items, members in _newcomers(matched):
        into[row_of[items]] = old[matched.old[members]].mean(axis=0)


def widen(
    into: Table,
    vectors: npt.NDArray[Any],
    variance: npt.NDArray[Any],
    matched: MatchedItems,
    row_of: Rows,
    bounds: tuple[float, float],
) -> None:
    """Log-variances of new items: those of one Gaussian in place of all of their category, wider than each of them.

    Its variance is the mean of theirs and how far their means lie apart, by dimension or in all.
    """
    for items, members in _newcomers(matched):
        place = matched.old[members]
        apart = vectors[place].var(axis=0)
        inside = np.exp(variance[place].astype(np.float64)).mean(axis=0)
        wide = np.log(inside + (apart if variance.ndim > 1 else apart.mean()))
        into[row_of[items]] = np.clip(wide, *bounds)


def _newcomers(matched: MatchedItems) -> list[tuple[Rows, Rows]]:
    """For each category with new items and known ones: (new items, known items)."""
    if matched.category is None:
        return []
    new = np.flatnonzero(~matched.known & (matched.category != UNKNOWN))
    known = np.flatnonzero(matched.known)
    found = []
    for category in np.unique(matched.category[new]):
        members = known[matched.category[known] == category]
        if len(members):
            found.append((new[matched.category[new] == category].astype(np.int32), members.astype(np.int32)))
    return found


def refuse_other_shapes(old: Any, new: EmbeddingModel) -> None:
    """A warm start needs a model that learns the same tables."""
    if getattr(old, "kernel", None) is None or old._kernel() != new._kernel():
        raise must_be("warm_start", f"a model that learns like {new.name!r}", getattr(old, "name", type(old).__name__))
    if old.parameters.dim != new.parameters.dim:
        raise must_be("warm_start", f"a model with dim {new.parameters.dim}", old.parameters.dim)


def hash_of(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """What a fit began from: a checkpoint of one that began elsewhere is refused."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
