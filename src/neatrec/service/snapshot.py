"""Everything one request answers from, taken once: no answer mixes two versions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from neatrec._version import __version__
from neatrec.service.byte_cache import ByteCache
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.problems import unknown_choice
from neatrec.service.rules import CompiledRules, Rules, compile_rules
from neatrec.service.settings import CACHE_BYTES


class Rendered(NamedTuple):
    """An answer as it goes out, and what the metrics count of it."""

    body: bytes
    grades: Mapping[str, int]
    is_short: bool
    rule_hits: tuple[str, ...]
    version: str


@dataclass(frozen=True, eq=False)
class ServingSnapshot:
    """Bundles by model name (the first one answers when none is named), and the shop's rules for each."""

    bundles: Mapping[str, LoadedBundle]
    rules: Mapping[str, CompiledRules]
    written: Rules
    """The rules as they stand in their file."""
    day: date
    refusal: str | None = None
    """Why the bundle that should be live is not: an older one answers."""
    cache: ByteCache[bytes, Rendered] = field(default_factory=lambda: ByteCache(CACHE_BYTES))
    """Answers by query string."""
    tag: bytes = b""
    """The entity tag of all answers: another one where a bundle, what it is compared with, a rule, the list, the day or
    neatrec changes."""

    @property
    def main(self) -> LoadedBundle:
        return next(iter(self.bundles.values()))

    def bundle(self, model: str | None) -> LoadedBundle:
        """The bundle of a model that must be served, else a 404."""
        if model is None:
            return self.main
        if model not in self.bundles:
            raise unknown_choice("model", list(self.bundles), model, status=404)
        return self.bundles[model]


def make_snapshot(
    bundles: Mapping[str, LoadedBundle],
    rules: Rules,
    available: frozenset[str] | None,
    day: date,
    refusal: str | None = None,
    *,
    public: bool = False,
) -> ServingSnapshot:
    """The snapshot of `day`: rules and list looked up in each bundle."""
    # answers also name the time of a training, which its version does not cover, and what is new since the one before
    versions = [
        (name, bundle.version, bundle.index.manifest.created, bundle.pairs.earlier and bundle.pairs.earlier.version)
        for name, bundle in bundles.items()
    ]
    listed = None if available is None else sorted(available)
    decisive = repr((__version__, versions, rules, listed, day.isoformat(), public))
    tag = f'"{hashlib.sha256(decisive.encode("utf-8", "replace")).hexdigest()[:32]}"'.encode()
    compiled = {name: compile_rules(bundle, rules, available, day) for name, bundle in bundles.items()}
    return ServingSnapshot(bundles, compiled, rules, day, refusal, tag=tag)
