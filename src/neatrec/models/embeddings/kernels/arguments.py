"""What a kernel is given on any device: baskets, the source of negatives, settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

LONGEST = 256
"""Query lines per unit: longer baskets are cut, and a piece sees the partners beyond its ends."""


class TrainingVisit(NamedTuple):
    """Baskets as kernels see them. A unit is a basket, or a piece of a long one."""

    items: npt.NDArray[np.int32]
    """Item row of each line, shape (lines,)."""
    offsets: npt.NDArray[np.int64]
    """Where each basket starts and the last one ends, shape (baskets + 1,)."""
    users: npt.NDArray[np.int32]
    """User row of each basket, shape (baskets,); empty for models without users."""
    category: npt.NDArray[np.int32]
    """Of each item row, shape (items,): no pair is within one category; below 0 is none."""
    basket: npt.NDArray[np.int32]
    """Basket of each unit, shape (units,), in the order of the visit."""
    start: npt.NDArray[np.int64]
    """First query line of each unit, shape (units,)."""
    stop: npt.NDArray[np.int64]
    """One past the last query line of each unit, shape (units,)."""


class Draws(NamedTuple):
    """Where negatives come from: see `draws`."""

    seed: np.uint64
    """Of one epoch of a fit."""
    alias: npt.NDArray[np.uint64]
    """Alias table over item rows, shape (items,)."""
    observed: npt.NDArray[np.uint64]
    """Filter of item pairs bought together, which are refused as negatives; empty: none are."""
    bought: npt.NDArray[np.uint64]
    """Filter of (user, item) bought, refused in that user's baskets; empty: none are."""


class KernelSettings(NamedTuple):
    """Numbers of a model, and of one call."""

    dim: int
    window: int
    negatives: int
    shared: bool
    """Whether the partners of a query line share its negatives; otherwise each pair has its own."""
    adagrad: bool = True
    """Row-wise Adagrad; otherwise plain gradient descent."""
    margin: float = 0.0
    logistic: bool = False
    """NEAT+bpr: -log sigmoid in place of 1 - sigmoid."""
    rate: float = 0.0
    """Learning rate at the first unit of a call; it moves in a straight line to `last_rate`."""
    last_rate: float = 0.0
    variance_rate: float = 0.0
    """Learning rate of log-variances, as a multiple of `rate`."""
    low: float = 0.0
    """Lower bound of log-variances."""
    high: float = 0.0
    """Upper bound of log-variances."""

    @property
    def groups(self) -> int:
        """Groups of negatives per line: one, or one for each position in the window.

        Positions 0 ... window - 1 are the lines after it, nearest first, then those before it.
        """
        return 1 if self.shared else 2 * self.window

    def rate_at(self, unit: int, first: int, last: int) -> float:
        """The learning rate at a unit of a call for units `first` to `last`."""
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
    """For compiled code: its length is the number of vector registers of a row."""


class StepStats(NamedTuple):
    """Directed positive pairs of a call, the sum of their losses, and active hinges."""

    pairs: int
    loss: float
    active: int


Kernel = Callable[[KernelInput, int, int, int], StepStats]
"""Trains the tables in place: (data, first unit, one past the last, threads)."""
