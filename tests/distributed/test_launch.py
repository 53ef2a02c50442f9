"""What a launcher says is understood, and what is missing is named."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from neatrec.cli.main import exit_code_of
from neatrec.distributed import Launch, TorchTeam, joined, launched
from neatrec.errors import MissingDependencyError, ParameterError, ResourceError
from neatrec.experiments.streaming import Streaming
from neatrec.experiments.training import Plan
from neatrec.experiments.training_together import train_on_spark
from neatrec.sources import SourceOptions

SAID = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "LOCAL_WORLD_SIZE": "2"}


def test_a_process_started_by_itself_is_alone() -> None:
    assert launched({}) is None
    assert launched({"RANK": "0", "WORLD_SIZE": "2"}) is None


def test_a_process_knows_its_place_and_shares_the_machine() -> None:
    launch = launched({**SAID, "TORCHELASTIC_RESTART_COUNT": "3"})
    assert launch == Launch(rank=1, size=4, here=2, restarts=3)
    assert [launch.threads(processors) for processors in (1, 2, 8)] == [1, 1, 4]


def test_nonsense_is_refused() -> None:
    for said in ({"RANK": "first"}, {"RANK": "7"}, {"LOCAL_WORLD_SIZE": "0"}):
        with pytest.raises(ParameterError, match=r"RANK, WORLD_SIZE and LOCAL_WORLD_SIZE must be whole .*torchrun"):
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
    streaming = Streaming("supermarket", SourceOptions())
    with pytest.raises(MissingDependencyError, match=r"TorchDistributor\. pip install 'neatrec\[spark,distributed\]'"):
        train_on_spark(streaming, tmp_path, Plan(), processes=2)


class Torch:
    """As much of torch as a team needs, with a peer that is gone."""

    class distributed:
        @staticmethod
        def init_process_group(backend: str, timeout: object) -> None:
            raise ValueError("the address is taken\nand more")

        @staticmethod
        def all_reduce(tensor: object) -> None:
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
    monkeypatch.setattr("neatrec.distributed.team._torch", lambda: Torch)
    sentence = r"process 0 cannot join the job: the address is taken\. Check --master-addr"
    with pytest.raises(ResourceError, match=sentence), joined(Launch(0, 2, 2, 0)):
        pytest.fail("joined")


def test_arrays_that_are_not_in_one_piece_are_summed_in_place() -> None:
    class Two(Torch):
        class distributed:
            @staticmethod
            def all_reduce(array: np.ndarray) -> None:
                array *= 2

    whole = np.arange(8.0).reshape(2, 4)
    TorchTeam(Two, Launch(0, 2, 2, 0)).add(whole[:, ::2])
    assert whole.tolist() == [[0, 1, 4, 3], [8, 5, 12, 7]]


def test_agreeing_is_for_several_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "supermarket", "--out", str(tmp_path / "bundle"), "--combine-every", "100"]
    assert exit_code_of(words) == 2
    assert "`--combine-every` must be given where torchrun starts several processes, got 100" in capsys.readouterr().err
