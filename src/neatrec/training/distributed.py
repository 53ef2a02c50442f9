"""One training by several processes: the function that every launcher runs in each of them."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from neatrec.errors import MissingDependencyError, ParameterError
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.embeddings.synchronize import Together
from neatrec.models.run import available_processors
from neatrec.training.launch import Launch, launched
from neatrec.training.process_group import TorchTeam, joined
from neatrec.training.streaming import StreamOptions
from neatrec.training.train import ModelChoice, train_bundle

SHARDS_A_PROCESS = 4
"""So many at least, that all have about as much to do."""


def train_together(
    launch: Launch, streaming: StreamOptions, out: Path, plan: ModelChoice, *, every: int | None = None, **how: Any
) -> dict[str, Any]:
    """Train as one of the processes of `launch`; what `train_bundle` says in the first one, nothing in the others.

    All must see `out` under one name: the first one cuts the shards beside it. A job that was started again goes on
    from its last checkpoint. `how` is for `train_bundle`.
    """
    if launch.rank > 0:
        how["progress"] = None  # the first process speaks for all
        logging.getLogger("neatrec").setLevel(logging.WARNING)
    if how.get("threads") is None:
        how["threads"] = launch.threads(available_processors())
    if launch.size > 1:
        streaming = replace(streaming, at_least=max(streaming.at_least, SHARDS_A_PROCESS * launch.size))
    with team_of(launch, how.get("device", "auto")) as team:
        how["resume"] = bool(how.get("resume")) or team.again
        return train_bundle(streaming, out, plan, together=Together(team, every), **how)


@contextmanager
def team_of(launch: Launch, device: str) -> Iterator[TorchTeam]:
    """The team of this job; but for `device` cpu each process works on the GPU of its number, where there is one."""
    with gpu.taken(launch.place) if device != "cpu" else nullcontext() as card:
        own = card is not None and launch.here <= card.of
        with joined(launch, card.number if card is not None and own else None) as team:
            yield team


def train_on_spark(
    streaming: StreamOptions, out: Path, plan: ModelChoice, *, processes: int, local: bool = False, **how: Any
) -> dict[str, Any]:
    """Train by `processes` tasks of the active Spark session, through its TorchDistributor; what `train_bundle` says.

    `local`: as processes of the driver's machine. Elsewhere executors need neatrec and torch, and a folder `out` that
    all of them and the driver see under one name.
    """
    try:
        spark = importlib.import_module("pyspark.ml.torch.distributor")
    except ImportError as error:
        raise MissingDependencyError(
            "training on Spark needs PySpark with its TorchDistributor",
            hint="pip install 'neatrec[spark,distributed]'",
        ) from error
    distributor = spark.TorchDistributor(num_processes=processes, local_mode=local, use_gpu=False)
    answer: dict[str, Any] = distributor.run(_one_task, streaming, out, plan, how)
    return answer


def _one_task(streaming: StreamOptions, out: Path, plan: ModelChoice, how: Mapping[str, Any]) -> dict[str, Any]:
    launch = launched()
    if launch is None:
        raise ParameterError("this process was not started by a launcher: RANK and WORLD_SIZE are not set")
    return train_together(launch, streaming, out, plan, **how)
