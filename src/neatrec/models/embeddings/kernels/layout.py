"""How a table of vectors lies in memory: one row an item (or user), everything about it side by side.

    row = | vector: dim floats, zeros up to `width` | tail: 8 floats | zeros to a whole cache line |

The tail holds the row's log-variance and the sums that row-wise Adagrad divides by, so that one fetch of a row brings
all of it: at dim 100 that is 112 floats, seven cache lines.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LANES = 8
"""Floats in one vector register of every processor of the last ten years; vectors are padded to a multiple of it."""
LOG_VARIANCE = 0
"""Place in the tail: the log-variance of a spherical Gaussian."""
SQUARES = 1
"""Place in the tail: the sum, over past gradients of the vector, of their mean square."""
VARIANCE_SQUARES = 2
"""Place in the tail: the same for the log-variance."""
VISITOR = 3
"""Place in the tail: the last unit that pushed the row, so that a second push in one unit is noticed."""
CACHE_LINE = 16  # floats

Table = npt.NDArray[np.float32]


def width(dim: int) -> int:
    """`dim` rounded up to whole vector registers.

    >>> width(100), width(8), width(1)
    (104, 8, 8)
    """
    return -(-dim // LANES) * LANES


def new_table(rows: int, dim: int) -> Table:
    """Zeros for `rows` rows with a vector of `dim`, each row starting on a cache line."""
    floats = -(-(width(dim) + LANES) // CACHE_LINE) * CACHE_LINE
    memory = np.zeros(rows * floats + CACHE_LINE, dtype=np.float32)
    start = (-memory.ctypes.data // memory.itemsize) % CACHE_LINE
    return memory[start : start + rows * floats].reshape(rows, floats)


def vector(table: Table, dim: int) -> Table:
    """A view of the vector of every row, shape (rows, dim)."""
    return table[:, :dim]


def tail(table: Table, dim: int, place: int) -> Table:
    """A view of one number of every row's tail, shape (rows,)."""
    return table[:, width(dim) + place]


def chunks(count: int) -> tuple[int, ...]:
    """A tuple as long as the vector registers that hold `count` floats.

    Compiled code reads the length from the tuple's type: each width gets loops of its own, and no number is baked in
    that a cached kernel could keep by mistake.

    >>> len(chunks(100)), len(chunks(5))
    (13, 1)
    """
    return (0,) * (width(count) // LANES)
