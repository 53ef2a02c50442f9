"""What is not as it should be in a report: tables that do not follow from their numbers, files that were altered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

from neatrec.report.folder import PAGE, TABLE_FORMATS
from neatrec.report.formats import from_csv
from neatrec.report.table import ReportTable
from neatrec.text import printable


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    file: str
    cell: str
    """Which cell, line or number of the file; "" for the file as a whole."""
    says: str
    should: str

    def __str__(self) -> str:
        where = f"{self.file}, {self.cell}" if self.cell else self.file
        return printable(f"{where}: says {self.says}, should say {self.should}", 400)


def table_findings(folder: Path, table: ReportTable) -> Iterator[Finding]:
    """Cells of the CSV, Markdown and LaTeX files and of the page that do not say what `table` says."""
    for ending in TABLE_FORMATS:
        file = folder / "tables" / f"{table.name}.{ending}"
        if file.is_file():
            yield from _cells(f"tables/{file.name}", table, _read(file), ending)
    page = folder / PAGE
    if page.is_file():
        yield from _page_cells(table, _read(page))


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def _cells(name: str, table: ReportTable, text: str, ending: str) -> Iterator[Finding]:
    """Lines are compared first; inside a line that differs, cells."""
    wanted = TABLE_FORMATS[ending](table)
    if text == wanted:
        return
    lines, should = text.split("\n"), wanted.split("\n")
    if len(lines) != len(should):
        yield Finding(name, "", f"{len(lines)} lines", f"{len(should)} lines")
        return
    # where the first row of values stands
    first = {"csv": 1, "md": 4, "tex": 8}[ending]
    for number, (line, right) in enumerate(zip(lines, should, strict=True)):
        if line == right:
            continue
        row = number - first
        if 0 <= row < len(table.rows):
            yield from _line_cells(name, table, row, _parts(line, ending), _parts(right, ending), ending)
        else:
            yield Finding(name, f"line {number + 1}", line, right)


def _line_cells(
    name: str, table: ReportTable, row: int, cells: list[str], should: list[str], ending: str
) -> Iterator[Finding]:
    if len(cells) != len(should):
        yield Finding(name, f"row {_row_name(table, row)}", f"{len(cells)} cells", f"{len(should)} cells")
        return
    raw_keys = [key for column in table.columns for key in column.raw_keys()]
    keys = raw_keys if ending == "csv" else [column.key for column in table.columns]
    for key, cell, right in zip(keys, cells, should, strict=True):
        if cell != right:
            yield Finding(name, f"row {_row_name(table, row)}, column {key}", cell, right)


def _row_name(table: ReportTable, row: int) -> str:
    return f"{row + 1} ({table.shown()[row][0]})"


def _parts(line: str, ending: str) -> list[str]:
    if ending == "md":
        return [part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]]
    if ending == "tex":
        return [part.strip() for part in re.split(r"(?<!\\)&", line.removesuffix(r" \\"))]
    import csv

    return next(csv.reader([line]), [])


def _page_cells(table: ReportTable, page: str) -> Iterator[Finding]:
    found = re.search(rf'<table id="table-{re.escape(table.name)}">.*?</table>', page, flags=re.DOTALL)
    if found is None:
        return
    body = found[0].split("<tbody>", 1)[-1]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in body.split("<tr>")[1:]]
    shown = table.shown()
    if len(rows) != len(shown):
        yield Finding(PAGE, f"table {table.name}", f"{len(rows)} rows", f"{len(shown)} rows")
        return
    for number, (row, right) in enumerate(zip(rows, shown, strict=True)):
        cells = [unescape(re.sub(r"<[^>]*>", "", cell)) for cell in row]
        for column, cell, value in zip(table.columns, cells, right, strict=False):
            if cell != value:
                place = f"table {table.name}, row {_row_name(table, number)}, column {column.key}"
                yield Finding(PAGE, place, cell, value)


def read_table(folder: Path, name: str, schema: Mapping[str, Any]) -> ReportTable | Finding:
    """The table that the CSV file holds, or what is wrong with the file."""
    try:
        return from_csv(_read(folder / "tables" / f"{name}.csv"), name, schema)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Finding(f"tables/{name}.csv", "", printable(error, 200), "a table as it was written")


def twin_findings(folder: Path, table: ReportTable, *, csv_altered: bool) -> Iterator[Finding]:
    """Where the files of a table contradict each other; `table` is what the CSV file holds.

    A CSV file that is not as it was written is the one to blame.
    """
    found = list(table_findings(folder, table))
    if not csv_altered:
        yield from found
        return
    # the page, Markdown and LaTeX all contradict the CSV file in the same cell: once is enough
    cells = {finding.cell.removeprefix(f"table {table.name}, "): finding for finding in found}
    for cell, finding in cells.items():
        yield Finding(f"tables/{table.name}.csv", cell, finding.should, finding.says)
