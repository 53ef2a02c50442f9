"""The live edition, and the watch that replaces it when a bundle, the rules, the list or the keys change."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Generic, TypeVar

from neatrec.errors import NeatrecError, ResourceError
from neatrec.service.api_keys import Keys, read_keys
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.metrics import Metrics
from neatrec.service.paths import Stamp, bundle_at, stamp_of
from neatrec.service.rules import Rules, read_available, read_rules
from neatrec.service.settings import ServiceSettings
from neatrec.service.snapshot import ServingSnapshot, make_edition
from neatrec.serving import ServingTable
from neatrec.text import printable

log = logging.getLogger(__name__)
Kept = TypeVar("Kept")
PASSING = {
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.EINTR,
    errno.EIO,
    errno.ESTALE,
    errno.ETIMEDOUT,
}
"""What the machine says when it is short of something for a while: no fault of the file."""


class Watched(Generic[Kept]):
    """Something read from a place, read again when the place changes; what was there stays when the new one is bad."""

    def __init__(
        self,
        place: Path,
        read: Callable[[Path], Kept],
        refused: Callable[[], None],
        what: str,
        named: Callable[[Kept], str] = lambda _: "",
    ) -> None:
        """`named`: what the log adds when something new was taken."""
        self.named = named
        self.place, self.read, self.refused, self.what = place, read, refused, what
        self.stamp: Stamp = stamp_of(place)
        self.troubled: tuple[Stamp] | None = None
        """The stamp of what could not be read for now; it is tried at every look, but said and counted once."""
        self.kept = read(place)

    def renewed(self) -> bool:
        """Whether something new was read just now."""
        stamp = stamp_of(self.place)
        if stamp == self.stamp:
            return False
        try:
            kept = self.read(self.place)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is said, and the old one answers on)
            self._refuse(stamp, error)
            return False
        self.kept, self.stamp, self.troubled = kept, stamp, None
        log.info("%s taken%s: %s", self.what, self.named(kept), printable(self.place))
        return True

    def _refuse(self, stamp: Stamp, error: Exception) -> None:
        again = may_pass(error)
        if not again:
            self.stamp = stamp  # a bad one is not tried again before it changes
        if again and self.troubled == (stamp,):
            return
        self.troubled = (stamp,) if again else None
        self.refused()
        then = "it is tried again at every look" if again else "it is not tried again before it changes"
        unforeseen = error if not isinstance(error, NeatrecError | OSError | MemoryError) else None
        said = printable(error, 500) or type(error).__name__
        place = printable(self.place)
        log.error("%s at %s refused, the old one stays; %s: %s", self.what, place, then, said, exc_info=unforeseen)


def may_pass(error: BaseException) -> bool:
    """Whether the same file may be read well later: the machine was short of something, or nobody foresaw the error."""
    if isinstance(error, ResourceError) or not isinstance(error, NeatrecError):
        return True
    cause: BaseException | None = error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno in PASSING):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


class BundleWatcher:
    """What is served. Requests read `edition` and `keys` once; a thread of its own puts new ones in their place."""

    def __init__(self, settings: ServiceSettings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.shelves = [
            Watched(place, _open, metrics.refused.inc, "bundle", lambda shelf: f", version {shelf.short}")
            for place in (settings.bundle, *settings.compare)
        ]
        self.rules = self._file(settings.rules, read_rules, "rules")
        self.available = self._file(settings.available, read_available, "available")
        self.key_file = self._file(settings.key_file, read_keys, "keys")
        self.keys: Keys = read_keys(None) if self.key_file is None else self.key_file.kept
        self.edition = self._edition(_today())
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._say_live()

    def _file(self, place: Path | None, read: Callable[[Path], Kept], what: str) -> Watched[Kept] | None:
        counter = self.metrics.bad_files.labels(what)
        return None if place is None else Watched(place, read, counter.inc, what)

    def _edition(self, day: date) -> ServingSnapshot:
        shelves: dict[str, LoadedBundle] = {}
        for watched in self.shelves:
            shelf = watched.kept
            if shelf.name in shelves:
                shelf = shelf.renamed(f"{shelf.name}-{len(shelves) + 1}")
            shelves[shelf.name] = shelf
        rules = Rules() if self.rules is None else self.rules.kept
        _say_unknown(rules, next(iter(shelves.values())), day)
        return make_edition(shelves, rules, None if self.available is None else self.available.kept, day)

    def look(self) -> bool:
        """Look once for something new; whether there was any."""
        swapped = [watched.renewed() for watched in self.shelves]
        decided = [watched.renewed() for watched in (self.rules, self.available) if watched is not None]
        if self.key_file is not None and self.key_file.renewed():
            self.keys = self.key_file.kept
        if not any([*swapped, *decided]) and self.edition.day == _today():
            return False
        edition = self._edition(_today())
        for shelf in edition.shelves.values():
            _ = shelf.search  # while the old edition still answers
        self.edition = edition
        if any(swapped):
            self.metrics.swaps.inc()
            self._say_live()
        return True

    def _say_live(self) -> None:
        main = self.edition.main
        self.metrics.live(main.short, main.index.manifest.created)

    def start(self) -> None:
        """Look for changes from now on."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._watch, name="neatrec-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        for shelf in self.edition.shelves.values():
            _ = shelf.search  # takes a moment with many items: not before the first answer, but before most searches
        while not self._stop.wait(self.settings.interval):
            try:
                self.look()
            except Exception:  # the watch must outlive whatever it meets; the live edition is untouched
                log.exception("looking for changes failed")


def _open(place: Path) -> LoadedBundle:
    shelf = LoadedBundle(ServingTable.open(bundle_at(place), verify=True))
    _ = shelf.graded, shelf.index.model  # made before the first request needs them
    return shelf


def _say_unknown(rules: Rules, main: LoadedBundle, day: date) -> None:
    """Catalogues change every night and rules need not, so this is no fault; but a wrong id should not go unseen."""
    unknown = rules.unknown(lambda item: main.code(item) is not None, day)
    if unknown:
        log.warning("rules: %d of %d name an id that the bundle does not hold", unknown, len(rules.today(day)))


def _today() -> date:
    return datetime.now(UTC).date()
