"""`neatrec ARGUMENTS` of which the second process kills itself in the third epoch of its first life.

It dies at a place in the work, not at a time: after so many sums with the others. In the folder MORTAL_NOTES each
process notes how often its launcher says it was started again, that it came to that place, and the second one when it
died. The first one is then held, with MORTAL_HELD=always by something that never ends, with MORTAL_HELD=asked until it
is asked to stop.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from neatrec.cli.main import run
from neatrec.models.embeddings.synchronize import Together

plain = Together.check_equal
epochs = 0


def check_equal(self: Together, *arguments: object) -> None:
    """Called at the start and after each epoch."""
    global epochs
    epochs += 1
    notes = Path(os.environ["MORTAL_NOTES"])
    came = notes / f"came-{self.team.rank}"
    (notes / f"restarts-{self.team.rank}").write_text(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if epochs == 4 and not came.exists():
        came.touch()
        if self.team.rank == 1:
            (notes / "died").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        elif held := os.environ.get("MORTAL_HELD"):
            if held == "asked":
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.read(os.pipe()[0], 1)  # from a pipe into which nobody writes
    plain(self, *arguments)  # type: ignore[arg-type]


Together.check_equal = check_equal  # type: ignore[method-assign]
run(sys.argv[1:])
