"""Distributed training on GPUs: NCCL where each process has a GPU of its own, gloo where two share one."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers.toyshop import toy_baskets
from neatrec.models import Run, make_model
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.embeddings.synchronize import Synchronizer
from neatrec.training.distributed import LaunchEnvironment, process_group

TROUBLE = gpu.trouble()
pytestmark = [
    pytest.mark.skipif(TROUBLE is not None, reason=f"needs a GPU: {TROUBLE}"),
    pytest.mark.skipif(find_spec("torch") is None, reason="needs torch: pip install 'neatrec[distributed]'"),
]


class AlwaysActive(Synchronizer):
    """Synchronizes a single process, too."""

    active = True


def test_one_synchronizing_process_learns_what_a_plain_one_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of NCCL's path, with world size 1."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}.items():
        monkeypatch.setenv(name, value)
    launch = LaunchEnvironment.read()
    assert launch is not None
    with process_group(launch, "gpu") as group:
        assert group.uses_nccl
        for name in ("neat", "neat-bpr", "item2vec", "triple2vec"):
            plain, synchronized = (
                make_model(name, dim=8, epochs=20).fit(toy_baskets(), Run(rng=5, device="gpu", synchronizer=each))
                for each in (None, AlwaysActive(group, 50))
            )
            losses = synchronized.fit_info()["losses"]
            assert losses[-1] == pytest.approx(plain.fit_info()["losses"][-1], rel=0.15), name
            assert losses[-1] < losses[0], name


def test_two_processes_write_one_bundle(tmp_path: Path) -> None:
    """Processes whose tables differ after an epoch end the training."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "neatrec", "train"]
    options = ["--model", "neat", "--set", "epochs=3", "--device", "gpu", "--sync-every", "50", "--no-index", "--json"]
    arguments = [*launcher, "supermarket:baskets=2000,items=100", "--out", str(tmp_path / "bundle"), *options]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == "neat"
    own_gpus = gpu.cupy().cuda.runtime.getDeviceCount() >= 2
    assert ("summing arrays on GPUs by NCCL" in done.stderr) == own_gpus
