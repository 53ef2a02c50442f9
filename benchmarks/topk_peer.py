"""The peer of `topk_speed`: PyTorch's matrix product and `topk`, and the vectors that both sides search.

It imports NumPy and PyTorch only, so that PyTorch may live in an environment of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

ITEMS, DIM, K, THREADS = 50_000, 100, 100, 2
ROWS = 1024
"""Queries of one matrix product: of 256, 512, 1,024 and 2,048 none was clearly faster."""


def vectors() -> npt.NDArray[np.float32]:
    """Directions in 2,000 clusters, as items of a shop have them, shape (ITEMS, DIM)."""
    rng = np.random.default_rng(0)
    centre = rng.standard_normal((2000, DIM)).astype(np.float32)
    noise = rng.standard_normal((ITEMS, DIM)).astype(np.float32)
    rows = 0.8 * centre[rng.integers(0, len(centre), ITEMS)] + noise
    return np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def torch_topk() -> Callable[[], Any]:
    """The K best of every item and the item itself, which a caller would drop."""
    import torch

    torch.set_num_threads(THREADS)
    rows = torch.from_numpy(vectors())

    def best(queries: Any) -> Any:
        return torch.topk(queries @ rows.T, K + 1, dim=1)

    best(rows[:ROWS])

    def job() -> float:
        parts = [best(rows[first : first + ROWS]) for first in range(0, ITEMS, ROWS)]
        scores = torch.cat([part.values for part in parts])
        torch.cat([part.indices for part in parts])
        return round(float(scores[:, 1:].double().sum()), 1)

    return job
