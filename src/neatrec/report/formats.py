"""A `ReportTable` as CSV, Markdown and LaTeX: names from data stay text in each of them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping

from neatrec.report.table import ReportTable, format_sentence
from neatrec.text import no_formula

_LATEX: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "–": "--",
    "…": r"\ldots{}",
    "²": r"$^2$",
    "×": r"$\times$",
}


def latex_text(text: str) -> str:
    r"""`text` with everything that LaTeX would act on escaped, also at the start of a row.

    >>> latex_text("50% off & more_$")
    '50\\% off \\& more\\_\\$'
    """
    out = "".join(_LATEX.get(character, character) for character in text)
    return "{}" + out if out.startswith(("[", "*")) else out


def markdown_text(text: str) -> str:
    r"""`text` with everything that Markdown or HTML would act on escaped.

    >>> markdown_text("a|b <i> *c*")
    'a\\|b &lt;i&gt; \\*c\\*'
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~!#])", r"\\\1", text)
    # a bare address would become a link
    return re.sub(r"(?i)\b(https?|ftp|www|mailto|javascript|data)([.:])", r"\1\\\2", text)


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


def to_markdown(table: ReportTable) -> str:
    """The caption in bold, the table, its notes."""
    head = [markdown_text(column.title) for column in table.columns]
    rule = ["---:" if column.is_numeric else "---" for column in table.columns]
    lines = [_markdown_row(head), _markdown_row(rule)]
    for number, row in enumerate(table.text_rows()):
        cells = [markdown_text(cell) for cell in row]
        cells = [f"**{cell}**" if (number, place) in table.best else cell for place, cell in enumerate(cells)]
        lines.append(_markdown_row(cells))
    notes = [markdown_text(format_sentence(note)) for note in table.notes]
    parts = [f"**{markdown_text(format_sentence(table.caption))}**", "\n".join(lines), *notes]
    return "\n\n".join(parts) + "\n"


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def to_latex(table: ReportTable) -> str:
    """A `table` environment that needs no package."""
    columns = "".join("r" if column.is_numeric else "l" for column in table.columns)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(format_sentence(table.caption))}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\hline",
        _latex_row([latex_text(column.title) for column in table.columns]),
        r"\hline",
    ]
    for number, row in enumerate(table.text_rows()):
        cells = [latex_text(cell) for cell in row]
        cells = [rf"\textbf{{{cell}}}" if (number, place) in table.best else cell for place, cell in enumerate(cells)]
        lines.append(_latex_row(cells))
    lines += [r"\hline", r"\end{tabular}"]
    lines += [rf"\par {latex_text(format_sentence(note))}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
