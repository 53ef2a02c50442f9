"""Baskets for the GPU: kept in its memory where they fit, else brought in pieces, each while one is worked on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.models.embeddings.kernels.arguments import LONGEST, Shard
from neatrec.models.embeddings.kernels.gpu import compiled_module, cupy, memory_for, sized
from neatrec.text import plural

PIECE_LINES = 2**26
"""Lines of a piece: a launch takes about a tenth of a second, so progress and stop are never far away."""
BYTES_PER_LINE = 24
"""On the GPU, with baskets of a few lines: item, offsets, units and their order, and space to arrange them."""
SHARE = 0.7
"""Of the memory that is free."""

log = logging.getLogger(__name__)


class HostBaskets(NamedTuple):
    """Baskets of one shard in the memory of the host."""

    items: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    users: npt.NDArray[np.int32]
    """Row of the user of each basket; empty for models without users."""
    ordered: bool


class BasketPiece(NamedTuple):
    """Some baskets as kernels see them, and which lines of their shard they are."""

    shard: Shard
    begin: int
    end: int


class GpuBasketFeed:
    """Gives a shard's baskets to the GPU piece by piece, in a random order of their own for each epoch."""

    def __init__(
        self,
        row_of_item: npt.NDArray[np.int32],
        category: npt.NDArray[np.int32],
        lines: int,
        *,
        limit: int | None = None,
        piece_lines: int = PIECE_LINES,
    ) -> None:
        """`lines` of all shards together; `limit`: bytes to use, None: most of what is free now, so what must lie
        beside the baskets for the whole fit, tables and draws, should be there already.
        """
        self.cp = cupy()
        with memory_for(row_of_item.nbytes + category.nbytes, "the catalogue"):
            self.row_of_item, self.category = self.cp.asarray(row_of_item), self.cp.asarray(category)
        # copies are under way when `asarray` returns, and the stream that looks rows up waits for no other one
        self.cp.cuda.get_current_stream().synchronize()
        self.free = limit if limit is not None else int(SHARE * self.cp.cuda.runtime.memGetInfo()[0])
        self.piece_lines = min(piece_lines, max(self.free // (3 * BYTES_PER_LINE), 2**16))
        self.stays = lines * BYTES_PER_LINE <= self.free
        self.stream = self.cp.cuda.Stream(non_blocking=True)  # one for all copies: memory goes back to its stream
        self.kept: dict[tuple[int, int], Shard] = {}
        if not self.stays:
            log.info("the baskets (%s) do not fit on the GPU and are brought in pieces", sized(lines * BYTES_PER_LINE))

    def pieces(self, raw: HostBaskets, number: int, seed: int, first: int = 0) -> Iterator[BasketPiece]:
        """The pieces of shard `number` from piece `first` on; the next is brought while one is worked on."""
        cuts = self._cuts(raw.offsets)
        wanted = range(first, len(cuts) - 1)

        def bring(n: int) -> Shard:
            return self._bring(raw, (number, n), cuts[n], cuts[n + 1])

        for n, shard in zip(wanted, self._ahead(bring, wanted), strict=True):
            with self._memory(raw, cuts[n], cuts[n + 1]):
                arranged = self._arranged(shard, raw.ordered, seed + n)
            yield BasketPiece(arranged, int(raw.offsets[cuts[n]]), int(raw.offsets[cuts[n + 1]]))

    def _cuts(self, offsets: npt.NDArray[np.int64]) -> list[int]:
        """Baskets where pieces begin and the last one ends."""
        ends = np.searchsorted(offsets, np.arange(self.piece_lines, int(offsets[-1]), self.piece_lines))
        return [0, *sorted({int(n) for n in ends} - {0, len(offsets) - 1}), len(offsets) - 1]

    def _bring(self, raw: HostBaskets, key: tuple[int, int], first: int, last: int) -> Shard:
        if key not in self.kept:
            with self._memory(raw, first, last):
                shard = self._copied(raw, first, last)
            if not self.stays:
                return shard
            self.kept[key] = shard
        return self.kept[key]

    def _memory(self, raw: HostBaskets, first: int, last: int) -> AbstractContextManager[None]:
        lines = int(raw.offsets[last] - raw.offsets[first])
        return memory_for(lines * BYTES_PER_LINE, f"a piece of {plural(lines, 'line')}")

    def _copied(self, raw: HostBaskets, first: int, last: int) -> Shard:
        cp = self.cp
        offsets = cp.asarray(raw.offsets[first : last + 1] - raw.offsets[first])
        items = self.row_of_item[cp.asarray(raw.items[raw.offsets[first] : raw.offsets[last]])]
        users = cp.asarray(raw.users[first:last] if len(raw.users) else raw.users)
        basket, start, stop = units_on_gpu(cp, offsets)
        number = cp.arange(first, last, dtype=np.int64)
        return Shard(items, offsets, number, users, self.category, basket, start, stop)

    def _arranged(self, shard: Shard, ordered: bool, seed: int) -> Shard:
        """The units in a random order; lines too, where their order means nothing."""
        cp, module = self.cp, compiled_module(("visits",), ())
        keys = cp.empty(len(shard.start), dtype=np.uint64)
        _for_each(module.get_function("sort_keys"), len(keys), (keys, np.int64(len(keys)), np.uint64(seed)))
        order = cp.argsort(keys)
        items: Any = shard.items
        if not ordered:
            items = cp.empty_like(items)
            count = np.int64(len(shard.number))
            arguments = (shard.items, items, shard.offsets, shard.number, count, np.uint64(seed))
            _for_each(module.get_function("shuffle_lines"), len(shard.number), arguments)
        return shard._replace(items=items, basket=shard.basket[order], start=shard.start[order], stop=shard.stop[order])

    def _ahead(self, bring: Callable[[int], Shard], wanted: range) -> Iterator[Shard]:
        """bring(n) for each n, the next one always under way beside the work on this one."""
        device = self.cp.cuda.Device().id

        def aside(n: int) -> Shard:
            with self.cp.cuda.Device(device), self.stream:
                shard = bring(n)
                self.stream.synchronize()
            return shard

        with ThreadPoolExecutor(1) as helper:
            coming = [helper.submit(aside, n) for n in wanted[:1]]
            for n in wanted:
                shard = coming.pop().result()
                coming += [helper.submit(aside, following) for following in range(n + 1, wanted.stop)[:1]]
                yield shard


def units_on_gpu(cp: Any, offsets: Any, longest: int = LONGEST) -> tuple[Any, Any, Any]:
    """`arguments.units_of` on the GPU (or with any module that speaks NumPy)."""
    sizes = cp.diff(offsets)
    pieces = cp.where(sizes >= 2, -(-sizes // longest), 0)
    ends = cp.cumsum(pieces)
    number = cp.arange(int(ends[-1]) if len(ends) else 0)
    basket = cp.searchsorted(ends, number, side="right")
    start = offsets[basket] + (number - (ends[basket] - pieces[basket])) * longest
    return basket.astype(np.int32), start, cp.minimum(start + longest, offsets[basket + 1])


def _for_each(function: Any, count: int, arguments: tuple[Any, ...]) -> None:
    if count:
        function((-(-count // 256),), (256,), arguments)
