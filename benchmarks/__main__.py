"""Run every benchmark, each in a process of its own: `python -m benchmarks`. A benchmark is a file that can be run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def benchmarks() -> list[str]:
    """The files of this folder that can be run, by name; helpers have no main part or begin with an underscore."""
    return [
        file.stem
        for file in sorted(HERE.glob("*.py"))
        if not file.stem.startswith("_") and 'if __name__ == "__main__":' in file.read_text(encoding="utf-8")
    ]


def main() -> int:
    failed = []
    for name in benchmarks():
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=HERE.parent, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
