"""Processes that train one model on GPUs: NCCL where each has a card of its own, gloo where two share one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from neatrec.kernels import gpu

TROUBLE = gpu.trouble()
pytestmark = [
    pytest.mark.skipif(TROUBLE is not None, reason=f"needs a GPU: {TROUBLE}"),
    pytest.mark.skipif(find_spec("torch") is None, reason="needs torch: pip install 'neatrec[distributed]'"),
]
ROOT = Path(__file__).parents[2]
MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")
SCRIPT = """
import hashlib, json, logging, sys
import numpy as np
from neatrec.distributed import launched
from neatrec.experiments.training_together import team_of
from neatrec.models import Run, make_model
from neatrec.models.together import Together
from toyshop import toy_baskets

class Always(Together):
    agrees = True

logging.basicConfig(level="INFO", stream=sys.stderr)
baskets = toy_baskets()
shards = [baskets.select(np.arange(first, first + 100)) for first in range(0, 600, 100)]
answers = {}
with team_of(launched(), "gpu") as team:
    together = (Always if sys.argv[1] == "always" else Together)(team, 50)
    for name in ("neat", "neat-bpr", "item2vec", "triple2vec"):
        seen = []
        run = Run(rng=5, device="gpu", together=together, progress=lambda p: seen.append(p.pairs))
        model = make_model(name, dim=8, epochs=20).fit(shards, run)
        digest = hashlib.sha256()
        for key, array in sorted(model.arrays(users=True).items()):
            digest.update(np.ascontiguousarray(array).tobytes())
        answers[name] = {"history": model.history, "hash": digest.hexdigest(), "pairs": seen[-1]}
    answers["nccl"] = team._gpu_group is not None
print(json.dumps(answers))
"""


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@cache
def job(size: int, way: str = "plain") -> list[dict[str, Any]]:
    """What each process of a job says."""
    path = os.pathsep.join([str(ROOT / "src"), *(folder for folder in sys.path if folder)])
    said = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
    said |= {"MASTER_PORT": str(free_port()), "PYTHONPATH": path}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, way],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **said, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(size)
    ]
    ended = [process.communicate(timeout=500) for process in started]
    for process, (_, error) in zip(started, ended, strict=True):
        assert process.returncode == 0, error
    return [json.loads(out.splitlines()[-1]) for out, _ in ended]


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
