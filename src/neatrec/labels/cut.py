"""Benjamini and Hochberg's cut from a histogram: exact, without having all p-values in one place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bin = tuple[int, int, float]
"""(number, how many p-values, the smallest of them); a larger number means smaller p-values."""


def largest_discovery(bins: list[Bin], p_in_bin: Callable[[int], Floats], rate: float, total: int) -> float:
    """The largest p-value that is a discovery at `rate` among `total` tests; 0 where there is none.

    A bin can hold it only if its smallest p-value would be one with the rank of its largest. Such bins are looked at
    from the largest p-values down, so that mostly one is fetched.

    >>> values = np.array([1e-5, 2e-5, 0.4])
    >>> largest_discovery([(4, 2, 1e-5), (0, 1, 0.4)], lambda b: values[:2] if b else values[2:], 0.05, 100)
    2e-05
    """
    ordered = sorted(bins, reverse=True)  # smallest p-values first
    ranks = np.cumsum([size for _, size, _ in ordered])
    for (number, size, smallest), rank in zip(reversed(ordered), reversed(ranks.tolist()), strict=True):
        if smallest * (total / rank) > rate:
            continue
        values = np.sort(p_in_bin(number))
        # the same product as in `benjamini_hochberg`, so that nothing rounds otherwise
        found = values[values * (total / np.arange(rank - size + 1, rank + 1)) <= rate]
        if len(found):
            return float(found[-1])
    return 0.0
