"""One process on one GPU, plain and under torch.distributed: the cost of synchronizing."""

from __future__ import annotations

import os
import socket
import time
from typing import Any
from unittest.mock import patch

import numpy as np

from neatrec.data.baskets import Baskets
from neatrec.models import Run, make_model
from neatrec.models.embeddings.synchronize import Synchronizer
from neatrec.training.distributed import LaunchEnvironment, process_group

ROUNDS = 3
EVERY = (4_096, 65_536, 524_288)


class AlwaysActive(Synchronizer):
    """Synchronizes a single process, by NCCL."""

    active = True


def measure_distributed(baskets: Baskets, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Seconds of a fit and of its training loop, alternating: plain, world size 1, and synchronizing."""
    shards = [baskets.select(part) for part in np.array_split(np.arange(len(baskets)), 4)]
    environ = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    with patch.dict(os.environ, {**environ, "MASTER_PORT": str(_free_port())}):
        launch = LaunchEnvironment.read()
        if launch is None:
            raise RuntimeError("the variables of the launcher were not read")
        with process_group(launch, "gpu") as group:
            ways: dict[str, Synchronizer | None] = {"plain": None, "world size 1": Synchronizer(group)}
            ways |= {f"synchronizing every {every:,} baskets": AlwaysActive(group, every) for every in EVERY}
            found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
            for _ in range(ROUNDS + 1):
                for name, synchronizer in ways.items():
                    found[name].append(_fit(shards, settings, synchronizer))
    plain = np.median([fit for fit, _, _ in found["plain"][1:]])
    rows = []
    for name, runs in found.items():  # the first round compiles and joins
        seconds, loop, loss = (float(np.median(column)) for column in zip(*runs[1:], strict=True))
        row = {"way": name, "fit_seconds": round(seconds, 3), "training_seconds": round(loop, 3)}
        rows.append({**row, "beside_plain": round(seconds / float(plain), 3), "last_loss": round(loss, 4)})
    return rows


def _fit(
    shards: list[Baskets], settings: dict[str, Any], synchronizer: Synchronizer | None
) -> tuple[float, float, float]:
    """(seconds of the fit, seconds of its training loop, loss of the last epoch)."""
    reports: list[Any] = []
    model = make_model("neat", settings)
    started = time.perf_counter()
    model.fit(shards, Run(rng=0, device="gpu", synchronizer=synchronizer, progress=reports.append))
    return time.perf_counter() - started, reports[-1].seconds, reports[-1].loss


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
