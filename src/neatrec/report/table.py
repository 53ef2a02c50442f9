"""`ReportTable`: columns, rows and a caption, shown alike in the page, as CSV, as Markdown and as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neatrec.errors import ParameterError, must_be_one_of
from neatrec.report.show import (
    MISSING,
    raw_number,
    show_interval,
    show_number,
    show_p,
    show_seconds,
    show_share,
    show_text,
)

JSON_ROWS = 500
"""Rows of a table that are copied into `run.json`, and from there into a bundle."""
KINDS = ("text", "number", "share", "interval", "p", "seconds", "mark")
"""`text` comes from anywhere and is escaped; `interval` is (mean, low, high); `mark` is a short verdict."""


@dataclass(frozen=True)
class TableColumn:
    """One column: `key` names it in files, `title` is read by people."""

    key: str
    title: str
    kind: str = "text"
    digits: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise must_be_one_of("kind", KINDS, self.kind)

    @property
    def is_numeric(self) -> bool:
        return self.kind not in ("text", "mark")

    def show(self, value: Any) -> str:
        """`value` as people read it; text is not yet escaped for a format."""
        if value is None or value == "":
            return MISSING
        if self.kind in ("text", "mark"):
            return show_text(value)
        if self.kind == "interval":
            return show_interval(value, self.digits)
        if self.kind == "p":
            return show_p(value)
        if self.kind == "seconds":
            return show_seconds(value)
        return show_share(value, self.digits) if self.kind == "share" else show_number(value, self.digits)

    def raw_keys(self) -> tuple[str, ...]:
        """The columns of a CSV file that hold this one."""
        return (self.key, f"{self.key}_low", f"{self.key}_high") if self.kind == "interval" else (self.key,)

    def raw(self, value: Any) -> tuple[str, ...]:
        """`value` as a CSV file keeps it, one text for each of `raw_keys`."""
        if value is None:
            return ("",) * len(self.raw_keys())
        if self.kind in ("text", "mark"):
            return (show_text(value),)
        return tuple(raw_number(number) for number in (value if self.kind == "interval" else (value,)))


@dataclass(frozen=True)
class ReportTable:
    """A table by rows. `best` holds the cells, as (row, column), that stand in bold."""

    name: str
    """The name of its files, and of its place in the page."""
    caption: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()
    best: frozenset[tuple[int, int]] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "columns", tuple(self.columns))
        keep(self, "rows", tuple(tuple(_plain(value) for value in row) for row in self.rows))
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ParameterError(
                    f"row {number} of table {self.name!r} must have {len(self.columns)} cells, got {len(row)}"
                )

    def to_json(self) -> dict[str, Any]:
        """Caption, titles of the columns and text of the first JSON_ROWS rows."""
        titles = [column.title for column in self.columns]
        return {"caption": self.caption, "columns": titles, "rows": self.text_rows()[:JSON_ROWS]}

    def text_rows(self) -> list[list[str]]:
        """All cells as text."""
        return [[column.show(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]


def _plain(value: Any) -> Any:
    """NumPy scalars as Python's own, also inside an interval; numbers with the digits that a CSV file keeps.

    So what is shown can be made again from the file, to the last digit.
    """
    if isinstance(value, tuple):
        return tuple(_plain(part) for part in value)
    value = value.item() if isinstance(value, np.generic) else value
    return float(f"{value:.10g}") if isinstance(value, float) else value


def best_cells(columns: Sequence[TableColumn], rows: Sequence[Sequence[Any]], keys: Sequence[str]) -> frozenset[Any]:
    """The cells of `keys` with the highest value of their column, as (row, column); all of them where several are."""
    out = set()
    for place, column in enumerate(columns):
        if column.key not in keys:
            continue
        values = [row[place] for row in rows]
        numbers = [np.nan if v is None else v[0] if isinstance(v, tuple) else v for v in values]
        if not rows or np.isnan(numbers).all() or np.nanmax(numbers) == 0:  # where all have nothing, none is best
            continue
        # equal as shown is equal: bold must not claim more than the digits do
        highest = show_number(float(np.nanmax(numbers)), column.digits)
        out |= {(row, place) for row, number in enumerate(numbers) if show_number(number, column.digits) == highest}
    return frozenset(out)
