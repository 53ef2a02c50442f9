"""How a table of vectors lies in memory: one row per item or user, with all numbers about it.

row = | vector: dim floats, zeros up to `width` | tail: 8 floats | zeros up to a cache line |

The tail holds the row's log-variance and the sums that row-wise Adagrad divides by, so that one
fetch of a row brings all of them: at dim 100 a row is 112 floats, seven cache lines.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LANES = 8
"""Floats of a vector register; vectors are padded to a multiple."""
LOG_VARIANCE, SQUARES, VARIANCE_SQUARES = 0, 1, 2
"""Positions in the tail: a Gaussian's log-variance, and two sums over past gradients: of the mean
square of the vector's part, and of the square of the log-variance's part."""
CACHE_LINE = 16  # floats

Table = npt.NDArray[np.float32]


def width(dim: int) -> int:
    """`dim` rounded up to whole vector registers: 104 for 100."""
    return -(-dim // LANES) * LANES


def new_table(rows: int, dim: int) -> Table:
    """A table of zeros whose rows each start on a cache line."""
    floats = -(-(width(dim) + LANES) // CACHE_LINE) * CACHE_LINE
    memory = np.zeros(rows * floats + CACHE_LINE, dtype=np.float32)
    start = (-memory.ctypes.data // memory.itemsize) % CACHE_LINE
    return memory[start : start + rows * floats].reshape(rows, floats)


def vector(table: Table, dim: int) -> Table:
    """A view of the vector of every row, shape (rows, dim)."""
    return table[:, :dim]


def tail(table: Table, dim: int, position: int) -> Table:
    """A view of one number of every row's tail, shape (rows,)."""
    return table[:, width(dim) + position]
