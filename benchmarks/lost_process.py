"""Seconds until a training of two processes ends after one of them was killed.

    python -m benchmarks.lost_process [--rounds 3]

Needs torch (extra `distributed`). The second process kills itself by SIGKILL in the third epoch; the first one waits
for its numbers, or never ends by itself. Seconds from the kill to the end of torchrun, which must name the
rank and the signal.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import ROOT, save, spread, table

KILLED_PROCESS = ROOT / "tests" / "helpers" / "killed_process.py"
TRAIN = ["train", "supermarket:baskets=500,items=60", "--model", "neat", "--set", "dim=8", "--set", "epochs=5"]


def seconds_to_end(hang: bool) -> float:
    """Seconds from the kill to the end of torchrun."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(KILLED_PROCESS)]
    with tempfile.TemporaryDirectory(prefix="neatrec-bench-") as name:
        words = [*launcher, *TRAIN, "--threads", "1", "--no-index", "--out", str(Path(name) / "bundle")]
        killed = Path(name) / "killed"
        env = {**os.environ, "KILL_FILE": str(killed), "HANG": "1" if hang else ""}
        done = subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True, check=False)
        took = time.time() - float(killed.read_text())
    if not (done.returncode and re.search(r"rank\s*:\s*1 ", done.stderr) and "Signal 9 (SIGKILL)" in done.stderr):
        sys.exit(f"the killed process was not named:\n{done.stderr}")
    return took


def main(rounds: int) -> None:
    ways = {"the other waits for its numbers": False, "the other would never end": True}
    runs = {name: spread([seconds_to_end(hang) for _ in range(rounds)]) for name, hang in ways.items()}
    columns = ("median", "min", "max")
    print(table([["seconds", *columns], *([name, *(str(run[c]) for c in columns)] for name, run in runs.items())]))
    save("lost_process", {"runs": runs}, ("torch",), options=f"--rounds {rounds}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    main(**vars(parser.parse_args()))
