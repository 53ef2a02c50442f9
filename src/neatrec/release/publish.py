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

__all__ = ["publish", "rollback"]

log = logging.getLogger(__name__)


def publish(
    bundle: str | Path, store: str | Path, gate: PublishLimits | None = None
) -> dict[str, Any]:
    """Make a bundle live within the limits.

    Parameters
    ----------
    bundle
        The new bundle; one that was rolled back is refused.
    store
        The folder of the store, made if there is none. The first publish has no limits.
    gate
        Limits; None: those of the store's `gate.toml`, or the defaults.

    Returns
    -------
    dict
        The live version and its difference to the one before. "damaged" lists damaged versions:
        the new one is compared with the newest intact version then.
    """
    stored = BundleStore(store)
    with stored.locked():
        new = PairTable.open(bundle)
        _ = new.model  # the gate refuses whatever a service would refuse
        file = stored.gate_file
        limits = gate or (PublishLimits.read(file) if file.exists() else PublishLimits())
        live = stored.current()
        base, index, damaged = _newest_intact(stored, live)
        compared = {"compared_with": None if base is None else base.number, "damaged": damaged}
        if index is not None and base is not None and base == live and index.version == new.version:
            stored.prune()
            return {**_report(stored, base, None, published=False), **compared}
        _refuse_rolled_back(stored, new.version)
        change = None if index is None else compare(index, new)
        if change is not None:
            limits.check(change)
        version = stored.add(BundleFolder.of(bundle).readable())
        if read_manifest(version.folder, verify=False).content_hash != new.version:
            message = "not published: the bundle was replaced while it was being compared"
            raise GateError(message, hint="Publish again.")
        stored.make_live(version)
        stored.prune()
    return {**_report(stored, version, change, published=True), **compared}


def _refuse_rolled_back(stored: BundleStore, content_hash: str) -> None:
    """Publishing the same bundle again must not undo a rollback."""
    for version in stored.versions():
        if version.mark.exists() and _content_hash(version) == content_hash:
            again = f"`neatrec publish --rollback STORE --to {version.number}` makes it live again"
            message = f"not published: this bundle was rolled back as version {version.number}"
            raise GateError(message, hint=f"Publish another one, or {again}.")


def _content_hash(version: StoredVersion) -> str | None:
    try:
        return read_manifest(version.folder, verify=False).content_hash
    except BundleError as error:
        log.warning("version %d is damaged: %s", version.number, printable(error, 500))
        return None


def _newest_intact(
    stored: BundleStore, live: StoredVersion | None
) -> tuple[StoredVersion | None, PairTable | None, list[int]]:
    """The live version, or the newest intact one before it, its table, and the damaged ones."""
    damaged: list[int] = []
    for version in () if live is None else (live, *reversed(_earlier(stored, live))):
        try:
            return version, PairTable.open(version.folder), damaged
        except BundleError as error:
            damaged.append(version.number)
            named = f"version {version.number}{' (live)' if version == live else ''}"
            reason = printable(error, 500)
            log.warning("%s is damaged, comparing with an earlier one: %s", named, reason)
    return None, None, damaged


def _earlier(stored: BundleStore, live: StoredVersion | None) -> list[StoredVersion]:
    """The versions before the live one that were not rolled back, the oldest first."""
    number = 0 if live is None else live.number
    return [v for v in stored.versions() if v.number < number and not v.mark.exists()]


def rollback(store: str | Path, to: int | None = None) -> dict[str, Any]:
    """Make the version before the live one live, or version `to`, and report it.

    A version that was left this way is skipped by later rollbacks.
    """
    stored = BundleStore(store)
    if not stored.folder.is_dir():
        raise must_be("store", "a store that `neatrec publish` made", str(store))
    with stored.locked():
        target = _previous_version(stored) if to is None else _version_numbered(stored, to)
        PairTable.open(target.folder)  # refused where a service would refuse it
        if to is None and (live := stored.current()) is not None:
            live.mark.touch()
        target.mark.unlink(missing_ok=True)
        stored.make_live(target)
    return _report(stored, target, None, published=False)


def _previous_version(stored: BundleStore) -> StoredVersion:
    if earlier := _earlier(stored, stored.current()):
        return earlier[-1]
    message = f"{printable(stored.folder)} holds no version older than the live one"
    raise BundleError(message, hint="The live one is untouched.")


def _version_numbered(stored: BundleStore, number: int) -> StoredVersion:
    versions = {version.number: version for version in stored.versions()}
    if number not in versions:
        raise must_be("to", f"one of the versions {', '.join(map(str, versions)) or '-'}", number)
    return versions[number]


def _report(
    stored: BundleStore, live: StoredVersion, change: BundleDiff | None, *, published: bool
) -> dict[str, Any]:
    return {
        "store": str(stored.folder),
        "published": published,
        "live": live.number,
        "version": read_manifest(live.folder, verify=False).content_hash,
        "kept": [version.number for version in stored.versions()],
        "difference": None if change is None else change.to_json(),
    }
