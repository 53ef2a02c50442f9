"""Rows of the counter in bands: what counting some rows needs of the baskets, and how many rows fit at a time.

Row r is the item of rank r with its partners of lower rank (`count_kernels.py`). To count a band of rows it is enough
to see the lines up to its last rank in the baskets that hold one of its items, or, in a window, the stretches around
them. So pairs can be counted band by band within any memory, or by as many workers as there are bands, and each
band's counts are final: none is ever written down before it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from neatrec.compiled import compiled
from neatrec.cooccurrence.count_input import CountInput, Part
from neatrec.cooccurrence.counts import Int64
from neatrec.cooccurrence.layout import Band, ItemRows, basket_lines, by_popularity, make_rows, rank_of
from neatrec.cooccurrence.memory import refuse_overflow


def cut_bands(
    lines: Int64, either: Int64, *, at_least: int, most_lines: int, window: bool, by_code: bool = False
) -> list[Band]:
    """At least so many bands of about equal work, of at most `most_lines` lines where one row has not more.

    `lines` of each item, and its records in `either` place. Of a basket with one of its lines a row needs the lines of
    lower rank: as many as if items met by chance. `by_code`: the largest code has rank 0, so that a row is an item with
    all partners of larger codes.
    """
    code = np.flatnonzero(lines)[::-1].astype(np.int32) if by_code else by_popularity(lines)
    own = lines[code].astype(np.float64)
    lower = 1.0 if window else (np.cumsum(own) - own) / max(own.sum(), 1.0)
    work = np.cumsum(own + either[code] * lower)
    total = float(work[-1]) if len(work) else 0.0
    number = max(at_least, -int(-total // most_lines))
    cuts = np.searchsorted(work, np.linspace(0, total, number + 1)[1:-1])
    limits = np.unique([0, *cuts, len(code)]).tolist() if len(code) else [0, 0]
    return [Band(code, first, last) for first, last in pairwise(limits)]


def lines_of_band(source: CountInput, band: Band) -> Part:
    """The lines that counting the rows of a band needs."""
    rank = rank_of(band.code, len(source.category))
    lines = basket_lines(source)
    items, window = np.empty(int(source.sizes.sum()), dtype=np.int32), source.counting.window
    # a basket's second stretch, and every later one, has more lines than the window
    most = len(source.start) + (0 if window is None else len(items) // (window + 1))
    baskets = np.empty((most, 2), dtype=np.int64)
    if window is None:
        n = copy_lower_ranks(lines, rank, band.first, band.last, items, baskets)
    else:
        n = copy_stretches(lines, rank, (band.first, band.last, window), items, baskets)
    basket, sizes = baskets[:n].T.copy()
    who = None if source.customers is None else source.customers[basket]
    return Part(items[: sizes.sum()].copy(), sizes, who)


def rows_of_band(parts: Iterable[Part], like: CountInput, band: Band) -> ItemRows:
    """The rows of a band, from the lines it needs of at least one part."""
    items, sizes, customers = zip(*parts, strict=True)
    who = None
    if customers[0] is not None:  # small numbers: a table is made of them
        who = np.unique(np.concatenate(customers), return_inverse=True)[1].astype(np.int32)
    source = like.of_part(Part(np.concatenate(items), np.concatenate(sizes), who))
    refuse_overflow(source)
    return make_rows(source, band)


@compiled
def copy_lower_ranks(lines, rank, first, last, items_out, baskets_out):
    """The lines of rank below `last` in each basket with a rank from `first` on; returns how many baskets.

    baskets_out: basket and number of lines copied, shape (B, 2).
    """
    items, start, stop, _ = lines
    n = baskets = 0
    for b in range(len(start)):
        begin, found = n, False
        for k in range(start[b], stop[b]):
            r = rank[items[k]]
            if r < last:
                items_out[n] = items[k]
                n += 1
                found = found or r >= first
        if found and n - begin > 1:
            baskets_out[baskets, 0], baskets_out[baskets, 1] = b, n - begin
            baskets += 1
        else:
            n = begin
    return baskets


@compiled
def copy_stretches(lines, rank, band, items_out, baskets_out):
    """The lines at most `window` places from one of the band; lines of one basket that are apart become two baskets.

    band: first, last, window; baskets_out as in `copy_lower_ranks`, with room for the stretches.
    """
    items, start, stop, _ = lines
    first, last, window = band
    n = baskets = 0
    for b in range(len(start)):
        begin, done = n, start[b]
        for k in range(start[b], stop[b]):
            if not first <= rank[items[k]] < last:
                continue
            if k - window > done and n > begin:
                baskets_out[baskets, 0], baskets_out[baskets, 1] = b, n - begin
                baskets += 1
                begin = n
            for line in range(max(done, k - window), min(k + window + 1, stop[b])):
                items_out[n] = items[line]
                n += 1
            done = min(k + window + 1, stop[b])
        if n > begin:
            baskets_out[baskets, 0], baskets_out[baskets, 1] = b, n - begin
            baskets += 1
    return baskets
