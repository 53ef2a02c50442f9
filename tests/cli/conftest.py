"""Running the command line as a user would: another process, its exit code, its two streams."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def neatrec(tmp_path: Path) -> Run:
    """`neatrec ARGUMENTS` in an empty folder."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "neatrec", *map(str, arguments)]
        settings = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 300, **options}
        return subprocess.run(words, **settings)  # type: ignore[call-overload, no-any-return]

    return run
