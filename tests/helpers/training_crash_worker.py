"""Trains an embedding model with checkpoints and saves it, again and again, until it is killed (see `crash_worker`)."""

import os
from pathlib import Path
from typing import Any

from helpers.crash_worker import announce, say, serve
from helpers.toyshop import toy_baskets
from neatrec.bundle import BundleLock, save_bundle
from neatrec.models import Model, Run, make_model
from neatrec.models.embeddings import trainer as training

PHASES = ("train", "checkpoint", "replace", "save", "remove")


def model_of(version: int, **options: Any) -> Model:
    """The model that belongs to a version, the same in every process and however often its training was cut off."""
    run = Run(rng=version, threads=1, reproducible=True, device="cpu", **options)
    return make_model("neat", {"dim": 8, "epochs": 6}).fit(toy_baskets(40, seed=version), run)


def work(bundle: Path, version: int, way: str) -> None:
    """Train and save version after version; the first goes on from a checkpoint where there is one."""
    announce(training, "save_checkpoint", "checkpoint")
    announce(os, "replace", "replace")
    while True:
        version += 1
        say(f"train {version}")
        with BundleLock(bundle) as lock:
            model = model_of(version, checkpoints=lock.checkpoints, resume=True, progress=lambda _: say("train"))
            say("save")
            save_bundle(model, bundle, baskets_hash=str(version), seed=version, notes={"version": version})
            say("remove")
            lock.remove_checkpoints()


if __name__ == "__main__":
    model_of(0)  # compiled and warm before the first fork
    serve(work)
