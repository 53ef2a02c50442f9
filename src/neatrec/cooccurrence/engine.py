"""`Engine`: memory or Spark, which count the pairs, and the number of threads."""

from __future__ import annotations

from dataclasses import dataclass

from neatrec.errors import must_be_one_of, require_whole
from neatrec.memory import available_processors

ENGINES = ("memory", "spark")
MAX_THREADS = 1024
"""More threads only wait for each other; tens of thousands bring a machine down."""


@dataclass(frozen=True)
class Engine:
    """The engine that counts the pairs; all engines give the same counts.

    >>> Engine(threads=2).thread_count
    2
    """

    name: str = "memory"
    """`memory` or `spark`."""
    threads: int | None = None
    """None: one thread for each core of this process."""

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise must_be_one_of("engine", ENGINES, self.name)
        require_whole("threads", self.threads, 1, MAX_THREADS, or_none=True)

    @property
    def thread_count(self) -> int:
        """The number of threads."""
        return self.threads or available_processors()

    @property
    def on_spark(self) -> bool:
        """Whether Spark counts."""
        return self.name == "spark"


MEMORY = Engine()
