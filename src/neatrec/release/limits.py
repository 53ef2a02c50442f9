"""The publish gate: how far a new bundle may differ from the live one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from neatrec.errors import GateError, ParameterError, SourceError, must_be, must_be_one_of
from neatrec.release.diff import BundleDiff
from neatrec.text import printable


@dataclass(frozen=True)
class PublishLimits:
    """Limits; a share of .2 is 20 percent."""

    rows_fall: float = 0.2
    """Fewer training lines than the live bundle had, at most by this share of them."""
    rows_rise: float = 1.0
    """More training lines, at most by this share."""
    items_fall: float = 0.1
    """Fewer items that are bought, at most by this share."""
    items_rise: float = 1.0
    """More of them, at most by this share."""
    coverage_fall: float = 0.05
    """The share of sales with evidence may fall by this much."""
    held_out_fall: float = 0.05
    """The held-out measure, where both bundles have one, may fall by this share of it."""
    top10_changed: float = 0.5
    """Of the first ten answers, weighed by sales, at most this share may be new."""
    file: str | None = field(default=None, compare=False)
    """Where the limits were read; None: they are neatrec's own, or the caller's."""
    asked: frozenset[str] = field(default=frozenset(), compare=False)
    """The limits that somebody wrote down."""

    def __post_init__(self) -> None:
        for name in limits():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise must_be(name, "a number of at least 0", value)

    @classmethod
    def read(cls, file: str | Path) -> PublishLimits:
        """The limits of a TOML file; what it does not say stays at the default."""
        file = Path(file)
        try:
            settings = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise SourceError(f"cannot read {printable(file)}: {printable(error.strerror)}", file=str(file)) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SourceError(f"{printable(file)} is not TOML: {printable(error)}", file=str(file)) from error
        try:
            return replace(cls.make(settings), file=str(file))
        except ParameterError as error:
            raise SourceError(f"{printable(file)}: {error.message}", hint=error.hint, file=str(file)) from error

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> PublishLimits:
        """The limits that `settings` name."""
        for name in settings:
            if name not in limits():
                raise must_be_one_of("limit", limits(), name)
        return cls(**settings, asked=frozenset(settings))

    def refusals(self, change: BundleDiff) -> list[str]:
        """A sentence for each limit that is passed."""
        found = [
            *_moved("training lines", change.rows, self.rows_fall, self.rows_rise, "rows"),
            *_moved("bought items", change.items, self.items_fall, self.items_rise, "items"),
        ]
        old, new = change.coverage
        if old - new > self.coverage_fall:
            found.append(
                f"sales with evidence fell from {old:.1%} to {new:.1%} (coverage_fall = {self.coverage_fall:g})"
            )
        if change.held_out is not None:
            old, new = change.held_out
            if new < old * (1 - self.held_out_fall):
                found.append(
                    f"the held-out measure fell from {old:.4f} to {new:.4f} (held_out_fall = {self.held_out_fall:g})"
                )
        if change.held_out_note is not None and "held_out_fall" in self.asked:
            found.append(f"the held-out measure cannot be compared, and held_out_fall is set: {change.held_out_note}")
        if change.top10_changed > self.top10_changed:
            found.append(
                f"{change.top10_changed:.1%} of the first ten answers changed (top10_changed = {self.top10_changed:g})"
            )
        return found

    def _where(self) -> str:
        if self.file is not None:
            return f"the limits are those of {printable(self.file)}."
        return "the limits are neatrec's own: write others into gate.toml in the store, or give --gate FILE."

    def check(self, change: BundleDiff) -> None:
        """Raise `GateError` with every reason when a limit is passed."""
        if reasons := self.refusals(change):
            raise GateError(
                "not published: " + "; ".join(reasons),
                hint=f"The live bundle is untouched. Look with `neatrec diff`; {self._where()}",
                reasons=reasons,
            )


def limits() -> list[str]:
    """The names of the limits."""
    return [entry.name for entry in fields(PublishLimits) if entry.name not in ("file", "asked")]


def _moved(what: str, numbers: tuple[int, int], fall: float, rise: float, key: str) -> list[str]:
    old, new = numbers
    if new < old * (1 - fall):
        return [f"{what} fell from {old:,} to {new:,} ({key}_fall = {fall:g})"]
    if new > old * (1 + rise):
        return [f"{what} rose from {old:,} to {new:,} ({key}_rise = {rise:g})"]
    return []
