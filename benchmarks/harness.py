"""Shared by all benchmarks: jobs measured in turn in fresh processes, records as JSON, tables.

A benchmark names its jobs (module, function), measures them with `measure_in_turn`, makes rows of
`summary` and keeps them with `save`. A job's function prepares everything and returns what is
timed; see `_worker.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"

Run = dict[str, Any]


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser whose help begins with the docstring of the script, line by line."""
    layout = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=description, formatter_class=layout)


def data_folder(name: str, needed: Sequence[str]) -> Path:
    """The folder `name` of the real data under NEATREC_DATA; stops with a sentence without it."""
    data = os.environ.get("NEATREC_DATA")
    if not data:
        sys.exit(f"This benchmark needs real data: set NEATREC_DATA to a folder with {name}/.")
    folder = Path(data) / name
    missing = [file for file in needed if not (folder / file).exists()]
    if missing or not folder.is_dir():
        names = ", ".join(missing) or "the data"
        sys.exit(f"This benchmark needs {names} in {folder}: set NEATREC_DATA.")
    return folder


def measure_in_turn(jobs: Mapping[str, tuple[str, str]], rounds: int) -> dict[str, list[Run]]:
    """Each job (module, function) `rounds` times, in turn: a busy moment hits all alike."""
    commit()  # better refused now than when all is measured
    runs: dict[str, list[Run]] = {name: [] for name in jobs}
    for number in range(rounds):
        for name, (module, function) in jobs.items():
            print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            runs[name].append(measure(module, function))
    return runs


def measure(module: str, function: str) -> Run:
    """One job in a fresh process: wall and CPU seconds, peak memory, its answer."""
    command = [sys.executable, "-m", "benchmarks._worker", module, function]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{function} failed:\n{done.stderr}")
    run: Run = json.loads(done.stdout.splitlines()[-1])
    return run


def summary(name: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Median and spread of the runs of one job."""
    measured = {
        key: spread([run[key] for run in runs]) for key in ("cpu", "wall", "peak_mib", "before_mib")
    }
    return {"name": name, "rounds": len(runs), "answer": runs[0]["answer"], **measured}


def spread(values: Sequence[float]) -> dict[str, float]:
    """
    >>> spread([3.0, 1.0, 2.0])
    {'median': 2.0, 'min': 1.0, 'max': 3.0}
    """
    ends = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, 4) for name, value in ends.items()}


def save(
    name: str,
    tables: Mapping[str, Any],
    packages: Sequence[str],
    *,
    file: str | None = None,
    options: str = "",
) -> Path:
    """Write `results/FILE.json` (default: NAME) with date, commit, machine and versions."""
    RESULTS.mkdir(exist_ok=True)
    record = {
        "benchmark": name,
        "command": f"python -m benchmarks.{name} {options}".rstrip(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(packages),
        "results": dict(tables),
    }
    path = RESULTS / f"{file or name}.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def commit() -> str:
    """The commit that is measured. A tree with other uncommitted changes than records is refused:
    nobody could repeat the run. Where git is not at hand (a copy of the files on another machine)
    NEATREC_COMMIT names the commit."""
    if named := os.environ.get("NEATREC_COMMIT"):
        return named
    try:
        head = _git("rev-parse", "--short=7", "HEAD")
        changed = _git("status", "--porcelain", "--", ".", f":!{RESULTS.relative_to(ROOT)}")
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"A record names its commit and git cannot tell it ({error}): set NEATREC_COMMIT.")
    if changed:
        sys.exit(f"A record names its commit: commit these changes first.\n{changed}")
    return head


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.rstrip()


def machine() -> dict[str, Any]:
    """The machine in words that tell its speed and nothing of whose it is."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **({"card": card} if (card := _card()) else {}),
    }


def versions(packages: Sequence[str]) -> dict[str, str]:
    found = {}
    for package in ("neatrec", *packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def table(rows: Sequence[Sequence[str]]) -> str:
    """
    >>> print(table([["name", "s"], ["one", "10"]]))
    name   s
    one   10
    """
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        right = [cell.rjust(w) for cell, w in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *right]))
    return "\n".join(lines)


def _card() -> str | None:
    """The name of the GPU, where one answers."""
    from neatrec.models.embeddings.kernels import gpu

    if gpu.unavailable_reason() is not None:
        return None
    return str(gpu.cupy().cuda.runtime.getDeviceProperties(0)["name"].decode())


def _processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:  # not Linux
        found = None
    return found[1].strip() if found else platform.processor()
