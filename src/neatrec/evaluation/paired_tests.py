"""Paired tests between models, corrected for the number of comparisons."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]


def paired_p(difference: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """Two-sided p-values of differences with these standard errors: below 0.05 where the 95 % interval leaves out 0.

    >>> paired_p([0.0, 1.96], [1.0, 1.0]).round(3).tolist()
    [1.0, 0.05]
    """
    p: Floats = 2 * special.ndtr(-np.abs(np.asarray(difference)) / np.asarray(error))
    return p


def holm(p: npt.ArrayLike) -> Floats:
    """p-values after Holm's step-down correction: below 0.05 wherever the family-wise error stays below 5 %.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty(len(p))
    out[order] = np.minimum(stepped, 1.0)
    return out
