"""`neatrec publish` and `neatrec rollback`: a new bundle goes live inside the gate, and back."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from neatrec.bundle import read_manifest
from neatrec.bundle.folder import BundleFolder
from neatrec.errors import BundleError, GateError, must_be
from neatrec.release.diff import BundleDiff, compare
from neatrec.release.limits import PublishLimits
from neatrec.release.store import BundleStore, StoredVersion
from neatrec.serving import ServingTable
from neatrec.text import printable

log = logging.getLogger(__name__)


def publish(bundle: str | Path, store: str | Path, gate: PublishLimits | None = None) -> dict[str, Any]:
    """What was published: the bundle is live now, or `GateError` says why it is not and the live one stays.

    One that was rolled back is not published again. `gate` None: the limits of the store's `gate.toml`, or defaults.
    The first publish passes. Where the live one is damaged, the new one is compared with the newest before it that is
    whole: "damaged" names those that are not.
    """
    place = BundleStore(store)
    with place.locked():
        new = ServingTable.open(bundle)
        limits = gate or (PublishLimits.read(place.gate_file) if place.gate_file.exists() else PublishLimits())
        live = place.current()
        base, index, damaged = _newest_whole(place, live)
        compared = {"compared_with": None if base is None else base.number, "damaged": damaged}
        if index is not None and base is not None and base == live and index.version == new.version:
            log.info("%s is live already", printable(bundle))
            return {**_answer(place, base, None, published=False), **compared}
        _refuse_withdrawn(place, new.version)
        change = None if index is None else compare(index, new)
        if change is not None:
            if change.held_out_note is not None:
                log.warning("the held-out measure was not compared: %s", change.held_out_note)
            limits.check(change)
        version = place.add(BundleFolder.of(bundle).readable())
        if read_manifest(version.folder, verify=False).content_hash != new.version:
            raise GateError("not published: the bundle was replaced while it was being compared", hint="Publish again.")
        place.make_live(version)
        place.prune()
    log.info("version %d is live", version.number)
    return {**_answer(place, version, change, published=True), **compared}


def _refuse_withdrawn(place: BundleStore, content_hash: str) -> None:
    """A job that publishes once more must not undo a rollback."""
    for version in place.versions():
        if version.mark.exists() and read_manifest(version.folder, verify=False).content_hash == content_hash:
            raise GateError(
                f"not published: this bundle was rolled back as version {version.number}",
                hint=f"Publish another one, or `neatrec rollback STORE --to {version.number}` makes it live again.",
            )


def _newest_whole(
    place: BundleStore, live: StoredVersion | None
) -> tuple[StoredVersion | None, ServingTable | None, list[int]]:
    """The live version, or the newest before it that verifies and was not rolled back; and the damaged ones."""
    damaged: list[int] = []
    if live is None:
        return None, None, damaged
    earlier = [v for v in reversed(place.versions()) if v.number < live.number and not v.mark.exists()]
    for version in (live, *earlier):
        try:
            return version, ServingTable.open(version.folder), damaged
        except BundleError as error:
            damaged.append(version.number)
            what = f"version {version.number}{', the live one,' if version == live else ''} is damaged"
            log.warning("%s, the new one is compared with an earlier one: %s", what, printable(error, 500))
    return None, None, damaged


def rollback(store: str | Path, to: int | None = None) -> dict[str, Any]:
    """What is live now: the version before the live one, or version `to`; the one left is not returned to."""
    place = BundleStore(store)
    if not place.folder.is_dir():
        raise must_be("store", "a store that `neatrec publish` made", str(store))
    with place.locked():
        versions = place.versions()
        target = _named(versions, to) if to is not None else _before(place, versions)
        read_manifest(target.folder)  # whole, or refused by the file's name
        if to is None and (live := place.current()) is not None:
            live.mark.touch()
        target.mark.unlink(missing_ok=True)
        place.make_live(target)
    log.info("version %d is live", target.number)
    return _answer(place, target, None, published=False)


def _before(place: BundleStore, versions: list[StoredVersion]) -> StoredVersion:
    live = place.current()
    earlier = [v for v in versions if live is not None and v.number < live.number and not v.mark.exists()]
    if not earlier:
        raise BundleError(
            f"{printable(place.folder)} holds no version before the live one", hint="The live one is untouched."
        )
    return earlier[-1]


def _named(versions: list[StoredVersion], number: int) -> StoredVersion:
    for version in versions:
        if version.number == number:
            return version
    raise must_be("to", f"one of the versions {', '.join(str(v.number) for v in versions) or '(none)'}", number)


def _answer(place: BundleStore, live: StoredVersion, change: BundleDiff | None, *, published: bool) -> dict[str, Any]:
    return {
        "store": str(place.folder),
        "published": published,
        "live": live.number,
        "version": read_manifest(live.folder, verify=False).content_hash,
        "kept": [version.number for version in place.versions()],
        "difference": None if change is None else change.to_json(),
    }
