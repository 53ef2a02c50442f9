"""How values are shown in tables: the same text in the page, in Markdown and in LaTeX."""

from __future__ import annotations

import math
from typing import Any

from neatrec.text import printable

NAME_LIMIT = 200
"""Names from data longer than this are cut off with an ellipsis."""
MISSING = "–"
"""What stands where there is no value."""


def show_text(value: object) -> str:
    """Text on one line, control characters made visible."""
    return printable(value, NAME_LIMIT)


def show_sentence(text: str) -> str:
    """A sentence of ours, which may hold names from data: on one line, control characters visible, never cut off."""
    return " ".join(show_text(word) for word in text.split())


def show_number(value: float, digits: int) -> str:
    """A number with `digits` decimals, thousands apart; a number that is none as a dash.

    >>> show_number(0.33449, 3), show_number(1234567.0, 0), show_number(float("nan"), 2)
    ('0.334', '1,234,567', '–')
    """
    if not math.isfinite(value):
        return MISSING
    text = f"{value:,.{digits}f}"
    # what rounds to nothing has no sign
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text


def show_p(value: float) -> str:
    """A p-value, with a floor where its digits mean nothing.

    >>> show_p(0.0312), show_p(0.00001)
    ('0.031', '< 0.001')
    """
    if not math.isfinite(value):
        return MISSING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def show_seconds(value: float) -> str:
    """A duration.

    >>> show_seconds(0.034), show_seconds(12.31), show_seconds(754)
    ('0.03 s', '12.3 s', '12 min 34 s')
    """
    if not math.isfinite(value):
        return MISSING
    if value < 60:
        return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"
    return f"{int(value // 60):,} min {int(value % 60)} s"


def show_share(value: float, digits: int) -> str:
    """A share in per cent.

    >>> show_share(0.30511, 3)
    '30.511 %'
    """
    return f"{show_number(100 * value, digits)} %" if math.isfinite(value) else MISSING


def show_interval(value: tuple[float, float, float], digits: int) -> str:
    """A mean and the ends of its interval.

    >>> show_interval((0.334, 0.3105, 0.3574), 3)
    '0.334 [0.310, 0.357]'
    """
    mean, low, high = value
    if not math.isfinite(low) or not math.isfinite(high):
        return show_number(mean, digits)
    return f"{show_number(mean, digits)} [{show_number(low, digits)}, {show_number(high, digits)}]"


def raw_number(value: Any) -> str:
    """A number as a CSV file keeps it: whole numbers whole, others with ten digits that count.

    >>> raw_number(12), raw_number(1 / 3), raw_number(float("nan"))
    ('12', '0.3333333333', '')
    """
    if isinstance(value, int):
        return str(value)
    return f"{value:.10g}" if math.isfinite(value) else ""
