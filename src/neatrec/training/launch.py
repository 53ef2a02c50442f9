"""What a launcher says to the processes it starts: torchrun, and whatever speaks like it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from neatrec.errors import ParameterError
from neatrec.text import printable

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Launch:
    """This process among those of one job."""

    rank: int
    size: int
    here: int
    """How many of them run on this machine."""
    restarts: int
    """How often the job was started again."""
    place: int = 0
    """Which of those on this machine this is: the number of its GPU, where each has one."""

    def threads(self, processors: int) -> int:
        """Threads for each process, so that those of this machine share its processors."""
        return max(1, processors // self.here)


def launched(environment: Mapping[str, str] | None = None) -> Launch | None:
    """What the launcher said, or None where this process was started by itself."""
    said = os.environ if environment is None else environment
    if not all(name in said for name in NEEDED):
        return None
    try:
        launch = Launch(
            rank=int(said["RANK"]),
            size=int(said["WORLD_SIZE"]),
            here=int(said.get("LOCAL_WORLD_SIZE", "1")),
            restarts=int(said.get("TORCHELASTIC_RESTART_COUNT", "0")),
            place=int(said.get("LOCAL_RANK", "0")),
        )
        if not 0 <= launch.rank < launch.size or launch.here < 1 or launch.place < 0:
            where = f"number {launch.place} of {launch.here} on this machine"
            raise ValueError(f"process {launch.rank} of {launch.size}, {where}")
        return launch
    except ValueError as error:
        raise ParameterError(
            f"RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE must be whole numbers: {printable(error)}",
            hint="Start the job with torchrun, which sets them.",
        ) from error
