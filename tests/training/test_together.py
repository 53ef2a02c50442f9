"""Several processes that train one model: equal replicas, nothing lost, one way out for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.thread_process_group import ThreadTeam, all_at_once
from helpers.toyshop import toy_baskets
from neatrec.data.baskets import Baskets
from neatrec.data.splits import validation_split
from neatrec.errors import DivergedError, ParameterError, ResourceError
from neatrec.io import SourceOptions
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.embeddings.checkpoints import FILE
from neatrec.models.embeddings.devices import OnCpu, OnGpu, Span
from neatrec.models.embeddings.kernels.layout import SQUARES, VISITOR, Table, new_table, width
from neatrec.models.embeddings.synchronize import Together
from neatrec.training.streaming import StreamOptions
from neatrec.training.train import ModelChoice, train_bundle

REPRODUCIBLE = Run(rng=5, threads=1, reproducible=True)
MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")


def shards(count: int = 5, baskets: Baskets | None = None) -> list[Baskets]:
    """The toy baskets in pieces of unequal size."""
    baskets = toy_baskets() if baskets is None else baskets
    ends = np.linspace(0, len(baskets) ** 0.5, count + 1) ** 2
    cuts = ends.astype(int)
    return [baskets.select(np.arange(a, b)) for a, b in zip(cuts, [*cuts[1:-1], len(baskets)], strict=False)]


def fit_together(
    size: int, name: str = "neat", run: Run = REPRODUCIBLE, stream: Any = None, every: int = 40, **settings: Any
) -> Sequence[Model]:
    stream = shards() if stream is None else stream
    settings = {"dim": 8, "epochs": 4, **settings}

    def work(team: ThreadTeam) -> Model:
        return make_model(name, settings).fit(stream, replace(run, together=Together(team, every)))

    return all_at_once(size, work)


def assert_same(one: Model, other: Model) -> None:
    a, b = one.arrays(users=True), other.arrays(users=True)
    assert a.keys() == b.keys()
    for name, array in a.items():
        np.testing.assert_array_equal(array, b[name], err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_all_processes_end_with_the_same_bits(name: str) -> None:
    first, *others = fit_together(3, name)
    for other in others:
        assert_same(first, other)
    assert_same(first, fit_together(3, name)[0])  # and the next time too
    assert_same(first, fit_together(3, name, replace(REPRODUCIBLE, threads=2))[0])


@pytest.mark.parametrize("name", MODELS)
def test_one_process_goes_the_plain_way_to_the_same_bits(name: str) -> None:
    (alone,) = fit_together(1, name)
    assert_same(alone, make_model(name, dim=8, epochs=4).fit(shards(), REPRODUCIBLE))


def test_no_basket_is_lost_whoever_has_it() -> None:
    """Pairs seen do not depend on how many share the work; with more processes than shards some have none."""

    def pairs(size: int) -> list[int]:
        seen: list[int] = []
        run = replace(REPRODUCIBLE, progress=lambda progress: seen.append(progress.pairs))
        fit_together(size, run=run, epochs=1)
        return seen[-1:]

    assert pairs(1) == pairs(2) == pairs(3) == pairs(7)


def test_together_they_learn_what_one_learns() -> None:
    alone = make_model("neat", dim=8, epochs=40).fit(shards(), REPRODUCIBLE)
    together = fit_together(2, epochs=40)[0]
    for model in (alone, together):
        found = model.recommend("Pasta", 1).names
        assert found == ["Pesto"]
    assert together.history[-1] == pytest.approx(alone.history[-1], rel=0.15)
    assert together.history[-1] < 0.7 * together.history[0]


def test_a_stream_that_is_no_list_is_shared_too() -> None:
    class Stream:
        def __iter__(self) -> Any:
            return iter(shards())

    assert_same(fit_together(2)[0], fit_together(2, stream=Stream())[0])


def test_only_the_first_one_writes_checkpoints_and_all_go_on_from_them(tmp_path: Path) -> None:
    class Died(Exception):
        pass

    def die(progress: Any) -> None:
        if progress.epoch == 3:
            raise Died

    run = replace(REPRODUCIBLE, checkpoints=tmp_path)
    with pytest.raises(Died):
        fit_together(2, run=replace(run, progress=die))
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
    seen: list[int] = []
    resumed = fit_together(2, run=replace(run, resume=True, progress=lambda progress: seen.append(progress.epoch)))
    assert min(seen) == 2
    assert_same(resumed[0], fit_together(2)[0])
    # with another number of processes too: after an epoch all hold the same
    assert len(fit_together(3, run=replace(run, resume=True))) == 3


def test_when_one_is_asked_to_stop_all_do() -> None:
    asked = []

    def work(team: ThreadTeam) -> Any:
        def stop() -> bool:
            asked.append(team.rank)
            return team.rank == 1 and asked.count(1) > 3

        run = replace(REPRODUCIBLE, together=Together(team, 40), stop=stop)
        with pytest.raises(KeyboardInterrupt):
            make_model("neat", dim=8, epochs=4).fit(shards(), run)
        return team.sums

    counts = all_at_once(2, work)
    assert counts[0] == counts[1]


def test_validation_is_judged_by_the_first_and_ends_all_alike() -> None:
    train, kept_out = validation_split(toy_baskets(), 0.2, 1)
    run = replace(REPRODUCIBLE, validation=kept_out, patience=1)
    one, other = fit_together(2, run=run, stream=shards(4, train), epochs=200, learning_rate=2.0)
    assert_same(one, other)
    assert len(one.history) < 200


def test_a_fit_that_runs_away_says_so_in_all_of_them() -> None:
    with pytest.raises(DivergedError, match="model 'neat' diverged in epoch"):
        fit_together(2, learning_rate=1e30, margin=50.0)


def test_replicas_that_differ_are_refused() -> None:
    def work(team: ThreadTeam) -> None:
        Together(team).check_equal({"items": np.full((2, 2), float(team.rank), dtype=np.float32)}, "at the start")

    with pytest.raises(ResourceError, match=r"do not hold the same numbers at the start\. All processes must see the"):
        all_at_once(2, work)


@pytest.mark.parametrize("rule", ["sum", "mean"])
def test_changes_are_put_together_row_by_row(rule: str) -> None:
    """One row that both changed, one that the second changed, one that nobody did."""
    dim = 3
    tail = width(dim)

    def work(team: ThreadTeam) -> np.ndarray:
        table = new_table(3, dim)
        table[:, :dim] = 1.0
        last = table.copy()
        changes = [[2.0, 4.0], [0.0, 6.0], [0.0, 0.0]]
        for row, change in enumerate(changes):
            table[row, :dim] += change[team.rank]
            table[row, tail] += change[team.rank]
            table[row, tail + SQUARES] += 10 * change[team.rank]
        table[0, tail + VISITOR] = 5.0
        Together(team, 1, rule).agree(table, last, dim, 1)
        np.testing.assert_array_equal(table, last)
        return table

    one, other = all_at_once(2, work)
    np.testing.assert_array_equal(one, other)
    both = 6.0 if rule == "sum" else 3.0
    assert one[:, 0].tolist() == [1 + both, 7.0, 1.0]
    assert one[:, tail].tolist() == [both, 6.0, 0.0]
    assert one[:, tail + SQUARES].tolist() == [60.0, 60.0, 0.0]
    assert not one[:, tail + VISITOR].any()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"every": 0}, "`combine_every` must be a whole number of at least 1, got 0"),
        ({"rule": "men"}, "`rule` must be one of sum, mean, got 'men'. Did you mean 'mean'"),
    ],
)
def test_how_they_agree_is_checked(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        Together(ThreadTeam.__new__(ThreadTeam), **options)


@pytest.mark.parametrize(
    ("would_take", "take"), [("gpu gpu", "gpu"), ("gpu cpu", "cpu"), ("cpu gpu", "cpu"), ("cpu cpu", "cpu")]
)
def test_all_take_a_gpu_or_none_does(would_take: str, take: str, caplog: pytest.LogCaptureFixture) -> None:
    mine = would_take.split()
    with caplog.at_level("INFO", logger="neatrec"):
        assert all_at_once(2, lambda team: Together(team).agreed_device(mine[team.rank])) == [take, take]
    said = "training on the CPU: only 1 of 2 processes have a GPU" in caplog.text
    assert said == (len(set(mine)) == 2)


class Elsewhere(np.ndarray):
    """Stands for an array on a GPU: it is not the table that was given."""


class FakeGpu(OnCpu):
    """A place whose tables lie elsewhere and come back when asked for, with the kernels of the CPU."""

    def take(self, tables: Mapping[str, Table]) -> tuple[Table, ...]:
        self.there = tuple(table.copy().view(Elsewhere) for table in tables.values())
        return self.there

    def bring_back(self, tables: Mapping[str, Table]) -> None:
        for table, there in zip(tables.values(), self.there, strict=True):
            table[:] = there


@pytest.mark.parametrize("name", MODELS)
def test_tables_that_lie_elsewhere_are_agreed_on_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = fit_together(2, name)[0]
    monkeypatch.setattr("neatrec.models.embeddings.trainer.place_for", lambda device, visits, lines: FakeGpu(visits))
    for model in fit_together(2, name):
        assert_same(model, plain)


def test_lines_of_units_in_a_random_order_are_counted_on_the_average() -> None:
    span = Span(None, 0, 10, 500, 537)  # type: ignore[arg-type]
    place = OnGpu.__new__(OnGpu)
    assert [place.lines_of(span, first, end) for first, end in ((0, 10), (0, 5), (9, 10))] == [37, 18, 3]
    assert place.lines_of(span._replace(end=502), 0, 1) == 1  # somebody is busy


# ---- from a source to a bundle

SOURCE = StreamOptions("supermarket:baskets=500,items=60", SourceOptions(), at_least=4)
PLAN = ModelChoice(model="neat", settings=("dim=8", "epochs=2"))


def bundled(size: int, out: Path, source: Any = SOURCE, plan: ModelChoice = PLAN) -> Sequence[dict[str, Any]]:
    def work(team: ThreadTeam) -> dict[str, Any]:
        return train_bundle(source, out, plan, threads=1, reproducible=True, index=False, together=Together(team, 50))

    return all_at_once(size, work)


def test_the_first_one_writes_the_bundle_and_answers_for_all(tmp_path: Path) -> None:
    first, second = bundled(2, tmp_path / "bundle")
    assert (first["model"], second) == ("neat", {})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bundle"]


def test_a_source_that_cannot_be_read_ends_all(tmp_path: Path) -> None:
    said = []

    def work(team: ThreadTeam) -> None:
        try:
            train_bundle(replace(SOURCE, source="nowhere"), tmp_path / "b", PLAN, together=Together(team), index=False)
        except Exception as error:  # noqa: BLE001 (which one is what is tested)
            said.append((team.rank, str(error)))

    all_at_once(2, work)
    assert sorted(said)[0] == (0, "there is no file or folder nowhere. Check the path.")
    assert sorted(said)[1] == (1, "process 0 could not cut the baskets into shards. It says why.")
    assert not any(tmp_path.iterdir())


def test_counting_is_not_for_several_processes(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="model 'pop' cannot be trained by several processes: it counts"):
        bundled(2, tmp_path / "bundle", plan=ModelChoice(model="pop"))


def test_baskets_in_memory_are_not_for_several_processes(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="`read` must be a StreamOptions where several processes train"):
        bundled(2, tmp_path / "bundle", source=toy_baskets)
