"""Warm start: items keep their rows of the older model by id, new items start at the mean of their category."""

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

COLD_EPOCHS_PER_WARM = 5
"""A warm start trains one epoch for so many of a cold start, unless `epochs` is set."""

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int32]


@dataclass(frozen=True)
class MatchedItems:
    """Rows of the older model for the items (or users) of the new one, shape (new,); -1 for new ones."""

    old: Rows
    category: Rows | None = None
    """The category of each item of the new model, shape (new,)."""

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        return self.old >= 0


def matched_items(old: EmbeddingModel, catalog: Catalog, level: str | None) -> MatchedItems:
    """Items by id; one that no basket of the older model held counts as new."""
    code = _index_in(catalog.ids, old.catalog.ids)
    trained = old.item_count[np.maximum(code, 0)] > 0
    return MatchedItems(np.where(trained, code, -1).astype(np.int32), catalog.category_of(level))


def matched_users(old: EmbeddingModel, users: pa.LargeStringArray) -> MatchedItems:
    """Users by id; none where the older bundle did not keep its users."""
    if old.user_ids is None:
        return MatchedItems(np.full(len(users), -1, dtype=np.int32))
    return MatchedItems(_index_in(users, old.user_ids))


def _index_in(ids: pa.LargeStringArray, old_ids: pa.LargeStringArray) -> Rows:
    found = pc.fill_null(pc.index_in(ids, value_set=old_ids), -1).to_numpy(zero_copy_only=False)
    return np.asarray(found, dtype=np.int32)


def copy_rows(into: Table, old: npt.NDArray[Any], matched: MatchedItems, row_of: Rows) -> None:
    """Copy the rows of `old` into the view `into`, in which item `i` has row `row_of[i]`.

    A new item gets the mean of the known items of its category; without any it keeps its random start.
    """
    into[row_of[matched.known]] = old[matched.old[matched.known]]
    for items, members in _new_by_category(matched):
        into[row_of[items]] = old[matched.old[members]].mean(axis=0)


def widen_new_items(
    into: Table,
    vectors: npt.NDArray[Any],
    log_variance: npt.NDArray[Any],
    matched: MatchedItems,
    row_of: Rows,
    bounds: tuple[float, float],
) -> None:
    """Log-variances of new items: the Gaussian that fits all known items of the category, wider than each of them.

    Its variance is the mean variance plus the mean variance of the vectors.
    """
    for items, members in _new_by_category(matched):
        rows = matched.old[members]
        within = np.exp(log_variance[rows].astype(np.float64)).mean()
        between = vectors[rows].var(axis=0).mean()
        into[row_of[items]] = np.clip(np.log(within + between), *bounds)


def _new_by_category(matched: MatchedItems) -> list[tuple[Rows, Rows]]:
    """(new items, known items) of each category that has both."""
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


def check_warm_start(old: Any, new: EmbeddingModel) -> None:
    """Refuse an older model with other tables."""
    if getattr(old, "kernel", None) != new.kernel:
        raise must_be(
            "warm_start", f"a model with the tables of {new.name!r}", getattr(old, "name", type(old).__name__)
        )
    if old.parameters.dim != new.parameters.dim:
        raise must_be("warm_start", f"a model with dim {new.parameters.dim}", old.parameters.dim)


def hash_of(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Identifies the older model in checkpoints."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
