"""A cache that is bounded by bytes: what callers ask for must not grow the memory of a service without end."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

ENTRY_BYTES = 200
"""What an entry takes beside its key and value."""


class ByteCache(Generic[Key, Value]):
    """Values of any thread by key; the oldest are dropped when there are too many bytes."""

    def __init__(self, limit: int) -> None:
        self.limit, self.bytes = limit, 0
        self._entries: dict[Key, tuple[Value, int]] = {}
        self._lock = Lock()

    def get(self, key: Key) -> Value | None:
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keep a value of so many bytes, its key included."""
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = value, size + ENTRY_BYTES
            self.bytes += size + ENTRY_BYTES
            while self.bytes > self.limit:
                self.bytes -= self._entries.pop(next(iter(self._entries)))[1]
