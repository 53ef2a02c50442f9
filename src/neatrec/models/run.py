"""`Run`: how a fit is done (seed, device, threads, progress, checkpoints), but not which model."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import BasketStream
from neatrec.data.randomness import Seed, as_generator
from neatrec.errors import must_be, must_be_one_of, require_whole

if TYPE_CHECKING:
    from neatrec.models.base import Model
    from neatrec.models.embeddings.synchronize import Synchronizer


@dataclass(frozen=True)
class Progress:
    """The progress of a fit. Rates and losses are those of the present epoch."""

    epoch: int
    """Epochs finished."""
    epochs: int
    """Epochs asked for."""
    done: float
    """Share of the whole fit that is done, 0 to 1."""
    pairs: int
    """Directed positive pairs seen in this epoch."""
    pairs_per_second: float
    loss: float
    """Mean loss per pair."""
    active: float | None
    """Share of hinges that are active; None for a model without hinges."""
    seconds: float
    """Since the fit began."""
    seconds_left: float
    validation_loss: float | None = None
    """Mean loss per pair on the validation baskets after the last epoch, where there are any."""


@dataclass(frozen=True)
class Run:
    """Options of one fit. None of them changes which model is fitted; what a device cannot honor is refused."""

    devices: ClassVar[tuple[str, ...]] = ("auto", "cpu", "gpu")

    rng: Seed = 0
    """A seed or a generator: the same seed gives the same model where `reproducible`."""
    device: str = "auto"
    threads: int | None = None
    """Threads that work at the same time; None: as many as there are processors to use."""
    reproducible: bool = False
    """The same bits for the same seed at any number of threads, at some cost in speed."""
    progress: Callable[[Progress], None] | None = field(default=None, compare=False)
    """Called about twice per second and at the end of each epoch."""
    checkpoints: Path | None = None
    """A folder for checkpoints: one after each epoch, and one when the fit is stopped."""
    resume: bool = False
    """Continue from the checkpoint, if there is one."""
    validation: BasketStream | None = field(default=None, compare=False)
    """Held-out baskets: the fit stops when their loss has not fallen for `patience` epochs."""
    patience: int = 2
    warm_start: Model | None = field(default=None, compare=False)
    """A model of the same kind to start from. Embedding models use it; the others count all baskets."""
    vectors: npt.NDArray[np.float32] | None = field(default=None, compare=False)
    """A vector per item of the catalogue by an encoder of names or pictures, (items, dim); rows of NaN where there is
    none. Models that `use_vectors` compare items by them that were bought seldom or never."""
    synchronizer: Synchronizer | None = field(default=None, compare=False)
    """Synchronizes several processes; each must be given all shards, in one order. None: a single process."""
    stop: Callable[[], bool] | None = field(default=None, compare=False)
    """Called about once per second; when it returns true, a checkpoint is written and KeyboardInterrupt raised."""

    def __post_init__(self) -> None:
        as_generator(self.rng)
        if self.device not in self.devices:
            raise must_be_one_of("device", self.devices, self.device)
        if self.threads is not None:
            require_whole("threads", self.threads)
        require_whole("patience", self.patience)
        if self.checkpoints is not None:
            object.__setattr__(self, "checkpoints", Path(self.checkpoints))
        if self.resume and self.checkpoints is None:
            raise must_be("resume", "used together with `checkpoints`", self.resume)

    @property
    def thread_count(self) -> int:
        """How many threads to use."""
        return self.threads or available_processors()


def available_processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
