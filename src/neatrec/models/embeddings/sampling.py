"""Preparation of a fit for any device: item and user rows, units, the source of negatives."""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.baskets import Baskets
from neatrec.errors import ResourceError
from neatrec.models.embeddings.kernels.arguments import LONGEST, Draws, TrainingVisit
from neatrec.models.embeddings.kernels.draws import add_bought, add_pairs, alias_table, new_filter
from neatrec.text import plural

MAX_BASKET_PAIRS = 200_000_000
"""A basket with more pairs is refused where all its pairs must be stored."""
NOTHING = np.zeros(0, dtype=np.uint64)

log = logging.getLogger(__name__)


class TrainingData(NamedTuple):
    """Baskets as kernels see them; item rows are by frequency, so that frequent rows are cached."""

    visit: TrainingVisit
    row_of_item: npt.NDArray[np.int32]
    count_of_row: npt.NDArray[np.int64]
    """Lines of each item row, shape (items,)."""
    user_ids: pa.LargeStringArray | None
    """User of each row, for models that learn from users."""
    ordered: bool
    """Whether the order of a basket's lines is known."""

    @property
    def user_count(self) -> int:
        """Users with a row; 0 for models that do not learn from users."""
        return 0 if self.user_ids is None else len(self.user_ids)


def prepare(baskets: Baskets, category: npt.NDArray[np.int32], *, with_users: bool) -> TrainingData:
    """`category` is that of each item; below 0 an item shares it with no other."""
    count = baskets.item_counts
    by_row = np.argsort(-count, kind="stable")
    row_of_item = np.empty(len(by_row), dtype=np.int32)
    row_of_item[by_row] = np.arange(len(by_row), dtype=np.int32)
    users, ids = np.zeros(0, dtype=np.int32), None
    if with_users and baskets.users is not None and baskets.user_ids is not None:
        present, rows = np.unique(baskets.users, return_inverse=True)
        users, ids = rows.astype(np.int32), baskets.user_ids.take(pa.array(present))
    visit = TrainingVisit(
        row_of_item[baskets.items],
        baskets.offsets.astype(np.int64, copy=False),
        users,
        category[by_row].astype(np.int32),
        *units_of(baskets.offsets),
    )
    return TrainingData(visit, row_of_item, count[by_row], ids, baskets.ordered)


def units_of(
    offsets: npt.NDArray[np.int64], longest: int = LONGEST
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(basket, start, stop) of the units of baskets, shape (units,); a basket of one line has none.

    >>> basket, start, stop = units_of(np.array([0, 3, 4, 9]), longest=4)
    >>> basket.tolist(), start.tolist(), stop.tolist()
    ([0, 2, 2], [0, 4, 8], [3, 8, 9])
    """
    sizes = np.diff(offsets)
    pieces = np.where(sizes >= 2, -(-sizes // longest), 0)
    basket = np.repeat(np.arange(len(sizes)), pieces)
    first = np.cumsum(pieces) - pieces
    start = offsets[basket] + (np.arange(len(basket)) - first[basket]) * longest
    stop = np.minimum(start + longest, offsets[basket + 1])
    return basket.astype(np.int32), start, stop


def new_draws(
    data: TrainingData, exponent: float, *, reject_observed: bool, reject_bought: bool
) -> Draws:
    """Negatives by frequency to the power `exponent`, without the rejected items."""
    weights = np.where(data.count_of_row > 0, data.count_of_row.astype(float) ** exponent, 0.0)
    visit, observed, bought = data.visit, NOTHING, NOTHING
    if reject_observed:
        observed = new_filter(_directed_pairs(visit))
        add_pairs(observed, visit.items, visit.offsets)
        log.info("rejecting observed pairs as negatives: filter of %.0f MB", observed.nbytes / 1e6)
    if reject_bought:
        bought = new_filter(len(visit.items))
        add_bought(bought, visit.users, visit.items, visit.offsets)
    return Draws(np.uint64(0), alias_table(weights), observed, bought)


def _directed_pairs(visit: TrainingVisit) -> int:
    sizes = np.diff(visit.offsets)
    pairs = sizes * (sizes - 1)
    if pairs.max(initial=0) > 2 * MAX_BASKET_PAIRS:
        raise ResourceError(
            f"a basket of {plural(int(sizes.max()), 'item')} has too many pairs to store",
            hint="Set reject_observed=false, or leave such baskets out.",
        )
    return int(pairs.sum())
