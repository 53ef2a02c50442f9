"""`TorchTeam`: the processes of one job over torch.distributed. Rendezvous, sums and time limits are its own."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.distributed.launch import Launch
from neatrec.errors import MissingDependencyError, ResourceError
from neatrec.text import printable

PATIENCE = timedelta(hours=24)
"""How long to wait for a process that is alive: the first one cuts the shards while the others wait.

One that dies is noticed at once by its closed connections, and by the launcher.
"""

log = logging.getLogger(__name__)


class TorchTeam:
    """A `Team` of `neatrec.models.together`."""

    def __init__(self, torch: Any, launch: Launch) -> None:
        self._torch = torch
        self.rank, self.size = launch.rank, launch.size

    def add(self, array: npt.NDArray[Any]) -> None:
        """`array` becomes the sum of all processes' arrays, in place; the same bits everywhere."""
        if not array.flags.c_contiguous:
            whole = np.ascontiguousarray(array)
            self.add(whole)
            array[...] = whole
            return
        try:
            self._torch.distributed.all_reduce(self._torch.from_numpy(array))
        except RuntimeError as error:
            raise lost(self.rank, error) from error

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
def joined(launch: Launch) -> Iterator[TorchTeam]:
    """The team of this job, for as long as the block runs."""
    torch = _torch()
    try:
        torch.distributed.init_process_group("gloo", timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise ResourceError(
            f"process {launch.rank} cannot join the job: {printable(str(error).split(chr(10), 1)[0], 200)}",
            hint="Check --master-addr and --master-port (or --rdzv-endpoint) of the launcher.",
        ) from error
    log.info("process %d of %d", launch.rank, launch.size)
    yield TorchTeam(torch, launch)
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
