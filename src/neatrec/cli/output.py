"""Output of a command: the result on stdout, logs and progress on stderr."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.config import dictConfig
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from neatrec.cli.options import option
from neatrec.text import plural, printable, show_number

if TYPE_CHECKING:
    import pyarrow as pa

    from neatrec.models.run import Progress

log = logging.getLogger("neatrec.progress")


SHOWN = tuple(f"neatrec.{name}" for name in ("io", "training", "release", "service", "cli"))
"""Loggers whose events are printed without --verbose: inputs, results and outputs."""


class BarHandler(logging.StreamHandler[TextIO]):
    """Log lines on a terminal; steps as a progress bar, which vanishes before the next line.

    A step is an event logged with `extra={"done": 1, "total": 3}`.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._bar: Any = None

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line, or move the bar."""
        done, total = (getattr(record, name, None) for name in ("done", "total"))
        if total is None:
            if record.levelno >= logging.WARNING or record.name.startswith(SHOWN):
                self.close_bar()
                super().emit(record)
            return
        if self._bar is None:
            self._bar = self._started()
        task = self._bar.task_ids[0]
        self._bar.update(task, description=self.format(record), completed=done, total=total)
        if done == total:
            self.close_bar()

    def close_bar(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _started(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            BarColumn(bar_width=20),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(file=self.stream),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        bar.add_task("", total=None)
        bar.start()
        return bar


def close_bar() -> None:
    """Remove the progress bar of a command that ends."""
    for handler in logging.getLogger("neatrec").handlers:
        if isinstance(handler, BarHandler):
            handler.close_bar()


def sentence(progress: Progress) -> str:
    """Progress in words: "epoch 3 of 40, 1.90 M pairs/s, loss 0.2140, 12 s left"."""
    epoch = max(1, math.ceil(progress.done * progress.epochs - 1e-9))
    rate, loss = progress.pairs_per_second / 1e6, progress.loss
    words = f"epoch {epoch} of {progress.epochs}, {rate:.2f} M pairs/s, loss {loss:.4f}"
    if progress.active is not None:
        words += f", {100 * progress.active:.0f} % of hinges active"
    if progress.done < 1:
        return f"{words}, {progress.seconds_left:.0f} s left"
    return f"{words}, {progress.seconds:.1f} s"


@dataclass(frozen=True)
class OutputOptions:
    """Options of every command. Making one sets the log up, before the command does anything."""

    panel = "Output"
    as_json: bool = option(False, "--json", help="One JSON object on stdout.")
    verbose: bool = option(False, "--verbose", "-v", help="All steps and tables.")
    quiet: bool = option(False, "--quiet", "-q", help="Warnings and errors only.")
    log_json: bool = option(False, "--log-json", help="Log as JSON lines.")

    def __post_init__(self) -> None:
        """Set the log up."""
        dictConfig(self.log_config())

    @property
    def moving(self) -> bool:
        """Whether a moving progress bar may be shown."""
        return sys.stderr.isatty() and not (self.quiet or self.log_json or self.verbose)

    def log_config(self) -> dict[str, Any]:
        """The log of this process, and of each worker of a server, for `logging.dictConfig`."""
        level = "DEBUG" if self.verbose else "INFO" if self.moving else "WARNING"
        shown = level if self.verbose or self.quiet else "INFO"
        formatter = JsonFormatter if self.log_json else LineFormatter
        handler = f"{__name__}.BarHandler" if self.moving else "logging.StreamHandler"
        ours = {"handlers": ["stderr"], "propagate": False}
        return {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": {"()": f"{__name__}.{formatter.__name__}"}},
            "handlers": {
                "stderr": {"class": handler, "formatter": "line", "stream": "ext://sys.stderr"}
            },
            "loggers": {
                "neatrec": {**ours, "level": level},
                "uvicorn": {**ours, "level": "WARNING"},
                **{name: {"level": shown} for name in SHOWN},
            },
        }

    def printed_json(self, answer: Any) -> bool:
        """With --json: print a dictionary, or the `to_json` of a result. Returns whether it did."""
        if self.as_json:
            print_json(answer if isinstance(answer, dict) else answer.to_json())
        return self.as_json

    def show_progress(self, progress: Progress) -> None:
        """Move the bar, or log a line at the end of an epoch."""
        ended = progress.epoch >= progress.done * progress.epochs - 1e-9
        if ended or (self.moving and progress.done < 1):
            steps = {"done": progress.done, "total": 1.0}
            log.info("%s", sentence(progress), extra=steps)


class LineFormatter(logging.Formatter):
    """Events as lines; warnings and errors say that they are."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback where there is one."""
        mark = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        text = mark + printable(record.getMessage(), limit=2000)
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonFormatter(logging.Formatter):
    """Events as JSON objects, one per line."""

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
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
    """One JSON object on stdout, in ASCII: no control character of a name reaches a terminal."""
    print(json.dumps(answer, indent=2, allow_nan=False))


def write_table(table: pa.Table, path: Path) -> None:
    """A table as Parquet or CSV, by the ending; an older file is replaced at the end."""
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    from neatrec.bundle.folder import replacing

    with replacing(path) as unfinished:
        if path.suffix == ".parquet":
            pq.write_table(table, unfinished, compression="zstd")
        else:
            pacsv.write_csv(table, unfinished)


def print_table(title: str, columns: list[str], rows: list[list[Any]], *, note: str = "") -> None:
    """A table on stdout, drawn by rich; names from data are made safe to show."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.title_justify, table.title_style = "left", "bold"
    cells = [[_cell(value) for value in row] for row in rows]
    for position, column in enumerate(columns):
        values = [row[position] for row in rows]
        numbers = all(isinstance(value, int | float) or value in ("", "-") for value in values)
        # rich breaks words of narrow columns while wide ones could still be wrapped
        words = " ".join([column, *(row[position] for row in cells)]).split()
        longest = max(map(len, words), default=0)
        table.add_column(column, justify="right" if numbers and rows else "left", min_width=longest)
    for texts in cells:
        table.add_row(*map(Text, texts))
    Console(highlight=False).print(table)
    if note:
        print_text(note)


def print_text(text: str) -> None:
    """Lines on stdout, wrapped at the width of the terminal, or at 80 columns without one."""
    from rich.console import Console

    Console(highlight=False, markup=False, emoji=False).print(text)


def percent(share: float, digits: int = 1) -> str:
    """A share in percent; a dash where there is nothing to divide by.

    >>> percent(0.0123), percent(float("nan"))
    ('1.2 %', '-')
    """
    return "-" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def found_words(pairs: int, coverage: Mapping[str, Mapping[str, float]]) -> str:
    """The number of pairs with evidence, and the share of items that have one.

    >>> found_words(299, {"certain": {"items": 0.31}, "likely": {"items": 0.22}})
    '299 pairs for 53 % of the items'
    """
    share = sum(coverage[grade]["items"] for grade in ("certain", "likely"))
    return f"{plural(pairs, 'pair')} for {percent(share, 0)} of the items"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return show_number(value)
    return printable(value, limit=200)
