"""`neatrec ARGUMENTS` of which the second process kills itself in the third epoch of its first life.

It dies at a place in the work, not at a time: after so many sums with the others. With a folder in MORTAL_NOTES it
writes there when it died; with MORTAL_HELD the first process is then held by something that never ends.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from neatrec.cli.main import run
from neatrec.models.together import Together

plain = Together.check_equal
epochs = 0


def check_equal(self: Together, *arguments: object) -> None:
    """Called at the start and after each epoch."""
    global epochs
    epochs += 1
    if epochs == 4 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        notes = os.environ.get("MORTAL_NOTES")
        if self.team.rank == 1:
            if notes:
                (Path(notes) / "died").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        elif os.environ.get("MORTAL_HELD"):
            os.read(os.pipe()[0], 1)  # from a pipe into which nobody writes
    plain(self, *arguments)  # type: ignore[arg-type]


Together.check_equal = check_equal  # type: ignore[method-assign]
run(sys.argv[1:])
