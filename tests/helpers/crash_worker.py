"""Trains and saves again and again, saying what it is about to do, until it is killed.

Run as a script it imports everything once and then forks a child for each line "BUNDLE VERSION
exchange|renames" that comes in; the child says its process id and the phases it goes through.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.toyshop import toy_baskets
from neatrec.bundle import folder as place
from neatrec.bundle import save_bundle, store
from neatrec.models import Model, Run, make_model

PHASES = ("train", "arrays", "items", "manifest", "sync", "rename", "remove")


def model_of(version: int) -> Model:
    """The model that belongs to a version, the same in every process."""
    return make_model("shrunk-lift").fit(toy_baskets(40, seed=version), Run(threads=1))


def work(bundle: Path, version: int, way: str) -> None:
    """Save version after version into `bundle`."""
    announce(store, "write_arrays", "arrays")
    announce(store, "write_items", "items")
    announce(store, "_records", "manifest")
    announce(place, "sync_folder", "sync")
    announce(place, "remove", "remove")
    announce(place, "exchange", "rename", answer=None if way == "exchange" else False)
    announce(os, "rename", "rename")
    while True:
        version += 1
        say(f"train {version}")
        save_bundle(model_of(version), bundle, seed=0, notes={"version": version})


def announce(module: Any, name: str, phase: str, answer: bool | None = None) -> None:
    """Let `module.name` say that it begins, and take a little time before and after so that a kill
    can land inside."""
    real: Callable[..., Any] = getattr(module, name)

    def slow(*arguments: Any, **options: Any) -> Any:
        say(phase)
        result = real(*arguments, **options) if answer is None else answer
        time.sleep(0.004)
        return result

    setattr(module, name, slow)


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())
    time.sleep(0.004)


def serve(work: Callable[[Path, int, str], None]) -> None:
    """Fork a child for each line that comes in."""
    os.write(1, b"ready\n")
    for line in sys.stdin:
        bundle, version, way = line.split("\t")
        child = os.fork()
        if child == 0:
            os.write(1, f"pid {os.getpid()}\n".encode())
            work(Path(bundle), int(version), way.strip())
        os.waitpid(child, 0)
        os.write(1, b"gone\n")


if __name__ == "__main__":
    model_of(0)  # compiled and warm before the first fork
    serve(work)
