"""The live snapshot, and the thread that replaces it when a bundle, the rules, the list or the keys change."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Generic, TypeVar

from neatrec.bundle.manifest import NAME
from neatrec.errors import NeatrecError, ResourceError
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.metrics import Metrics
from neatrec.service.middleware import Keys, read_keys
from neatrec.service.rules import Rules, read_available, read_rules
from neatrec.service.settings import ServiceSettings
from neatrec.service.snapshot import ServingSnapshot, make_snapshot
from neatrec.serving import ServingTable
from neatrec.text import printable

log = logging.getLogger(__name__)
Value = TypeVar("Value")

CURRENT = "current"
"""The link in a store that names the live bundle."""

Stamp = tuple[str, int, int, int] | None


def bundle_at(place: Path) -> Path:
    """The bundle to open: that of a store's `current`, or the place itself."""
    return place / CURRENT if not (place / NAME).exists() and (place / CURRENT).exists() else place


def stamp_of(place: Path) -> Stamp:
    """What changes when `place` changes: real path, file number, time, size. None: nothing is there."""
    try:
        if place.is_file():
            file = place
        else:
            file = Path(os.path.realpath(bundle_at(place))) / NAME
        found = file.stat()
    except OSError:
        return None
    return str(file), found.st_ino, found.st_mtime_ns, found.st_size


TRANSIENT = {
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.EINTR,
    errno.EIO,
    errno.ESTALE,
    errno.ETIMEDOUT,
}
"""Errors of a machine that is short of something for a while: the file may be good."""


class Watched(Generic[Value]):
    """Something read from a path, read again when the path changes; the old value stays when the new one is bad."""

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], Value],
        refused: Callable[[], None],
        what: str,
        describe: Callable[[Value], str] = lambda _: "",
    ) -> None:
        """`refused` counts bad files; `describe`: what the log adds about a new value."""
        self.path, self.read, self.refused, self.what, self.describe = path, read, refused, what, describe
        self.stamp: Stamp = stamp_of(path)
        self.failing: tuple[Stamp] | None = None
        """The stamp of what could not be read for now; it is tried at every check, but logged and counted once."""
        self.value = read(path)

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
        self.value, self.stamp, self.failing = value, stamp, None
        log.info("%s loaded%s: %s", self.what, self.describe(value), printable(self.path))
        return True

    def _refuse(self, stamp: Stamp, error: Exception) -> None:
        again = is_transient(error)
        if not again:
            self.stamp = stamp  # a bad one is not tried again before it changes
        if again and self.failing == (stamp,):
            return
        self.failing = (stamp,) if again else None
        self.refused()
        then = "it is tried again at every check" if again else "it is not tried again before it changes"
        unforeseen = error if not isinstance(error, NeatrecError | OSError | MemoryError) else None
        message, path = printable(error, 500) or type(error).__name__, printable(self.path)
        log.error("%s at %s refused, the old one stays; %s: %s", self.what, path, then, message, exc_info=unforeseen)


def is_transient(error: BaseException) -> bool:
    """Whether the same file may be readable later: the machine was short of something, or the error is unforeseen."""
    if isinstance(error, ResourceError) or not isinstance(error, NeatrecError):
        return True
    cause: BaseException | None = error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno in TRANSIENT):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


class BundleWatcher:
    """What is served. Requests read `snapshot` and `keys` once; a thread of its own replaces them."""

    def __init__(self, settings: ServiceSettings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.bundles = [
            Watched(path, _open, metrics.refused.inc, "bundle", lambda bundle: f", version {bundle.short}")
            for path in (settings.bundle, *settings.compare)
        ]
        self.rules = self._file(settings.rules, read_rules, "rules")
        self.available = self._file(settings.available, read_available, "available")
        self.key_file = self._file(settings.key_file, read_keys, "keys")
        self.keys: Keys = read_keys(None) if self.key_file is None else self.key_file.value
        self.snapshot = self._snapshot(_today())
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._count_live()

    def _file(self, path: Path | None, read: Callable[[Path], Value], what: str) -> Watched[Value] | None:
        counter = self.metrics.bad_files.labels(what)
        return None if path is None else Watched(path, read, counter.inc, what)

    def _snapshot(self, day: date) -> ServingSnapshot:
        bundles: dict[str, LoadedBundle] = {}
        for watched in self.bundles:
            bundle = watched.value
            if bundle.name in bundles:
                bundle = bundle.renamed(f"{bundle.name}-{len(bundles) + 1}")
            bundles[bundle.name] = bundle
        rules = Rules() if self.rules is None else self.rules.value
        _log_unknown(rules, next(iter(bundles.values())), day)
        return make_snapshot(bundles, rules, None if self.available is None else self.available.value, day)

    def check(self) -> bool:
        """Check once for changes; whether there was any."""
        swapped = [watched.reload() for watched in self.bundles]
        changed = [watched.reload() for watched in (self.rules, self.available) if watched is not None]
        if self.key_file is not None and self.key_file.reload():
            self.keys = self.key_file.value
        if not any([*swapped, *changed]) and self.snapshot.day == _today():
            return False
        snapshot = self._snapshot(_today())
        for bundle in snapshot.bundles.values():
            _ = bundle.search  # while the old snapshot still answers
        self.snapshot = snapshot
        if any(swapped):
            self.metrics.swaps.inc()
            self._count_live()
        return True

    def _count_live(self) -> None:
        main = self.snapshot.main
        self.metrics.live(main.short, main.index.manifest.created)

    def start(self) -> None:
        """Check for changes from now on."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._watch, name="neatrec-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        for bundle in self.snapshot.bundles.values():
            _ = bundle.search  # takes a moment with many items: not before the first answer, but before most searches
        while not self._stop.wait(self.settings.interval):
            try:
                self.check()
            except Exception:  # the thread must survive any error; the live snapshot is untouched
                log.exception("checking for changes failed")


def _open(path: Path) -> LoadedBundle:
    bundle = LoadedBundle(ServingTable.open(bundle_at(path), verify=True))
    _ = bundle.graded, bundle.index.model  # made before the first request needs them
    return bundle


def _log_unknown(rules: Rules, main: LoadedBundle, day: date) -> None:
    """Catalogues change every night and rules need not, so this is no fault; but a wrong id should not go unseen."""
    unknown = rules.unknown(lambda item: main.code(item) is not None, day)
    if unknown:
        log.warning("rules: %d of %d name an id that the bundle does not hold", unknown, len(rules.today(day)))


def _today() -> date:
    return datetime.now(UTC).date()
