"""rules.csv as editors write it: one at a time, in one step, and never over an unseen change."""

from __future__ import annotations

import csv
import fcntl
import io
import logging
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path

from neatrec.atomic import sync_folder
from neatrec.errors import SourceError
from neatrec.service.problems import RequestError
from neatrec.service.rules import COLUMNS, Rule, Rules, parse_rules, read_rules
from neatrec.text import no_formula, printable

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that an edit waits for another one to be written."""
WRITING, LOCK = ".writing", ".lock"
"""Ends of the names of the files beside it: the new content, and the lock."""


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
