"""`Run`: how a fit is done (seed, device, threads, progress), but not which model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from neatrec.cooccurrence.counting import CountBook, Engine
from neatrec.data.baskets import Baskets
from neatrec.data.splits import Seed, as_generator
from neatrec.errors import must_be_one_of, require_whole
from neatrec.memory import available_processors


@dataclass(frozen=True)
class Progress:
    """The progress of a fit. Rates and losses are those of the present epoch."""

    epoch: int
    """Epochs finished."""
    epochs: int
    """Epochs asked for."""
    done: float
    """Finished share of the fit, 0 to 1."""
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


@dataclass(frozen=True)
class Run:
    """Options of one fit, which do not change the model; a device refuses those it cannot honor."""

    devices: ClassVar[tuple[str, ...]] = ("auto", "cpu", "gpu")

    rng: Seed = 0
    """A seed or a generator: the same seed gives the same model where `reproducible`."""
    device: str = "auto"
    threads: int | None = None
    """Number of threads; None: one per available processor."""
    reproducible: bool = False
    """Train with one thread: the same bits for the same seed."""
    progress: Callable[[Progress], None] | None = field(default=None, compare=False)
    """Called about twice per second and at the end of each epoch."""
    book: CountBook | None = field(default=None, compare=False)
    """The counts of a training, which are made once for the model and its table."""

    def __post_init__(self) -> None:
        as_generator(self.rng)
        if self.device not in self.devices:
            raise must_be_one_of("device", self.devices, self.device)
        if self.threads is not None:
            require_whole("threads", self.threads)

    def book_of(self, baskets: Baskets) -> CountBook:
        """The counts of these baskets: those of `book` where they are its baskets."""
        if self.book is not None and self.book.baskets is baskets:
            return self.book
        engine = Engine(threads=self.threads) if self.book is None else self.book.engine
        return CountBook(baskets, engine)

    @property
    def seed(self) -> int:
        """The seed of a kernel or a library: `rng`, or the next number of a generator."""
        if isinstance(self.rng, np.random.Generator):
            return int(self.rng.integers(2**31))
        return int(self.rng)

    @property
    def thread_count(self) -> int:
        """How many threads train."""
        return 1 if self.reproducible else self.threads or available_processors()
