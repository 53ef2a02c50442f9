"""`TorchTeam`: the processes of one job over torch.distributed. Rendezvous, sums and time limits are its own.

Arrays of the host are added up by gloo. Arrays on GPUs by NCCL, where each process has a GPU of its own; where several
share one, which NCCL refuses, they go to the host and back.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.errors import MissingDependencyError, ResourceError
from neatrec.text import printable
from neatrec.training.launch import Launch
from neatrec.training.rendezvous import agreed_life

PATIENCE = timedelta(hours=24)
"""How long to wait for a process that is alive: the first one cuts the shards while the others wait.

One that dies is noticed at once by its closed connections, and by the launcher.
"""

log = logging.getLogger(__name__)


class TorchTeam:
    """A `Team` of `neatrec.models.embeddings.synchronize`."""

    def __init__(self, torch: Any, launch: Launch, gpu: int | None = None, *, again: bool = False) -> None:
        """`gpu`: the number of the GPU that this process uses and no other one does; None: it has none of its own.

        `again`: whether the job has lived before.
        """
        self._torch = torch
        self.rank, self.size, self.again = launch.rank, launch.size, again
        self._gpu = gpu
        self._gpu_group: Any = None
        self._gpus_are_own: bool | None = None

    def add(self, array: Any) -> None:
        """`array` (NumPy's or CuPy's) becomes the sum of all processes' arrays, in place; the same bits everywhere."""
        if not array.flags.c_contiguous:
            whole = array.copy(order="C")
            self.add(whole)
            array[...] = whole
        elif isinstance(array, np.ndarray):
            self._reduce(self._torch.from_numpy(array))
        elif self._has_nccl():
            with self._torch.cuda.device(self._gpu):
                self._reduce(self._torch.from_dlpack(array), self._gpu_group)
        else:
            here: npt.NDArray[Any] = array.get()
            self._reduce(self._torch.from_numpy(here))
            array.set(here)

    def _reduce(self, tensor: Any, group: Any = None) -> None:
        try:
            self._torch.distributed.all_reduce(tensor, group=group)
        except RuntimeError as error:
            raise lost(self.rank, error) from error

    def _has_nccl(self) -> bool:
        """Whether all processes have a GPU of their own; all find out together, the first time that they add there."""
        if self._gpus_are_own is None:
            mine = self._gpu is not None and self._torch.distributed.is_nccl_available()
            own = np.array([float(mine)])
            self.add(own)
            self._gpus_are_own = int(own[0]) == self.size
            if self._gpus_are_own:
                with self._torch.cuda.device(self._gpu):
                    self._gpu_group = self._torch.distributed.new_group(backend="nccl")
            else:
                log.info("not every process has a GPU of its own, and NCCL: sums are made on the host, by gloo")
        return self._gpus_are_own

    def wait(self) -> None:
        """Return once all processes are here."""
        self.add(np.zeros(1))


def lost(rank: int, error: Exception) -> ResourceError:
    """The error for a process that is gone, as the others see it."""
    said = str(error).split("\n", 1)[0]
    return ResourceError(
        f"process {rank} has lost another process of the job: {printable(said, 200)}",
        hint="The launcher names the one that ended first. With torchrun --max-restarts N the job goes on from its "
        "last checkpoint.",
    )


@contextmanager
def joined(launch: Launch, gpu: int | None = None) -> Iterator[TorchTeam]:
    """The team of this job, for as long as the block runs; `gpu`: the number of the GPU that is this process's own."""
    torch = _torch()
    try:
        store, rank, size = next(torch.distributed.rendezvous("env://", launch.rank, launch.size, timeout=PATIENCE))
        store.set_timeout(PATIENCE)
        life, again = agreed_life(store, launch, PATIENCE)
        own = torch.distributed.PrefixStore(life, store)
        torch.distributed.init_process_group("gloo", store=own, rank=rank, world_size=size, timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise ResourceError(
            f"process {launch.rank} cannot join the job: {printable(str(error).split(chr(10), 1)[0], 200)}",
            hint="Check --master-addr and --master-port (or --rdzv-endpoint) of the launcher.",
        ) from error
    log.info("process %d of %d", launch.rank, launch.size)
    yield TorchTeam(torch, launch, gpu, again=again)
    # not after a failure: the others may be gone, and ending this process closes what there is to close
    torch.distributed.destroy_process_group()


def _torch() -> Any:
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("torch.distributed")
    except ImportError as error:
        raise MissingDependencyError(
            "training on several processes needs torch", hint="pip install 'neatrec[distributed]'"
        ) from error
    return torch
