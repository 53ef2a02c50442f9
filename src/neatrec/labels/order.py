"""The order of baskets that does not depend on how they were read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from neatrec.data.baskets import Baskets


def id_rank(baskets: Baskets) -> npt.NDArray[np.int64]:
    """The place of each basket when they are sorted by id (as text), shape (baskets,)."""
    rank = np.arange(len(baskets))
    ids = baskets.ids
    if len(ids) > 1 and not pc.all(pc.less_equal(ids[:-1], ids[1:])).as_py():
        rank[pc.sort_indices(ids).to_numpy()] = np.arange(len(ids))
    return rank
