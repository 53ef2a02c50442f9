"""Randomness comes in as `rng` and goes down as child generators. Nothing sets a global seed."""

from __future__ import annotations

from typing import Any
from zlib import crc32

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
        raise must_be("rng", "an integer of at least 0 or a numpy Generator", rng)
    return np.random.default_rng(int(rng))


def children(rng: Seed | None, count: int) -> list[np.random.Generator]:
    """`count` independent generators: one for each thread, epoch or model."""
    return list(as_generator(rng).spawn(count))


def rng_for(name: str, rng: Seed | None) -> np.random.Generator:
    """The generator called `name` of a seed or generator: the same whatever was drawn before.

    >>> bool(rng_for("queries", 1).random() == rng_for("queries", 1).random())
    True
    """
    sequence: Any = as_generator(rng).bit_generator.seed_seq
    key = (*sequence.spawn_key, crc32(name.encode()))
    return np.random.default_rng(np.random.SeedSequence(sequence.entropy, spawn_key=key))


def kernel_seed(rng: np.random.Generator) -> int:
    """A 63-bit seed for a compiled kernel's own stream."""
    return int(rng.integers(1, 2**63 - 1))
