"""Paired tests between models: sign flips by query, corrected for the number of comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from neatrec.data.randomness import Seed, as_generator
from neatrec.errors import must_be

Floats = npt.NDArray[np.float64]

FLIPS = 10_000
BLOCK_SIGNS = 4_000_000
"""Signs in memory at a time."""


def sign_flip_p(
    totals: Floats, pairs: Sequence[tuple[int, int]], *, flips: int = FLIPS, rng: Seed | None = 0
) -> Floats:
    """Two-sided p-values of paired randomisation tests, shape (pairs,).

    `totals` (queries, models): what the labels of a query add up to; `pairs`: columns of it, one less the other. Were
    two models alike, each query's difference could as well have had the other sign: p is the share of sign patterns
    (drawn at random, the observed one counted in) whose sum is at least as far from 0.
    """
    if flips < 1:
        raise must_be("flips", "at least 1", flips)
    totals = np.asarray(totals, dtype=np.float64)
    one, other = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    generator = as_generator(rng)
    differences = totals[:, one] - totals[:, other]  # (queries, pairs)
    # sums in another order differ in their last bits: what is equal must count as equal
    sizes = np.abs(totals).sum(axis=0)
    slack = 1e-9 * np.abs(differences).sum(axis=0) + 1e-12 * (sizes[one] + sizes[other])
    reached = np.abs(differences.sum(axis=0)) - slack
    as_far = np.zeros(len(one), dtype=np.int64)
    block = max(1, BLOCK_SIGNS // max(len(totals), 1))
    for first in range(0, flips, block):
        size = min(block, flips - first)
        signs = generator.integers(0, 2, size=(size, len(totals)), dtype=np.int8) * 2.0 - 1.0
        flipped = signs @ totals  # (block, models): fewer than pairs
        as_far += (np.abs(flipped[:, one] - flipped[:, other]) >= reached).sum(axis=0)
    return (1 + as_far) / (1 + flips)


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
