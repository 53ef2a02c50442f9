"""The limits of `neatrec publish`: how far a new bundle may differ from the live one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from neatrec.errors import GateError, ParameterError, SourceError, must_be, must_be_one_of
from neatrec.io.options import read_toml
from neatrec.release.diff import BundleDiff
from neatrec.text import printable


@dataclass(frozen=True)
class PublishLimits:
    """Limits, as shares: 0.2 is 20 percent."""

    rows_fall: float = 0.2
    """How far the training lines may fall, as a share of the live bundle's."""
    rows_rise: float = 1.0
    """How far they may rise."""
    items_fall: float = 0.1
    """How far the number of bought items may fall."""
    items_rise: float = 1.0
    """How far it may rise."""
    coverage_fall: float = 0.05
    """How far the share of sales with evidence may fall, absolutely."""
    top10_changed: float = 0.5
    """The largest share of changed top ten answers, weighted by sales."""
    file: str | None = field(default=None, compare=False)
    """The file of the limits; None: the defaults, or the caller's."""

    def __post_init__(self) -> None:
        for name in limit_names():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise must_be(name, "a number of at least 0", value)

    @classmethod
    def read(cls, file: str | Path) -> PublishLimits:
        """The limits of a TOML file; the others stay at their defaults."""
        file = Path(file)
        settings = read_toml(file)
        try:
            return replace(cls.make(settings), file=str(file))
        except ParameterError as error:
            raise SourceError(
                f"{printable(file)}: {error.message}", hint=error.hint, file=str(file)
            ) from error

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> PublishLimits:
        for name in settings:
            if name not in limit_names():
                raise must_be_one_of("limit", limit_names(), name)
        return cls(**settings)

    def violations(self, change: BundleDiff) -> list[str]:
        """One sentence per violated limit."""
        found = [
            *_out_of_range("training lines", change.rows, self.rows_fall, self.rows_rise, "rows"),
            *_out_of_range("bought items", change.items, self.items_fall, self.items_rise, "items"),
        ]
        old, new = change.coverage
        if old - new > self.coverage_fall:
            found.append(
                f"sales with evidence fell from {old:.1%} to {new:.1%} (coverage_fall = {self.coverage_fall:g})"
            )
        if change.top10_changed > self.top10_changed:
            found.append(
                f"{change.top10_changed:.1%} of the top ten answers changed (top10_changed = {self.top10_changed:g})"
            )
        return found

    def _origin(self) -> str:
        if self.file is not None:
            return f"the limits come from {printable(self.file)}."
        return (
            "these are the default limits: set others in gate.toml in the store, or by --gate FILE."
        )

    def check(self, change: BundleDiff) -> None:
        if reasons := self.violations(change):
            raise GateError(
                "not published: " + "; ".join(reasons),
                hint=f"The live bundle is untouched. `neatrec publish --diff` shows the changes; {self._origin()}",
                reasons=reasons,
            )


def limit_names() -> list[str]:
    return [entry.name for entry in fields(PublishLimits) if entry.name != "file"]


def _out_of_range(
    what: str, numbers: tuple[int, int], fall: float, rise: float, key: str
) -> list[str]:
    old, new = numbers
    if new < old * (1 - fall):
        return [f"{what} fell from {old:,} to {new:,} ({key}_fall = {fall:g})"]
    if new > old * (1 + rise):
        return [f"{what} rose from {old:,} to {new:,} ({key}_rise = {rise:g})"]
    return []
