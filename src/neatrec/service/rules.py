"""The shop's own rules: available.txt, and rules.csv, which editors change one at a time."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from neatrec.atomic import sync_folder
from neatrec.errors import SourceError
from neatrec.service.problems import RequestError
from neatrec.service.settings import MAX_K
from neatrec.text import no_formula, plural, printable

__all__ = ["Rule", "Rules", "RulesFile", "read_available", "read_rules"]

log = logging.getLogger(__name__)

COLUMNS = ("query", "item", "action", "position", "until", "note", "who", "when")
REQUIRED = ("query", "item", "action")
ACTIONS = ("block", "pin", "boost", "note")
EVERY = "*"
"""As `query`: every query."""
PATIENCE = 5.0
"""Seconds that an edit waits for another one to be written."""
WRITING, LOCK = ".writing", ".lock"
"""Ends of the names of the files beside it: the new content, and the lock."""


@dataclass(frozen=True)
class Rule:
    """One line of rules.csv."""

    query: str
    item: str
    action: str
    """`block`: never an answer. `pin`: an answer at `position` whatever the evidence. `boost`: an
    answer that has evidence moves up by `position` positions. `note`: changes no answer."""
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
        ('2 positions up', 'hidden everywhere')
        """
        every = " everywhere" if self.query == EVERY else ""
        if self.action == "pin":
            return f"pinned to position {self.position}"
        if self.action == "boost":
            return f"{plural(self.position, 'position')} up{every}"
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


def read_rules(file: Path | None, day: date | None = None) -> Rules:
    """The rules in `file`, if any; the error names the first invalid line.

    Two pins to one position are an error as long as both hold on `day` (default: today) or later.
    """
    return Rules() if file is None else parse_rules(_bytes_of(file), file, day)


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


def read_available(file: Path | None) -> frozenset[str] | None:
    """The ids in `file`, one per line; lines that begin with # are comments."""
    if file is None:
        return None
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


class EditConflictError(RequestError):
    """The file is not the one that the editor saw."""

    def __init__(self) -> None:
        message = "the rules have changed since this page was shown, and nothing was written"
        hint = "Load the page again, then repeat your edit."
        super().__init__(409, "Conflict", message, hint=hint)


class RulesFile:
    """The file, whose rules are written again with each edit."""

    def __init__(self, named: Path) -> None:
        self.named = named

    @property
    def path(self) -> Path:
        """The file itself: a link stays a link, and may lead to another file later."""
        return Path(os.path.realpath(self.named))

    def add(self, rule: Rule, version: str, day: date) -> None:
        """Add a line to the file of this version. Notes cannot be formulas of a spreadsheet."""
        rule = replace(rule, note=no_formula(rule.note), who=no_formula(rule.who))
        same = (rule.query, rule.item, rule.action)
        with self.locked():
            rules = self._read(version, day)
            if any((each.query, each.item, each.action) == same for each in rules.today(day)):
                message = "there is such a rule already"
                raise RequestError(409, "Conflict", message, hint="Undo it first.")
            self._write([*rules.rules, rule], day)

    def remove(self, number: int, version: str, day: date) -> Rule:
        """Remove a rule, by its number from 0, of the file of this version; returns it."""
        with self.locked():
            rules = list(self._read(version, day).rules)
            if number >= len(rules):
                raise EditConflictError
            rule = rules.pop(number)
            self._write(rules, day)
            return rule

    def _read(self, version: str, day: date) -> Rules:
        """The rules of the file, which must be those that the editor saw."""
        try:
            rules = read_rules(self.path, day)
        except SourceError as error:
            hint = "Correct the file by hand; it was not changed."
            raise RequestError(409, "Conflict", error.message, hint=hint) from error
        if rules.version != version:
            raise EditConflictError
        return rules

    def _write(self, rules: Sequence[Rule], day: date) -> None:
        """Write these rules, if they can be read again."""
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for rule in rules:
            position = rule.position if rule.action in ("pin", "boost") else ""
            writer.writerow({**vars(rule), "position": position, "until": rule.until or ""})
        content = text.getvalue().encode()
        try:
            written = parse_rules(content, self.path, day).rules
        except SourceError as error:
            hint = "Nothing was written."
            raise RequestError(422, "ParameterError", error.message, hint=hint) from error
        if written != tuple(rules):
            raise RequestError(422, "ParameterError", "these ids cannot be in a line of CSV")
        self.replace_by(self.path, content)

    def replace_by(self, file: Path, content: bytes) -> None:
        """Replace the rules, or a file beside them, in one step; it has their owner and rights."""
        old = self.path.stat()
        writing = file.with_name(file.name + WRITING)
        try:
            with writing.open("wb") as stream:
                os.fchmod(stream.fileno(), stat.S_IMODE(old.st_mode))
                if os.geteuid() == 0:
                    os.fchown(stream.fileno(), old.st_uid, old.st_gid)
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(writing, file)
        finally:
            writing.unlink(missing_ok=True)
        sync_folder(file.parent)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One editor of all workers at a time; the system frees the lock of an ended process."""
        deadline = time.monotonic() + PATIENCE
        try:
            with self.path.with_name(self.path.name + LOCK).open("a") as handle:
                while not _lock(handle.fileno()):
                    if time.monotonic() > deadline:
                        message = "somebody else is writing the rules"
                        raise RequestError(503, "Busy", message, hint="Try again.")
                    time.sleep(0.01)
                yield
        except OSError as error:
            why = printable(error.strerror or error)
            log.error("rules not written: %s: %s", printable(self.path), why)
            hint = "Look at the rules before you repeat it."
            message = f"the rules cannot be written: {why}"
            raise RequestError(500, "Fault", message, hint=hint) from error


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
