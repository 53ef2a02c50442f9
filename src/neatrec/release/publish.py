"""`neatrec publish`, which makes a bundle live within the limits, and rollback."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from neatrec.bundle import read_manifest
from neatrec.bundle.folder import BundleFolder
from neatrec.bundle.versions import StoredVersion
from neatrec.errors import BundleError, GateError, must_be
from neatrec.release.diff import BundleDiff, compare
from neatrec.release.limits import PublishLimits
from neatrec.release.store import BundleStore
from neatrec.serving import PairTable
from neatrec.text import printable

log = logging.getLogger(__name__)


def publish(
    bundle: str | Path, store: str | Path, gate: PublishLimits | None = None
) -> dict[str, Any]:
    """Make the bundle live and report it; `GateError` where a limit is violated, and the live one stays.

    A bundle that was rolled back is not published again. `gate` None: the limits of the store's `gate.toml`, or the
    defaults. The first publish has no limits. A damaged live version is reported under "damaged", and the newest intact
    one before it is compared instead.
    """
    place = BundleStore(store)
    with place.locked():
        new = PairTable.open(bundle)
        _ = (
            new.model
        )  # read and tried out: the gate lets nothing through that a service would refuse
        limits = gate or (
            PublishLimits.read(place.gate_file) if place.gate_file.exists() else PublishLimits()
        )
        live = place.current()
        base, index, damaged = _newest_intact(place, live)
        compared = {"compared_with": None if base is None else base.number, "damaged": damaged}
        if index is not None and base is not None and base == live and index.version == new.version:
            return {**_report(place, base, None, published=False), **compared}
        _refuse_rolled_back(place, new.version)
        change = None if index is None else compare(index, new)
        if change is not None:
            limits.check(change)
        version = place.add(BundleFolder.of(bundle).readable())
        if read_manifest(version.folder, verify=False).content_hash != new.version:
            raise GateError(
                "not published: the bundle was replaced while it was being compared",
                hint="Publish again.",
            )
        place.make_live(version)
        place.prune()
    return {**_report(place, version, change, published=True), **compared}


def _refuse_rolled_back(place: BundleStore, content_hash: str) -> None:
    """Publishing the same bundle again must not undo a rollback."""
    for version in place.versions():
        if version.mark.exists() and _content_hash(version) == content_hash:
            raise GateError(
                f"not published: this bundle was rolled back as version {version.number}",
                hint=f"Publish another one, or `neatrec publish --rollback STORE --to {version.number}` makes it live "
                "again.",
            )


def _content_hash(version: StoredVersion) -> str | None:
    try:
        return read_manifest(version.folder, verify=False).content_hash
    except BundleError as error:
        log.warning("version %d is damaged: %s", version.number, printable(error, 500))
        return None


def _newest_intact(
    place: BundleStore, live: StoredVersion | None
) -> tuple[StoredVersion | None, PairTable | None, list[int]]:
    """The live version, or the newest intact one before it that was not rolled back; and the damaged ones."""
    damaged: list[int] = []
    if live is None:
        return None, None, damaged
    earlier = [
        v for v in reversed(place.versions()) if v.number < live.number and not v.mark.exists()
    ]
    for version in (live, *earlier):
        try:
            return version, PairTable.open(version.folder), damaged
        except BundleError as error:
            damaged.append(version.number)
            what = f"version {version.number}{' (live)' if version == live else ''} is damaged"
            log.warning("%s, comparing with an earlier one: %s", what, printable(error, 500))
    return None, None, damaged


def rollback(store: str | Path, to: int | None = None) -> dict[str, Any]:
    """Make the version before the live one, or version `to`, live and report it; later rollbacks skip the one left."""
    place = BundleStore(store)
    if not place.folder.is_dir():
        raise must_be("store", "a store that `neatrec publish` made", str(store))
    with place.locked():
        versions = place.versions()
        target = (
            _version_numbered(versions, to)
            if to is not None
            else _previous_version(place, versions)
        )
        PairTable.open(target.folder)  # refused where a service would refuse it
        if to is None and (live := place.current()) is not None:
            live.mark.touch()
        target.mark.unlink(missing_ok=True)
        place.make_live(target)
    return _report(place, target, None, published=False)


def _previous_version(place: BundleStore, versions: list[StoredVersion]) -> StoredVersion:
    live = place.current()
    earlier = [
        v for v in versions if live is not None and v.number < live.number and not v.mark.exists()
    ]
    if not earlier:
        raise BundleError(
            f"{printable(place.folder)} holds no version before the live one",
            hint="The live one is untouched.",
        )
    return earlier[-1]


def _version_numbered(versions: list[StoredVersion], number: int) -> StoredVersion:
    for version in versions:
        if version.number == number:
            return version
    raise must_be(
        "to",
        f"one of the versions {', '.join(str(v.number) for v in versions) or '(none)'}",
        number,
    )


def _report(
    place: BundleStore, live: StoredVersion, change: BundleDiff | None, *, published: bool
) -> dict[str, Any]:
    return {
        "store": str(place.folder),
        "published": published,
        "live": live.number,
        "version": read_manifest(live.folder, verify=False).content_hash,
        "kept": [version.number for version in place.versions()],
        "difference": None if change is None else change.to_json(),
    }
