"""`ReportTable`: rows of results under columns, as text for the page and as a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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


class TableColumn(NamedTuple):
    """One column: `key` names it in rows and files, `heading` on the page."""

    key: str
    kind: str = "text"
    """One of text, number, share, interval, p."""
    digits: int = 0
    title: str = ""

    @property
    def heading(self) -> str:
        """The title; by default the key in words."""
        return self.title or self.key.replace("_", " ").capitalize()

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
        if self.kind == "p":  # smaller digits mean nothing
            return "< 0.001" if value is not None and value < 0.001 else format_number(value, 3)
        mean, *ends = (format_number(row.get(key), self.digits) for key in self.keys)
        return f"{mean} [{', '.join(ends)}]" if ends and MISSING not in ends else mean


class ReportTable(NamedTuple):
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
        for number, column in enumerate(self.columns):
            if column.key not in self.compared:
                continue
            values = [row.get(column.key) or math.nan for row in self.rows]
            highest = max((value for value in values if not math.isnan(value)), default=None)
            cells = [format_number(value, column.digits) for value in values]
            shown = format_number(highest, column.digits)
            best |= {(n, number) for n, cell in enumerate(cells) if cell == shown != MISSING}
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
