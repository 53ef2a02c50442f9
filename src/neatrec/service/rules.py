"""The shop's own rules: rules.csv (block, pin) and available.txt, and the filter they make for a query."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from neatrec.errors import SourceError
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.schemas import Filters
from neatrec.service.settings import MAX_K
from neatrec.serving.answers import AnswerFilter
from neatrec.text import printable

COLUMNS = ("query", "item", "action", "position", "until", "note")
REQUIRED = ("query", "item", "action")
EVERY = "*"
"""As `query`: every query."""
MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Rule:
    """One line of rules.csv."""

    query: str
    item: str
    action: str
    """`block`: never recommended. `pin`: recommended at `position` whatever the evidence."""
    position: int = 1
    until: date | None = None
    """The last day it holds."""

    def holds(self, day: date) -> bool:
        return self.until is None or day <= self.until


@dataclass(frozen=True)
class Rules:
    """All rules of a file."""

    rules: tuple[Rule, ...] = ()

    def today(self, day: date) -> tuple[Rule, ...]:
        """The rules that hold on `day`."""
        return tuple(rule for rule in self.rules if rule.holds(day))

    def unknown(self, held: Callable[[str], bool], day: date) -> int:
        """How many of the rules that hold on `day` name an id that is not `held`: they have no effect."""
        return sum(not (held(rule.item) and (rule.query == EVERY or held(rule.query))) for rule in self.today(day))


def read_rules(file: Path, day: date | None = None) -> Rules:
    """The rules in `file`; the error names the first line that is not a rule.

    Two pins to one place are an error as long as both hold on `day` (default: today) or later.
    """
    lines = csv.reader(_text_of(file).splitlines(), strict=True)
    try:
        header = [name.strip().lower() for name in next(lines, [])]
        _check_header(header, file)
        numbered = [(lines.line_num, _rule(header, row, file, lines.line_num)) for row in lines if any(row)]
    except csv.Error as error:
        raise _wrong(file, lines.line_num, f"it is not CSV ({error})") from error
    today = datetime.now(UTC).date() if day is None else day
    _check_positions([(line, rule) for line, rule in numbered if rule.action == "pin" and rule.holds(today)], file)
    return Rules(tuple(rule for _, rule in numbered))


def read_available(file: Path) -> frozenset[str]:
    """The ids in `file`, one per line; lines that begin with # are comments."""
    lines = (line.strip() for line in _text_of(file).splitlines())
    ids = frozenset(line for line in lines if line and not line.startswith("#"))
    if not ids:
        raise SourceError(
            f"{printable(file)} names no item", file=str(file), hint="One id per line: nothing else may be recommended."
        )
    return ids


def _text_of(file: Path) -> str:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise SourceError(f"{printable(file)} is larger than {MAX_BYTES:,} bytes", file=str(file))
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read {printable(file)} as UTF-8 text", file=str(file)) from error


def _check_header(header: list[str], file: Path) -> None:
    missing = [name for name in REQUIRED if name not in header]
    foreign = [name for name in header if name not in COLUMNS]
    if missing or foreign:
        what = f"the column {missing[0]!r} is missing" if missing else f"there is no column {printable(foreign[0])!r}"
        raise _wrong(file, 1, what)


def _rule(header: list[str], row: list[str], file: Path, line: int) -> Rule:
    if len(row) > len(header):
        raise _wrong(file, line, f"{len(row)} cells for {len(header)} columns; a note with a comma needs quotes")
    found = dict(zip(header, row, strict=False))
    cell = {name: found.get(name, "").strip() for name in COLUMNS}
    if not cell["query"] or not cell["item"]:
        raise _wrong(file, line, "`query` and `item` must be ids")
    if cell["action"] not in ("block", "pin"):
        raise _wrong(file, line, f"`action` must be block or pin, got {printable(cell['action'])!r}")
    if cell["query"] == cell["item"]:
        raise _wrong(file, line, "an item is never recommended for itself")
    if cell["action"] == "pin" and cell["query"] == EVERY:
        raise _wrong(file, line, "a pin needs a query of its own; only a block may use *")
    return Rule(cell["query"], cell["item"], cell["action"], _position(cell, file, line), _until(cell, file, line))


def _position(cell: dict[str, str], file: Path, line: int) -> int:
    text = cell["position"]
    if not text:
        return 1
    if not (text.isascii() and text.isdecimal() and len(text) < 4 and 1 <= int(text) <= MAX_K):
        raise _wrong(file, line, f"`position` must be a whole number from 1 to {MAX_K}, got {printable(text)!r}")
    return int(text)


def _until(cell: dict[str, str], file: Path, line: int) -> date | None:
    try:
        return date.fromisoformat(cell["until"]) if cell["until"] else None
    except ValueError as error:
        what = f"`until` must be a day such as 2026-12-24, got {printable(cell['until'])!r}"
        raise _wrong(file, line, what) from error


def _check_positions(pins: list[tuple[int, Rule]], file: Path) -> None:
    """No position is given twice; no rule begins later than today, so any two that have not ended overlap."""
    taken: dict[tuple[str, int], int] = {}
    for line, rule in pins:
        first = taken.setdefault((rule.query, rule.position), line)
        if first != line:
            what = f"two items are pinned to position {rule.position} of {printable(rule.query)!r} (see line {first})"
            raise _wrong(file, line, what)


def _wrong(file: Path, line: int, what: str) -> SourceError:
    hint = "The columns are query, item, action (block or pin), position, until, note."
    return SourceError(f"{printable(file)}, line {line}: {what}", file=str(file), line=line, hint=hint)


class CompiledRules(NamedTuple):
    """The rules of a day in the codes of one bundle."""

    blocked: Mapping[int, frozenset[int]]
    """Query code -> items never recommended for it."""
    blocked_everywhere: frozenset[int]
    pinned: Mapping[int, tuple[tuple[int, int], ...]]
    """Query code -> (position, item), by position."""
    available: bytes | None
    """One byte per item: 1 when it may be recommended. None: all may."""


def compile_rules(bundle: LoadedBundle, rules: Rules, available: frozenset[str] | None, day: date) -> CompiledRules:
    """Ids that this catalogue does not hold have no effect: catalogues change every night, rules need not."""
    blocked: dict[int, set[int]] = {}
    everywhere: set[int] = set()
    pinned: dict[int, list[tuple[int, int]]] = {}
    for rule in rules.today(day):
        item, query = bundle.code(rule.item), bundle.code(rule.query)
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
        None if available is None else _mask(bundle, available),
    )


def _mask(bundle: LoadedBundle, available: frozenset[str]) -> bytes:
    mask = np.zeros(len(bundle.ids), dtype=np.uint8)
    mask[[code for item in available if (code := bundle.code(item)) is not None]] = 1
    return mask.tobytes()


def filter_of(bundle: LoadedBundle, rules: CompiledRules, filters: Filters, queries: list[int]) -> AnswerFilter:
    """What the request and the shop's rules leave of the answers to `queries`."""
    excluded = (bundle.code(item) for item in filters.exclude)  # an unknown id is never recommended anyway
    chosen = [bundle.in_category(category) for category in filters.category]
    found = AnswerFilter(
        bundle.index,
        queries,
        exclude=[code for code in excluded if code is not None],
        chosen=np.logical_or.reduce(chosen) if chosen else None,
        diversify=filters.diversify,
    )
    found.blocked = set(rules.blocked_everywhere).union(*(rules.blocked.get(code, ()) for code in queries))
    found.available = rules.available
    return found
