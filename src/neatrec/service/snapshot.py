"""Everything one request answers from, taken once: no answer mixes two versions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date

from neatrec._version import __version__
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.rules import Rules, compile_rules
from neatrec.serving import ShopRules


@dataclass(frozen=True, eq=False)
class ServingSnapshot:
    """A bundle and the shop's rules for it."""

    bundle: LoadedBundle
    rules: ShopRules
    written: Rules
    """The rules as they stand in their file."""
    day: date
    refusal: str | None = None
    """Why the bundle that should be live is not: an older one answers."""
    tag: bytes = b""
    """The entity tag of all answers; it changes with bundles, rules, list, day and neatrec."""


def make_snapshot(
    bundle: LoadedBundle,
    rules: Rules,
    available: frozenset[str] | None,
    day: date,
    refusal: str | None = None,
) -> ServingSnapshot:
    """The snapshot of `day`: rules and list looked up in the bundle."""
    # answers also name the time of a training, which its version does not cover, and what is new
    earlier = bundle.pairs.earlier and bundle.pairs.earlier.version
    versions = (bundle.version, bundle.index.manifest.created, earlier)
    listed = None if available is None else sorted(available)
    decisive = repr((__version__, versions, rules, listed, day.isoformat()))
    tag = f'"{hashlib.sha256(decisive.encode("utf-8", "replace")).hexdigest()[:32]}"'.encode()
    compiled = compile_rules(bundle, rules, available, day)
    return ServingSnapshot(bundle, compiled, rules, day, refusal, tag)
