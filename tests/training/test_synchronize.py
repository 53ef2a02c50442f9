"""Several processes that train one model hold equal tables, lose no basket and end alike."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.kernel_cases import assert_equal_arrays
from helpers.thread_process_group import ThreadProcessGroup, run_processes
from helpers.toyshop import toy_baskets
from neatrec.data.baskets import Baskets
from neatrec.data.splits import validation_split
from neatrec.errors import DivergedError, ParameterError, ResourceError
from neatrec.io import SourceOptions
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.embeddings.checkpoints import FILE
from neatrec.models.embeddings.kernels.layout import VISITOR, Table, new_table, width
from neatrec.models.embeddings.synchronize import Synchronizer
from neatrec.training.streaming import StreamOptions
from neatrec.training.train import ModelChoice, TrainOptions, train_bundle

REPRODUCIBLE = Run(rng=5, threads=1, reproducible=True)
MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")
ROWS, DIM = 12, 5


def synchronized(changes: Sequence[Mapping[int, float]]) -> tuple[Table, int]:
    """A table of ones after each process added its changes by row, and the bytes that each process sent."""

    def work(group: ThreadProcessGroup) -> tuple[Table, int]:
        table = new_table(ROWS, DIM)
        table += 1.0
        previous = table.copy()
        for row, change in changes[group.rank].items():
            table[row] += change
        table[:, width(DIM) + VISITOR] = group.rank
        sent = Synchronizer(group).synchronize(table, previous, DIM)
        assert table.tobytes() == previous.tobytes()
        return table, sent

    first, *others = run_processes(len(changes), work)
    for table, sent in others:
        assert (table.tobytes(), sent) == (first[0].tobytes(), first[1])
    return first


@given(st.lists(st.dictionaries(st.integers(0, ROWS - 1), st.integers(-8, 8).map(float)), min_size=1, max_size=3))
def test_changes_of_all_processes_are_summed(changes: list[dict[int, float]]) -> None:
    expected = np.ones(ROWS)
    for process in changes:
        for row, change in process.items():
            expected[row] += change
    table, sent = synchronized(changes)
    columns = np.delete(table, width(DIM) + VISITOR, axis=1)
    np.testing.assert_array_equal(columns, np.broadcast_to(expected[:, None], columns.shape))
    rows = sum(any(process.get(row) for process in changes) for row in range(ROWS))
    assert sent == 4 * ROWS + table.nbytes // ROWS * (rows if rows <= 0.75 * ROWS else ROWS)


def test_changed_rows_are_sent_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = synchronized([{0: 1.0, 3: 2.0, 4: 1.0}, {4: 3.0, 9: 1.0}])
    monkeypatch.setattr("neatrec.models.embeddings.synchronize.ROWS_PER_STEP", 2)
    found = synchronized([{0: 1.0, 3: 2.0, 4: 1.0}, {4: 3.0, 9: 1.0}])
    assert (found[0].tobytes(), found[1]) == (expected[0].tobytes(), expected[1])


def test_unequal_tables_are_refused() -> None:
    def work(group: ThreadProcessGroup) -> None:
        Synchronizer(group).check_equal({"items": np.full((2, 2), float(group.rank), dtype=np.float32)}, "at the start")

    with pytest.raises(ResourceError, match=r"differ from those of the others at the start\. All processes must read"):
        run_processes(2, work)


@pytest.mark.parametrize(("devices", "chosen"), [("gpu gpu", "gpu"), ("gpu cpu", "cpu"), ("cpu cpu", "cpu")])
def test_all_processes_use_a_gpu_or_none_does(devices: str, chosen: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="neatrec"):
        found = run_processes(2, lambda group: Synchronizer(group).common_device(devices.split()[group.rank]))
    assert found == [chosen, chosen]
    assert ("training on the CPU: only 1 of 2 processes have a GPU" in caplog.text) == (devices == "gpu cpu")


# ---- fits


def shards(count: int = 5, baskets: Baskets | None = None) -> list[Baskets]:
    """The toy baskets in shards of unequal size."""
    baskets = toy_baskets() if baskets is None else baskets
    cuts = (np.linspace(0, len(baskets) ** 0.5, count + 1) ** 2).astype(int)
    return [baskets.select(np.arange(a, b)) for a, b in zip(cuts, [*cuts[1:-1], len(baskets)], strict=False)]


def fit(size: int, name: str = "neat", run: Run = REPRODUCIBLE, stream: Any = None, **settings: Any) -> Sequence[Model]:
    stream = shards() if stream is None else stream

    def work(group: ThreadProcessGroup) -> Model:
        model = make_model(name, {"dim": 8, "epochs": 4, **settings})
        return model.fit(stream, replace(run, synchronizer=Synchronizer(group, 40)))

    return run_processes(size, work)


@pytest.mark.parametrize("name", MODELS)
def test_all_processes_end_with_the_same_bits(name: str) -> None:
    first, *others = fit(3, name)
    for other in others:
        assert_equal_arrays(first, other)
    assert_equal_arrays(first, fit(3, name, replace(REPRODUCIBLE, threads=2))[0])


def test_no_basket_is_lost() -> None:
    """With more processes than shards some have none."""

    def pairs(size: int) -> int:
        seen: list[int] = []
        fit(size, run=replace(REPRODUCIBLE, progress=lambda progress: seen.append(progress.pairs)), epochs=1)
        return seen[-1]

    assert pairs(1) == pairs(3) == pairs(7)


def test_two_processes_learn_what_one_learns() -> None:
    one, two = fit(1, epochs=40)[0], fit(2, epochs=40)[0]
    assert one.rank("Pasta", 1).names == two.rank("Pasta", 1).names == ["Pesto"]
    assert two.history[-1] == pytest.approx(one.history[-1], rel=0.15)
    assert two.history[-1] < 0.7 * two.history[0]


def test_the_first_process_writes_checkpoints_and_all_resume_from_them(tmp_path: Path) -> None:
    def fail(progress: Any) -> None:
        if progress.epoch == 3:
            raise InterruptedError

    run = replace(REPRODUCIBLE, checkpoints=tmp_path)
    with pytest.raises(InterruptedError):
        fit(2, run=replace(run, progress=fail))
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
    epochs: list[int] = []
    resumed = fit(2, run=replace(run, resume=True, progress=lambda progress: epochs.append(progress.epoch)))
    assert min(epochs) == 2
    assert_equal_arrays(resumed[0], fit(2)[0])


def test_when_one_process_is_stopped_all_stop() -> None:
    def work(group: ThreadProcessGroup) -> int:
        run = replace(
            REPRODUCIBLE, synchronizer=Synchronizer(group, 40), stop=lambda: group.rank == 1 and group.calls > 20
        )
        with pytest.raises(KeyboardInterrupt):
            make_model("neat", dim=8, epochs=4).fit(shards(), run)
        return group.calls

    counts = run_processes(2, work)
    assert counts[0] == counts[1]


def test_all_processes_stop_early_by_one_validation_loss() -> None:
    train, held_out = validation_split(toy_baskets(), 0.2, 1)
    run = replace(REPRODUCIBLE, validation=held_out, patience=1)
    one, other = fit(2, run=run, stream=shards(4, train), epochs=200, learning_rate=2.0)
    assert_equal_arrays(one, other)
    assert len(one.history) < 200


def test_a_diverging_fit_is_refused() -> None:
    with pytest.raises(DivergedError, match="model 'neat' diverged in epoch"):
        fit(2, learning_rate=1e30, margin=50.0)


# ---- from a source to a bundle

SOURCE = StreamOptions("supermarket:baskets=500,items=60", SourceOptions(), at_least=4)


def train(out: Path, source: Any = SOURCE, model: str = "neat") -> Sequence[dict[str, Any]]:
    choice = ModelChoice(model=model, settings=("dim=8", "epochs=2") if model == "neat" else ())
    options = TrainOptions(threads=1, reproducible=True, index=False)
    return run_processes(2, lambda group: train_bundle(source, out, choice, options, Synchronizer(group, 50)))


def test_the_first_process_writes_the_bundle(tmp_path: Path) -> None:
    first, second = train(tmp_path / "bundle")
    assert (first["model"], second) == ("neat", {})
    assert [file.name for file in tmp_path.iterdir()] == ["bundle"]


def test_models_of_counts_and_baskets_in_memory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="model 'pop' cannot be trained by several processes: it counts"):
        train(tmp_path / "bundle", model="pop")
    with pytest.raises(ParameterError, match="`read` must be a StreamOptions where several processes train"):
        train(tmp_path / "bundle", source=toy_baskets)
