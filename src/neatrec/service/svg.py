"""Small SVG drawings made on the server: plain attributes, every text escaped, colours by class."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from neatrec.serving import PairEvidence

TICKS = (1, 3, 10, 30, 100, 300)
WIDTH, LEFT = 208.0, 8.0


def ruler(evidence: PairEvidence) -> Markup:
    """The 95 % interval of the lift on a ruler of times chance, from 1x on; nothing where it is not known."""
    low, high, middle = evidence.lift_low, evidence.lift_high, evidence.lift
    if not all(math.isfinite(value) and value > 0 for value in (low, high, middle)):
        return Markup("")
    reach = next((tick for tick in (30, 100, 300, 1000, 10_000) if high <= tick), 100_000)
    start, end, point = (_along(value, reach) for value in (low, high, middle))
    ticks = Markup("").join(_tick(tick, reach) for tick in TICKS if tick <= reach)
    label = f"{middle:.1f} times chance, 95 % interval {low:.1f} to {high:.1f}"
    return Markup(
        '<svg class="ruler" viewBox="0 0 224 30" role="img" aria-label="{}">'
        '<line class="axis" x1="8" x2="216" y1="9" y2="9"/>{}'
        '<line class="span" x1="{:.1f}" x2="{:.1f}" y1="9" y2="9"/>'
        '<circle class="point" cx="{:.1f}" cy="9" r="4"/></svg>'
    ).format(label, ticks, start, end, point)


def _along(value: float, reach: float) -> float:
    # left of 1x there is a little room for intervals that reach below chance
    share = (math.log10(max(min(value, reach), 0.5)) - math.log10(0.5)) / (math.log10(reach) - math.log10(0.5))
    return LEFT + WIDTH * share


def _tick(tick: int, reach: float) -> Markup:
    x, kind = _along(tick, reach), "chance" if tick == 1 else "axis"
    text = "chance" if tick == 1 else f"{tick}x"
    return Markup(
        '<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="3" y2="15"/>'
        '<text x="{:.1f}" y="26" font-size="9" text-anchor="middle">{}</text>'
    ).format(kind, x, x, max(x, 20) if tick == 1 else x, text)


def histogram(values: npt.NDArray[np.float64], here: float, label: str, low: str, high: str) -> Markup:
    """How `values` are spread on a scale of logarithms, with a mark at `here`."""
    logs = np.log10(np.maximum(values, 1e-12))
    edges = np.linspace(logs.min(), max(logs.max(), logs.min() + 1e-6), 25)
    tops = np.histogram(logs, edges)[0]
    bars = Markup("").join(
        Markup('<rect x="{}" y="{:.1f}" width="10" height="{:.1f}" rx="1.5"/>').format(
            8 + 11 * place, 66 - 52 * top / max(tops.max(), 1), 52 * top / max(tops.max(), 1)
        )
        for place, top in enumerate(tops.tolist())
        if top
    )
    share = (math.log10(max(here, 1e-12)) - edges[0]) / (edges[-1] - edges[0])
    x = 8 + 264 * min(max(share, 0.0), 1.0)
    return Markup(
        '<svg class="peers" viewBox="0 0 280 86" role="img" aria-label="{}">{}'
        '<line class="here" x1="{:.1f}" x2="{:.1f}" y1="4" y2="68"/><circle class="dot" cx="{:.1f}" cy="6" r="4.5"/>'
        '<text x="8" y="81" font-size="11">{}</text>'
        '<text x="272" y="81" font-size="11" text-anchor="end">{}</text></svg>'
    ).format(label, bars, x, x, x, low, high)


def dots(points: list[list[object]], asked: str | None) -> Markup:
    """The ellipses of the map. A point: x, y, width, height, colour, id, name."""
    return Markup("").join(
        Markup('<ellipse cx="{}" cy="{}" rx="{}" ry="{}" class="k{}{}" data-id="{}" data-name="{}"/>').format(
            *point[:5], Markup(" asked") if asked is not None and point[5] == asked else "", point[5], point[6]
        )
        for point in points
    )
