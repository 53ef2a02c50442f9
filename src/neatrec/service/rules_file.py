"""rules.csv as editors write it: one at a time, in one step, and never over an unseen change."""

from __future__ import annotations

import csv
import fcntl
import io
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from neatrec.atomic import sync_folder
from neatrec.errors import SourceError
from neatrec.service.problems import RequestError
from neatrec.service.rules import COLUMNS, EVERY, Rule, Rules, parse_rules, text_of
from neatrec.text import no_formula, printable

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that an edit waits for another one to be written."""
BOM = b"\xef\xbb\xbf"
WRITING, LOCK = ".writing", ".lock"
"""Ends of the names of the files beside it: the new content, and the lock."""


class EditConflictError(RequestError):
    """The file is not the one that the editor saw."""

    def __init__(self) -> None:
        message = "the rules have changed since this page was shown, and nothing was written"
        hint = "Load the page again, then repeat your edit."
        super().__init__(409, "Conflict", message, hint=hint)


@dataclass
class Edit:
    """The content of the file as it was read, and as it shall be."""

    before: bytes
    rules: Rules
    after: bytes = b""


class RulesFile:
    """The file; lines that somebody wrote by hand stay as they are."""

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
        with self.editing(version, day) as edit:
            if any((each.query, each.item, each.action) == same for each in edit.rules.today(day)):
                message = "there is such a rule already"
                raise RequestError(409, "Conflict", message, hint="Undo it first.")
            edit.after = _with_line(edit.before, rule, self.path)
            try:
                written = parse_rules(edit.after, self.path, day).rules[-1]
            except SourceError as error:
                hint = "Nothing was written."
                raise RequestError(422, "ParameterError", error.message, hint=hint) from error
            if replace(written, lines=rule.lines) != rule:
                raise RequestError(422, "ParameterError", "these ids cannot be in a line of CSV")

    def remove(self, line: int, version: str, day: date) -> Rule:
        """Remove the rule that begins in this line of the file of this version; returns it."""
        with self.editing(version, day) as edit:
            rule = next((each for each in edit.rules.rules if each.lines[0] == line), None)
            if rule is None:
                raise EditConflictError
            lines = text_of(edit.before, self.path).splitlines(keepends=True)
            edit.after = _as_before(edit.before, [*lines[: line - 1], *lines[rule.lines[1] :]])
            return rule

    @contextmanager
    def editing(self, version: str, day: date) -> Iterator[Edit]:
        """Replace the content of the file of this version; a crash leaves the old or the new."""
        writing = self.path.with_name(self.path.name + WRITING)
        try:
            with self.locked():
                edit = Edit(before := self.path.read_bytes(), self._parsed(before, day))
                if edit.rules.version != version:
                    raise EditConflictError
                yield edit
                try:
                    self.write(writing, edit.after)
                    self._put(writing, edit.before)
                finally:
                    writing.unlink(missing_ok=True)
                sync_folder(self.path.parent)
        except OSError as error:
            why = printable(error.strerror or error)
            log.error("rules not written: %s: %s", printable(self.path), why)
            hint = "Look at the rules before you repeat it."
            raise RequestError(
                500, "Fault", f"the rules cannot be written: {why}", hint=hint
            ) from error

    def _put(self, writing: Path, before: bytes) -> None:
        """Replace the file, unless somebody saved another one meanwhile."""
        if self.path.read_bytes() != before:
            raise EditConflictError
        os.replace(writing, self.path)

    def _parsed(self, content: bytes, day: date) -> Rules:
        try:
            return parse_rules(content, self.path, day)
        except SourceError as error:
            hint = "Correct the file by hand; it was not changed."
            raise RequestError(409, "Conflict", error.message, hint=hint) from error

    def write(self, file: Path, content: bytes) -> None:
        """Write a file beside the rules, with their owner and rights; it is on the disk then."""
        old = self.path.stat()
        with file.open("wb") as stream:
            os.fchmod(stream.fileno(), stat.S_IMODE(old.st_mode))
            if os.geteuid() == 0:
                os.fchown(stream.fileno(), old.st_uid, old.st_gid)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One editor of all workers at a time; the system frees the lock of an ended process."""
        deadline = time.monotonic() + PATIENCE
        with self.path.with_name(self.path.name + LOCK).open("a") as handle:
            while not _lock(handle.fileno()):
                if time.monotonic() > deadline:
                    message = "somebody else is writing the rules"
                    raise RequestError(503, "Busy", message, hint="Try again.")
                time.sleep(0.01)
            yield


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _with_line(content: bytes, rule: Rule, file: Path) -> bytes:
    """`content` with a line for `rule`; columns that are missing are added to the header."""
    lines = text_of(content, file).splitlines(keepends=True)
    header = lines[0].rstrip("\r\n")
    end = lines[0][len(header) :] or "\n"
    names = [name.strip().lower() for name in next(csv.reader([header]))]
    missing = [name for name in COLUMNS if name not in names]
    lines[0] = ",".join([header, *missing]) + end
    if not lines[-1].endswith(("\n", "\r")):
        lines[-1] += end
    position = rule.position if rule.action in ("pin", "boost") else ""
    cells = {**rule.__dict__, "position": position, "until": rule.until or ""}
    row = io.StringIO()
    csv.writer(row, lineterminator=end).writerow([cells[name] for name in [*names, *missing]])
    return _as_before(content, [*lines, row.getvalue()])


def _as_before(content: bytes, lines: list[str]) -> bytes:
    """`lines` as the file holds them, with its mark of UTF-8."""
    return (BOM if content.startswith(BOM) else b"") + "".join(lines).encode("utf-8")


def words_of(rule: Rule) -> str:
    """The effect of a rule, in words.

    >>> words_of(Rule("a", "b", "boost", 2)), words_of(Rule("*", "b", "block"))
    ('2 places up', 'hidden everywhere')
    """
    every = " everywhere" if rule.query == EVERY else ""
    if rule.action == "pin":
        return f"pinned to place {rule.position}"
    if rule.action == "boost":
        return f"{rule.position} place{'' if rule.position == 1 else 's'} up{every}"
    return {"block": "hidden", "note": "note"}[rule.action] + every
