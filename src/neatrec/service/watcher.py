"""The live snapshot, and the thread that replaces it when bundle, rules, list or keys change."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from neatrec.bundle.manifest import NAME
from neatrec.bundle.versions import CURRENT, StoredVersion, bundle_in, versions_of
from neatrec.errors import NeatrecError
from neatrec.service.keys import Keys, read_editor_keys, read_keys
from neatrec.service.metrics import Metrics
from neatrec.service.rules import read_available, read_rules
from neatrec.service.settings import ServiceSettings
from neatrec.service.snapshot import LoadedBundle, ServingSnapshot, compile_rules
from neatrec.serving import PairTable
from neatrec.text import printable

__all__ = ["BundleWatcher"]

log = logging.getLogger(__name__)

RETRY = 60.0
"""Seconds until content that was refused is tried again although it did not change."""
Value = TypeVar("Value")
Stamp = tuple[tuple[str, int, int, int], ...] | None


def stamp_of(path: Path | None) -> Stamp:
    """Path, file number, time and size of a file, or of each file of a bundle; None: absent."""
    if path is None:
        return None
    try:
        folder = Path(os.path.realpath(bundle_in(path)))
        if folder.is_file():
            files = [folder]
        else:
            files = [folder / NAME, *sorted(folder.glob("*")), *sorted(folder.glob("*/*"))]
        found = [(str(file), file.lstat()) for file in files]
    except OSError:
        return None
    return tuple(
        (file, status.st_ino, status.st_mtime_ns, status.st_size) for file, status in found
    )


class Watched(Generic[Value]):
    """A value read from a path, again when that changes; a bad one leaves the old value."""

    def __init__(
        self,
        path: Path | None,
        read: Callable[[Any], Value],
        refused: Callable[[], None],
        what: str,
        fall_back: Callable[[Any, Exception], Value] | None = None,
    ) -> None:
        """`refused` counts bad files; `fall_back` gives a value where the first one is bad."""
        self.path, self.read, self.refused, self.what = path, read, refused, what
        self.refusal: str | None = None
        """Why the current content of the path is not used."""
        self.stamp: Stamp = stamp_of(path)
        self.bad: Stamp = None
        self.again = 0.0
        """The stamp of content that was refused, and when it is tried again: the machine may have
        been short of something."""
        try:
            self.value = read(path)
        except Exception as error:
            if fall_back is None:
                raise
            self.value, self.refusal = fall_back(path, error), printable(error, 500)
            self.stamp, self.bad, self.again = (), self.stamp, time.monotonic() + RETRY
            refused()

    def reload(self) -> bool:
        """Read again if the path changed; whether there is a new value."""
        stamp = stamp_of(self.path)
        if stamp == self.stamp:
            self.refusal = None
            return False
        if stamp == self.bad and time.monotonic() < self.again:
            return False
        try:
            self.value = self.read(self.path)
        except Exception as error:
            self.bad, self.again = stamp, time.monotonic() + RETRY
            self.refusal = printable(error, 500) or type(error).__name__
            self.refused()
            what = f"{self.what} at {printable(self.path)} refused, the old one stays"
            log.error("%s: %s", what, self.refusal, exc_info=not isinstance(error, NeatrecError))
            return False
        self.stamp, self.refusal = stamp, None
        log.info("%s loaded: %s", self.what, printable(self.path))
        return True


class BundleWatcher:
    """The source of all answers. Requests read `snapshot` and `keys`; a thread replaces them."""

    def __init__(self, settings: ServiceSettings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.bundle = Watched(
            settings.bundle, _open, metrics.refused.inc, "bundle", fall_back=_open_older
        )
        self.rules = self._file(settings.rules, read_rules, "rules")
        self.available = self._file(settings.available, read_available, "available")
        self.key_file = self._file(settings.key_file, read_keys, "keys")
        self.editor_key_file = self._file(settings.editor_key_file, read_editor_keys, "editor keys")
        self._lock = threading.Lock()
        """Held while rules or list are read again and the snapshot is replaced."""
        self.snapshot = self._snapshot(_today())
        self._stop = threading.Event()
        self._count_live()

    def _file(
        self, path: Path | None, read: Callable[[Path | None], Value], what: str
    ) -> Watched[Value]:
        return Watched(path, read, self.metrics.bad_files.labels(what).inc, what)

    @property
    def keys(self) -> Keys:
        """The keys of those who read."""
        return self.key_file.value

    @property
    def editor_keys(self) -> Keys:
        """The keys of those who edit rules."""
        return self.editor_key_file.value

    def _snapshot(self, day: date) -> ServingSnapshot:
        bundle, rules = self.bundle.value, self.rules.value
        if unknown := rules.unknown(lambda item: bundle.code(item) is not None, day):
            # catalogues change every night and rules need not, but a wrong id must not go unseen
            words = "rules: %d of %d name an id that the bundle does not hold"
            log.warning(words, unknown, len(rules.today(day)))
        compiled = compile_rules(bundle, rules, self.available.value, day)
        return ServingSnapshot(bundle, compiled, rules, day, self._refusal())

    def _refusal(self) -> str | None:
        """Why the bundle that should be live is not."""
        self.metrics.refusing.set(self.bundle.refusal is not None)
        return self.bundle.refusal

    def check(self) -> bool:
        """Check once for changes; whether there was any."""
        swapped = self.bundle.reload()
        if swapped:
            _ = self.bundle.value.search  # while the old snapshot still answers
        self.key_file.reload()
        self.editor_key_file.reload()
        with self._lock:
            changed = [self.rules.reload(), self.available.reload()]
            if not any([swapped, *changed]) and self.snapshot.day == _today():
                if (refusal := self._refusal()) != self.snapshot.refusal:
                    self.snapshot = replace(self.snapshot, refusal=refusal)
                return False
            self.snapshot = self._snapshot(_today())
        if swapped:
            log.info("version %s answers", self.snapshot.bundle.short)
            self.metrics.swaps.inc()
            self._count_live()
        return True

    def rules_changed(self) -> bool:
        """Whether the file of editable rules is not the one that was read.

        A request looks each time, so that an edit holds at once in every worker.
        """
        seen = (self.rules.stamp, self.rules.bad)
        return self.settings.editor_key_file is not None and stamp_of(self.rules.path) not in seen

    def take_rules(self) -> None:
        """Read the rules again, if they changed, and answer by them from now on."""
        with self._lock:
            if self.rules.reload():
                self.snapshot = self._snapshot(self.snapshot.day)

    def _count_live(self) -> None:
        self.metrics.live(self.snapshot.bundle.index.manifest.created)

    @asynccontextmanager
    async def running(self, _: Any) -> AsyncIterator[None]:
        """Look for changes in a thread while the application runs."""
        self._stop.clear()
        thread = threading.Thread(target=self._watch, name="neatrec-watch", daemon=True)
        thread.start()
        yield
        self._stop.set()
        thread.join()

    def _watch(self) -> None:
        _ = self.snapshot.bundle.search  # takes a moment with many items: before most searches
        while not self._stop.wait(self.settings.interval):
            try:
                self.check()
            except Exception:  # the thread must survive any error; the live snapshot is untouched
                log.exception("checking for changes failed")


def _open(path: Path) -> LoadedBundle:
    index = PairTable.open(bundle_in(path), verify=True)
    bundle = LoadedBundle(index, _before(path))
    # made before the first request needs them
    _ = index.model, bundle.code_of_name
    return bundle


def other_versions(store: Path) -> list[StoredVersion]:
    """The versions of a store that are neither live nor rolled back, the newest first."""
    live = os.path.realpath(store / CURRENT)
    others = [each for each in versions_of(store) if os.path.realpath(each.folder) != live]
    return [each for each in others if not each.mark.exists()][::-1]


def _before(store: Path) -> PairTable | None:
    """The version before the live one of a store; None where there is none that can be read."""
    number = Path(os.path.realpath(store / CURRENT)).name.partition("-")[0]
    live = int(number) if number.isdecimal() else 0
    older = [each.folder for each in other_versions(store) if each.number <= live]
    if not older:
        return None
    try:
        return PairTable.open(older[0])
    except (NeatrecError, OSError, MemoryError) as error:  # it is only compared with, not served
        name = printable(older[0].name)
        log.warning("version %s is not compared with: %s", name, printable(error, 500))
        return None


def _open_older(path: Path, error: Exception) -> LoadedBundle:
    """The newest other version of a store that verifies, where the live one is bad."""
    versions, why = other_versions(path), printable(error, 500)
    if not versions:
        raise error
    for version in versions:
        name = printable(version.folder.name)
        try:
            bundle = _open(version.folder)
        except Exception as refusal:  # noqa: BLE001 (it is logged, and the next one is tried)
            log.warning("version %s refused: %s", name, printable(refusal, 500))
            continue
        log.error("the live bundle is refused, serving version %s: %s", name, why)
        return bundle
    message = f"no version of {printable(path)} can be served: {why}"
    raise NeatrecError(message, hint="Publish a new bundle.") from error


def _today() -> date:
    return datetime.now(UTC).date()
