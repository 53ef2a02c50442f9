"""SVG drawings, made on the server: every text escaped, colours by class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from urllib.parse import urlencode

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
    # left of 1x there is a little space for intervals that reach below chance
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


@dataclass(frozen=True)
class NetworkNode:
    """An item of a network: its column (0 the item asked for, 1 its complements, 2 theirs) and its row."""

    id: str
    name: str
    column: int
    row: float


@dataclass(frozen=True)
class NetworkLine:
    """Two items that go together, as places in the list of nodes, and how wide the line is."""

    one: int
    other: int
    width: float


COLUMN, ROW, TOP = (12, 330, 690), 30, 24
"""Left ends of the columns, height of a row, the first row."""
LABEL = 34
"""Characters of a name."""


def line_width(evidence: PairEvidence, public: bool) -> float:
    """How wide a line is: by the lower end of the lift, for the `public` by the word for it."""
    if public:
        return {"strong": 6.0, "moderate": 3.0}.get(str(evidence.strength), 1.5)
    low = evidence.lift_low
    return min(1.0 + 1.5 * math.log2(low), 9.0) if low > 1.0 else 1.0  # a pinned pair may have none


def network(nodes: list[NetworkNode], lines: list[NetworkLine], label: str) -> Markup:
    """Three columns of items, linked by lines; each name is a link."""
    height = TOP + ROW * (max(node.row for node in nodes) + 1)
    drawn = Markup("").join(_curve(nodes[line.one], nodes[line.other], line) for line in lines)
    names = Markup("").join(
        Markup('<a href="/network?{}"><circle cx="{}" cy="{:.0f}" r="5"/><text x="{}" y="{:.0f}">{}</text></a>').format(
            urlencode({"id": node.id}), COLUMN[node.column], y, COLUMN[node.column] + 12, y + 5, _shortened(node.name)
        )
        for node, y in ((node, TOP + ROW * node.row) for node in nodes)
    )
    return Markup('<svg class="network" viewBox="0 0 980 {:.0f}" role="group" aria-label="{}">{}{}</svg>').format(
        height, label, drawn, names
    )


def _curve(one: NetworkNode, other: NetworkNode, line: NetworkLine) -> Markup:
    """From the end of one name's column to the next; items of one column are joined by a bow on its left."""
    (x, y), (to_x, to_y) = ((COLUMN[node.column], TOP + ROW * node.row) for node in (one, other))
    bend = (x + to_x) / 2 if x != to_x else x - 40 - abs(y - to_y) / 6
    return Markup('<path d="M{} {:.0f}C{:.0f} {:.0f} {:.0f} {:.0f} {} {:.0f}" stroke-width="{:.1f}"/>').format(
        x, y, bend, y, bend, to_y, to_x, to_y, line.width
    )


def _shortened(name: str) -> str:
    return name if len(name) <= LABEL else name[: LABEL - 1] + "…"
