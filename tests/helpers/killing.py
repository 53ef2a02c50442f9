"""Starting a worker and killing its children in a phase that is chosen."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Worker = subprocess.Popen[str]


@contextmanager
def started(script: str) -> Iterator[Worker]:
    """The worker `script`, ready for orders."""
    folder = Path(script).parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder.parent), os.environ.get("PYTHONPATH", "")]),
    }
    process = subprocess.Popen(
        [sys.executable, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def kill_in(worker: Worker, order: str, target: str, delay: float) -> tuple[str, int]:
    """Start a child, kill it with -9 a moment after it has said `target`; its last phase and the
    version it was at."""
    worker.stdin.write(order + "\n")
    worker.stdin.flush()
    pid = int(worker.stdout.readline().split()[1])
    phase, version, killed = "", 0, False
    for line in worker.stdout:
        word, *number = line.split()
        if word == "gone":
            break
        phase = word
        version = int(number[0]) if number else version
        if phase == target and not killed and version:
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
            killed = True
    return phase, version
