"""SIGTERM ends a command as Ctrl-C does."""

from __future__ import annotations

import signal
from typing import Any, NoReturn


class TerminatedError(BaseException):
    """SIGTERM arrived: unwinds like Ctrl-C, so that whatever holds a file or a lock lets go of it."""


def leave_on_sigterm() -> None:
    """Make SIGTERM unwind the program instead of ending it on the spot."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: Any) -> NoReturn:
    raise TerminatedError
