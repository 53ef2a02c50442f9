"""Output of a command: the result on stdout, logs and progress on stderr."""

from __future__ import annotations

import json
import logging
import math
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from neatrec.text import printable


@dataclass(frozen=True)
class OutputOptions:
    """Options of every command. Making one sets the log up, before the command does anything."""

    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of text.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more on stderr.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log only warnings and errors on stderr.")] = False
    log_json: Annotated[bool, typer.Option("--log-json", help="Log lines on stderr as JSON objects.")] = False

    def __post_init__(self) -> None:
        level = logging.DEBUG if self.verbose else logging.WARNING if self.quiet else logging.INFO
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_JsonFormatter() if self.log_json else _LineFormatter())
        ours = logging.getLogger("neatrec")
        ours.handlers = [handler]
        ours.setLevel(level)
        ours.propagate = False

    @property
    def progress(self) -> bool:
        """Whether a moving progress bar may be shown."""
        return sys.stderr.isatty() and not (self.quiet or self.log_json)


class _LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        mark = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        text = mark + printable(record.getMessage(), limit=2000)
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable(record.getMessage(), limit=2000),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def print_json(answer: dict[str, Any]) -> None:
    """One JSON object on stdout, in ASCII: a name's control characters must not reach a terminal. NaN is an error."""
    print(json.dumps(answer, indent=2, allow_nan=False))


def print_table(title: str, columns: list[str], rows: list[list[Any]], *, note: str = "") -> None:
    """A table on stdout: drawn in a terminal, plain aligned columns elsewhere; names from data made safe to show."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            # rich would leave with exit code 1; a reader that has seen enough is no failure
            raise BrokenPipeError

    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False, title_style="bold"
    )
    for position, column in enumerate(columns):
        numbers = all(isinstance(row[position], int | float) or row[position] in ("", "-") for row in rows)
        table.add_column(column, justify="right" if numbers and rows else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    # rich would guess 80 columns for a pipe and fold names that fit
    console = PipeConsole(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(table)
    if note:
        console.print(Text(note))


def percent(share: float, digits: int = 1) -> str:
    """A share in percent; a dash where there is nothing to divide by.

    >>> percent(0.0123), percent(float("nan"))
    ('1.2 %', '-')
    """
    return "-" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return printable(value, limit=60)
