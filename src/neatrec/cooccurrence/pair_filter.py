"""`PairFilter`: a cheap test of a pair in compiled code, so that `keep` sees only what may pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.counts import Keep, Margins, Mask, PairBlock
from neatrec.errors import ParameterError, must_be

Float64 = npt.NDArray[np.float64]


class FilterConditions(NamedTuple):
    """A `PairFilter` as compiled code takes it; a, b, u and w are empty where `expected` is not given."""

    min_count: int
    a: Float64
    b: Float64
    u: Float64
    w: Float64


@dataclass(frozen=True, eq=False)
class PairFilter:
    """A pair (q, v) passes if count >= min_count and, where `expected` is given, count - a[q] b[v] >= 0 and
    (count - a[q] b[v])² >= u[q] w[v].

    With a = F / sqrt(N), b = a, u = w = sqrt(x) F (N - F) / sqrt(N)³ that is Pearson's chi-squared above x on the
    positive side; with u = w = 0 it is "more often than expected". Products round: leave a little slack for `keep`.
    """

    min_count: int = 1
    expected: tuple[Float64, Float64] | None = None
    """(a, b), each of shape (items,): the expected count is a[q] b[v]."""
    spread: tuple[Float64, Float64] | None = None
    """(u, w), each of shape (items,): the least squared excess is u[q] w[v]; None: 0."""

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise must_be("min_count", "at least 1", self.min_count)
        if self.spread is not None and self.expected is None:
            raise ParameterError("`spread` of a filter must come with `expected`")

    def check(self, items: int) -> None:
        for name in ("expected", "spread"):
            for vector in getattr(self, name) or ():
                if np.shape(vector) != (items,):
                    raise must_be(name, f"two vectors of {items:,} items", np.shape(vector))

    def conditions(self) -> FilterConditions:
        nothing = np.empty(0)
        a, b = self.expected or (nothing, nothing)
        u, w = self.spread or (np.zeros(len(a)), np.zeros(len(a)))
        return FilterConditions(self.min_count, *(np.ascontiguousarray(x, dtype=np.float64) for x in (a, b, u, w)))

    def passes(self, block: PairBlock) -> Mask:
        """The same test in NumPy: its definition."""
        min_count, a, b, u, w = self.conditions()
        mask: Mask = block.count >= min_count
        if len(a):
            excess = block.count - a[block.query] * b[block.item]
            mask = mask & (excess >= 0) & (excess * excess >= u[block.query] * w[block.item])
        return mask


@dataclass(frozen=True)
class FilteredPairs:
    """A `keep` with a filter in compiled code before it.

    >>> at_least_five = FilteredPairs(lambda margins: PairFilter(min_count=5))
    """

    make_filter: Callable[[Margins], PairFilter]
    then: Keep | None = None
    """Sees the pairs that pass the filter; None keeps them all."""

    def prefilter(self, margins: Margins) -> PairFilter:
        return self.make_filter(margins)

    def __call__(self, block: PairBlock, margins: Margins) -> Mask:
        return np.ones(len(block), dtype=bool) if self.then is None else self.then(block, margins)


def prefilter_of(keep: Keep | None, margins: Margins) -> PairFilter:
    """The filter that `keep` brings, checked; one that lets every pair pass where it brings none."""
    make = getattr(keep, "prefilter", None)
    found: PairFilter = PairFilter() if make is None else make(margins)
    found.check(len(margins.first))
    return found


def kept(block: PairBlock, margins: Margins, keep: Keep | None) -> PairBlock:
    """What `keep` leaves of a block that passed its filter."""
    if keep is None or not len(block):
        return block
    mask = np.asarray(keep(block, margins))
    if mask.dtype != bool or mask.shape != (len(block),):
        raise ParameterError(
            f"`keep` must return a boolean mask of the block's {len(block):,} pairs, "
            f"got {mask.dtype} of shape {mask.shape}"
        )
    return block.where(mask)
