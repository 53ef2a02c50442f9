"""How a table of vectors lies in memory: one row an item (or user), everything about it side by side.

    row = | vector: dim floats, zeros up to `width` | tail: 8 floats | zeros to a whole cache line |

The tail holds the row's log-variance and the sums that row-wise Adagrad divides by, so that one fetch of a row brings
all of it: at dim 100 that is 112 floats, seven cache lines.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LANES = 8
"""Floats of a vector register; vectors are padded to a multiple of it."""
LOG_VARIANCE, SQUARES, VARIANCE_SQUARES = 0, 1, 2
"""Places in the tail: the log-variance of a spherical Gaussian; the sum, over past gradients, of the mean square of the
vector's part; the same of the log-variance's."""
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


def chunks(dim: int) -> tuple[int, ...]:
    """A tuple as long as the vector registers of a row: compiled code reads the length from its type.

    >>> len(chunks(100)), len(chunks(5))
    (13, 1)
    """
    return (0,) * (width(dim) // LANES)
