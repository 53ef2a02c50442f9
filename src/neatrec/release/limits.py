"""The limits of `neatrec publish`: how far a new bundle may differ from the live one."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

from neatrec.errors import GateError, ParameterError, SourceError, must_be, must_be_one_of
from neatrec.io.options import read_toml
from neatrec.release.diff import BundleDiff
from neatrec.text import printable

__all__ = ["PublishLimits"]


@dataclass(frozen=True)
class PublishLimits:
    """Limits, as shares: 0.2 is 20 percent."""

    rows_fall: float = 0.2
    """Largest fall of the training lines, as a share of the live bundle's."""
    rows_rise: float = 1.0
    """Largest rise of the training lines."""
    items_fall: float = 0.1
    """Largest fall of the number of bought items."""
    items_rise: float = 1.0
    """Largest rise of the number of bought items."""
    coverage_fall: float = 0.05
    """Largest fall of the share of sales with evidence, in absolute terms."""
    top10_changed: float = 0.5
    """Largest share of changed top ten answers, weighted by sales."""
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
        settings = read_toml(Path(file))
        try:
            for name in settings:
                if name not in limit_names():
                    raise must_be_one_of("limit", limit_names(), name)
            return cls(**settings, file=str(file))
        except ParameterError as error:
            message = f"{printable(file)}: {error.message}"
            raise SourceError(message, hint=error.hint, file=str(file)) from error

    def violations(self, change: BundleDiff) -> list[str]:
        """One sentence per violated limit."""
        found = [
            *_out_of_range("training lines", change.rows, self.rows_fall, self.rows_rise, "rows"),
            *_out_of_range("bought items", change.items, self.items_fall, self.items_rise, "items"),
        ]
        old, new = change.coverage
        if old - new > self.coverage_fall:
            fell = f"sales with evidence fell from {old:.1%} to {new:.1%}"
            found.append(f"{fell} (coverage_fall = {self.coverage_fall:g})")
        if change.top10_changed > self.top10_changed:
            changed = f"{change.top10_changed:.1%} of the top ten answers changed"
            found.append(f"{changed} (top10_changed = {self.top10_changed:g})")
        return found

    def check(self, change: BundleDiff) -> None:
        """Refuse a bundle that violates a limit."""
        reasons = self.violations(change)
        if not reasons:
            return
        origin = "these are the default limits: set others in gate.toml in the store, or by --gate."
        if self.file is not None:
            origin = f"the limits come from {printable(self.file)}."
        shown = "`neatrec publish --diff` shows the changes"
        raise GateError(
            f"not published: {'; '.join(reasons)}",
            hint=f"The live bundle is untouched. {shown}; {origin}",
            reasons=reasons,
        )


def limit_names() -> list[str]:
    """The names that a file of limits may hold."""
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
