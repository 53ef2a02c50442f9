"""Random draws of negatives, the same in plain NumPy and in compiled code.

Draws are counted, not streamed: draw `n` of basket `b` depends on (seed, b, n) and on nothing else, so every device,
with any number of threads in any order, draws the same negatives. Frequencies come through an alias table: one look-up a draw.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy import uint64 as u64

from neatrec.compiled import compiled, fill_alias, splitmix64

TRIES = 16
"""A negative that is refused this often is left out."""
MAX_FILTER_BYTES = 2**28

Words = npt.NDArray[np.uint64]


@compiled(forceinline=True, _nrt=False)
def basket_key(seed, number):
    """What the draws of a basket are counted under."""
    return splitmix64(seed + u64(number) * u64(0xD1B54A32D192ED03))


@compiled(forceinline=True, _nrt=False)
def counted(key, number):
    """Random bits number `number` under `key`."""
    return splitmix64(key + number * u64(0x9E3779B97F4A7C15))


@compiled(forceinline=True, _nrt=False)
def slot_of(bits, alias):
    """The entry of an alias table that random `bits` look at."""
    return ((bits >> u64(32)) * u64(len(alias))) >> u64(32)


@compiled(forceinline=True, _nrt=False)
def picked(bits, alias):
    """The row that random `bits` pick from an alias table."""
    slot = slot_of(bits, alias)
    entry = alias[slot]
    return slot if (bits & u64(0xFFFFFFFF)) < (entry >> u64(32)) else entry & u64(0xFFFFFFFF)


@compiled(forceinline=True, _nrt=False)
def holds(words, a, b):
    """Whether the filter `words` holds (a, b). Never wrong about what it holds; wrong about a few others."""
    bits = splitmix64((u64(a) << u64(32)) + u64(b))
    mask = _mask(bits)
    return (words[_word(bits, words)] & mask) == mask


@compiled(forceinline=True, _nrt=False)
def _word(bits, words):
    return ((bits >> u64(32)) * u64(len(words))) >> u64(32)


@compiled(forceinline=True, _nrt=False)
def _mask(bits):
    low = bits & u64(0xFFFFFFFF)
    one = u64(1)
    return (
        one << (low & u64(63))
        | one << ((low >> u64(6)) & u64(63))
        | one << ((low >> u64(12)) & u64(63))
    )


def alias_table(weights: npt.ArrayLike) -> Words:
    """A table from which `picked` picks row i with a chance of weights[i] / sum(weights), shape (rows,)."""
    weight = np.asarray(weights, dtype=np.float64)
    share = weight * (len(weight) / weight.sum())
    other = fill_alias(share).astype(np.uint64)
    table: Words = np.minimum(share * 2.0**32, 2.0**32 - 1).astype(np.uint64) << u64(32) | other
    return table


def new_filter(entries: int) -> Words:
    """An empty filter for `entries` entries: at 16 bits each about one absent pair in 200 is taken for present."""
    return np.zeros(max(1, min(entries * 16 // 64 + 1, MAX_FILTER_BYTES // 8)), dtype=np.uint64)


@compiled
def add_pairs(words, items, offsets):
    """Put every pair of items of a basket into the filter, in both orders."""
    for b in range(len(offsets) - 1):
        for i in range(offsets[b], offsets[b + 1]):
            for j in range(offsets[b], offsets[b + 1]):
                if i != j:
                    bits = splitmix64((u64(items[i]) << u64(32)) + u64(items[j]))
                    words[_word(bits, words)] |= _mask(bits)


@compiled
def add_owned(words, owners, items, offsets):
    """Put (owners[b], item) for every item of basket b into the filter."""
    for b in range(len(offsets) - 1):
        for i in range(offsets[b], offsets[b + 1]):
            bits = splitmix64((u64(owners[b]) << u64(32)) + u64(items[i]))
            words[_word(bits, words)] |= _mask(bits)


@compiled
def shuffle_lines(items, offsets, seed):
    """Put the lines of each basket into a random order (Fisher and Yates); `visits.cu` does the same."""
    for basket in range(len(offsets) - 1):
        key, start = basket_key(seed, basket), offsets[basket]
        for n in range(offsets[basket + 1] - start - 1, 0, -1):
            m = ((counted(key, u64(n)) >> u64(32)) * u64(n + 1)) >> u64(32)
            items[start + n], items[start + m] = items[start + m], items[start + n]
