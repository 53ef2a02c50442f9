"""`neatrec ARGUMENTS` whose process of rank 1 kills itself once, in the third epoch; it writes the time to KILL_FILE.

With HANG=1 the process of rank 0 then never ends by itself.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from neatrec.cli.main import run
from neatrec.models.embeddings.synchronize import Synchronizer

check_equal = Synchronizer.check_equal
calls = 0


def check_equal_or_die(self: Synchronizer, *arguments: object) -> None:
    """Called at the start and after each epoch: a place in the work, not a moment."""
    global calls
    calls += 1
    killed = Path(os.environ["KILL_FILE"])
    if calls == 4 and not killed.exists():
        if self.group.rank == 1:
            killed.write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("HANG"):
            os.read(os.pipe()[0], 1)  # from a pipe into which nobody writes
    check_equal(self, *arguments)  # type: ignore[arg-type]


Synchronizer.check_equal = check_equal_or_die  # type: ignore[method-assign]
run(sys.argv[1:])
