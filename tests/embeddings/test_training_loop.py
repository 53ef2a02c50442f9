"""The training loop: progress, checkpoints, resuming, stopping, early stop, divergence, shards, threads."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from helpers.kernel_cases import assert_equal_arrays
from helpers.toyshop import toy_baskets
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import string_array
from neatrec.errors import BundleError, DivergedError, ParameterError, ResourceError
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.embeddings import devices as places
from neatrec.models.embeddings import trainer as training
from neatrec.models.embeddings.checkpoints import FILE
from neatrec.models.run import Progress

SETTINGS: dict[str, Any] = {"dim": 8, "epochs": 4}
REPRODUCIBLE = Run(rng=5, threads=1, reproducible=True)
MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")


def fit(name: str = "neat", run: Run = REPRODUCIBLE, baskets: Any = None, **changes: Any) -> Model:
    return make_model(name, {**SETTINGS, **changes}).fit(toy_baskets() if baskets is None else baskets, run)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks in an epoch of the toy baskets."""
    monkeypatch.setattr(places, "CHUNK", 300)


class Stopper:
    """Says stop after so many looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.usefixtures("small_chunks")
def test_the_same_seed_gives_the_same_bits_at_any_number_of_threads(name: str) -> None:
    alone = fit(name)
    assert_equal_arrays(alone, fit(name, replace(REPRODUCIBLE, threads=3)))
    assert not np.array_equal(alone.item_vectors(), fit(name, replace(REPRODUCIBLE, rng=6)).item_vectors())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("looks", [0, 2, 5])
@pytest.mark.usefixtures("small_chunks")
def test_a_stopped_fit_resumes_to_the_same_bits(name: str, looks: int, tmp_path: Path) -> None:
    run = replace(REPRODUCIBLE, checkpoints=tmp_path / "checkpoint")
    with pytest.raises(KeyboardInterrupt):
        fit(name, replace(run, stop=Stopper(looks)))
    assert (tmp_path / "checkpoint" / FILE).exists()
    assert_equal_arrays(fit(name, replace(run, resume=True)), fit(name))


class DiedError(Exception):
    """The process is killed."""


def die_in_third_epoch(progress: Progress) -> None:
    if progress.epoch == 3:
        raise DiedError


def written_elsewhere(folder: Path) -> None:
    """Make the checkpoint one of a GPU."""
    with safe_open(folder / FILE, framework="numpy") as file:
        about = json.loads(file.metadata()["neatrec"])
        tables = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert about["task"]["device"] == "cpu"
    about["task"]["device"] = "gpu"
    save_file(tables, folder / FILE, metadata={"neatrec": json.dumps(about)})


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_killed_fit_resumes_after_the_last_epoch_on_any_device(elsewhere: bool, tmp_path: Path) -> None:
    run = replace(REPRODUCIBLE, checkpoints=tmp_path)
    with pytest.raises(DiedError):
        fit(run=replace(run, progress=die_in_third_epoch))
    if elsewhere:
        written_elsewhere(tmp_path)
    seen: list[Progress] = []
    assert_equal_arrays(fit(run=replace(run, resume=True, progress=seen.append)), fit())
    assert seen[0].epoch == 2  # the third epoch had not been kept


def test_a_fit_must_resume_on_the_same_device_within_an_epoch(tmp_path: Path) -> None:
    run = replace(REPRODUCIBLE, checkpoints=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fit(run=replace(run, stop=Stopper(1)))
    written_elsewhere(tmp_path)
    with pytest.raises(BundleError, match=r"of another fit: device was gpu, now it is cpu\. Train without --resume"):
        fit(run=replace(run, resume=True))


def test_resuming_starts_at_the_beginning_and_changes_nothing_of_a_finished_fit(tmp_path: Path) -> None:
    run = replace(REPRODUCIBLE, checkpoints=tmp_path, resume=True)
    for _ in range(2):
        assert_equal_arrays(fit(run=run), fit())


class Shards:
    """The toy baskets in pieces, made again each time they are asked for."""

    def __init__(self, pieces: int) -> None:
        self.pieces = np.array_split(np.arange(len(toy_baskets())), pieces)

    def __iter__(self) -> Iterator[Baskets]:
        for piece in self.pieces:
            yield toy_baskets().select(piece)


OTHER_HASH = r"is of another fit: hash of the baskets was [0-9a-f]{64}, now it is"


@pytest.mark.parametrize(
    ("settings", "options", "baskets", "message"),
    [
        ({"dim": 9}, {}, None, "is of another fit: parameter dim was 8, now it is 9"),
        ({}, {"rng": 9}, None, "is of another fit: seed was 5, now it is 9"),
        ({}, {"reproducible": False}, None, "is of another fit: reproducible was True"),
        ({}, {}, lambda toy: toy.select(np.arange(50)), "is of another fit: lines was"),
        ({}, {}, lambda toy: toy.select(np.arange(len(toy))[::-1]), OTHER_HASH),
        ({}, {}, lambda toy: replace(toy, items=np.roll(toy.items, 1)), OTHER_HASH),
        ({}, {}, lambda toy: Shards(2), OTHER_HASH),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused(
    settings: dict[str, Any], options: dict[str, Any], baskets: Any, message: str, tmp_path: Path
) -> None:
    run = replace(REPRODUCIBLE, checkpoints=tmp_path)
    fit(run=run, epochs=1)
    other = None if baskets is None else baskets(toy_baskets())
    with pytest.raises(BundleError, match=message):
        fit(run=replace(run, resume=True, **options), baskets=other, epochs=1, **settings)


def test_a_checkpoint_with_other_validation_baskets_is_refused(tmp_path: Path) -> None:
    run = replace(REPRODUCIBLE, checkpoints=tmp_path)
    fit(run=replace(run, validation=toy_baskets().select(np.arange(9))))
    for other in (None, toy_baskets().select(np.arange(8))):
        with pytest.raises(BundleError, match="is of another fit: hash of the validation baskets was"):
            fit(run=replace(run, resume=True, validation=other))


def test_a_checkpoint_for_another_number_of_epochs_is_refused(tmp_path: Path, monkeypatch) -> None:
    run = replace(REPRODUCIBLE, checkpoints=tmp_path)
    settings = {"dim": 8, "epochs": None}  # left open: the amount of data decides
    model = type(make_model("neat"))
    monkeypatch.setattr(model, "_epochs", lambda model, warm: (3, 0))
    make_model("neat", settings).fit(toy_baskets(), run)
    monkeypatch.setattr(model, "_epochs", lambda model, warm: (4, 0))
    with pytest.raises(BundleError, match="is of another fit: number of epochs was 3, now it is 4"):
        make_model("neat", settings).fit(toy_baskets(), replace(run, resume=True))


@pytest.mark.parametrize("kept", [0, 10, 1000])
def test_a_cut_off_checkpoint_is_refused_by_name(kept: int, tmp_path: Path) -> None:
    fit(run=replace(REPRODUCIBLE, checkpoints=tmp_path))
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(BundleError, match=r"cannot read the checkpoint .*state\.safetensors"):
        fit(run=replace(REPRODUCIBLE, checkpoints=tmp_path, resume=True))


def test_a_checkpoint_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ResourceError, match=r"cannot write a checkpoint into .*file"):
        fit(run=replace(REPRODUCIBLE, checkpoints=tmp_path / "file"))


@pytest.mark.usefixtures("small_chunks")
def test_progress_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "PROGRESS_SECONDS", 0.0)
    seen: list[Progress] = []
    fit(run=replace(REPRODUCIBLE, progress=seen.append))
    assert [p.epoch for p in seen if p.epoch != seen[0].epoch][-1] == 4
    done = [p.done for p in seen]
    assert done == sorted(done)
    assert done[-1] == 1.0
    assert len(seen) > 8
    for p in seen:
        assert p.epochs == 4
        assert p.pairs_per_second > 0
        assert np.isfinite(p.loss)
        assert p.active is not None
        assert 0 <= p.active <= 1
        assert p.seconds_left >= 0
    assert seen[-1].seconds_left == 0
    assert seen[-1].loss < seen[0].loss
    fit("item2vec", replace(REPRODUCIBLE, progress=seen.append))
    assert seen[-1].active is None  # it has no hinges


@pytest.mark.parametrize("name", MODELS)
def test_losses_fall_and_are_kept(name: str) -> None:
    losses = fit(name, epochs=8).fit_info()["losses"]
    assert len(losses) == 8
    assert losses[-1] < losses[0]


def test_a_fit_stops_early_when_the_validation_loss_no_longer_falls() -> None:
    baskets = toy_baskets()
    held_out = baskets.select(np.arange(0, len(baskets), 4))
    learned = baskets.select(np.arange(len(baskets)) % 4 != 0)
    run = replace(REPRODUCIBLE, validation=held_out, patience=2)
    losses = _validation_losses(run, learned)
    assert 2 < len(losses) < 500
    assert min(losses[-2:]) >= min(losses[:-2])  # it stopped when it should,
    assert all(min(losses[n - 2 : n]) < min(losses[: n - 2]) for n in range(3, len(losses)))  # and not before
    assert losses == _validation_losses(replace(run, threads=2), learned)


def _validation_losses(run: Run, learned: Baskets) -> list[float]:
    """What progress reports after each epoch; before the first has ended there is nothing to report."""
    seen: dict[int, float | None] = {}
    watched = replace(run, progress=lambda p: seen.update({p.epoch: p.validation_loss}))
    model = fit(run=watched, baskets=learned, epochs=500, learning_rate=0.5)
    assert seen.pop(0, None) is None
    assert list(seen) == list(range(1, len(model.fit_info()["losses"]) + 1))
    return [loss for loss in seen.values() if loss is not None]


def _of_users(baskets: Baskets, users: str) -> Baskets:
    """`baskets` of the users `users`, a letter each, taken in turn."""
    names = sorted(set(users))
    codes = np.array([names.index(users[n % len(users)]) for n in range(len(baskets))], dtype=np.int32)
    return replace(baskets, users=codes, user_ids=string_array(names))


@pytest.mark.parametrize("name", ["triple2vec", "neat-bpr"])
def test_validation_baskets_of_unknown_users_are_ignored(name: str, caplog: pytest.LogCaptureFixture) -> None:
    learned = _of_users(toy_baskets(), "bd")
    held_out = toy_baskets().select(np.arange(12))
    mixed, known = _of_users(held_out, "abc"), _of_users(held_out.select(np.arange(1, 12, 3)), "b")
    seen: list[list[float | None]] = []
    for validation in (mixed, known):
        losses: list[float | None] = []
        run = replace(REPRODUCIBLE, validation=validation, progress=lambda p, to=losses: to.append(p.validation_loss))
        with caplog.at_level(logging.INFO, logger="neatrec"):
            fit(name, run, learned)
        seen.append(losses)
    assert seen[0][-1] is not None
    assert seen[0][-1] == seen[1][-1]
    assert caplog.text.count("ignoring") == 1
    assert "ignoring 8 of 12 validation baskets: their users have no training basket" in caplog.text


@pytest.mark.parametrize("name", ["triple2vec", "neat-bpr"])
def test_validation_without_a_known_user_is_refused(name: str) -> None:
    held_out = toy_baskets().select(np.arange(12))
    learned = _of_users(toy_baskets(), "bd")
    with pytest.raises(ParameterError, match=r"no user of its 12 baskets has a training basket\. Hold out a smaller"):
        fit(name, replace(REPRODUCIBLE, validation=_of_users(held_out, "ac")), learned)
    with pytest.raises(ParameterError, match="`validation` must be baskets whose users are known"):
        fit(name, replace(REPRODUCIBLE, validation=replace(held_out, users=None, user_ids=None)), learned)


def test_validation_over_another_catalogue_or_without_baskets_is_refused() -> None:
    with pytest.raises(ParameterError, match="`validation` must be baskets over the catalogue of the training"):
        fit(run=replace(REPRODUCIBLE, validation=Baskets.from_lists([["tea", "milk"]])))
    with pytest.raises(ParameterError, match="`validation` must be at least one basket, got 0"):
        fit(run=replace(REPRODUCIBLE, validation=toy_baskets().select(np.arange(0))))


def test_a_model_without_epochs_refuses_validation_and_resume(tmp_path: Path) -> None:
    with pytest.raises(
        ParameterError, match="`validation` is of no use to model 'pop', which does not train in epochs"
    ):
        make_model("pop").fit(toy_baskets(), Run(validation=toy_baskets()))
    with pytest.raises(ParameterError, match="`resume` is of no use to model 'cf', which does not train in epochs"):
        make_model("cf").fit(toy_baskets(), Run(checkpoints=tmp_path, resume=True))


def test_a_custom_model_is_fitted_on_the_cpu_by_default() -> None:
    class Mine(type(make_model("pop"))):  # type: ignore[misc]
        name = "mine"

    assert Model.devices == ("cpu",)
    with pytest.raises(ParameterError, match="`device` must be cpu for model 'mine', got 'gpu'"):
        Mine().fit(toy_baskets(), Run(device="gpu"))


def test_a_user_that_the_first_pass_did_not_find_is_refused() -> None:
    from neatrec.models.embeddings.sampling import VisitOrder

    first, later = _of_users(toy_baskets(), "ab"), _of_users(toy_baskets(), "abc")
    visits = VisitOrder([first], first.item_counts, first.catalog.category_of(), with_users=True)
    assert visits.users_of(first).max() == 1
    with pytest.raises(ParameterError, match="a user that the first pass over the baskets did not find"):
        visits.users_of(later)


def test_what_makes_a_fit_diverge_is_named() -> None:
    with pytest.raises(DivergedError, match=r"model 'item2vec' diverged in epoch \d: .* Lower `learning_rate`"):
        fit("item2vec", optimizer="sgd", negatives_shared=False, learning_rate=1e6, epochs=40)
    with pytest.raises(DivergedError, match=r"upper bound\. Lower `variance_learning_rate`"):
        fit("neat", variance_learning_rate=100.0, negatives=40)


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_resumes_within_its_shards(name: str, tmp_path: Path) -> None:
    run = replace(REPRODUCIBLE, checkpoints=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fit(name, replace(run, stop=Stopper(4)), Shards(3))
    assert_equal_arrays(fit(name, replace(run, resume=True), Shards(3)), fit(name, baskets=Shards(3)))


def test_threads_learn_as_well_as_one() -> None:
    losses = [fit(run=Run(rng=1, threads=threads), epochs=15).fit_info()["losses"][-1] for threads in (1, 3)]
    assert losses[1] == pytest.approx(losses[0], rel=0.2)


def test_a_generator_is_taken_as_a_seed() -> None:
    one, other = (fit(run=replace(REPRODUCIBLE, rng=np.random.default_rng(3))).item_vectors() for _ in range(2))
    assert np.array_equal(one, other)


def test_unordered_baskets_are_shuffled_each_epoch() -> None:
    from neatrec.models.embeddings.sampling import VisitOrder

    ordered = toy_baskets()
    loose = replace(ordered, ordered=False)
    visits = VisitOrder([loose], loose.item_counts, loose.catalog.category_of(), with_users=False)
    first, again, second = (visits.arranged(loose, 0, epoch, seed=1) for epoch in (0, 0, 1))
    assert np.array_equal(first.items, again.items)
    assert not np.array_equal(first.items, second.items)
    for visit in (first, second):
        for place, number in enumerate(visit.number):
            lines = visit.items[visit.offsets[place] : visit.offsets[place + 1]]
            wanted = visits.row_of_item[loose.items[loose.offsets[number] : loose.offsets[number + 1]]]
            assert sorted(lines) == sorted(wanted)
    kept = visits.arranged(ordered, 0, 0, seed=1)
    basket = int(kept.number[0])
    wanted = visits.row_of_item[ordered.items[ordered.offsets[basket] : ordered.offsets[basket + 1]]]
    assert kept.items[: kept.offsets[1]].tolist() == wanted.tolist()


@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=12), seed=st.integers(0, 5))
@settings(deadline=None, max_examples=30)
def test_every_basket_is_visited_once(sizes: list[int], seed: int) -> None:
    from neatrec.models.embeddings.sampling import VisitOrder

    rng = np.random.default_rng(seed)
    lists = [[f"i{n}" for n in rng.choice(12, size=size, replace=False)] for size in sizes]
    baskets = Baskets.from_lists([*lists, [f"i{n}" for n in range(12)]])
    visits = VisitOrder([baskets], baskets.item_counts, baskets.catalog.category_of(), with_users=False)
    visit = visits.arranged(baskets, 0, 3, seed)
    assert sorted(visit.number.tolist()) == list(range(len(baskets)))
    assert np.array_equal(np.diff(visit.offsets), baskets.sizes[visit.number])
    found = [visit.items[a:b].tolist() for a, b in zip(visit.offsets, visit.offsets[1:], strict=False)]
    for number, lines in zip(visit.number, found, strict=True):
        wanted = baskets.items[baskets.offsets[number] : baskets.offsets[number + 1]]
        assert lines == visits.row_of_item[wanted].tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "`device` must be one of auto, cpu, gpu, got 'tpu'"),
        ({"threads": 0}, "`threads` must be a whole number of at least 1, got 0"),
        ({"threads": True}, "`threads` must be a whole number of at least 1, got True"),
        ({"patience": 0}, "`patience` must be a whole number of at least 1, got 0"),
        ({"resume": True}, "`resume` must be used together with `checkpoints`"),
        ({"rng": -1}, "`rng` must be a whole number of at least 0"),
    ],
)
def test_options_of_a_run_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Run(**options)
