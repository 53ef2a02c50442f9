"""Training by several processes that torchrun, or Spark's TorchDistributor, starts.

torch.distributed connects the processes. gloo sums arrays in host memory; NCCL sums arrays on GPUs where each process
has a GPU of its own. Processes that share a GPU, which NCCL refuses, copy to the host and back. A process that dies
ends the training; started again with `--resume`, it continues after the last finished epoch.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from neatrec.errors import MissingDependencyError, ParameterError, ResourceError
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.embeddings.synchronize import Synchronizer
from neatrec.models.run import available_processors
from neatrec.text import first_line, printable
from neatrec.training.streaming import StreamOptions
from neatrec.training.train import ModelChoice, TrainOptions, train_bundle

TIMEOUT = timedelta(hours=24)
"""The processes wait so long for the first one to cut the shards. A dead process is noticed at once."""
MIN_SHARDS_PER_PROCESS = 4
"""So that all processes have about the same work."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LaunchEnvironment:
    """What a launcher such as torchrun sets for each process."""

    rank: int
    world_size: int
    local_rank: int = 0
    local_world_size: int = 1

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> LaunchEnvironment | None:
        """None where no launcher started this process."""
        if not all(name in environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")):
            return None
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        texts = [environ.get(name, default) for name, default in zip(names, ("", "", "0", "1"), strict=True)]
        try:
            found = cls(*map(int, texts))
        except ValueError:
            found = cls(-1, 0)
        if found.rank in range(found.world_size) and found.local_rank in range(found.local_world_size):
            return found
        values = ", ".join(f"{name}={printable(text)}" for name, text in zip(names, texts, strict=True))
        raise ParameterError(
            f"the launcher's variables must be whole numbers with ranks below their sizes, got {values}",
            hint="Start the processes with torchrun, which sets them.",
        )


class TorchProcessGroup:
    """A `ProcessGroup` over torch.distributed."""

    def __init__(self, torch: Any, launch: LaunchEnvironment, own_gpu: int | None = None) -> None:
        """`own_gpu`: the number of a GPU that no other process uses."""
        self._torch, self._gpu, self._nccl = torch, own_gpu, None
        self.rank, self.size = launch.rank, launch.world_size
        gpus = np.array([float(own_gpu is not None and torch.distributed.is_nccl_available())])
        self.all_reduce(gpus)
        if gpus[0] == self.size:
            with torch.cuda.device(own_gpu):
                self._nccl = torch.distributed.new_group(backend="nccl")
            log.info("summing arrays on GPUs by NCCL")

    def all_reduce(self, array: Any) -> None:
        """Replace `array` (NumPy or CuPy) by the sum over the processes, in place; the same bits everywhere."""
        if not array.flags.c_contiguous:
            contiguous = array.copy(order="C")
            self.all_reduce(contiguous)
            array[...] = contiguous
        elif isinstance(array, np.ndarray):
            self._reduce(self._torch.from_numpy(array), None)
        elif self._nccl is not None:
            with self._torch.cuda.device(self._gpu):
                self._reduce(self._torch.from_dlpack(array), self._nccl)
        else:
            on_host = array.get()
            self._reduce(self._torch.from_numpy(on_host), None)
            array.set(on_host)

    def _reduce(self, tensor: Any, group: Any) -> None:
        try:
            self._torch.distributed.all_reduce(tensor, group=group)
        except RuntimeError as error:
            raise ResourceError(
                f"process {self.rank} lost the connection to another process: {first_line(error)}",
                hint="The launcher names the process that ended first. Start the training again with --resume.",
            ) from error


@contextmanager
def process_group(launch: LaunchEnvironment, device: str) -> Iterator[TorchProcessGroup]:
    """The process group while the block runs; unless `device` is cpu, each process uses the GPU of its local rank."""
    torch = _imported("torch", "training by several processes needs torch", "distributed")
    with gpu.select_gpu(launch.local_rank) if device != "cpu" else nullcontext() as card:
        try:
            torch.distributed.init_process_group("gloo", timeout=TIMEOUT)
        except (RuntimeError, ValueError) as error:
            raise ResourceError(
                f"process {launch.rank} cannot connect to the others: {first_line(error)}",
                hint="Check --master-addr and --master-port (or --rdzv-endpoint) of the launcher.",
            ) from error
        log.info("connected as process %d of %d", launch.rank, launch.world_size)
        own_gpu = card.number if card is not None and launch.local_world_size <= card.of else None
        yield TorchProcessGroup(torch, launch, own_gpu)
        # not after a failure: the others may be gone, and the end of this process closes the connections
        torch.distributed.destroy_process_group()


def train_distributed(
    launch: LaunchEnvironment | None, streaming: StreamOptions, out: Path, choice: ModelChoice, options: TrainOptions
) -> dict[str, Any]:
    """Train as one process of `launch`: the report of `train_bundle` in the first process, {} in the others.

    All processes must see `out` under one name: the first one cuts the shards beside it. `launch` None: read here.
    """
    if (launch := launch or LaunchEnvironment.read()) is None:
        raise ParameterError("no launcher started this process: RANK and WORLD_SIZE are not set")
    if launch.rank > 0:
        options = replace(options, progress=None)
        logging.getLogger("neatrec").setLevel(logging.WARNING)
    if options.threads is None:
        options = replace(options, threads=max(1, available_processors() // launch.local_world_size))
    if launch.world_size > 1:
        streaming = replace(streaming, at_least=max(streaming.at_least, MIN_SHARDS_PER_PROCESS * launch.world_size))
    with process_group(launch, options.device) as group:
        return train_bundle(streaming, out, choice, options, Synchronizer(group, options.sync_every))


def train_on_spark(
    streaming: StreamOptions, out: Path, choice: ModelChoice, options: TrainOptions, processes: int, local: bool = False
) -> dict[str, Any]:
    """Train by `processes` tasks of the active Spark session, through its TorchDistributor; `train_bundle`'s report.

    `local`: as processes of the driver's machine. Executors elsewhere need neatrec and torch, and a folder `out` that
    they and the driver see under one name.
    """
    needs = "training on Spark needs PySpark with its TorchDistributor"
    spark = _imported("pyspark.ml.torch.distributor", needs, "spark,distributed")
    distributor = spark.TorchDistributor(num_processes=processes, local_mode=local, use_gpu=False)
    report: dict[str, Any] = distributor.run(train_distributed, None, streaming, out, choice, options)
    return report


def _imported(module: str, needs: str, extras: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(needs, hint=f"pip install 'neatrec[{extras}]'") from error
