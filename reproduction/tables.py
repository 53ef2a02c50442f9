"""Tables whose rows are marked against the paper, and the folder they are written into."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

EXACT = "exact"
WALMART = "not checkable here, because the Walmart data are not public"
NO_PRIOR = "not checkable here, because order_products__prior is not in the folder"
LEGEND = (
    "Exact: the same data, equal to the digits printed in the paper. Comparable: other data or "
    "another split. Not checkable: the data are missing. Differs: should be exact and is not."
)


class Table(NamedTuple):
    """Rows with a caption; the last column of a table that is compared with the paper is `mark`."""

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    @property
    def marks(self) -> list[str]:
        """The mark of each row; none for a table of ours alone."""
        return [row[-1] for row in self.rows] if self.columns[-1] == "mark" else []


@cache
def paper_numbers() -> dict[str, Any]:
    """Tables and constants of the paper.

    >>> paper_numbers()["label_counts"]["INS-E"]["0.05"]
    7961
    """
    numbers: dict[str, Any] = json.loads(Path(__file__).with_name("paper.json").read_text("utf-8"))
    return numbers


def compared(
    ours: Sequence[float | None],
    paper: Sequence[float],
    *,
    digits: int | None = None,
    share: float = 0.0,
) -> str:
    """`exact` if all numbers agree to `digits` or within `share`, else the first that differs.

    >>> compared([0.00139], [0.0014], digits=4), compared([5084.6], [5084.536], share=0.0005)
    ('exact', 'exact')
    >>> compared([7960], [7961])
    'differs: 7,960 here, 7,961 in the paper'
    """
    for here, there in zip(ours, paper, strict=True):
        # half a unit of the last printed digit, and a hair for what rounds at the very edge
        slack = share * abs(there) if digits is None else 0.5 * 10.0**-digits + 1e-9
        if here is None or abs(here - there) > slack:
            return f"differs: {shown(here)} here, {shown(there)} in the paper"
    return EXACT


def shown(value: Any) -> str:
    """A cell as text: thousands separated, six digits, a dash for nothing."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value.replace("|", "\\|")
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def count_marks(tables: Sequence[Table]) -> str:
    """The number of rows with each mark, in words."""
    marks = [mark for table in tables for mark in table.marks]
    kinds = {
        kind: sum(mark.startswith(kind) for mark in marks)
        for kind in (EXACT, "comparable", "not checkable", "differs")
    }
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def write(out: Path, tables: Sequence[Table], figures: Mapping[str, str]) -> Path:
    """`reproduction.md` with every table and figure (file name: caption), and each table as CSV."""
    lines = ["# The paper, reproduced", "", f"Rows: {count_marks(tables)}. {LEGEND}"]
    for table in tables:
        with (out / f"{table.name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([table.columns, *table.rows])
        rows = [[shown(cell) for cell in row] for row in table.rows]
        lines += ["", f"## {table.caption}", ""]
        lines += [_line(table.columns), _line(["---"] * len(table.columns)), *map(_line, rows)]
    for name, caption in figures.items():
        lines += ["", f"![{caption}]({name})", "", caption]
    page = out / "reproduction.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
