"""`neatrec ARGUMENTS` whose process of rank 1 kills itself once, in the third epoch; KILL_FILE marks that it has."""

import os
import signal
import sys
from itertools import count
from pathlib import Path

from neatrec.cli.main import run
from neatrec.models.embeddings.synchronize import Synchronizer

check_equal, calls = Synchronizer.check_equal, count(1)


def check_equal_or_die(self: Synchronizer, *arguments: object) -> None:
    """Called at the start and after each epoch: a place in the work, not a moment."""
    killed = Path(os.environ["KILL_FILE"])
    if next(calls) == 4 and self.group.rank == 1 and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    check_equal(self, *arguments)


Synchronizer.check_equal = check_equal_or_die
run(sys.argv[1:])
