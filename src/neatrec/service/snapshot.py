"""Everything one request answers from, taken in hand once: no answer mixes two versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

import numpy as np

from neatrec.service.limits import CACHE_BYTES
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.problems import unknown_choice
from neatrec.service.rules import EVERY, Rules


class CompiledRules(NamedTuple):
    """The shop's decisions in the codes of one shelf."""

    blocked: Mapping[int, frozenset[int]]
    """Query code -> items never named for it."""
    blocked_everywhere: frozenset[int]
    pinned: Mapping[int, tuple[tuple[int, int], ...]]
    """Query code -> (position, item), by position."""
    available: bytes | None
    """One byte an item: 1 when it may be named. None: all may."""


class AnswerCache:
    """Rendered answers by question, the oldest dropped when there are too many bytes."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit = limit
        self.bytes = 0
        self.kept: dict[bytes, Rendered] = {}

    def get(self, key: bytes) -> Rendered | None:
        return self.kept.get(key)

    def put(self, key: bytes, answer: Rendered) -> None:
        if key in self.kept:
            return
        self.kept[key] = answer
        self.bytes += len(answer.body) + len(key)
        while self.bytes > self.limit:
            oldest = next(iter(self.kept))
            self.bytes -= len(self.kept.pop(oldest).body) + len(oldest)


class Rendered(NamedTuple):
    """An answer as it goes out, and what the metrics count of it."""

    body: bytes
    grades: tuple[tuple[str, int], ...]
    empty: bool
    short: bool
    rules: tuple[str, ...]
    version: str


@dataclass(frozen=True, eq=False)
class ServingSnapshot:
    """Shelves by model name (the first one answers when none is named), and the shop's decisions for each."""

    shelves: Mapping[str, LoadedBundle]
    decided: Mapping[str, CompiledRules]
    day: date
    cache: AnswerCache = field(default_factory=AnswerCache)

    @property
    def main(self) -> LoadedBundle:
        return next(iter(self.shelves.values()))

    def shelf(self, model: str | None) -> LoadedBundle:
        """The shelf of a model that must be served, else a 404."""
        if model is None:
            return self.main
        if model not in self.shelves:
            raise unknown_choice("model", list(self.shelves), model, status=404)
        return self.shelves[model]


def make_edition(
    shelves: Mapping[str, LoadedBundle], rules: Rules, available: frozenset[str] | None, day: date
) -> ServingSnapshot:
    """The edition of `day`: rules and list looked up in each shelf."""
    decided = {name: _decide(shelf, rules, available, day) for name, shelf in shelves.items()}
    return ServingSnapshot(shelves, decided, day)


def _decide(shelf: LoadedBundle, rules: Rules, available: frozenset[str] | None, day: date) -> CompiledRules:
    """Ids that this catalogue does not hold decide nothing: catalogues change every night, rules need not."""
    blocked: dict[int, set[int]] = {}
    everywhere: set[int] = set()
    pinned: dict[int, list[tuple[int, int]]] = {}
    for rule in rules.today(day):
        item = shelf.code(rule.item)
        query = shelf.code(rule.query)
        if item is None:
            continue
        if rule.query == EVERY:
            everywhere.add(item)
        elif query is not None and query != item and rule.action == "block":
            blocked.setdefault(query, set()).add(item)
        elif query is not None and query != item:
            pinned.setdefault(query, []).append((rule.position, item))
    return CompiledRules(
        {query: frozenset(items) for query, items in blocked.items()},
        frozenset(everywhere),
        {query: tuple(sorted(pins)) for query, pins in pinned.items()},
        None if available is None else _mask(shelf, available),
    )


def _mask(shelf: LoadedBundle, available: frozenset[str]) -> bytes:
    mask = np.zeros(len(shelf.ids), dtype=np.uint8)
    mask[[code for item in available if (code := shelf.code(item)) is not None]] = 1
    return mask.tobytes()
