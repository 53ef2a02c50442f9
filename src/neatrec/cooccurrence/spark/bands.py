"""Bands of rows: the lines that counting some items needs.

Row r is the item of rank r with its partners of lower rank (`count_kernels.py`). A band of rows needs only the lines up
to its last rank in the baskets that hold one of its items, or, in a window, those baskets as they are. So bands are
counted by tasks that know nothing of each other, and their counts are final.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from neatrec.compiled import compiled
from neatrec.cooccurrence.count_input import CountInput, Part
from neatrec.cooccurrence.layout import (
    Band,
    ItemRows,
    basket_lines,
    by_popularity,
    make_rows,
    rank_of,
)
from neatrec.cooccurrence.memory import refuse_overflow
from neatrec.data.counts import Int64


def cut_bands(lines: Int64, either: Int64, *, at_least: int, max_lines: int) -> list[Band]:
    """At least `at_least` bands of about equal work, of at most `max_lines` lines where one row has not more.

    `lines` of each item, and its records in `either` position. Of a basket with one of its lines a row needs the lines of
    lower rank: as many as if items met by chance.
    """
    code = by_popularity(lines)
    own = lines[code].astype(np.float64)
    lower = (np.cumsum(own) - own) / max(own.sum(), 1.0)
    work = np.cumsum(own + either[code] * lower)
    total = float(work[-1]) if len(work) else 0.0
    number = max(at_least, -int(-total // max_lines))
    cuts = np.searchsorted(work, np.linspace(0, total, number + 1)[1:-1])
    limits = np.unique([0, *cuts, len(code)]).tolist() if len(code) else [0, 0]
    return [Band(code, first, last) for first, last in pairwise(limits)]


def lines_of_band(source: CountInput, band: Band) -> Part:
    """The lines that counting the rows of a band needs."""
    rank = rank_of(band.code, len(source.category))
    items = np.empty(int(source.sizes.sum()), dtype=np.int32)
    kept = np.empty((len(source.start), 2), dtype=np.int64)
    # positions count in a window: all lines stay
    below = band.last if source.all_pairs else len(band.code)
    number = copy_lines(basket_lines(source), rank, (band.first, band.last, below), items, kept)
    basket, sizes = kept[:number].T.copy()
    customers = None if source.customers is None else source.customers[basket]
    return Part(items[: sizes.sum()].copy(), sizes, customers)


def rows_of_band(parts: Sequence[Part], like: CountInput, band: Band) -> ItemRows:
    """The rows of a band, from the lines it needs of at least one part."""
    items, sizes, customers = zip(*parts, strict=True)
    who = None
    if customers[0] is not None:  # small numbers: a table is made of them
        who = np.unique(np.concatenate(customers), return_inverse=True)[1].astype(np.int32)
    source = like.of_part(Part(np.concatenate(items), np.concatenate(sizes), who))
    refuse_overflow(source)
    return make_rows(source, band)


@compiled
def copy_lines(lines, rank, limits, items_out, baskets_out):
    """The lines of rank below `below` in each basket with a rank from `first` to `last`; returns how many baskets.

    limits: first, last, below; baskets_out: basket and number of lines copied, shape (B, 2).
    """
    items, start, stop, _ = lines
    first, last, below = limits
    n = baskets = 0
    for b in range(len(start)):
        begin, wanted = n, False
        for k in range(start[b], stop[b]):
            r = rank[items[k]]
            if r < below:
                items_out[n] = items[k]
                n += 1
                wanted = wanted or first <= r < last
        if wanted and n - begin > 1:
            baskets_out[baskets, 0], baskets_out[baskets, 1] = b, n - begin
            baskets += 1
        else:
            n = begin
    return baskets
