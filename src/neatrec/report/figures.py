"""A dot plot of means with intervals: positions of its parts, which a template draws as SVG."""

from __future__ import annotations

import math
from typing import NamedTuple

from neatrec.report.table import format_number
from neatrec.text import printable

WIDTH, LABELS, RIGHT = 380, 130, 12
"""Units across (about a phone's width), of the labels, and of the margin on the right."""
ROW, TOP, BOTTOM = 22, 16, 34
LABEL_LENGTH = 20


class Dot(NamedTuple):
    """One line of a dot plot: a mean between the ends of its interval."""

    label: str
    kind: str
    mean: float
    low: float
    high: float


class DotPlot(NamedTuple):
    """One line per model, best first: a dot for the mean, a bar for its interval."""

    name: str
    title: str
    """The name of the axis."""
    caption: str
    dots: tuple[Dot, ...]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return WIDTH, TOP + ROW * len(self.dots) + BOTTOM

    @property
    def alt(self) -> str:
        """The drawing in words."""
        lines = [f"{self.label(d)} {d.mean:.3f} ({d.low:.3f} to {d.high:.3f})" for d in self.dots]
        return f"Dot plot of {self.title}, best first: {'; '.join(lines)}."

    def x(self, value: float) -> float:
        """The horizontal position of a value."""
        return round(LABELS + (WIDTH - LABELS - RIGHT) * value / self.ticks()[-1], 1)

    def y(self, row: int) -> float:
        """The vertical position of a line."""
        return TOP + ROW * (row + 0.5)

    def label(self, dot: Dot) -> str:
        """The name of a line, cut off where it is long."""
        return printable(dot.label, LABEL_LENGTH)

    def ticks(self) -> list[float]:
        """About four round values from 0 to the highest end.

        >>> DotPlot("a", "HR", "", (Dot("pop", "paper", 0.2, 0.1, 0.27),)).ticks()
        [0.0, 0.1, 0.2, 0.3]
        """
        highest = max((dot.high for dot in self.dots if math.isfinite(dot.high)), default=0) or 1.0
        rough = highest / 4
        unit = 10 ** math.floor(math.log10(rough))
        step = next(unit * times for times in (1, 2, 5, 10) if unit * times >= rough)
        return [round(step * place, 10) for place in range(math.ceil(highest / step - 1e-9) + 1)]

    def tick_text(self, value: float) -> str:
        """A value of the axis."""
        return format_number(value, 2).rstrip("0").rstrip(".")
