"""What a count will cost, from basket sizes and item counts alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neatrec.cooccurrence.counts import Int64
from neatrec.cooccurrence.input_summary import InputSummary

BYTES_A_LINE = 24
"""Of the memory engine: postings (8), the lines by basket (8), the lines of all shards in one (4), customers (4)."""
BYTES_AN_ITEM = 64
"""Counters of one thread, and margins."""
BYTES_A_BASKET = 40
BYTES_IN_FLIGHT = 100 * 2**20
"""Blocks of pairs on their way to `keep`, a thread."""
SECONDS_A_LINE = 60e-9
SECONDS_A_VISIT = 10e-9
SECONDS_A_PAIR = 100e-9


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


def forecast_of(survey: InputSummary, *, keep_all: bool, threads: int) -> Forecast:
    """`keep_all`: whether every pair stays in memory."""
    records = survey.records
    pairs = expected_pairs(survey.item_counts, records, directed=survey.counting.directed)
    laying_out = SECONDS_A_LINE * int(survey.counted_sizes.sum())  # by one thread
    seconds = laying_out + SECONDS_A_VISIT * records / threads + SECONDS_A_PAIR * (pairs if keep_all else 0)
    return Forecast(bytes_needed(survey, keep_all=keep_all, threads=threads), seconds, records, pairs)


def bytes_needed(survey: InputSummary, *, keep_all: bool, threads: int) -> int:
    """Peak memory of the memory engine beside the baskets themselves."""
    directed, records, sizes = survey.counting.directed, survey.records, survey.counted_sizes
    pair_bytes = 32 if directed else 24
    size = (
        BYTES_A_LINE * int(sizes.sum())
        + BYTES_A_BASKET * len(sizes)
        + BYTES_AN_ITEM * len(survey.catalog) * (threads + 1)
        + min(BYTES_IN_FLIGHT * (threads + 1), 2 * pair_bytes * records)
    )
    if keep_all:
        # once in blocks, once sorted, and the order
        size += (2 * pair_bytes + 16) * expected_pairs(survey.item_counts, records, directed=directed)
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
