"""A name for one life of a job, on which all its processes agree and which no earlier life had.

torchrun starts the processes of a job again after a death, but keeps the store in which they find each other, and with
it the addresses of the dead. What it counts restarts by is each machine's own count. So each process counts its own
lives in the store, and the name of a life is what all of them have counted.
"""

from __future__ import annotations

import hashlib
import time
from datetime import timedelta
from typing import Protocol

from neatrec.errors import ResourceError
from neatrec.training.launch import Launch

ROOM = "neatrec/lives"
SHORTEST, LONGEST = 0.02, 1.0
"""Seconds between two looks at the store: twice as long each time."""


class KeyValueStore(Protocol):
    """As much of torch.distributed's store as is needed here."""

    def add(self, key: str, amount: int, /) -> int:
        """The number under `key`, 0 at first, after `amount` was added to it."""

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """What stands under the keys, once all of them do."""


def agreed_life(store: KeyValueStore, launch: Launch, patience: timedelta) -> tuple[str, bool]:
    """The name of this life of the job, and whether the job has lived before; returns once all processes agree.

    A process says yes to a name once, and only to one with its own count in it. A name to which as many have said yes
    as there are processes was therefore read by all of them, in this life. One that dies after its yes ends this life
    for all: the launcher stops the others and starts the next.
    """
    rank, size = launch.rank, launch.size
    keys = [f"{ROOM}/{process}" for process in range(size)]
    mine = store.add(keys[rank], 1 + launch.restarts)  # so that a new store too tells all of a restart of one machine
    said_yes_to = ""
    pause, until = SHORTEST, time.monotonic() + patience.total_seconds()
    while time.monotonic() < until:
        lives = [int(count) for count in store.multi_get(keys)]  # of processes that are still to come: the last life's
        if lives[rank] == mine:
            name = f"{ROOM}/{hashlib.sha256(repr(lives).encode()).hexdigest()}"
            if store.add(name, int(name != said_yes_to)) == size:
                return name, max(lives) > 1
            said_yes_to = name
        time.sleep(pause)
        pause = min(2 * pause, LONGEST)
    raise ResourceError(
        f"process {rank} has waited {patience} for the others of the job",
        hint="Look at the logs of the other machines: all processes must be started.",
    )
