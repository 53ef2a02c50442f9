"""`Engine`: where pairs are counted, and by how many threads."""

from __future__ import annotations

import os
from dataclasses import dataclass

from neatrec.errors import must_be, must_be_one_of

ENGINES = ("memory", "spark")
MAX_THREADS = 1024
"""More would only wait for each other; tens of thousands bring a machine down."""


@dataclass(frozen=True)
class Engine:
    """Where pairs are counted. It changes no count.

    >>> Engine(threads=2).thread_count
    2
    """

    name: str = "memory"
    """memory or spark."""
    threads: int | None = None
    """None: one for each core this process may use."""

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise must_be_one_of("engine", ENGINES, self.name)
        number, wanted = self.threads, f"None or a whole number from 1 to {MAX_THREADS}"
        if number is not None and (
            isinstance(number, bool)
            or not isinstance(number, int)
            or not 1 <= number <= MAX_THREADS
        ):
            raise must_be("threads", wanted, number)

    @property
    def thread_count(self) -> int:
        return self.threads or available_processors()

    @property
    def on_spark(self) -> bool:
        return self.name == "spark"


MEMORY = Engine()


def available_processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
