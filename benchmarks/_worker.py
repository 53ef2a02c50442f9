"""One timed job in a process of its own: `python -m benchmarks._worker MODULE FUNCTION`; prints one
line of JSON.

The function prepares (imports, data, warm-up) and returns the job; only the job is timed. Peak
memory is that of the whole process, and what it was before the job is reported beside it.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib import import_module


def peak_mib() -> float:
    """The most memory this process has held."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def main(module: str, function: str) -> None:
    job = getattr(import_module(module), function)()
    before = peak_mib()
    wall, cpu = time.perf_counter(), time.process_time()
    answer = job()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = {"peak_mib": peak_mib(), "before_mib": before}
    print(json.dumps({"wall": wall, "cpu": cpu, **memory, "answer": answer}))


if __name__ == "__main__":
    main(*sys.argv[1:])
