"""The arrays that statistics take and return."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.ArrayLike
"""Counts or numbers: anything NumPy reads, broadcast together."""
Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.integer[Any]]


def as_floats(values: Numbers) -> Floats:
    """`values` in float64: products of counts exceed 64-bit integers."""
    return np.asarray(values, dtype=np.float64)
