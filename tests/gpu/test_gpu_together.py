"""Processes that train one model on GPUs: NCCL where each has a card of its own, gloo where two share one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from neatrec.models.embeddings.kernels import gpu

TROUBLE = gpu.trouble()
pytestmark = [
    pytest.mark.skipif(TROUBLE is not None, reason=f"needs a GPU: {TROUBLE}"),
    pytest.mark.skipif(find_spec("torch") is None, reason="needs torch: pip install 'neatrec[distributed]'"),
]
HELPERS = Path(__file__).parents[1] / "helpers"
MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")


@cache
def started(size: int, way: str) -> list[dict[str, Any]] | str:
    """What each process of a job has learned, or what it said when it failed; all models in one job, as it is slow."""
    path = os.pathsep.join([str(HELPERS.parents[1] / "src"), *(folder for folder in sys.path if folder)])
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *launcher, str(HELPERS / "gpu_process.py"), folder, way],
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
        if done.returncode:
            return done.stderr
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(size)]


def job(size: int, way: str = "plain") -> list[dict[str, Any]]:
    answers = started(size, way)
    assert not isinstance(answers, str), answers
    return answers


@pytest.mark.parametrize("name", MODELS)
def test_one_process_that_agrees_with_itself_learns_what_one_alone_learns(name: str) -> None:
    """The whole way through NCCL, world size 1."""
    (alone,), (agreeing,) = job(1), job(1, "always")
    assert (alone["nccl"], agreeing["nccl"]) == (False, True)
    assert agreeing[name]["pairs"] == alone[name]["pairs"]
    assert agreeing[name]["history"][-1] == pytest.approx(alone[name]["history"][-1], rel=0.15)
    assert agreeing[name]["history"][-1] < agreeing[name]["history"][0]


@pytest.mark.parametrize("name", MODELS)
def test_two_processes_end_with_the_same_bits(name: str) -> None:
    (alone,), (one, other) = job(1), job(2)
    assert one[name] == other[name]
    assert one["nccl"] == other["nccl"] == (gpu.cupy().cuda.runtime.getDeviceCount() >= 2)
    assert one[name]["pairs"] == alone[name]["pairs"]
    assert one[name]["history"][-1] < one[name]["history"][0]
    assert one[name]["history"][-1] == pytest.approx(alone[name]["history"][-1], rel=0.3)
