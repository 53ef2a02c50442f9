"""SVG drawings and the map of the items, made on the server: every text escaped, colours by class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from neatrec.service.loaded_bundle import LoadedBundle
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


def dots(points: list[list[object]], marked: str | None) -> Markup:
    """The ellipses of the map. A point: x, y, width, height, colour, id, name."""
    return Markup("").join(
        Markup('<ellipse cx="{}" cy="{}" rx="{}" ry="{}" class="k{}{}" data-id="{}" data-name="{}"/>').format(
            *point[:5], Markup(" asked") if marked is not None and point[5] == marked else "", point[5], point[6]
        )
        for point in points
    )


MAX_POINTS = 1200
"""Items drawn at once, the best sellers of the part in view."""
COLOURS = 11
"""Categories with a colour of their own; the last colour is for all others."""
SIDE = 1000.0
"""The map is drawn in a square of this side."""


class ItemMap:
    """Positions scaled to the square, radii by rank of the variance, colours by the largest top categories."""

    def __init__(self, bundle: LoadedBundle) -> None:
        self.ids, self.names = bundle.ids, bundle.names  # not the bundle: the page keeps maps by bundle, weakly
        position = bundle.index.position
        self.has_points = position is not None and bool(np.isfinite(position).all(axis=1).any())
        count = np.asarray(bundle.index.item_count)
        placed = np.isfinite(position).all(axis=1) if position is not None else np.zeros(len(count), dtype=np.bool_)
        self.order = np.flatnonzero(placed & (count > 0))[np.argsort(-count[placed & (count > 0)], kind="stable")]
        self.place = _to_square(position, self.order) if position is not None else np.zeros((len(count), 2))
        self.radius = _radii(bundle.index.variance, len(count))
        self.colour, self.legend = _colours(bundle)

    def points(self, box: tuple[float, float, float, float] | None = None, most: int = MAX_POINTS) -> list[list[Any]]:
        """The best sellers inside `box` (left, top, right, bottom): x, y, rx, ry, colour, id, name."""
        codes = self.order
        if box is not None:
            x, y = self.place[codes, 0], self.place[codes, 1]
            codes = codes[(x >= box[0]) & (x <= box[2]) & (y >= box[1]) & (y <= box[3])]
        return [
            [
                round(float(self.place[code, 0]), 1),
                round(float(self.place[code, 1]), 1),
                round(float(self.radius[code]), 2),
                round(float(self.radius[code]), 2),
                int(self.colour[code]),
                self.ids[code],
                self.names[code],
            ]
            for code in codes[:most].tolist()
        ]


def _to_square(position: npt.NDArray[np.float32], order: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Positions in the square. Long tails are drawn in (asinh), so that a few far items do not squeeze all others."""
    if not len(order):
        return np.zeros(position.shape)
    low, middle, high = np.percentile(position[order], [25, 50, 75], axis=0)
    drawn = np.arcsinh((position.astype(np.float64) - middle) / np.maximum(high - low, 1e-9))
    least, most = drawn[order].min(axis=0), drawn[order].max(axis=0)
    share = np.clip((drawn - least) / np.maximum(most - least, 1e-9), 0, 1)
    placed: npt.NDArray[np.float64] = np.nan_to_num(share) * (SIDE - 40) + 20
    return placed


def _radii(variance: npt.NDArray[np.float32] | None, items: int) -> npt.NDArray[np.float64]:
    """3 for the smallest variance to 13 for the largest, by rank; 5 where the model has none."""
    if variance is None:
        return np.full(items, 5.0)
    rank = np.empty(items)
    rank[np.argsort(variance, kind="stable")] = np.arange(items)
    return 3.0 + 10.0 * rank / max(items - 1, 1)


def _colours(bundle: LoadedBundle) -> tuple[npt.NDArray[np.int64], list[tuple[int, str]]]:
    catalog = bundle.catalog
    if not catalog.levels or catalog.categories is None:
        return np.full(len(bundle.ids), COLOURS), []
    top = catalog.categories[:, 0]
    names = catalog.category_names[0]
    sales = np.bincount(np.maximum(top, 0), np.where(top >= 0, bundle.index.item_count, 0), minlength=len(names))
    largest = np.argsort(-sales, kind="stable")[:COLOURS]
    colour_of = np.full(len(names) + 1, COLOURS)  # the last entry is for unknown, code -1
    colour_of[largest] = np.arange(len(largest))
    legend = [(number, names[code]) for number, code in enumerate(largest.tolist())]
    more = [(COLOURS, "all others")] if len(names) > COLOURS or (top < 0).any() else []
    return colour_of[top], legend + more
