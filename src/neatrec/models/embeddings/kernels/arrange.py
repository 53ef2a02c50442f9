"""Baskets in the order of a visit: a copy that kernels read from one end to the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy import uint64 as u64

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.arguments import Shard, units_of
from neatrec.models.embeddings.kernels.draws import basket_key, counted


@compiled
def _copy(items, offsets, order, row_of_item, ends, out):
    for place in range(len(order)):
        start, size = offsets[order[place]], ends[place + 1] - ends[place]
        for n in range(size):
            out[ends[place] + n] = row_of_item[items[start + n]]


@compiled
def _shuffle(out, ends, number, seed):
    """A fresh random order within each basket, the same wherever the basket stands (Fisher and Yates)."""
    for place in range(len(ends) - 1):
        key = basket_key(seed, number[place])
        start = ends[place]
        for n in range(ends[place + 1] - start - 1, 0, -1):
            m = ((counted(key, u64(n)) >> u64(32)) * u64(n + 1)) >> u64(32)
            out[start + n], out[start + m] = out[start + m], out[start + n]


def arrange(
    items: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    *,
    order: npt.NDArray[np.int64],
    row_of_item: npt.NDArray[np.int32],
    category: npt.NDArray[np.int32],
    users: npt.NDArray[np.int32],
    shuffle_seed: int | None,
) -> Shard:
    """The baskets numbered `order`, in that order, items given by their rows.

    `category` is by row, `users` by basket (or empty). With a `shuffle_seed` the lines of each basket come in a random
    order: for baskets whose order means nothing.
    """
    ends = np.concatenate([[0], np.cumsum(np.diff(offsets)[order])]).astype(np.int64)
    out = np.empty(ends[-1], dtype=np.int32)
    _copy(items, offsets, order, row_of_item, ends, out)
    if shuffle_seed is not None:
        _shuffle(out, ends, order, np.uint64(shuffle_seed))
    basket, start, stop = units_of(ends)
    return Shard(out, ends, order, users[order] if len(users) else users, category, basket, start, stop)
