"""`TableResult`: rows as a data frame on demand, and as an HTML table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from neatrec.text import plural, printable, show_number

SHOWN_ROWS = 20
"""Rows that a notebook shows of a longer table."""


class TableResult:
    """A result with rows, which its `to_arrow` returns."""

    def to_arrow(self) -> pa.Table:
        """All rows."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """All rows as a pandas data frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a polars data frame."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _head(self) -> tuple[pa.Table, int]:
        """The first rows, and how many there are."""
        rows = self.to_arrow()
        return rows.slice(0, SHOWN_ROWS), rows.num_rows

    def _caption(self) -> str:
        return type(self).__name__

    def _notes(self) -> Sequence[str]:
        """Sentences below the table."""
        return ()

    def _shown(self) -> tuple[str, list[list[str]]]:
        """The caption; the column names and the first rows as text."""
        head, rows = self._head()
        more = f", the first {head.num_rows}" if rows > head.num_rows else ""
        cells = [[_cell(value) for value in row.values()] for row in head.to_pylist()]
        return f"{self._caption()} ({plural(rows, 'row')}{more})", [head.column_names, *cells]

    def __repr__(self) -> str:
        caption, rows = self._shown()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ]
        return "\n".join([caption, *(line.rstrip() for line in lines), *self._notes()])

    def _repr_html_(self) -> str:
        caption, rows = self._shown()
        names, *body = ([html.escape(cell) for cell in row] for row in rows)
        head = "".join(f"<th>{name}</th>" for name in names)
        lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in body)
        table = f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody>"
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        return f"<table><caption>{html.escape(caption)}</caption>{table}</table>{notes}"


class ResultTable(TableResult):
    """Rows under a title."""

    def __init__(self, title: str, table: pa.Table, shown: Sequence[str] = ()) -> None:
        """`shown`: the columns that a prompt and a notebook show; none: all."""
        self.title, self.table, self._columns = title, table, list(shown)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def to_arrow(self) -> pa.Table:
        """All rows and columns."""
        return self.table

    def _head(self) -> tuple[pa.Table, int]:
        rows, number = super()._head()
        return rows.select(self._columns or rows.column_names), number

    def _caption(self) -> str:
        return self.title


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    return show_number(value) if isinstance(value, float) else printable(value, limit=160)
