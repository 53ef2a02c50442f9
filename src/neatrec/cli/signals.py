"""Ctrl-C and SIGTERM: at once for most commands, at the next safe moment for training."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


class TerminatedError(BaseException):
    """SIGTERM arrived: unwinds like Ctrl-C, so that whatever holds a file or a lock lets go of it."""


def leave_on_sigterm() -> None:
    """Make SIGTERM unwind the program instead of ending it on the spot."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: Any) -> NoReturn:
    raise TerminatedError


class StopFlag:
    """True once a signal has asked for an end. Until somebody looks at it, signals end the work on the spot."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.watched = False

    def __call__(self) -> bool:
        self.watched = True
        return self.signal is not None

    def receive(self, number: int, frame: Any) -> None:
        """The first signal waits for a safe moment, if one will come; the second one does not."""
        first, self.signal = self.signal is None, number
        if not (first and self.watched):
            raise KeyboardInterrupt


@contextmanager
def at_a_safe_moment() -> Iterator[StopFlag]:
    """A flag that signals set while the block runs: work that sees it tidies up and raises KeyboardInterrupt."""
    flag = StopFlag()
    before = {number: signal.signal(number, flag.receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield flag
        if flag.signal is not None:  # it came after the last look
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        if flag.signal == signal.SIGTERM:
            raise TerminatedError from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
