"""A GPU whose memory is full, wherever that happens, is a sentence with what was to lie there and its size."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.toyshop import toy_baskets
from neatrec.errors import ResourceError
from neatrec.models.embeddings.devices import GpuDevice
from neatrec.models.embeddings.kernels import gpu, gpu_feed, gpu_ranking
from neatrec.models.embeddings.kernels.arguments import Draws
from neatrec.models.embeddings.kernels.gpu_call import draws_to_gpu
from neatrec.models.embeddings.sampling import VisitOrder

MAKERS = ("asarray", "empty", "empty_like", "zeros", "full", "arange", "argsort", "diff", "where", "cumsum")


class FullError(MemoryError):
    """Stands for CuPy's OutOfMemoryError."""


class There(np.ndarray):
    """Stands for an array on the GPU."""

    def get(self) -> np.ndarray:
        return np.asarray(self)


class FakeCard:
    """NumPy behind the names of CuPy; the allocation numbered `fails_at` and those after it fail."""

    def __init__(self, fails_at: int = 10**9, free: int = 10**9) -> None:
        self.fails_at, self.made, self.bytes, self.free = fails_at, 0, 0, free
        self.cuda = SimpleNamespace(
            memory=SimpleNamespace(OutOfMemoryError=FullError),
            runtime=SimpleNamespace(getDeviceCount=lambda: 1, memGetInfo=lambda: (self.free - self.bytes, free)),
            Stream=lambda non_blocking: SimpleNamespace(),
            get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
        )

    def __getattr__(self, name: str) -> Any:
        return self._maker(getattr(np, name)) if name in MAKERS else getattr(np, name)

    def _maker(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **options: Any) -> Any:
            if self.made >= self.fails_at:
                raise FullError("out of memory")
            self.made += 1
            array = make(*arguments, **options).view(There)
            self.bytes += array.nbytes
            return array

        return made


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeCard]:
    """Puts a card in place of CuPy; kernels that run there do nothing."""
    module = SimpleNamespace(get_function=lambda name: lambda *launch: None)
    for user in (gpu_feed, gpu_ranking):
        monkeypatch.setattr(user, "compiled_module", lambda sources, options: module)
    monkeypatch.setattr(gpu_ranking, "_rows", lambda arrays: None)
    # the real one copies beside the work, on a stream of its own
    monkeypatch.setattr(gpu_feed.GpuBasketFeed, "_ahead", lambda feed, bring, wanted: map(bring, wanted))

    def put(**options: Any) -> FakeCard:
        found = FakeCard(**options)
        monkeypatch.setitem(sys.modules, "cupy", found)
        return found

    return put


def feed_baskets() -> None:
    baskets = toy_baskets()
    rows = np.arange(len(baskets.catalog), dtype=np.int32)
    raw = gpu_feed.HostBaskets(baskets.items, baskets.offsets, np.zeros(0, np.int32), ordered=False)
    pieces = list(
        gpu_feed.GpuBasketFeed(rows, rows, baskets.lines, limit=10**8, piece_lines=500).pieces(raw, 0, seed=3)
    )
    assert pieces[-1].end == baskets.lines


def rank_catalogue() -> None:
    ranker = gpu_ranking.Ranker(np.ones((9, 4), np.float32), np.ones((9, 4), np.float32), block_scores=18)
    labels = gpu_ranking.RankedLabels(np.arange(6), np.arange(5, dtype=np.int32))
    sold, category = np.ones(9, bool), np.zeros(9, np.int32)
    found = ranker.catalogue(np.arange(5, dtype=np.int32), sold, category, labels, top=3)
    assert found.best.shape == (5, 3)


def rank_lists() -> None:
    ranker = gpu_ranking.Ranker(np.ones((9, 4), np.float32))
    labels = gpu_ranking.RankedLabels(np.arange(3), np.arange(2, dtype=np.int32))
    offsets, items = np.array([0, 3, 6]), np.arange(6, dtype=np.int32)
    assert ranker.lists(np.arange(2, dtype=np.int32), offsets, items, labels, top=3).best.shape == (2, 3)


def copy_draws() -> None:
    draws_to_gpu(Draws(np.uint64(0), *(np.zeros(4, np.uint64) for _ in range(3))))


@pytest.mark.parametrize("work", [feed_baskets, rank_catalogue, rank_lists, copy_draws])
def test_whatever_does_not_fit_is_a_sentence(work: Callable[[], None], card: Callable[..., FakeCard]) -> None:
    enough = card()
    work()
    assert enough.made > 2
    for fails_at in range(enough.made):
        card(fails_at=fails_at)
        with pytest.raises(ResourceError, match=r"needs \d+\.\d MB of GPU memory\. Use a smaller `dim`, or device cpu"):
            work()


@pytest.mark.parametrize(("filter_bytes", "stays"), [(0, True), (8 * 10**5, False)])
def test_baskets_stay_only_where_there_is_room_beside_what_is_refused(
    filter_bytes: int, stays: bool, card: Callable[..., FakeCard]
) -> None:
    baskets = toy_baskets()
    visits = VisitOrder([baskets], baskets.item_counts, baskets.catalog.category_of(), with_users=False)
    lines = 20_000
    card(free=10**6)
    assert lines * gpu_feed.BYTES_PER_LINE < gpu_feed.SHARE * 10**6
    place = GpuDevice(visits, lines)
    place.upload_draws(Draws(np.uint64(0), np.zeros(8, np.uint64), np.zeros(filter_bytes // 8, np.uint64), np.zeros(0)))
    assert place.feed.stays is stays
    assert gpu.cupy().bytes >= filter_bytes
