"""The live snapshot, and the thread that replaces it when a bundle, the rules, the list or the keys change."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from neatrec.bundle import read_manifest
from neatrec.bundle.manifest import NAME
from neatrec.bundle.versions import CURRENT, StoredVersion, bundle_in, versions_of
from neatrec.errors import NeatrecError, ResourceError
from neatrec.service.keys import Keys, read_keys
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.metrics import Metrics
from neatrec.service.rules import Rules, read_available, read_rules
from neatrec.service.settings import ServiceSettings
from neatrec.service.snapshot import ServingSnapshot, make_snapshot
from neatrec.serving import PairTable
from neatrec.text import printable

log = logging.getLogger(__name__)
Value = TypeVar("Value")

Stamp = tuple[tuple[str, int, int, int], ...] | None


def other_versions(store: Path) -> list[StoredVersion]:
    """The versions of a store that are not live and were not rolled back, the newest first; none of a bundle."""
    live = os.path.realpath(store / CURRENT)
    found = [
        each
        for each in versions_of(store)
        if not each.mark.exists() and os.path.realpath(each.folder) != live
    ]
    return found[::-1]


def stamp_of(place: Path | None) -> Stamp:
    """What changes when a file at `place` or in the bundle there changes: real path, file number, time, size.

    None: nothing is there.
    """
    if place is None:
        return None
    try:
        folder = Path(os.path.realpath(bundle_in(place)))
        if folder.is_file():  # of a link what it leads to: that is what changes
            files = [folder]
        else:
            files = [folder / NAME, *sorted(folder.glob("*")), *sorted(folder.glob("*/*"))]
        found = [(str(file), file.lstat()) for file in files]
    except OSError:
        return None
    return tuple(
        (file, status.st_ino, status.st_mtime_ns, status.st_size) for file, status in found
    )


TRANSIENT = {
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
    *(errno.EINTR, errno.EIO, errno.ESTALE, errno.ETIMEDOUT),
}
"""Errors of a machine that is short of something for a while: the file may be good."""


class Watched(Generic[Value]):
    """Something read from a path, read again when the path changes; the old value stays when the new one is bad."""

    def __init__(
        self,
        path: Path | None,
        read: Callable[[Any], Value],
        refused: Callable[[], None],
        what: str,
        describe: Callable[[Value], str] = lambda _: "",
        fall_back: Callable[[Any, Exception], Value] | None = None,
    ) -> None:
        """`refused` counts bad files; `describe`: what the log adds about a new value; `fall_back`: what is used where
        the first one is bad.
        """
        self.path, self.read, self.refused, self.what, self.describe = (
            path,
            read,
            refused,
            what,
            describe,
        )
        self.refusal: str | None = None
        """Why what is at the path now is not used."""
        self.stamp: Stamp = stamp_of(path)
        self.failing: tuple[Stamp] | None = None
        """The stamp of what could not be read for now; it is tried at every check, but logged and counted once."""
        try:
            self.value = read(path)
        except Exception as error:
            if fall_back is None:
                raise
            self.value, self.refusal = fall_back(path, error), printable(error, 500)
            refused()

    def reload(self) -> bool:
        """Read again if the path changed; whether there is a new value."""
        stamp = stamp_of(self.path)
        if stamp == self.stamp:
            return False
        try:
            value = self.read(self.path)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is logged, and the old value stays)
            self._refuse(stamp, error)
            return False
        self.value, self.stamp, self.failing, self.refusal = value, stamp, None, None
        log.info("%s loaded%s: %s", self.what, self.describe(value), printable(self.path))
        return True

    def _refuse(self, stamp: Stamp, error: Exception) -> None:
        again = is_transient(error)
        if not again:
            self.stamp = stamp  # a bad one is not tried again before it changes
        if again and self.failing == (stamp,):
            return
        message = printable(error, 500) or type(error).__name__
        self.failing, self.refusal = (stamp,) if again else None, message
        self.refused()
        then = (
            "it is tried again at every check"
            if again
            else "it is not tried again before it changes"
        )
        unforeseen = error if not isinstance(error, NeatrecError | OSError | MemoryError) else None
        where = f"{self.what} at {printable(self.path)}"
        log.error(
            "%s refused, the old one stays; %s: %s", where, then, message, exc_info=unforeseen
        )


def is_transient(error: BaseException) -> bool:
    """Whether the same file may be readable later: the machine was short of something, or the error is unforeseen."""
    if isinstance(error, ResourceError) or not isinstance(error, NeatrecError):
        return True
    cause: BaseException | None = error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, MemoryError) or (
            isinstance(cause, OSError) and cause.errno in TRANSIENT
        ):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


class BundleWatcher:
    """What is served. Requests read `snapshot` and `keys` once; a thread of its own replaces them."""

    def __init__(self, settings: ServiceSettings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.bundle = Watched(
            settings.bundle,
            _open,
            metrics.refused.inc,
            "bundle",
            lambda bundle: f", version {bundle.short}",
            _open_older,
        )
        self.rules = self._file(settings.rules, read_rules, "rules", without=Rules())
        self.available: Watched[frozenset[str] | None] = self._file(
            settings.available, read_available, "available", without=None
        )
        # without a file those of the environment, which nobody reads where there is one
        self.key_file = Watched(
            settings.key_file, read_keys, self.metrics.bad_files.labels("keys").inc, "keys"
        )
        read_editor_keys = partial(read_keys, argument="editor-key-file")
        self.editor_key_file = self._file(
            settings.editor_key_file, read_editor_keys, "editor keys", without=Keys()
        )
        self._lock = threading.Lock()
        """Held while rules or list are read again and the snapshot is replaced: requests do so too."""
        self._rules_stat = self._stat_rules()
        self.snapshot = self._snapshot(_today())
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._count_live()

    def _file(
        self, path: Path | None, read: Callable[[Path], Value], what: str, *, without: Value
    ) -> Watched[Value]:
        refused = self.metrics.bad_files.labels(what).inc
        return Watched(path, lambda path: without if path is None else read(path), refused, what)

    @property
    def keys(self) -> Keys:
        return self.key_file.value

    @property
    def editor_keys(self) -> Keys:
        return self.editor_key_file.value

    def _snapshot(self, day: date) -> ServingSnapshot:
        bundle, rules = self.bundle.value, self.rules.value
        if unknown := rules.unknown(lambda item: bundle.code(item) is not None, day):
            # catalogues change every night and rules need not: no fault, but a wrong id should not go unseen
            log.warning(
                "rules: %d of %d name an id that the bundle does not hold",
                unknown,
                len(rules.today(day)),
            )
        return make_snapshot(bundle, rules, self.available.value, day, self._refusal())

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
            self.metrics.swaps.inc()
            self._count_live()
        return True

    def rules_changed(self) -> bool:
        """Whether somebody may edit the rules and their file is not the one that was read: a request looks each time,
        so that an edit holds at once in every worker."""
        return self.settings.editor_key_file is not None and self._stat_rules() != self._rules_stat

    def take_rules(self) -> None:
        """Read the rules again, if they changed, and answer by them from now on."""
        with self._lock:
            self._rules_stat = self._stat_rules()
            if self.rules.reload():
                self.snapshot = self._snapshot(self.snapshot.day)

    def _stat_rules(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self.settings.rules or "")
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _count_live(self) -> None:
        self.metrics.live(self.snapshot.bundle.index.manifest.created)

    def start(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._watch, name="neatrec-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        # takes a moment with many items: not before the first answer, but before most searches
        _ = self.snapshot.bundle.search
        while not self._stop.wait(self.settings.interval):
            try:
                self.check()
            except Exception:  # the thread must survive any error; the live snapshot is untouched
                log.exception("checking for changes failed")


_opened: WeakValueDictionary[str, PairTable] = WeakValueDictionary()
"""Tables that are served, by version: at a swap the new one is compared with the one in memory, not with a copy."""


def _open(path: Path) -> LoadedBundle:
    index = PairTable.open(bundle_in(path), verify=True)
    bundle = LoadedBundle(index, _before(path))
    _opened[index.version] = index
    # made before the first request needs them
    _ = index.category, index.model, bundle.code_of_name
    return bundle


def _before(place: Path) -> PairTable | None:
    """The version before the live one of a store; None where there is none that can be read."""
    number = Path(os.path.realpath(place / CURRENT)).name.partition("-")[0]
    older = [
        each.folder
        for each in other_versions(place)
        if number.isdecimal() and each.number <= int(number)
    ]
    if not older:
        return None
    try:
        served = _opened.get(read_manifest(older[0]).content_hash)
        return PairTable.open(older[0]) if served is None else served
    except (NeatrecError, OSError, MemoryError) as error:  # it is only compared with, not served
        log.warning(
            "version %s is not compared with: %s", printable(older[0].name), printable(error, 500)
        )
        return None


def _open_older(path: Path, error: Exception) -> LoadedBundle:
    """The newest other version of a store that verifies, where the live one is bad."""
    folders = [version.folder for version in other_versions(path)]
    if not folders:
        raise error
    for version in folders:
        try:
            bundle = _open(version)
        except Exception as refusal:  # noqa: BLE001 (whatever it is, it is logged, and the next one is tried)
            log.warning("version %s refused: %s", printable(version.name), printable(refusal, 500))
            continue
        log.error(
            "the live bundle is refused, serving version %s: %s",
            printable(version.name),
            printable(error, 500),
        )
        return bundle
    raise NeatrecError(
        f"no version of {printable(path)} can be served: {printable(error, 500)}",
        hint="Publish a new bundle.",
    ) from error


def _today() -> date:
    return datetime.now(UTC).date()
