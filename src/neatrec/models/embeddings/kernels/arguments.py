"""Arguments of a kernel on any device: tables, baskets, the source of negatives, settings.

A table has one row per item or user, with all numbers about it, so that one fetch brings them:

    | vector: dim floats, zeros up to `width` | tail: 8 floats | zeros up to a cache line |

The tail holds the row's log-variance and the sums that row-wise Adagrad divides by. At dim 100 a
row is 112 floats, seven cache lines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

LONGEST = 256
"""Query lines per unit: longer baskets are cut, and a piece sees the partners beyond its ends."""
LANES = 8
"""Floats of a vector register; vectors are padded to a multiple."""
LOG_VARIANCE, SQUARES, VARIANCE_SQUARES = 0, 1, 2
"""Positions in the tail: a Gaussian's log-variance, and two sums over past gradients: of the mean
square of the vector's part, and of the square of the log-variance's part."""
CACHE_LINE = 16  # floats

Table = npt.NDArray[np.float32]


def width(dim: int) -> int:
    """`dim` rounded up to full vector registers: 104 for 100."""
    return -(-dim // LANES) * LANES


def new_table(rows: int, dim: int) -> Table:
    """A table of zeros whose rows each start on a cache line."""
    floats = -(-(width(dim) + LANES) // CACHE_LINE) * CACHE_LINE
    memory = np.zeros(rows * floats + CACHE_LINE, dtype=np.float32)
    start = (-memory.ctypes.data // memory.itemsize) % CACHE_LINE
    return memory[start : start + rows * floats].reshape(rows, floats)


class TrainingVisit(NamedTuple):
    """Baskets as kernels see them. A unit is a basket, or a piece of a long one."""

    items: npt.NDArray[np.int32]  # (lines,) item row of each line
    offsets: npt.NDArray[np.int64]  # (baskets + 1,) where each basket starts, and the last ends
    users: npt.NDArray[np.int32]  # (baskets,) user row; empty for models without users
    category: npt.NDArray[np.int32]  # (items,) no pair is within one; below 0: no category
    basket: npt.NDArray[np.int32]  # (units,) basket of each unit, in the order of the visit
    start: npt.NDArray[np.int64]  # (units,) first query line
    stop: npt.NDArray[np.int64]  # (units,) one past the last query line


class Draws(NamedTuple):
    """Where negatives come from: see `draws`."""

    seed: np.uint64  # of one epoch of a fit
    alias: npt.NDArray[np.uint64]  # (items,) alias table over item rows
    observed: npt.NDArray[np.uint64]  # filter of item pairs bought together, refused; or empty
    bought: npt.NDArray[np.uint64]  # filter of (user, item) bought, refused for them; or empty


class KernelSettings(NamedTuple):
    """Numbers of a model, and of one call."""

    dim: int
    window: int
    negatives: int
    shared: bool  # whether the partners of a line share negatives; else each pair has its own
    adagrad: bool = True  # row-wise Adagrad; else plain gradient descent
    margin: float = 0.0
    logistic: bool = False  # NEAT+bpr: -log sigmoid instead of 1 - sigmoid
    rate: float = 0.0  # learning rate at the first unit of a call
    last_rate: float = 0.0  # at its end; between them the rate moves in a straight line
    variance_rate: float = 0.0  # learning rate of log-variances, as a multiple of `rate`
    low: float = 0.0  # bounds of log-variances
    high: float = 0.0

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
    """Arrays that a kernel reads, and the tables that it changes."""

    tables: tuple[Any, ...]
    visit: TrainingVisit
    draws: Draws
    settings: KernelSettings
    done: int = 0  # units that the fit has visited before this call
    dims: tuple[int, ...] = ()  # on a CPU: as long as a row has vector registers


class StepStats(NamedTuple):
    """Directed positive pairs of a call, the sum of their losses, and active hinges."""

    pairs: int
    loss: float
    active: int
