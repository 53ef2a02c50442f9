"""Randomness comes in as `rng` and goes down as child generators. Nothing sets a global seed."""

from __future__ import annotations

import numpy as np

from neatrec.errors import must_be

Seed = int | np.random.Generator


def as_generator(rng: Seed | None) -> np.random.Generator:
    """A generator from a seed (default 0), or the generator itself."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        return np.random.default_rng(0)
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise must_be("rng", "a whole number of at least 0 or a numpy Generator", rng)
    return np.random.default_rng(int(rng))


def children(rng: Seed | None, count: int) -> list[np.random.Generator]:
    """`count` independent generators: one for each thread, epoch or model."""
    return list(as_generator(rng).spawn(count))


def kernel_seed(rng: np.random.Generator) -> int:
    """A 63-bit seed for a compiled kernel's own stream."""
    return int(rng.integers(1, 2**63 - 1))
