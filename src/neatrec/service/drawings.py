"""Where the lines of drawings go, as numbers; templates write the SVG."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.serving import PairEvidence

TICKS = (1, 3, 10, 30, 100, 300)
WIDTH, LEFT = 208.0, 8.0


def ruler(evidence: PairEvidence) -> dict[str, Any] | None:
    """The 95 % interval of the lift on a ruler of times chance, from 1x on; None where it is not known."""
    low, high, middle = evidence.lift_low, evidence.lift_high, evidence.lift
    if not all(math.isfinite(value) and value > 0 for value in (low, high, middle)):
        return None
    reach = next((tick for tick in (30, 100, 300, 1000, 10_000) if high <= tick), 100_000)

    def along(value: float) -> float:
        # left of 1x there is a little space for intervals that reach below chance
        share = math.log10(max(min(value, reach), 0.5) / 0.5) / math.log10(reach / 0.5)
        return round(LEFT + WIDTH * share, 1)

    return {
        "label": f"{middle:.1f} times chance, 95 % interval {low:.1f} to {high:.1f}",
        "ticks": [(tick, along(tick)) for tick in TICKS if tick <= reach],
        "start": along(low),
        "end": along(high),
        "point": along(middle),
    }


def histogram(values: npt.NDArray[np.float64], here: float) -> dict[str, Any]:
    """How `values` are spread on a scale of logarithms: left end and height of each bar, and the place of `here`."""
    logs = np.log10(np.maximum(values, 1e-12))
    edges = np.linspace(logs.min(), max(logs.max(), logs.min() + 1e-6), 25)
    tops = np.histogram(logs, edges)[0]
    heights = np.round(52 * tops / max(tops.max(), 1), 1).tolist()
    share = (math.log10(max(here, 1e-12)) - edges[0]) / (edges[-1] - edges[0])
    return {
        "bars": [(8 + 11 * place, height) for place, height in enumerate(heights) if height],
        "here": round(8 + 264 * min(max(share, 0.0), 1.0), 1),
    }


COLUMN, ROW, TOP = (12, 330, 690), 30, 24
"""Of a network: the left ends of its columns, the height of a row, the first row."""
Point = tuple[int, float]


def network_point(column: int, row: float) -> Point:
    """Where an item stands: column 0 for the one asked for, 1 for its complements, 2 for theirs."""
    return COLUMN[column], round(TOP + ROW * row)


def network_path(one: Point, other: Point) -> str:
    """From the end of one name's column to the next; items of one column are joined by a bow on its left."""
    (x, y), (to_x, to_y) = one, other
    bend = (x + to_x) / 2 if x != to_x else x - 40 - abs(y - to_y) / 6
    return f"M{x} {y}C{bend:.0f} {y} {bend:.0f} {to_y} {to_x} {to_y}"


def line_width(evidence: PairEvidence, public: bool) -> float:
    """How wide a line is: by the lower end of the lift, for the `public` by the word for it."""
    if public:
        return {"strong": 6.0, "moderate": 3.0}.get(str(evidence.strength), 1.5)
    low = evidence.lift_low
    return round(min(1.0 + 1.5 * math.log2(low), 9.0), 1) if low > 1.0 else 1.0  # a pinned pair may have none
