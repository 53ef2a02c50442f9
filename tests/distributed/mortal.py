"""`neatrec ARGUMENTS` of which the second process kills itself in the third epoch of its first life.

It dies at a place in the work, not at a time: after so many sums with the others.
"""

from __future__ import annotations

import os
import signal
import sys

from neatrec.cli.main import run
from neatrec.models.together import Together

plain = Together.check_equal
epochs = 0


def check_equal(self: Together, *arguments: object) -> None:
    """Called at the start and after each epoch."""
    global epochs
    epochs += 1
    if self.team.rank == 1 and epochs == 4 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    plain(self, *arguments)  # type: ignore[arg-type]


Together.check_equal = check_equal  # type: ignore[method-assign]
run(sys.argv[1:])
