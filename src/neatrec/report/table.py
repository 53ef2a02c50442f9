"""`ReportTable`: columns, rows and a caption, as text for the page and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neatrec.errors import ParameterError, must_be_one_of
from neatrec.text import no_formula, printable

NAME_LIMIT = 200
"""Names from data longer than this are cut off with an ellipsis."""
MISSING = "–"
"""Text of a missing value."""


def format_text(value: object) -> str:
    """Text on one line, control characters made visible."""
    return printable(value, NAME_LIMIT)


def format_sentence(text: str) -> str:
    """A sentence of ours, which may hold names from data: on one line, control characters visible, never cut off."""
    return " ".join(format_text(word) for word in text.split())


def format_number(value: float, digits: int) -> str:
    """A number with `digits` decimals, thousands apart; a number that is none as a dash.

    >>> format_number(0.33449, 3), format_number(1234567.0, 0), format_number(float("nan"), 2)
    ('0.334', '1,234,567', '–')
    """
    if not math.isfinite(value):
        return MISSING
    text = f"{value:,.{digits}f}"
    # what rounds to nothing has no sign
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text


def format_p(value: float) -> str:
    """A p-value, with a floor where its digits mean nothing.

    >>> format_p(0.0312), format_p(0.00001)
    ('0.031', '< 0.001')
    """
    if not math.isfinite(value):
        return MISSING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def format_seconds(value: float) -> str:
    """A duration.

    >>> format_seconds(0.034), format_seconds(12.31), format_seconds(754)
    ('0.03 s', '12.3 s', '12 min 34 s')
    """
    if not math.isfinite(value):
        return MISSING
    if value < 60:
        return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"
    return f"{int(value // 60):,} min {int(value % 60)} s"


def format_share(value: float, digits: int) -> str:
    """A share in per cent.

    >>> format_share(0.30511, 3)
    '30.511 %'
    """
    return f"{format_number(100 * value, digits)} %" if math.isfinite(value) else MISSING


def format_interval(value: tuple[float, float, float], digits: int) -> str:
    """A mean and the ends of its interval.

    >>> format_interval((0.334, 0.3105, 0.3574), 3)
    '0.334 [0.310, 0.357]'
    """
    mean, low, high = value
    if not math.isfinite(low) or not math.isfinite(high):
        return format_number(mean, digits)
    return f"{format_number(mean, digits)} [{format_number(low, digits)}, {format_number(high, digits)}]"


def raw_number(value: Any) -> str:
    """A number as a CSV file keeps it: whole numbers whole, others with ten digits that count.

    >>> raw_number(12), raw_number(1 / 3), raw_number(float("nan"))
    ('12', '0.3333333333', '')
    """
    if isinstance(value, int):
        return str(value)
    return f"{value:.10g}" if math.isfinite(value) else ""


KINDS = ("text", "number", "share", "interval", "p", "seconds")
"""`text` comes from anywhere and is escaped; `interval` is (mean, low, high)."""


@dataclass(frozen=True)
class TableColumn:
    """One column: `key` names it in files, `title` (default: the key in words) is read by people."""

    key: str
    title: str = ""
    kind: str = "text"
    digits: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise must_be_one_of("kind", KINDS, self.kind)
        object.__setattr__(self, "title", self.title or self.key.replace("_", " ").capitalize())

    @property
    def is_numeric(self) -> bool:
        return self.kind != "text"

    def text(self, value: Any) -> str:
        """`value` as text, not yet escaped for a format."""
        if value is None or value == "":
            return MISSING
        if self.kind == "text":
            return format_text(value)
        if self.kind == "interval":
            return format_interval(value, self.digits)
        if self.kind == "p":
            return format_p(value)
        if self.kind == "seconds":
            return format_seconds(value)
        return (
            format_share(value, self.digits)
            if self.kind == "share"
            else format_number(value, self.digits)
        )

    def raw_keys(self) -> tuple[str, ...]:
        """The columns of a CSV file that hold this one."""
        return (
            (self.key, f"{self.key}_low", f"{self.key}_high")
            if self.kind == "interval"
            else (self.key,)
        )

    def raw(self, value: Any) -> tuple[str, ...]:
        """`value` as a CSV file keeps it, one text for each of `raw_keys`."""
        if value is None:
            return ("",) * len(self.raw_keys())
        if self.kind == "text":
            return (format_text(value),)
        return tuple(
            raw_number(number) for number in (value if self.kind == "interval" else (value,))
        )


def text(key: str, title: str = "") -> TableColumn:
    return TableColumn(key, title)


def number(key: str, title: str = "", digits: int = 0) -> TableColumn:
    """
    >>> number("most_of_one_query").title
    'Most of one query'
    """
    return TableColumn(key, title, "number", digits)


def share(key: str, title: str = "", digits: int = 1) -> TableColumn:
    return TableColumn(key, title, "share", digits)


def interval(key: str, title: str = "", digits: int = 3) -> TableColumn:
    return TableColumn(key, title, "interval", digits)


@dataclass(frozen=True)
class ReportTable:
    """A table by rows; `best` holds the cells in bold, as (row, column)."""

    name: str
    """The name of its files, and of its place in the page."""
    caption: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()
    best: frozenset[tuple[int, int]] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        rows = tuple(tuple(_plain(value) for value in row) for row in self.rows)
        object.__setattr__(self, "rows", rows)
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ParameterError(
                    f"row {number} of table {self.name!r} must have {len(self.columns)} cells, got {len(row)}"
                )

    def text_rows(self) -> list[list[str]]:
        return [
            [column.text(value) for column, value in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]


def _plain(value: Any) -> Any:
    """NumPy scalars as Python's own, also inside an interval; numbers with the digits that a CSV file keeps.

    So what is shown can be made again from the file, to the last digit.
    """
    if isinstance(value, tuple):
        return tuple(_plain(part) for part in value)
    value = value.item() if isinstance(value, np.generic) else value
    return float(f"{value:.10g}") if isinstance(value, float) else value


def best_cells(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Any]], keys: Sequence[str]
) -> frozenset[Any]:
    """The cells of `keys` with the highest value of their column, as (row, column); all of them where several are."""
    out = set()
    for place, column in enumerate(columns):
        if column.key not in keys:
            continue
        values = [row[place] for row in rows]
        numbers = [np.nan if v is None else v[0] if isinstance(v, tuple) else v for v in values]
        if (
            not rows or np.isnan(numbers).all() or np.nanmax(numbers) == 0
        ):  # where all have nothing, none is best
            continue
        # equal as shown is equal: bold must not claim more than the digits do
        highest = format_number(float(np.nanmax(numbers)), column.digits)
        out |= {
            (row, place)
            for row, number in enumerate(numbers)
            if format_number(number, column.digits) == highest
        }
    return frozenset(out)


def to_csv(table: ReportTable) -> str:
    """One line for the keys, one for each row; intervals as three columns; numbers with all digits that count."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([key for column in table.columns for key in column.raw_keys()])
    for row in table.rows:
        cells = []
        for column, value in zip(table.columns, row, strict=True):
            raw = column.raw(value)
            cells += list(raw) if column.is_numeric else [no_formula(text) for text in raw]
        writer.writerow(cells)
    return out.getvalue()
