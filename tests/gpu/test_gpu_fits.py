"""Whole fits on a GPU: the same contract as on the CPU, baskets that stay there and baskets that come in pieces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.toyshop import toy_baskets
from neatrec.data.baskets import Baskets
from neatrec.errors import BundleError, DivergedError, ParameterError, ResourceError
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.embeddings.kernels import gpu, gpu_call, gpu_feed
from neatrec.models.run import Progress

TROUBLE = gpu.unavailable_reason()
pytestmark = pytest.mark.skipif(TROUBLE is not None, reason=f"needs a GPU: {TROUBLE}")
MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")
ON_GPU = Run(rng=5, device="gpu")


def fit(name: str, run: Run = ON_GPU, baskets: Any = None, **changes: Any) -> Model:
    settings = {"dim": 8, "epochs": 4, **changes}
    return make_model(name, settings).fit(toy_baskets() if baskets is None else baskets, run)


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_like_those_of_the_cpu(name: str) -> None:
    there, here = fit(name), fit(name, Run(rng=5, device="cpu", threads=1))
    assert there.history == pytest.approx(here.history, rel=0.6)  # another order of the baskets
    assert there.history[-1] == pytest.approx(here.history[-1], rel=0.15)


@pytest.mark.parametrize("name", MODELS)
def test_losses_fall(name: str) -> None:
    losses = fit(name).history
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", MODELS)
def test_what_a_gpu_learned_can_be_kept_and_asked(name: str) -> None:
    model = fit(name)
    again = type(model).from_arrays(model.parameters, model.catalog, model.arrays(users=True))
    code = int(np.argmax(model.item_count))
    assert again.rank(code, k=3).codes.tolist() == model.rank(code, k=3).codes.tolist()


def test_baskets_in_pieces_see_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs() -> list[int]:
        seen: list[Progress] = []
        fit("neat", Run(rng=5, device="gpu", progress=seen.append), epochs=2)
        return [progress.pairs for progress in seen if progress.epoch and progress.done == progress.epoch / 2]

    whole = pairs()
    monkeypatch.setattr(gpu_feed, "PIECE_LINES", 2**10)
    monkeypatch.setattr(gpu_feed.GpuBasketFeed.__init__, "__kwdefaults__", {"limit": 10_000, "piece_lines": 1_000})
    assert pairs() == whole


def test_a_feed_that_does_not_keep_gives_what_one_that_keeps_gives() -> None:
    baskets = toy_baskets()
    rows = np.arange(len(baskets.catalog), dtype=np.int32)
    raw = gpu_feed.HostBaskets(baskets.items, baskets.offsets, np.zeros(0, np.int32), baskets.ordered)
    feeds = [
        gpu_feed.GpuBasketFeed(rows, rows, baskets.lines, limit=limit, piece_lines=500) for limit in (10_000, 10**9)
    ]
    assert [feed.stays for feed in feeds] == [False, True]
    one, other = (list(feed.pieces(raw, 0, seed=3)) for feed in feeds)
    assert len(one) == len(other) > 2
    for a, b in zip(one, other, strict=True):
        assert (a.begin, a.end) == (b.begin, b.end)
        for x, y in zip(a.shard, b.shard, strict=True):
            np.testing.assert_array_equal(x.get(), y.get())
    assert sum(piece.end - piece.begin for piece in one) == baskets.lines


def test_a_feed_waits_for_rows_that_are_still_being_copied() -> None:
    """The card is busy when the feed begins: what is copied in its usual order comes late."""
    cp = gpu.cupy()
    baskets = toy_baskets()
    rows = np.arange(len(baskets.catalog), dtype=np.int32)[::-1].copy()
    raw = gpu_feed.HostBaskets(baskets.items, baskets.offsets, np.zeros(0, np.int32), ordered=True)
    large = cp.ones((8192, 8192), dtype=np.float32)
    cp.matmul(large, large)  # the first product also sets things up
    cp.cuda.get_current_stream().synchronize()
    for _ in range(30):
        cp.matmul(large, large, out=cp.empty_like(large))
    (piece,) = gpu_feed.GpuBasketFeed(rows, rows, baskets.lines).pieces(raw, 0, seed=3)
    np.testing.assert_array_equal(piece.shard.items.get(), rows[baskets.items])


def test_a_fit_that_runs_away_says_so_and_leaves_the_card_usable() -> None:
    with pytest.raises(DivergedError, match="model 'neat' diverged in epoch"):
        fit("neat", learning_rate=1e30, margin=50.0)
    assert np.isfinite(fit("neat").history).all()


@pytest.mark.parametrize("rows", [0, 1, 70_001])
def test_the_largest_number_of_a_table_is_that_of_its_vectors(rows: int) -> None:
    from neatrec.models.embeddings.kernels.layout import new_table

    cp = gpu.cupy()
    table = new_table(rows, 37)
    table[:] = 99.0  # the tails
    table[:, :37] = np.random.default_rng(1).normal(size=(rows, 37))
    assert gpu_call.largest(cp.asarray(table), 37) == np.abs(table[:, :37]).max(initial=0.0)
    if rows:
        table[-1, 36] = np.nan
        assert np.isnan(gpu_call.largest(cp.asarray(table), 37))


def test_units_and_shuffled_lines_equal_those_of_the_cpu() -> None:
    from neatrec.models.embeddings.kernels.arguments import units_of
    from neatrec.models.embeddings.kernels.arrange import arrange

    sizes = np.array([3, 1, 700, 2, 0, 40])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    items = np.arange(offsets[-1], dtype=np.int32)
    raw = gpu_feed.HostBaskets(items, offsets, np.zeros(0, np.int32), ordered=False)
    (piece,) = gpu_feed.GpuBasketFeed(items, items, len(items)).pieces(raw, 0, seed=11)
    order = np.argsort(piece.shard.start.get())
    for found, wanted in zip((piece.shard.basket, piece.shard.start, piece.shard.stop), units_of(offsets), strict=True):
        np.testing.assert_array_equal(found.get()[order], wanted)
    wanted = arrange(
        items,
        offsets,
        order=np.arange(len(sizes)),
        row_of_item=items,
        category=items,
        users=np.zeros(0, np.int32),
        shuffle_seed=11,
    )
    np.testing.assert_array_equal(piece.shard.items.get(), wanted.items)


def test_a_stopped_fit_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    looks = iter([False, True])
    with pytest.raises(KeyboardInterrupt):
        fit("neat", Run(rng=5, device="gpu", checkpoints=tmp_path, stop=lambda: next(looks)))
    model = fit("neat", Run(rng=5, device="gpu", checkpoints=tmp_path, resume=True))
    assert len(model.history) == 4


@pytest.mark.parametrize(("first", "then"), [("cpu", "gpu"), ("gpu", "cpu")])
@pytest.mark.parametrize("name", MODELS)
def test_after_an_epoch_a_fit_goes_on_on_the_other_device(tmp_path: Path, name: str, first: str, then: str) -> None:
    class Died(Exception):
        pass

    losses: list[float] = []

    def die(progress: Progress) -> None:
        if progress.epoch == 3:
            raise Died
        if progress.epoch > len(losses):
            losses.append(progress.loss)

    with pytest.raises(Died):
        fit(name, Run(rng=5, device=first, threads=1, checkpoints=tmp_path, progress=die))
    epochs: list[int] = []
    run = Run(rng=5, device=then, threads=1, checkpoints=tmp_path, resume=True)
    model = fit(name, replace(run, progress=lambda progress: epochs.append(progress.epoch)))
    assert min(epochs) == 2
    assert model.history[:2] == pytest.approx(losses, rel=1e-6)
    whole = fit(name, Run(rng=5, device="cpu", threads=1))
    assert model.history[-1] == pytest.approx(whole.history[-1], rel=0.2)


@pytest.mark.parametrize(("first", "then"), [("cpu", "gpu"), ("gpu", "cpu")])
def test_a_fit_must_resume_on_the_same_device_within_an_epoch(tmp_path: Path, first: str, then: str) -> None:
    looks = iter([False, True])
    with pytest.raises(KeyboardInterrupt):
        fit("neat", Run(rng=5, device=first, checkpoints=tmp_path, stop=lambda: next(looks)))
    with pytest.raises(BundleError, match=f"of another fit: device was {first}, now it is {then}"):
        fit("neat", Run(rng=5, device=then, checkpoints=tmp_path, resume=True))


def test_validation_baskets_stop_a_fit() -> None:
    model = fit("neat", Run(rng=5, device="gpu", validation=toy_baskets(), patience=1), epochs=60, learning_rate=2.0)
    assert len(model.history) < 60


def test_auto_trains_on_the_gpu_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="neatrec"):
        fit("neat", Run(rng=5))
    assert "training on the GPU" in caplog.text


def test_auto_takes_the_cpu_for_what_a_gpu_cannot_do(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="neatrec"):
        fit("neat", Run(rng=5), window=20, epochs=1)
    assert "training on the CPU: `window` must be at most 16 on device gpu" in caplog.text


@pytest.mark.parametrize(
    ("run", "settings", "message"),
    [
        (ON_GPU, {"optimizer": "sgd", "negatives_shared": False}, "`optimizer` must be adagrad on device gpu"),
        (Run(device="gpu", reproducible=True), {}, "`reproducible` must be false on device gpu"),
        (ON_GPU, {"window": 20}, "`window` must be at most 16 on device gpu"),
    ],
)
def test_what_a_gpu_cannot_do_is_refused(run: Run, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        fit("neat", run, **settings)


def test_out_of_memory_says_how_much_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    cp = gpu.cupy()

    def full(*_: Any, **__: Any) -> Any:
        raise cp.cuda.memory.OutOfMemoryError(1, 2, 3)

    monkeypatch.setattr(cp, "asarray", full)
    with pytest.raises(ResourceError, match=r"the model needs 0\.4 MB of GPU memory"):
        gpu_call.to_gpu((np.zeros((1000, 112), dtype=np.float32),))


def test_baskets_of_several_shards_are_one_fit() -> None:
    baskets: Baskets = toy_baskets()
    half = len(baskets) // 2
    shards = [baskets.select(np.arange(half)), baskets.select(np.arange(half, len(baskets)))]
    model = fit("neat", baskets=shards)
    assert model.history[-1] == pytest.approx(fit("neat").history[-1], rel=0.1)


def test_models_are_judged_as_on_the_cpu() -> None:
    from neatrec.evaluation.candidates import candidate_set, catalogue, partners
    from neatrec.evaluation.ranks import LabelQueries, rank_labels

    baskets = toy_baskets()
    model = fit("neat")
    queries = np.flatnonzero(model.item_count > 0)[:30].astype(np.int32)
    bought_with = partners(baskets, queries)
    some = np.repeat(bought_with.queries, np.diff(bought_with.offsets)), bought_with.items
    asked = LabelQueries.from_pairs(*some)
    for candidates in (candidate_set(bought_with, 20), catalogue(baskets, asked.queries)):
        here, there = (rank_labels(model, candidates, asked, device=device) for device in ("cpu", "gpu"))
        assert np.mean(here.higher == there.higher) > 0.99  # float64 and float32 may part two that are almost level
        assert np.array_equal(here.equal > 0, there.equal > 0)
        assert np.mean(here.best == there.best) > 0.99
    with pytest.raises(ParameterError, match="`device` must be cpu for model 'neat-likelihood'"):
        rank_labels(fit("neat-likelihood"), candidates, asked, device="gpu")
