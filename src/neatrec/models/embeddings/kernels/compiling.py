"""Saying that code is being compiled: a first run takes some seconds longer, and that should be no riddle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event


class _Once(event.Listener):  # type: ignore[misc]
    def __init__(self, say: Callable[[], None]) -> None:
        self.say: Callable[[], None] | None = say

    def on_start(self, event: event.Event) -> None:
        if self.say is not None:
            say, self.say = self.say, None
            say()

    def on_end(self, event: event.Event) -> None:
        pass


@contextmanager
def said_when_compiling(say: Callable[[], None]) -> Iterator[None]:
    """Within the block `say` is called once, when something is compiled that no cache had."""
    with event.install_listener("numba:compile", _Once(say)):
        yield
