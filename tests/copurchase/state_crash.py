"""Adds baskets to a state and dies on the way: `python state_crash.py FOLDER MOMENT`."""

from __future__ import annotations

import os
import signal
import sys

from state_days import Bought, read

from neatrec.copurchase import Counting
from neatrec.copurchase.state import append
from neatrec.copurchase.state import folder as disk

NEW = [Bought("7", "ann", ("a", "e", "g")), Bought("8", "new", ("g", "a"))]


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    folder, moment = sys.argv[1:]
    if moment == "replace":
        os.replace = die  # type: ignore[assignment]
    elif moment == "sweep":
        whole = disk.sweep
        # the first sweep clears the way, the second is that of the new state
        calls: list[int] = []
        disk.sweep = lambda *a: (calls.append(1), die() if len(calls) > 1 else whole(*a))[1]  # type: ignore[assignment]
    else:
        disk._sync = die  # type: ignore[assignment]
    append(folder, read(NEW, ordered=True, users=True), Counting(min_basket=2, category_level="category"))
