"""The numbers printed in the paper, and the marks that compare ours with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from neatrec.report.table import TableColumn


@cache
def paper_numbers() -> dict[str, Any]:
    """Tables and constants of the paper, read from `published.json`.

    >>> paper_numbers()["label_counts"]["INS-E"]["0.05"]
    7961
    """
    text = files("neatrec.reproduction").joinpath("published.json").read_text(encoding="utf-8")
    numbers: dict[str, Any] = json.loads(text)
    return numbers


EXACT = "exact"
CITED = "cited"
"""The mark of a row of the paper's that has one of ours below it."""
WALMART = "not checkable here, because the Walmart data are not public"
NO_PRIOR = "not checkable here, because order_products__prior is not in the folder"
MARK = TableColumn("mark", "Mark", "mark")

MARKS_NOTE = (
    "Every row is marked. Exact: the same quantity on the same data, equal to the digits printed in the paper (or "
    "within the tolerance in the note of the table). Comparable: the same quantity on other data or another "
    "split, so that sizes and order can be compared but digits cannot. Not checkable here: the data are missing, "
    "and the mark names them. A row that should be exact and is not is marked as differing."
)


def exact_or_differs(
    ours: Sequence[float | None], paper: Sequence[float | None], *, digits: int | None = None, share: float = 0.0
) -> str:
    """`exact` where all numbers agree when rounded to `digits` or within `share` of the paper's; else what differs.

    >>> exact_or_differs([0.00139], [0.0014], digits=4), exact_or_differs([5084.6], [5084.536], share=0.0005)
    ('exact', 'exact')
    >>> exact_or_differs([7960], [7961])
    'differs: 7,960 here, 7,961 in the paper'
    """
    for here, there in zip(ours, paper, strict=True):
        if there is not None and (here is None or not _agree(here, there, digits, share)):
            return f"differs: {_shown(here, digits)} here, {_shown(there, digits)} in the paper"
    return EXACT


def _shown(value: float | None, digits: int | None) -> str:
    if value is None:
        return "nothing"
    if digits is None:
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"
    return f"{value:,.{digits}f}"


def _agree(here: float, there: float, digits: int | None, share: float) -> bool:
    if digits is not None:
        # half a unit of the last printed digit, and a hair for what rounds at the very edge
        return abs(here - there) <= 0.5 * 10.0**-digits + 1e-9
    return abs(here - there) <= share * abs(there)


def comparable(why: str) -> str:
    """
    >>> comparable("other split")
    'comparable (other split)'
    """
    return f"comparable ({why})"


def not_checkable(why: str) -> str:
    """
    >>> not_checkable("no product has this name")
    'not checkable here, because no product has this name'
    """
    return f"not checkable here, because {why}"


def count_marks(marks: Sequence[str]) -> str:
    """How many rows have which mark, in words.

    >>> count_marks(["exact", "exact", "comparable (other split)", "differs: 1 here, 2 in the paper"])
    '2 rows are exact, 1 comparable, 0 not checkable here; 1 should be exact and differs.'
    """
    counts = [sum(mark.startswith(start) for mark in marks) for start in ("exact", "comparable", "not checkable")]
    wrong = sum(mark.startswith("differs") for mark in marks)
    text = f"{counts[0]} rows are exact, {counts[1]} comparable, {counts[2]} not checkable here"
    return text + (f"; {wrong} should be exact and {'differs' if wrong == 1 else 'differ'}." if wrong else ".")
