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
from dataclasses import replace
from datetime import date
from pathlib import Path

from neatrec.atomic import sync_folder
from neatrec.errors import SourceError
from neatrec.service.problems import RequestError
from neatrec.service.rules import COLUMNS, Rule, Rules, parse_rules, text_of
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
        with self.locked():
            before, rules = self._read(version, day)
            if any((each.query, each.item, each.action) == same for each in rules.today(day)):
                message = "there is such a rule already"
                raise RequestError(409, "Conflict", message, hint="Undo it first.")
            after = _with_line(before, rule, self.path)
            try:
                written = parse_rules(after, self.path, day).rules[-1]
            except SourceError as error:
                hint = "Nothing was written."
                raise RequestError(422, "ParameterError", error.message, hint=hint) from error
            if replace(written, lines=rule.lines) != rule:
                raise RequestError(422, "ParameterError", "these ids cannot be in a line of CSV")
            self.replace_by(self.path, after)

    def remove(self, line: int, version: str, day: date) -> Rule:
        """Remove the rule that begins in this line of the file of this version; returns it."""
        with self.locked():
            before, rules = self._read(version, day)
            rule = next((each for each in rules.rules if each.lines[0] == line), None)
            if rule is None:
                raise EditConflictError
            lines = text_of(before, self.path).splitlines(keepends=True)
            self.replace_by(
                self.path, _as_before(before, [*lines[: line - 1], *lines[rule.lines[1] :]])
            )
            return rule

    def _read(self, version: str, day: date) -> tuple[bytes, Rules]:
        """The content of the file, and its rules, which must equal those that the editor saw."""
        content = self.path.read_bytes()
        try:
            rules = parse_rules(content, self.path, day)
        except SourceError as error:
            hint = "Correct the file by hand; it was not changed."
            raise RequestError(409, "Conflict", error.message, hint=hint) from error
        if rules.version != version:
            raise EditConflictError
        return content, rules

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
