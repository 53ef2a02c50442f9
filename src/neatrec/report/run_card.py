"""The run card: what was run on what, with which versions, and what it took."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from neatrec._version import __version__
from neatrec.report.page import FactList, Paragraph, Section
from neatrec.report.show import show_number, show_seconds

PACKAGES = ("numpy", "scipy", "numba", "pyarrow", "duckdb", "implicit", "matplotlib", "jinja2")


def versions() -> dict[str, str]:
    """Versions of neatrec, Python and what decides the numbers."""
    found = {"neatrec": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def machine() -> dict[str, Any]:
    """What the run had: system, processor kind and number of processors; no names of machines or people."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"system": sys.platform, "processor": platform.machine(), "processors": processors}


def run_section(run: Mapping[str, Any], how_to_verify: str) -> Section:
    """The facts of `run` (the content of `run.json`) as people read them."""
    facts: list[tuple[str, str]] = [("Source", str(run["source"]))]
    for board in run["leaderboards"]:
        where = f" ({board['name']})" if board["name"] else ""
        facts += [(f"SHA-256 of the {name}{where}", str(value)) for name, value in board["hashes"].items()]
        facts += [(name.capitalize() + where, _words(value)) for name, value in board["options"].items()]
    facts += [(f"Time for {name}", show_seconds(value)) for name, value in run["seconds"].items()]
    if run.get("peak_mb") is not None:
        facts.append(("Peak memory", f"{show_number(run['peak_mb'], 0)} MB"))
    facts.append(("Versions", ", ".join(f"{name} {version}" for name, version in run["versions"].items())))
    facts.append(("Machine", ", ".join(f"{name} {value}" for name, value in run["machine"].items())))
    return Section("run", "Run card", (FactList(tuple(facts)), Paragraph(how_to_verify, "note")))


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(each)}" for key, each in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_words(each) for each in value) or "none"
    return "none" if value is None else str(value)
