"""Memory, threads and time: how much a count may take, how much it will."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from neatrec.cooccurrence.count_input import InputSummary
from neatrec.cooccurrence.counts import Int64
from neatrec.errors import must_be
from neatrec.text import parse_size

SHARE = 0.6
"""The part of the available memory that counting may take when no limit is set: other processes need memory too."""


MAX_THREADS = 1024
"""More would only wait for each other; tens of thousands bring a machine down."""
BYTES_PER_LINE = 24
"""Of the memory engine: postings (8), the lines by basket (8), the lines of all shards in one (4), customers (4)."""
BYTES_PER_ITEM = 64
"""Counters of one thread, and margins."""
BYTES_PER_BASKET = 40
BYTES_IN_FLIGHT = 100 * 2**20
"""Blocks of pairs on their way to `keep`, per thread."""
SECONDS_PER_LINE = 60e-9
SECONDS_PER_VISIT = 10e-9
SECONDS_PER_PAIR = 100e-9


def as_bytes(limit: int | str) -> int:
    """A memory limit in bytes.

    >>> as_bytes("2GiB"), as_bytes("500 MB"), as_bytes(4096)
    (2147483648, 500000000, 4096)
    """
    try:
        size = parse_size(limit) if isinstance(limit, str) else limit
    except ValueError:
        size = 0
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise must_be("memory_limit", 'a number of bytes or a size such as "2GB" or "512MiB"', limit)
    return size


def thread_count(threads: int | None) -> int:
    """`threads`, or one for each core this process may use."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MAX_THREADS:
        raise must_be("threads", f"None or a whole number from 1 to {MAX_THREADS}", threads)
    return threads


@dataclass(frozen=True)
class Forecast:
    """An estimate for the memory engine; measured on one machine, so take it as an order of magnitude."""

    bytes: int
    """Peak memory beside the baskets themselves."""
    seconds: float
    """Once the compiled code is at hand."""
    records: int
    """Pairs of lines, before same-category pairs are removed: a bound of N."""
    pairs: int
    """Unique pairs, as if items met by chance: real shops have fewer."""


def forecast_of(summary: InputSummary, *, keep_all: bool, threads: int) -> Forecast:
    """`keep_all`: whether every pair stays in memory."""
    records = summary.records
    pairs = expected_pairs(summary.item_counts, records, directed=summary.counting.directed)
    laying_out = SECONDS_PER_LINE * int(summary.counted_sizes.sum())  # by one thread
    seconds = laying_out + SECONDS_PER_VISIT * records / threads + SECONDS_PER_PAIR * (pairs if keep_all else 0)
    return Forecast(bytes_needed(summary, keep_all=keep_all, threads=threads), seconds, records, pairs)


def bytes_needed(summary: InputSummary, *, keep_all: bool, threads: int) -> int:
    """Peak memory of the memory engine beside the baskets themselves."""
    directed, records, sizes = summary.counting.directed, summary.records, summary.counted_sizes
    pair_bytes = 32 if directed else 24
    size = (
        BYTES_PER_LINE * int(sizes.sum())
        + BYTES_PER_BASKET * len(sizes)
        + BYTES_PER_ITEM * len(summary.catalog) * (threads + 1)
        + min(BYTES_IN_FLIGHT * (threads + 1), 2 * pair_bytes * records)
    )
    if keep_all:
        # once in blocks, once sorted, and the order
        size += (2 * pair_bytes + 16) * expected_pairs(summary.item_counts, records, directed=directed)
    return int(size)


def expected_pairs(item_counts: Int64, records: int, *, directed: bool) -> int:
    """Unique pairs if `records` pairs were drawn by popularity alone: Σ 1 - exp(-λ), λ = records p_i p_j.

    Items are taken in groups of like popularity, so that a catalogue of a million costs no more than one of a hundred.

    >>> expected_pairs(np.array([5, 5, 5]), 10**6, directed=True)
    6
    """
    bought = item_counts[item_counts > 0]
    if not len(bought) or not records:
        return 0
    group = np.floor(4 * np.log2(bought)).astype(np.int64)
    number = np.bincount(group)
    total = np.bincount(group, weights=bought)
    here = number > 0
    number, share = number[here], total[here] / number[here] / bought.sum()
    # ordered pairs (i, j), i != j, of groups g and h
    ordered = number[:, None] * number[None, :] - np.diag(number)
    rate = records * share[:, None] * share[None, :] * (1 if directed else 2)
    unique = float((ordered * -np.expm1(-rate)).sum())
    return min(round(unique if directed else unique / 2), records)
