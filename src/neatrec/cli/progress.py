"""Progress of training: a moving line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import math
import sys
import time
from typing import TYPE_CHECKING

from neatrec.cli.output import OutputOptions

if TYPE_CHECKING:
    from neatrec.models.run import Progress

log = logging.getLogger("neatrec.training")


class ShowProgress:
    """Called with each `Progress` of a fit."""

    def __init__(self, output: OutputOptions, seconds_between_lines: float = 10.0) -> None:
        self.moving = output.progress
        self.seconds_between_lines = seconds_between_lines
        self.shown_epoch = 0
        self.shown_at = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        over = progress.epoch >= progress.epochs
        if progress.done >= 1 and not over:
            return  # the last call of an epoch reports it as a whole
        if self.moving:
            sys.stderr.write("\r\x1b[K" + sentence(progress) + ("\n" if over else ""))
            sys.stderr.flush()
        elif progress.epoch > self.shown_epoch or time.monotonic() - self.shown_at > self.seconds_between_lines:
            self.shown_epoch, self.shown_at = progress.epoch, time.monotonic()
            log.info("%s", sentence(progress))


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
