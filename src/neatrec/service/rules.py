"""The shop's own rules: rules.csv (block, pin, boost, note) and available.txt."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from neatrec.errors import SourceError
from neatrec.service.settings import MAX_K
from neatrec.text import plural, printable

COLUMNS = ("query", "item", "action", "position", "until", "note", "who", "when")
REQUIRED = ("query", "item", "action")
ACTIONS = ("block", "pin", "boost", "note")
EVERY = "*"
"""As `query`: every query."""


@dataclass(frozen=True)
class Rule:
    """One line of rules.csv."""

    query: str
    item: str
    action: str
    """`block`: never an answer. `pin`: an answer at `position` whatever the evidence. `boost`: an
    answer that has evidence moves up by `position` places. `note`: changes no answer."""
    position: int = 1
    until: date | None = None
    """The last day it holds."""
    note: str = ""
    who: str = ""
    when: str = ""
    """Who wrote it and when; a line written by hand need not tell."""

    def holds(self, day: date) -> bool:
        """Whether the rule acts on `day`."""
        return self.until is None or day <= self.until

    @property
    def words(self) -> str:
        """The effect of the rule.

        >>> Rule("a", "b", "boost", 2).words, Rule("*", "b", "block").words
        ('2 places up', 'hidden everywhere')
        """
        every = " everywhere" if self.query == EVERY else ""
        if self.action == "pin":
            return f"pinned to place {self.position}"
        if self.action == "boost":
            return f"{plural(self.position, 'place')} up{every}"
        return {"block": "hidden", "note": "note"}[self.action] + every


@dataclass(frozen=True)
class Rules:
    """All rules of a file."""

    rules: tuple[Rule, ...] = ()
    version: str = ""
    """The version of the file; it changes with every byte."""

    def today(self, day: date) -> tuple[Rule, ...]:
        """The rules that act on `day`."""
        return tuple(rule for rule in self.rules if rule.holds(day))

    def unknown(self, held: Callable[[str], bool], day: date) -> int:
        """Number of the rules of `day` with an id outside `held`: they have no effect."""
        return sum(
            not (held(rule.item) and (rule.query == EVERY or held(rule.query)))
            for rule in self.today(day)
        )


def read_rules(file: Path, day: date | None = None) -> Rules:
    """The rules in `file`; the error names the first invalid line.

    Two pins to one position are an error as long as both hold on `day` (default: today) or later.
    """
    return parse_rules(_bytes_of(file), file, day)


def parse_rules(content: bytes, file: Path, day: date | None = None) -> Rules:
    """The rules that `file` would hold with this content."""
    lines = csv.reader(_text_of(content, file).splitlines(), strict=True)
    try:
        rules = tuple(_rules(lines, datetime.now(UTC).date() if day is None else day))
    except (csv.Error, ValueError) as error:
        what = f"it is not CSV ({error})" if isinstance(error, csv.Error) else error
        actions = f"{', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}"
        hint = f"The columns are {', '.join(COLUMNS)}; an action is {actions}."
        line = max(lines.line_num, 1)
        message = f"{printable(file)}, line {line}: {what}"
        raise SourceError(message, file=str(file), line=line, hint=hint) from error
    return Rules(rules, hashlib.sha256(content).hexdigest()[:32])


def _rules(lines: Any, day: date) -> Iterator[Rule]:
    """The rules of the lines; `ValueError` at the first invalid one."""
    header = [name.strip().lower() for name in next(lines, [])]
    for name in REQUIRED:
        if name not in header:
            raise ValueError(f"the column {name!r} is missing")
    for name in header:
        if name not in COLUMNS:
            raise ValueError(f"there is no column {printable(name)!r}")
    pinned: dict[tuple[str, int], int] = {}
    for row in filter(any, lines):
        rule = _rule(header, row)
        if rule.action == "pin" and rule.holds(day):  # any two that have not ended overlap
            first = pinned.setdefault((rule.query, rule.position), lines.line_num)
            if first != lines.line_num:
                where = f"position {rule.position} of {printable(rule.query)!r}"
                raise ValueError(f"two items are pinned to {where} (see line {first})")
        yield rule


def read_available(file: Path) -> frozenset[str]:
    """The ids in `file`, one per line; lines that begin with # are comments."""
    lines = (line.strip() for line in _text_of(_bytes_of(file), file).splitlines())
    ids = frozenset(line for line in lines if line and not line.startswith("#"))
    if not ids:
        hint = "One id per line: no other item can be an answer."
        raise SourceError(f"{printable(file)} names no item", file=str(file), hint=hint)
    return ids


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file) from error


def _text_of(content: bytes, file: Path) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(file) from error


def _unreadable(file: Path) -> SourceError:
    return SourceError(f"cannot read {printable(file)} as UTF-8 text", file=str(file))


def _rule(header: list[str], row: list[str]) -> Rule:
    if len(row) > len(header):
        wide = f"{len(row)} cells for {len(header)} columns"
        raise ValueError(f"{wide}; a note with a comma needs quotes")
    found = dict(zip(header, row, strict=False))
    cell = {name: found.get(name, "").strip() for name in COLUMNS}
    if not cell["query"] or not cell["item"]:
        raise ValueError("`query` and `item` must be ids")
    if cell["action"] not in ACTIONS:
        got = printable(cell["action"])
        raise ValueError(f"`action` must be block, pin, boost or note, got {got!r}")
    if cell["query"] == cell["item"]:
        raise ValueError("an item is never recommended for itself")
    if cell["action"] == "pin" and cell["query"] == EVERY:
        raise ValueError("a pin needs a query of its own; only other actions may use *")
    position, until = cell.pop("position") or "1", cell.pop("until")
    if not re.fullmatch("[0-9]{1,3}", position) or not 1 <= int(position) <= MAX_K:
        got = printable(position)
        raise ValueError(f"`position` must be an integer from 1 to {MAX_K}, got {got!r}")
    try:
        day = date.fromisoformat(until) if until else None
    except ValueError as error:
        got = printable(until)
        raise ValueError(f"`until` must be a day such as 2026-12-24, got {got!r}") from error
    return Rule(**cell, position=int(position), until=day)
