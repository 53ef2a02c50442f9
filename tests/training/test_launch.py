"""What a launcher says is understood, and what is missing is named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from neatrec.cli.main import exit_code_of
from neatrec.errors import MissingDependencyError, ParameterError, ResourceError
from neatrec.io import SourceOptions
from neatrec.training.distributed import team_of, train_on_spark
from neatrec.training.launch import Launch, launched
from neatrec.training.process_group import TorchTeam, joined
from neatrec.training.streaming import StreamOptions
from neatrec.training.train import ModelChoice

SAID = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "LOCAL_WORLD_SIZE": "2"}


def test_a_process_started_by_itself_is_alone() -> None:
    assert launched({}) is None
    assert launched({"RANK": "0", "WORLD_SIZE": "2"}) is None


def test_a_process_knows_its_place_and_shares_the_machine() -> None:
    launch = launched({**SAID, "TORCHELASTIC_RESTART_COUNT": "3"})
    assert launch == Launch(rank=1, size=4, here=2, restarts=3, place=0)
    assert launched({**SAID, "LOCAL_RANK": "1"}) == Launch(rank=1, size=4, here=2, restarts=0, place=1)
    assert [launch.threads(processors) for processors in (1, 2, 8)] == [1, 1, 4]


def test_nonsense_is_refused() -> None:
    sentence = r"RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE must be whole .*torchrun"
    for said in ({"RANK": "first"}, {"RANK": "7"}, {"LOCAL_WORLD_SIZE": "0"}, {"LOCAL_RANK": "-1"}):
        with pytest.raises(ParameterError, match=sentence):
            launched({**SAID, **said})


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    launch = Launch(0, 2, 2, 0)
    with (
        pytest.raises(MissingDependencyError, match=r"needs torch\. pip install 'neatrec\[distributed\]'"),
        joined(launch),
    ):
        pytest.fail("joined without torch")


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.ml.torch.distributor", None)
    streaming = StreamOptions("supermarket", SourceOptions())
    with pytest.raises(MissingDependencyError, match=r"TorchDistributor\. pip install 'neatrec\[spark,distributed\]'"):
        train_on_spark(streaming, tmp_path, ModelChoice(), processes=2)


class Torch:
    """As much of torch as a team needs, with a peer that is gone."""

    class distributed:
        @staticmethod
        def rendezvous(url: str, rank: int, size: int, timeout: object) -> Iterator[object]:
            raise ValueError("the address is taken\nand more")

        @staticmethod
        def all_reduce(tensor: object, group: object = None) -> None:
            raise RuntimeError("Connection closed by peer [127.0.0.1]:4711\nstack")

    @staticmethod
    def from_numpy(array: object) -> object:
        return array


def test_a_lost_process_is_told_in_a_sentence() -> None:
    team = TorchTeam(Torch, Launch(1, 2, 2, 0))
    sentence = r"process 1 has lost another process of the job: Connection closed by peer .*4711\. The launcher names"
    with pytest.raises(ResourceError, match=sentence):
        team.add(np.zeros(3))


def test_a_job_that_cannot_be_joined_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neatrec.training.process_group._torch", lambda: Torch)
    sentence = r"process 0 cannot join the job: the address is taken\. Check --master-addr"
    with pytest.raises(ResourceError, match=sentence), joined(Launch(0, 2, 2, 0)):
        pytest.fail("joined")


def test_arrays_that_are_not_in_one_piece_are_summed_in_place() -> None:
    class Two(Torch):
        class distributed:
            @staticmethod
            def all_reduce(array: np.ndarray, group: object = None) -> None:
                array *= 2

    whole = np.arange(8.0).reshape(2, 4)
    TorchTeam(Two, Launch(0, 2, 2, 0)).add(whole[:, ::2])
    assert whole.tolist() == [[0, 1, 4, 3], [8, 5, 12, 7]]


class There:
    """An array on a GPU, as far as a team looks at it."""

    def __init__(self, numbers: list[float]) -> None:
        self.array = np.array(numbers)
        self.flags = self.array.flags
        self.copies = 0

    def get(self) -> np.ndarray:
        self.copies += 1
        return self.array.copy()

    def set(self, array: np.ndarray) -> None:
        self.copies += 1
        self.array[:] = array


class Nccl:
    """A torch whose other process brings the same numbers; it may have a GPU of its own or not."""

    def __init__(self, other_has: bool) -> None:
        self.distributed = self.cuda = self
        self.other_has, self.groups, self.used = other_has, 0, []

    def device(self, number: int) -> ExitStack:
        return ExitStack()

    def is_nccl_available(self) -> bool:
        return True

    def new_group(self, backend: str) -> str:
        self.groups += 1
        return backend

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def from_dlpack(self, array: There) -> np.ndarray:
        return array.array

    def all_reduce(self, array: np.ndarray, group: str | None = None) -> None:
        self.used.append(group or "gloo")
        array += array if self.other_has or len(self.used) > 1 else 0.0


def test_gpus_of_their_own_are_added_up_by_nccl() -> None:
    torch = Nccl(other_has=True)
    team, numbers = TorchTeam(torch, Launch(0, 2, 2, 0), 0), There([1.0, 2.0])
    team.add(numbers)
    team.add(numbers)
    assert numbers.array.tolist() == [4.0, 8.0]
    assert (torch.used, torch.groups, numbers.copies) == (["gloo", "nccl", "nccl"], 1, 0)


@pytest.mark.parametrize("own", [True, False])
def test_processes_that_share_a_gpu_are_added_up_on_the_host(own: bool) -> None:
    torch = Nccl(other_has=False)
    team, numbers = TorchTeam(torch, Launch(0, 2, 2, 0), 0 if own else None), There([1.0, 2.0])
    team.add(numbers)
    assert numbers.array.tolist() == [2.0, 4.0]
    assert (torch.used, torch.groups, numbers.copies) == (["gloo", "gloo"], 0, 2)


@pytest.mark.parametrize(("place", "cards", "own"), [(1, 2, 1), (1, 1, None), (0, 1, None), (0, 0, None)])
def test_each_process_works_on_the_gpu_of_its_number(
    place: int, cards: int, own: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[int] = []

    def device(number: int) -> ExitStack:
        entered.append(number)
        return ExitStack()

    @contextmanager
    def join(launch: Launch, gpu: int | None) -> Iterator[int | None]:
        yield gpu

    runtime = SimpleNamespace(getDeviceCount=lambda: cards)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(Device=device, runtime=runtime)))
    monkeypatch.setattr("neatrec.training.distributed.joined", join)
    launch = Launch(place, 2, 2, 0, place)
    with team_of(launch, "auto") as gpu:
        assert gpu == own
    assert entered == ([place % cards] if cards else [])
    with team_of(launch, "cpu") as gpu:
        assert gpu is None
    assert len(entered) <= 1


def test_agreeing_is_for_several_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "supermarket", "--out", str(tmp_path / "bundle"), "--combine-every", "100"]
    assert exit_code_of(words) == 2
    assert "`--combine-every` must be given where torchrun starts several processes, got 100" in capsys.readouterr().err
