"""One process of a job on GPUs, `torchrun team_member.py FOLDER WAY`: what it learned goes into FOLDER/RANK.json."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np

from helpers.toyshop import toy_baskets
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.embeddings.synchronize import Together
from neatrec.training.distributed import team_of
from neatrec.training.launch import launched

MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")


class Always(Together):
    """Agrees with itself where it is alone, too."""

    agrees = True


def hash_of(model: Model) -> str:
    digest = hashlib.sha256()
    for _, array in sorted(model.arrays(users=True).items()):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def main(folder: str, way: str) -> None:
    launch = launched()
    if launch is None:
        sys.exit("start me with torchrun")
    baskets = toy_baskets()
    shards = [baskets.select(np.arange(first, first + 100)) for first in range(0, 600, 100)]
    answers: dict[str, Any] = {}
    with team_of(launch, "gpu") as team:
        together = (Always if way == "always" else Together)(team, 50)
        for name in MODELS:
            seen: list[int] = []
            run = Run(rng=5, device="gpu", together=together, progress=lambda p, seen=seen: seen.append(p.pairs))  # type: ignore[misc]
            model = make_model(name, dim=8, epochs=20).fit(shards, run)
            answers[name] = {"history": model.fit_info()["losses"], "hash": hash_of(model), "pairs": seen[-1]}
        answers["nccl"] = team._gpu_group is not None
    (Path(folder) / f"{launch.rank}.json").write_text(json.dumps(answers))


logging.basicConfig(level="INFO", stream=sys.stderr)
main(*sys.argv[1:])
