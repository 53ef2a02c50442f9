"""A pair's position among sorted pairs."""

from __future__ import annotations

import numpy as np

from neatrec.compiled import compiled


@compiled
def find_pairs(start, item, rows, items):  # type: ignore[no-untyped-def]
    """The position of each pair (rows[n], items[n]) in `item`, -1 where it is absent.

    The items of row r are item[start[r]:start[r + 1]], ascending.
    """
    out = np.full(len(rows), -1, np.int64)
    for n in range(len(rows)):
        low, high = start[rows[n]], start[rows[n] + 1]
        end = high
        while low < high:
            middle = (low + high) // 2
            if item[middle] < items[n]:
                low = middle + 1
            else:
                high = middle
        if low < end and item[low] == items[n]:
            out[n] = low
    return out
