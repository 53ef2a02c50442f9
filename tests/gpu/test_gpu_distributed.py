"""Distributed training on GPUs: NCCL where each process has a GPU of its own, gloo where two share one."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from helpers.toyshop import toy_baskets
from neatrec.models import Run, make_model
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.embeddings.synchronize import Synchronizer
from neatrec.training.distributed import LaunchEnvironment, process_group

MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")
TROUBLE = gpu.unavailable_reason()
pytestmark = [
    pytest.mark.skipif(TROUBLE is not None, reason=f"needs a GPU: {TROUBLE}"),
    pytest.mark.skipif(find_spec("torch") is None, reason="needs torch: pip install 'neatrec[distributed]'"),
]


class AlwaysActive(Synchronizer):
    """Synchronizes a single process, too."""

    active = True


def test_one_synchronizing_process_learns_what_a_plain_one_learns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All of NCCL's path, with world size 1."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}.items():
        monkeypatch.setenv(name, value)
    with caplog.at_level("INFO", logger="neatrec"), process_group(LaunchEnvironment(0, 1), "gpu") as group:
        assert "summing arrays on GPUs by NCCL" in caplog.text
        for name in MODELS:
            plain, synchronized = (
                make_model(name, dim=8, epochs=20).fit(toy_baskets(), Run(rng=5, device="gpu", synchronizer=each))
                for each in (None, AlwaysActive(group, 50))
            )
            losses = synchronized.fit_info()["losses"]
            assert losses[-1] == pytest.approx(plain.fit_info()["losses"][-1], rel=0.15), name
            assert losses[-1] < losses[0], name


SCRIPT = """
import sys
import numpy as np
from helpers.toyshop import toy_baskets
from neatrec.models import Run, make_model
from neatrec.models.embeddings.synchronize import Synchronizer
from neatrec.training.distributed import LaunchEnvironment, process_group

shards = [toy_baskets().select(np.arange(first, first + 100)) for first in range(0, 600, 100)]
launch = LaunchEnvironment.read()
with process_group(launch, "gpu") as group:
    run = Run(rng=5, device="gpu", synchronizer=Synchronizer(group, 50))
    models = [make_model(name, dim=8, epochs=20).fit(shards, run) for name in sys.argv[2:]]
    losses = [model.fit_info()["losses"][-1] for model in models]
    arrays = {str(number): model.arrays()["vectors"] for number, model in enumerate(models)}
    np.savez(f"{sys.argv[1]}/{launch.rank}.npz", losses=losses, **arrays)
"""


def test_two_processes_end_with_the_same_bits(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    path = os.pathsep.join([str(Path(__file__).parents[2] / "src"), *(folder for folder in sys.path if folder)])
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(tmp_path / "script.py")]
    command = [sys.executable, *launcher, str(tmp_path), *MODELS]
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=env)
    assert done.returncode == 0, done.stderr
    first, second = (np.load(tmp_path / f"{rank}.npz") for rank in range(2))
    for name in first.files:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
    for name, loss in zip(MODELS, first["losses"], strict=True):
        plain = make_model(name, dim=8, epochs=20).fit(toy_baskets(), Run(rng=5, device="gpu"))
        assert loss == pytest.approx(plain.fit_info()["losses"][-1], rel=0.3), name
