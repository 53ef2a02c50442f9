"""Run the benchmarks, each in a process of its own: `python -m benchmarks [NAME...]`, or `--list`.

Without names: those of `SHORT`, which renew their records with the options of the docs. Records
need a clean checkout (`benchmarks.harness.commit`); `python -m benchmarks.tables` then fills the
docs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks.harness import ROOT

SHORT: dict[str, tuple[str, int]] = {
    "label_counts": ("", 1),
    "label_speed": ("", 2),
    "training_speed": ("", 5),
    "simulator_fidelity": ("", 1),
}
"""Options and minutes on two idle cores, from the records' CPU seconds."""
LONG: dict[str, tuple[str, int]] = {
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
    """Run the named benchmarks; 1 if one of them failed."""
    scripts = SHORT | LONG
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*scripts, []], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print commands and minutes")
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.names or (scripts if arguments.list else SHORT):
        options, minutes = scripts[name]
        command = ["-m", f"benchmarks.{name}", *options.split()]
        print(f"{minutes:4} min  python {' '.join(command)}", flush=True)
        if not arguments.list:
            failed |= subprocess.run([sys.executable, *command], cwd=ROOT, check=False).returncode
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
