"""Random draws of negatives, the same on a CPU, on a GPU (`common.cu`) and in `reference`.

Draws are counted, not streamed: draw `n` of basket `b` depends on (seed, b, n) and on nothing else,
so every device draws the same negatives with any number of threads in any order. An alias table
gives frequencies with one look-up per draw.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
from numpy import uint64 as u64

from neatrec.compiled import compiled, fill_alias, splitmix64

TRIES = 16
"""A negative is left out after this many refusals."""
MAX_FILTER_BYTES = 2**28

Words = npt.NDArray[np.uint64]
part = partial(compiled, forceinline=True, _nrt=False)


@part
def basket_key(seed, number):
    """The key under which the draws of a basket are counted."""
    return splitmix64(seed + u64(number) * u64(0xD1B54A32D192ED03))


@part
def counted(key, number):
    """Random bits number `number` under `key`."""
    return splitmix64(key + number * u64(0x9E3779B97F4A7C15))


@part
def scaled(bits, size):
    """A number below `size` from the upper half of random bits."""
    return ((bits >> u64(32)) * u64(size)) >> u64(32)


@part
def picked(bits, alias):
    """The row that random `bits` pick from an alias table."""
    slot = scaled(bits, len(alias))
    entry = alias[slot]
    return slot if (bits & u64(0xFFFFFFFF)) < (entry >> u64(32)) else entry & u64(0xFFFFFFFF)


@part
def hashed(a, b):
    """Bits of the pair (a, b) for a filter."""
    return splitmix64((u64(a) << u64(32)) + u64(b))


@part
def mask_of(bits):
    """The three bits of one word that stand for a pair."""
    one, six = u64(1), u64(63)
    return one << (bits & six) | one << (bits >> u64(6) & six) | one << (bits >> u64(12) & six)


@part
def holds(words, a, b):
    """Whether a filter holds (a, b): always right if it does, seldom wrong if it does not."""
    bits = hashed(a, b)
    mask = mask_of(bits)
    return (words[scaled(bits, len(words))] & mask) == mask


@part
def put(words, a, b):
    """Put (a, b) into a filter."""
    bits = hashed(a, b)
    words[scaled(bits, len(words))] |= mask_of(bits)


def alias_table(weights: npt.ArrayLike) -> Words:
    """A table from which `picked` picks row i with probability weights[i] / sum(weights)."""
    weight = np.asarray(weights, dtype=np.float64)
    share = weight * (len(weight) / weight.sum())
    other = fill_alias(share).astype(np.uint64)
    table: Words = np.minimum(share * 2.0**32, 2.0**32 - 1).astype(np.uint64) << u64(32) | other
    return table


def new_filter(entries: int) -> Words:
    """An empty filter: at 16 bits per entry it takes about one absent pair in 200 for present."""
    return np.zeros(max(1, min(entries * 16 // 64 + 1, MAX_FILTER_BYTES // 8)), dtype=np.uint64)


@compiled
def add_pairs(words, items, offsets):
    """Put every pair of items of a basket into a filter, in both orders."""
    for b in range(len(offsets) - 1):
        for i in range(offsets[b], offsets[b + 1]):
            for j in range(offsets[b], offsets[b + 1]):
                if i != j:
                    put(words, items[i], items[j])


@compiled
def add_bought(words, users, items, offsets):
    """Put (users[b], item) for every item of basket b into a filter."""
    for b in range(len(offsets) - 1):
        for i in range(offsets[b], offsets[b + 1]):
            put(words, users[b], items[i])


@compiled
def shuffle_lines(items, offsets, seed):
    """Shuffle the lines of each basket (Fisher and Yates); `visits.cu` does the same."""
    for basket in range(len(offsets) - 1):
        key, start = basket_key(seed, basket), offsets[basket]
        for n in range(offsets[basket + 1] - start - 1, 0, -1):
            m = scaled(counted(key, u64(n)), n + 1)
            items[start + n], items[start + m] = items[start + m], items[start + n]
