"""What a launcher sets, and how torch is called, without torch."""

import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock, patch

import numpy as np
import pytest

from neatrec.cli.main import exit_code_of
from neatrec.errors import MissingDependencyError, ParameterError, ResourceError
from neatrec.io import SourceOptions
from neatrec.training.distributed import LaunchEnvironment, TorchProcessGroup, process_group, train_on_spark
from neatrec.training.streaming import StreamOptions
from neatrec.training.train import ModelChoice, TrainOptions

ENVIRON = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "LOCAL_WORLD_SIZE": "2"}
LAUNCH = LaunchEnvironment(0, 2, 0, 2)


def test_the_launchers_variables_are_read() -> None:
    assert LaunchEnvironment.read({"RANK": "0", "WORLD_SIZE": "2"}) is None
    assert LaunchEnvironment.read({**ENVIRON, "LOCAL_RANK": "1"}) == LaunchEnvironment(1, 4, 1, 2)


@pytest.mark.parametrize("bad", [{"RANK": "first"}, {"RANK": "4"}, {"LOCAL_WORLD_SIZE": "0"}, {"LOCAL_RANK": "-1"}])
def test_bad_variables_are_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ParameterError, match=r"must be whole numbers .* got .*=.* torchrun"):
        LaunchEnvironment.read({**ENVIRON, **bad})


def test_sync_every_is_for_several_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["train", "supermarket", "--out", str(tmp_path / "bundle"), "--sync-every", "100"]) == 2
    assert "`--sync-every` must be given where torchrun starts several processes, got 100" in capsys.readouterr().err


def test_missing_extras_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "pyspark.ml.torch.distributor", None)
    with (
        pytest.raises(MissingDependencyError, match=r"needs torch\. pip install 'neatrec\[distributed\]'"),
        process_group(LAUNCH, "cpu"),
    ):
        pytest.fail("connected without torch")
    streaming = StreamOptions("supermarket", SourceOptions())
    with pytest.raises(MissingDependencyError, match=r"TorchDistributor\. pip install 'neatrec\[spark,distributed\]'"):
        train_on_spark(streaming, tmp_path, ModelChoice(), TrainOptions(), processes=2)


def fake_torch(backends: list[str], other_gpu: bool = True) -> MagicMock:
    """torch in one of two processes with equal numbers; `backends` becomes those of its sums."""

    def all_reduce(array: np.ndarray, group: str | None) -> None:
        backends.append(group or "gloo")
        array *= 2.0 if other_gpu or len(backends) > 1 else 1.0

    torch = MagicMock(from_numpy=lambda array: array, from_dlpack=lambda array: np.ones(2))
    torch.distributed.new_group = lambda backend: backend
    torch.distributed.all_reduce = all_reduce
    return torch


@pytest.mark.parametrize(("gpus", "other_gpu", "backend"), [(2, True, "nccl"), (2, False, "gloo"), (1, True, "gloo")])
def test_nccl_sums_where_each_process_has_a_gpu(gpus: int, other_gpu: bool, backend: str) -> None:
    """The second of two processes uses the second GPU where there is one."""
    backends: list[str] = []
    cuda, torch, array = MagicMock(), fake_torch(backends, other_gpu), MagicMock(get=lambda: np.ones(2))
    cuda.runtime.getDeviceCount.return_value = gpus
    modules = {"cupy": SimpleNamespace(cuda=cuda), "torch": torch, "torch.distributed": torch.distributed}
    with patch.dict(sys.modules, modules), process_group(LaunchEnvironment(1, 2, 1, 2), "auto") as group:
        group.all_reduce(array)
    assert backends == ["gloo", backend]
    assert [call.args[0].tolist() for call in array.set.call_args_list] == ([[2.0, 2.0]] if backend == "gloo" else [])
    cuda.Device.assert_called_once_with(1 % gpus)


def test_arrays_that_are_not_contiguous_are_summed_in_place() -> None:
    array = np.arange(8.0).reshape(2, 4)
    TorchProcessGroup(fake_torch([]), LAUNCH).all_reduce(array[:, ::2])
    assert array.tolist() == [[0, 1, 4, 3], [8, 5, 12, 7]]


def test_lost_connections_are_reported() -> None:
    torch = fake_torch([])
    group = TorchProcessGroup(torch, LAUNCH)
    error = RuntimeError("Connection closed by peer\nstack")
    torch.distributed.all_reduce = torch.distributed.init_process_group = MagicMock(side_effect=error)
    with pytest.raises(ResourceError, match=r"process 0 lost .*: Connection closed by peer\. .* with --resume"):
        group.all_reduce(np.zeros(3))
    with (
        patch.dict(sys.modules, {"torch": torch, "torch.distributed": torch.distributed}),
        pytest.raises(ResourceError, match=r"process 0 cannot connect to the others: Connection .* --master-addr"),
        process_group(LAUNCH, "cpu"),
    ):
        pytest.fail("connected")
