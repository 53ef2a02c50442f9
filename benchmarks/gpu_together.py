"""One process on one GPU, alone and as a job of torch.distributed: what the launcher's way costs."""

from __future__ import annotations

import os
import socket
import time
from typing import Any
from unittest.mock import patch

import numpy as np

from neatrec.data.baskets import Baskets
from neatrec.models import Run, make_model
from neatrec.models.embeddings.synchronize import Together
from neatrec.training.distributed import team_of
from neatrec.training.launch import launched

ROUNDS = 3
EVERY = (4_096, 65_536, 524_288)


class Always(Together):
    """A process that agrees with itself: the sums of NCCL and all the rest, with nobody on the other side."""

    agrees = True


def measured_together(baskets: Baskets, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Seconds of a fit and of its training loop, alternating: plain, world size 1, and agreeing every so often."""
    shards = [baskets.select(part) for part in np.array_split(np.arange(len(baskets)), 4)]
    said = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    with patch.dict(os.environ, {**said, "MASTER_PORT": str(_free_port())}):
        launch = launched()
        if launch is None:
            raise RuntimeError("the variables of a launcher were not understood")
        with team_of(launch, "gpu") as team:
            ways: dict[str, Together | None] = {"plain": None, "world size 1": Together(team)}
            ways |= {f"agreeing every {every:,} baskets": Always(team, every) for every in EVERY}
            found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
            for _ in range(ROUNDS + 1):
                for name, together in ways.items():
                    found[name].append(_fit(shards, settings, together))
    plain = np.median([fit for fit, _, _ in found["plain"][1:]])
    rows = []
    for name, runs in found.items():  # the first round compiles and joins
        seconds, loop, loss = (float(np.median(column)) for column in zip(*runs[1:], strict=True))
        row = {"way": name, "fit_seconds": round(seconds, 3), "training_seconds": round(loop, 3)}
        rows.append({**row, "beside_plain": round(seconds / float(plain), 3), "last_loss": round(loss, 4)})
    return rows


def _fit(shards: list[Baskets], settings: dict[str, Any], together: Together | None) -> tuple[float, float, float]:
    """(seconds of the fit, seconds of its training loop, loss of the last epoch)."""
    told: list[Any] = []
    model = make_model("neat", settings)
    started = time.perf_counter()
    model.fit(shards, Run(rng=0, device="gpu", together=together, progress=told.append))
    return time.perf_counter() - started, told[-1].seconds, told[-1].loss


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
