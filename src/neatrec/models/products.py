"""`all_products`: vectors times vectors, whole rows of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.models.parallel import in_parts

Vectors = npt.NDArray[Any]  # float32 or float64
MIN_ROWS_PER_THREAD = 400_000
"""Products for which a thread is worth starting."""


def all_products(*sides: tuple[Vectors, Vectors]) -> Vectors:
    """The product of each of our vectors with each of theirs, (ours, theirs), summed over all `sides` (ours, theirs).

    It is their vectors that are shared out among the cores: a matrix product puts what it multiplies by in order first,
    and so no core does this for the share of another. The last digits may depend on how many cores there are.
    """
    ours, theirs = sides[0]
    out = np.empty((len(ours), len(theirs)), dtype=np.result_type(ours, theirs))

    def work(part: slice) -> None:
        np.matmul(ours, theirs[part].T, out=out[:, part])
        for left, right in sides[1:]:
            out[:, part] += left @ right[part].T

    in_parts(len(theirs), work, min_rows=MIN_ROWS_PER_THREAD // max(len(ours), 1))
    return out
