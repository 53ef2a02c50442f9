"""The disk engine: what does not fit in memory is counted band by band, reading the baskets again for each band.

Nothing is written: shards of a stream are files already. Memory holds one part of the baskets and the lines that the
rows of one band need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from neatrec.cooccurrence.bands import cut_bands, lines_of_band, rows_of_band
from neatrec.cooccurrence.candidates import NO_COUNTS, best_of, both_ways
from neatrec.cooccurrence.count_input import CountInput, InputSummary
from neatrec.cooccurrence.counts import Int64, Keep, Margins, PairBlock
from neatrec.cooccurrence.layout import Band, ItemRows
from neatrec.cooccurrence.memory import count_kept, margins_of_lines, margins_of_pairs, sorted_pairs
from neatrec.cooccurrence.resources import BYTES_IN_FLIGHT, BYTES_PER_ITEM, BYTES_PER_LINE, human
from neatrec.errors import ResourceError

LEAST_BANDS = 2
LINES_PER_PART = 1 << 20
BYTES_PER_PART = 100 * LINES_PER_PART


def count_on_disk(
    summary: InputSummary, keep: Keep | None, memory_limit: int, threads: int
) -> tuple[PairBlock, Margins]:
    """The kept pairs, sorted, and the margins of all pairs."""
    counted = DiskCount.plan(summary, memory_limit, threads)
    blocks = [PairBlock.empty(0, reverse=summary.counting.directed, customers=summary.users_known)]
    pairs = 0
    for rows in counted.bands_of_rows():
        block, seen = count_kept(rows, counted.margins, keep, counted.threads)
        blocks.append(block)
        pairs += seen
        size = sum(column.nbytes for block in blocks for column in block.columns if column is not None)
        if 2 * size > memory_limit:  # once in blocks, once sorted
            raise ResourceError(
                f"{sum(map(len, blocks)):,} pairs and more need {human(2 * size)}, more than the memory limit of "
                f"{human(memory_limit)}",
                hint="Pass `keep` to choose the wanted pairs, or raise `memory_limit`.",
            )
    whole = PairBlock.joined(blocks)
    blocks.clear()  # they may be most of the memory
    return sorted_pairs(whole, len(summary.catalog)), replace(counted.margins, pairs=pairs)


def margins_on_disk(summary: InputSummary, memory_limit: int, threads: int) -> Margins:
    """The totals without the pairs."""
    return DiskCount.plan(summary, memory_limit, threads).margins


def candidates_on_disk(summary: InputSummary, size: int, place: Int64, memory_limit: int, threads: int) -> PairBlock:
    """For each query its `size` items bought with it most often, best first; equal counts by ascending `place`."""
    counted = DiskCount.plan(summary, memory_limit, threads)
    found = NO_COUNTS
    for rows in counted.bands_of_rows():
        block, _ = count_kept(rows, counted.margins, None, counted.threads)
        found = best_of([found, both_ways(block)], place, size)
    return found


@dataclass(frozen=True, eq=False)
class DiskCount:
    """The bands of a count within a memory limit, and the totals."""

    summary: InputSummary
    like: CountInput
    bands: list[Band]
    threads: int
    margins: Margins

    @classmethod
    def plan(cls, summary: InputSummary, memory_limit: int, threads: int) -> DiskCount:
        """One pass over the lines for the totals; `once_per_customer` needs another for each band."""
        threads, lines = _affordable(len(summary.catalog), memory_limit, threads)
        counting, like = summary.counting, CountInput.without_lines(summary.counting, summary.catalog)
        either, second = np.zeros((2, len(summary.catalog)), dtype=np.int64)
        for part in summary.parts(LINES_PER_PART):
            both = margins_of_lines(like.of_part(part, counting.min_basket), threads)
            either, second = either + both[0], second + both[1]
        bands = cut_bands(
            summary.item_counts, either, at_least=LEAST_BANDS, most_lines=lines, window=counting.window is not None
        )
        margins = Margins.of(either, second, counting, like.category, len(summary.counted_sizes))
        counted = cls(summary, like, bands, threads, margins)
        if not counting.once_per_customer:
            return counted
        either, second = np.zeros((2, len(like.category)), dtype=np.int64)
        for rows in counted.bands_of_rows():
            both = margins_of_pairs(rows, len(like.category), threads)
            either, second = either + both[0], second + both[1]
        return replace(counted, margins=Margins.of(either, second, counting, like.category, margins.baskets))

    def bands_of_rows(self) -> Iterator[ItemRows]:
        """The rows of each band, one band at a time in memory."""
        for band in self.bands:
            found = []
            for part in self.summary.parts(LINES_PER_PART):
                some = lines_of_band(self.like.of_part(part, self.like.counting.min_basket), band)
                if len(some.sizes):
                    found.append(some)
            if found:
                yield rows_of_band(found, self.like, band)


def _affordable(items: int, memory_limit: int, threads: int) -> tuple[int, int]:
    """Threads, and the lines of a band, that fit in the limit."""
    while True:
        fixed = BYTES_PER_PART + (threads + 1) * (BYTES_PER_ITEM * items + BYTES_IN_FLIGHT)
        if memory_limit >= 1.25 * fixed or threads == 1:
            break
        threads -= 1
    if memory_limit < 1.25 * fixed:
        raise ResourceError(
            f"counting pairs of {items:,} items needs at least {human(1.25 * fixed)}, more than the memory limit of "
            f"{human(memory_limit)}",
            hint="Raise `memory_limit`.",
            argument="memory_limit",
        )
    return threads, int(memory_limit - fixed) // (BYTES_PER_LINE + 8)  # the parts, and the parts in one
