"""Run the benchmarks, each in a process of its own: `python -m benchmarks [NAME...]`, or `--list`.

Without names: those of `SHORT`, which renew their records with the options of the docs. A name runs
that one, short or long. Records need a clean checkout (`benchmarks.harness.commit`); `python -m
benchmarks.tables` then fills the docs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent

SHORT: dict[str, tuple[str, float]] = {
    "label_counts": ("", 1),
    "label_speed": ("", 2),
    "training_speed": ("", 5),
    "simulator_fidelity": ("", 1),
}
"""Options and minutes on two idle cores, from the records' CPU seconds."""
LONG: dict[str, tuple[str, float]] = {
    "cart_completion": ("", 5),
    "embedding_quality": ("", 120),
    "gpu_training": ("", 5),
    "interval_coverage": ("populations instacart --save", 2),
    "lift_coverage": ("--save", 8),
    "no_regret": ("--save", 8),
    "odds_claim": ("--save", 8),
    "serve_load": ("", 3),
    "serve_soak": ("", 12),
    "served_evidence": ("--save", 3),
    "spark_counting": ("paper", 1),
}
"""Run by name: they take longer, or need a GPU, torch or Java."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", help="benchmarks to run; the short ones unless some are named"
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="print the commands and about how many minutes they take",
    )
    asked = parser.parse_args()
    known = SHORT | LONG
    if unknown := [name for name in asked.names if name not in known]:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(known)}")
    failed = []
    for name in asked.names or (known if asked.list else SHORT):
        options, minutes = known[name]
        if asked.list:
            print(f"{minutes:4.0f} min  python -m benchmarks.{name} {options}".rstrip())
            continue
        print(f"\n== {name} {options} (about {minutes:.0f} min)", flush=True)
        started = time.monotonic()
        command = [sys.executable, "-m", f"benchmarks.{name}", *options.split()]
        if subprocess.run(command, cwd=HERE.parent, check=False).returncode:
            failed.append(name)
        print(f"== {name}: {time.monotonic() - started:.0f} s", flush=True)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
