"""Running the command line as a user would: its exit code and its two streams, in an empty folder."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from neatrec.cli.main import exit_code_of


class Done(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """The object that a command without an error prints with --json."""
        assert self.returncode == 0, self.stderr
        return json.loads(self.stdout)

    def error(self, code: int = 2) -> Any:
        """The error that a command prints with --json; its sentence stands on stderr too."""
        error = json.loads(self.stdout)["error"]
        assert self.returncode == code, self.stderr
        assert error["message"] in self.stderr
        assert "Traceback" not in self.stderr
        return error


@pytest.fixture
def neatrec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """`neatrec ARGUMENTS` in this process, where a command takes no time to start."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Done:
        return Done(exit_code_of([str(argument) for argument in arguments]), *capfd.readouterr())

    return run


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., Done]:
    """`neatrec ARGUMENTS` in a process of its own, for what depends on its environment."""

    def run(*arguments: object, **options: Any) -> Done:
        words = [sys.executable, "-m", "neatrec", *map(str, arguments)]
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, timeout=300, **options
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run
