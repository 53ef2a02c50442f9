"""`ReportTable`: rows of results under columns, as text for the page and as a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neatrec.text import no_formula, printable

NAME_LIMIT = 200
"""Characters of a name from data; longer ones end with an ellipsis."""
MISSING = "–"
"""Text of a missing value."""
Row = Mapping[str, Any]
"""Values by key; the ends of an interval are under `KEY_low` and `KEY_high`."""


def format_text(value: object) -> str:
    """Text on one line, with control characters made visible."""
    return printable(value, NAME_LIMIT)


def format_sentence(text: str) -> str:
    """A sentence that may hold names from data: made safe word by word, never cut off."""
    return " ".join(format_text(word) for word in text.split())


def format_number(value: float | None, digits: int = 0) -> str:
    """A number with `digits` decimals and thousands separators; a dash where there is none.

    >>> format_number(0.33449, 3), format_number(1234567.0), format_number(float("nan"))
    ('0.334', '1,234,567', '–')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    text = f"{value:,.{digits}f}"
    return text if text.strip("-0.") else text.lstrip("-")


def format_share(value: float | None, digits: int = 1) -> str:
    """A share in percent.

    >>> format_share(0.30511, 3), format_share(None)
    ('30.511 %', '–')
    """
    shown = format_number(None if value is None else 100 * value, digits)
    return shown if shown == MISSING else f"{shown} %"


def format_p(value: float | None) -> str:
    """A p-value, with a floor below which its digits mean nothing.

    >>> format_p(0.0312), format_p(0.00001)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if value is not None and value < 0.001 else format_number(value, 3)


def format_seconds(value: float | None) -> str:
    """A duration.

    >>> format_seconds(0.034), format_seconds(12.31), format_seconds(754)
    ('0.03 s', '12.3 s', '12 min 34 s')
    """
    if value is None or value < 60:
        shown = format_number(value, 2 if value is not None and value < 1 else 1)
        return shown if shown == MISSING else f"{shown} s"
    return f"{int(value // 60):,} min {int(value % 60)} s"


@dataclass(frozen=True)
class TableColumn:
    """One column: `key` names it in rows and files, `title` on the page."""

    key: str
    title: str = ""
    """Default: the key in words."""
    kind: str = "text"
    """One of text, number, share, interval, p, seconds."""
    digits: int = 0

    def __post_init__(self) -> None:
        """Derive the title from the key."""
        object.__setattr__(self, "title", self.title or self.key.replace("_", " ").capitalize())

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of a CSV file that hold this one."""
        if self.kind != "interval":
            return (self.key,)
        return self.key, f"{self.key}_low", f"{self.key}_high"

    def text(self, row: Row) -> str:
        """The cell of a row as people read it."""
        value = row.get(self.key)
        if self.kind == "text":
            return format_text(value) if value else MISSING
        if self.kind == "share":
            return format_share(value, self.digits)
        if self.kind == "p":
            return format_p(value)
        if self.kind == "seconds":
            return format_seconds(value)
        mean, *ends = (format_number(row.get(key), self.digits) for key in self.keys)
        return f"{mean} [{', '.join(ends)}]" if ends and MISSING not in ends else mean


def text(key: str, title: str = "") -> TableColumn:
    """A column of texts."""
    return TableColumn(key, title)


def number(key: str, title: str = "", digits: int = 0) -> TableColumn:
    """A column of numbers."""
    return TableColumn(key, title, "number", digits)


def share(key: str, title: str = "", digits: int = 1) -> TableColumn:
    """A column of shares, shown in percent."""
    return TableColumn(key, title, "share", digits)


def interval(key: str, title: str = "", digits: int = 3) -> TableColumn:
    """A column of means with their 95 % intervals."""
    return TableColumn(key, title, "interval", digits)


@dataclass(frozen=True)
class ReportTable:
    """A table by rows."""

    name: str
    """The name of its file and of its anchor on the page."""
    caption: str
    columns: Sequence[TableColumn]
    rows: Sequence[Row]
    note: str = ""
    compared: Sequence[str] = ()
    """Columns whose highest value is bold."""

    def text_rows(self) -> list[list[str]]:
        """The cells as people read them."""
        return [[column.text(row) for column in self.columns] for row in self.rows]

    def best_cells(self) -> set[tuple[int, int]]:
        """The (row, column) of the highest values; values that look equal are equal."""
        best = set()
        for place, column in enumerate(self.columns):
            if column.key not in self.compared:
                continue
            values = {n: row[column.key] for n, row in enumerate(self.rows) if row.get(column.key)}
            known = {n: value for n, value in values.items() if math.isfinite(value)}
            highest = format_number(max(known.values(), default=None), column.digits)
            shown = ((n, format_number(value, column.digits)) for n, value in known.items())
            best |= {(n, place) for n, cell in shown if cell == highest}
        return best

    def to_csv(self) -> str:
        """One line for the keys and one per row; numbers have all digits that count."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        keys = [key for column in self.columns for key in column.keys]
        writer.writerow(keys)
        writer.writerows([csv_cell(row.get(key)) for key in keys] for row in self.rows)
        return out.getvalue()


def csv_cell(value: Any) -> str:
    """A value as a CSV file holds it; text is never a formula.

    >>> csv_cell(12), csv_cell(1 / 3), csv_cell(float("nan")), csv_cell("=1+1")
    ('12', '0.3333333333', '', "'=1+1")
    """
    if isinstance(value, str):
        return no_formula(format_text(value))
    if value is None or not math.isfinite(value):
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)
