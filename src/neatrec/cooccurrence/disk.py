"""The disk engine: what does not fit in memory is counted band by band, reading the baskets again for each band.

Nothing is written: shards of a stream are files already. Memory holds one part of the baskets and the lines that the
rows of one band need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from neatrec.cooccurrence.bands import cut_bands, lines_of_band, rows_of_band
from neatrec.cooccurrence.count_input import CountInput, InputSummary, Part
from neatrec.cooccurrence.counts import Keep, Margins, PairBlock, PairPart
from neatrec.cooccurrence.layout import Band, ItemRows
from neatrec.cooccurrence.memory import (
    count_kept,
    count_part,
    margins_of_lines,
    margins_of_pairs,
    sorted_pairs,
    with_forward,
)
from neatrec.cooccurrence.resources import BYTES_IN_FLIGHT, BYTES_PER_ITEM, BYTES_PER_LINE
from neatrec.errors import ResourceError
from neatrec.text import show_size

LEAST_BANDS = 2
LINES_PER_PART = 1 << 20
BYTES_PER_PART = 100 * LINES_PER_PART


def count_on_disk(
    summary: InputSummary, keep: Keep | None, memory_limit: int, threads: int
) -> tuple[PairBlock, Margins]:
    """The kept pairs, sorted, and the margins of all pairs."""
    bands, margins, threads = _plan(summary, memory_limit, threads)
    blocks = [PairBlock.empty(0, reverse=summary.counting.directed, customers=summary.users_known)]
    pairs = 0
    for rows in _rows_by_band(summary, bands):
        block, seen = count_kept(rows, margins, keep, threads)
        blocks.append(block)
        pairs += seen
        size = 2 * sum(column.nbytes for block in blocks for column in block.columns if column is not None)
        if size > memory_limit:  # once in blocks, once sorted
            raise ResourceError(
                f"{sum(map(len, blocks)):,} pairs and more need {show_size(size)}, more than the memory limit of "
                f"{show_size(memory_limit)}",
                hint="Pass `keep` to choose the wanted pairs, or raise `memory_limit`.",
            )
    whole = PairBlock.joined(blocks)
    blocks.clear()  # they may be most of the memory
    return sorted_pairs(whole, len(summary.catalog)), replace(margins, pairs=pairs)


def count_parts_on_disk(
    summary: InputSummary, keep: Keep | None, memory_limit: int, threads: int, *, order: bool
) -> tuple[Margins, Iterator[PairPart]]:
    """The totals, and the kept pairs of a band of codes at a time; `order`: with how often the smaller came first."""
    bands, margins, threads = _plan(summary, memory_limit, threads, by_code=True)
    like = CountInput.without_lines(summary.counting, summary.catalog)
    bands.reverse()  # the largest codes have the lowest ranks

    def parts() -> Iterator[PairPart]:
        none = PairBlock.empty(0, reverse=False, customers=summary.users_known)
        yield PairPart(none, 0, none.count if order else None)
        for band, lines in _lines_by_band(summary, bands):
            part = count_part(rows_of_band(lines, like, band), margins, keep, threads)
            if order:  # customers would be counted once more
                plain = [each._replace(customers=None) for each in lines]
                rows = rows_of_band(plain, replace(like, counting=replace(like.counting, directed=True)), band)
                part = with_forward(part, rows, margins, threads)
            yield part

    return margins, parts()


def margins_on_disk(summary: InputSummary, memory_limit: int, threads: int) -> Margins:
    """The totals without the pairs."""
    return _plan(summary, memory_limit, threads)[1]


def _plan(
    summary: InputSummary, memory_limit: int, threads: int, *, by_code: bool = False
) -> tuple[list[Band], Margins, int]:
    """The bands, the totals, and the threads that fit in the limit."""
    threads, lines = _affordable(len(summary.catalog), memory_limit, threads)
    counting, like = summary.counting, CountInput.without_lines(summary.counting, summary.catalog)
    nothing, window = np.zeros((2, len(summary.catalog)), dtype=np.int64), counting.window is not None
    parts = (like.of_part(part, counting.min_basket) for part in summary.parts(LINES_PER_PART))
    either, second = sum((np.array(margins_of_lines(part, threads)) for part in parts), nothing)
    bands = cut_bands(
        summary.item_counts, either, at_least=LEAST_BANDS, most_lines=lines, window=window, by_code=by_code
    )
    if counting.once_per_customer:
        rows = _rows_by_band(summary, bands)
        either, second = sum((np.array(margins_of_pairs(each, len(like.category), threads)) for each in rows), nothing)
    return bands, Margins.of(either, second, counting, like.category, len(summary.counted_sizes)), threads


def _rows_by_band(summary: InputSummary, bands: list[Band]) -> Iterator[ItemRows]:
    """The rows of each band with lines, one band at a time in memory."""
    like = CountInput.without_lines(summary.counting, summary.catalog)
    return (rows_of_band(lines, like, band) for band, lines in _lines_by_band(summary, bands))


def _lines_by_band(summary: InputSummary, bands: list[Band]) -> Iterator[tuple[Band, list[Part]]]:
    """Each band with lines, and what it needs of each part of the baskets."""
    like, least = CountInput.without_lines(summary.counting, summary.catalog), summary.counting.min_basket
    for band in bands:
        parts = (lines_of_band(like.of_part(part, least), band) for part in summary.parts(LINES_PER_PART))
        found = [part for part in parts if len(part.sizes)]
        if found:
            yield band, found


def _affordable(items: int, memory_limit: int, threads: int) -> tuple[int, int]:
    """Threads, and the lines of a band, that fit in the limit."""
    per_thread = BYTES_PER_ITEM * items + BYTES_IN_FLIGHT
    while threads > 1 and memory_limit < 1.25 * (BYTES_PER_PART + (threads + 1) * per_thread):
        threads -= 1
    fixed = BYTES_PER_PART + (threads + 1) * per_thread
    if memory_limit < 1.25 * fixed:
        raise ResourceError(
            f"counting pairs of {items:,} items needs at least {show_size(1.25 * fixed)}, more than the memory "
            f"limit of {show_size(memory_limit)}",
            hint="Raise `memory_limit`.",
            argument="memory_limit",
        )
    return threads, int(memory_limit - fixed) // (BYTES_PER_LINE + 8)  # the parts, and the parts in one
