"""Progress on stderr: a bar on a terminal; elsewhere, with --verbose, a line per step."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from neatrec.cli.output import OutputOptions
    from neatrec.models.run import Progress

log = logging.getLogger("neatrec.progress")


def is_step(record: logging.LogRecord) -> bool:
    """Whether an event is one of several steps: logged with `extra={"done": 1, "total": 3}`."""
    return hasattr(record, "done") and hasattr(record, "total")


class BarHandler(logging.StreamHandler[TextIO]):
    """Log lines on a terminal; steps as a progress bar, which vanishes after the last one and before any line."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._bar: Any = None

    def emit(self, record: logging.LogRecord) -> None:
        if not is_step(record):
            self.close_bar()
            super().emit(record)
            return
        if self._bar is None:
            self._bar = self._started()
        done, total = record.done, record.total  # type: ignore[attr-defined]
        self._bar.update(self._bar.task_ids[0], description=self.format(record), completed=done, total=total)
        if done >= total:
            self.close_bar()

    def close_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _started(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        what = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1))
        bar = Progress(
            *(BarColumn(bar_width=20), TimeRemainingColumn(), what),
            console=Console(file=self.stream),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            expand=True,
        )
        bar.add_task("", total=None)
        bar.start()
        return bar


def close_bar() -> None:
    """End the progress bar of a command that ends."""
    for handler in logging.getLogger("neatrec").handlers:
        if isinstance(handler, BarHandler):
            handler.close_bar()


class ShowProgress:
    """Called with each `Progress` of a fit: a bar moves with each, lines come once per epoch or every ten seconds."""

    def __init__(self, output: OutputOptions, seconds_between_lines: float = 10.0) -> None:
        self.seconds_between_lines = 0.0 if output.moving else seconds_between_lines
        self.shown_epoch = 0
        self.shown_at = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        over = progress.epoch >= progress.epochs
        if progress.done >= 1 and not over:
            return  # the last call of an epoch reports it as a whole
        if progress.epoch > self.shown_epoch or time.monotonic() - self.shown_at > self.seconds_between_lines:
            self.shown_epoch, self.shown_at = progress.epoch, time.monotonic()
            log.info("%s", sentence(progress), extra={"done": 1.0 if over else progress.done, "total": 1.0})


def sentence(progress: Progress) -> str:
    """
    "epoch 3 of 40, 1.9 M pairs/s, loss 0.214, 31 % of hinges active, 12 s left"
    """
    parts = [
        f"epoch {max(1, math.ceil(progress.done * progress.epochs - 1e-9))} of {progress.epochs}",
        f"{progress.pairs_per_second / 1e6:.2f} M pairs/s",
        f"loss {progress.loss:.4f}",
    ]
    if progress.active is not None:
        parts.append(f"{100 * progress.active:.0f} % of hinges active")
    if progress.validation_loss is not None:
        parts.append(f"validation loss {progress.validation_loss:.4f}")
    parts.append(f"{progress.seconds_left:.0f} s left" if progress.done < 1 else f"{progress.seconds:.1f} s")
    return ", ".join(parts)
