"""What a kernel is given: baskets, the source of negatives, settings. The same for every device."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

LONGEST = 256
"""Query lines in one unit of work: longer baskets are cut, and each piece sees the partners beyond its ends."""


class TrainingVisit(NamedTuple):
    """Baskets as kernels see them. A unit is a basket, or a piece of a long one; units are visited in turn."""

    items: npt.NDArray[np.int32]
    """Row of the item of each line, shape (lines,)."""
    offsets: npt.NDArray[np.int64]
    """Where each basket starts and the last one ends, shape (baskets + 1,)."""
    users: npt.NDArray[np.int32]
    """Row of the user of each basket, shape (baskets,); empty for models without users."""
    category: npt.NDArray[np.int32]
    """Category of each item row, shape (items,): pairs of one category are left out; below 0 none is the same."""
    basket: npt.NDArray[np.int32]
    """The basket of each unit, shape (units,)."""
    start: npt.NDArray[np.int64]
    """The first query line of each unit, shape (units,)."""
    stop: npt.NDArray[np.int64]
    """One past its last query line, shape (units,)."""


class Draws(NamedTuple):
    """Where negatives come from (see `draws`)."""

    seed: np.uint64
    """Of this fit and epoch."""
    alias: npt.NDArray[np.uint64]
    """Alias table over item rows, shape (items,)."""
    observed: npt.NDArray[np.uint64]
    """Filter of item pairs ever bought together, which are refused; empty: they are not."""
    bought: npt.NDArray[np.uint64]
    """Filter of (user, item) bought, refused for that user; empty: they are not."""


class KernelSettings(NamedTuple):
    """Numbers of a model, and of the present call."""

    dim: int
    window: int
    negatives: int
    shared: bool
    """Whether the positives of a query position share its negatives; otherwise each pair draws its own."""
    adagrad: bool = True
    """Row-wise Adagrad; otherwise plain gradient descent."""
    margin: float = 0.0
    logistic: bool = False
    """NEAT+bpr: -log sigmoid in place of 1 - sigmoid."""
    rate: float = 0.0
    """Learning rate at the first unit; it moves in a straight line to `last_rate`."""
    last_rate: float = 0.0
    variance_rate: float = 0.0
    """Learning rate of log-variances, as a multiple of `rate`."""
    low: float = 0.0
    """Smallest log-variance."""
    high: float = 0.0
    """Largest log-variance."""

    def rate_at(self, unit: int, first: int, last: int) -> float:
        """The learning rate at a unit of the span `first` to `last`."""
        return self.rate + (self.last_rate - self.rate) * (unit - first) / (last - first)


class KernelInput(NamedTuple):
    """What a kernel reads and, the tables, changes."""

    tables: tuple[Any, ...]
    visit: TrainingVisit
    draws: Draws
    settings: KernelSettings
    done: int = 0
    """Units that the fit has visited before this call."""
    dims: tuple[int, ...] = ()
    """For compiled code: as long as a row's vector has registers, see `layout.chunks`."""


class StepStats(NamedTuple):
    """What a call did."""

    pairs: int
    """Directed positive pairs."""
    loss: float
    """Sum of their losses."""
    active: int
    """Hinges (a pair and a negative) that were not flat; 0 for losses without hinges."""


class Kernel(Protocol):
    """Trains the tables on units `first` to `last` of a visit, in place."""

    def __call__(self, data: KernelInput, first: int, last: int, threads: int) -> StepStats: ...


def units_of(
    offsets: npt.NDArray[np.int64], longest: int = LONGEST
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The units of baskets: (basket, start, stop), each of shape (units,). Baskets of one line have none.

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


def groups_of(settings: KernelSettings) -> int:
    """Groups of negatives of a line: one that its partners share, or one for each place in the window.

    Places are numbered 0 ... window - 1 for the lines after it, nearest first, then as many for the lines before it.
    """
    return 1 if settings.shared else 2 * settings.window
