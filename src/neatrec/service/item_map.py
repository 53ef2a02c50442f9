"""The map of the items: where each lies, how large its variance is, which colour its category has."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.service.loaded_bundle import LoadedBundle

MOST = 1200
"""Items drawn at once, the best sellers of the part in view."""
COLOURS = 11
"""Categories with a colour of their own; the last colour is for all others."""
SIDE = 1000.0
"""The map is drawn in a square of this side."""


class ItemMap:
    """Positions scaled to the square, radii by rank of the variance, colours by the largest top categories."""

    def __init__(self, shelf: LoadedBundle) -> None:
        self.ids, self.names = shelf.ids, shelf.names  # not the shelf: a map may be kept by its shelf, weakly
        position = shelf.index.position
        self.there = position is not None and bool(np.isfinite(position).all(axis=1).any())
        count = np.asarray(shelf.index.item_count)
        placed = np.isfinite(position).all(axis=1) if position is not None else np.zeros(len(count), dtype=np.bool_)
        self.order = np.flatnonzero(placed & (count > 0))[np.argsort(-count[placed & (count > 0)], kind="stable")]
        self.place = _to_square(position, self.order) if position is not None else np.zeros((len(count), 2))
        self.radius = _radii(shelf.index.variance, len(count))
        self.colour, self.legend = _colours(shelf)

    def points(self, box: tuple[float, float, float, float] | None = None, most: int = MOST) -> list[list[Any]]:
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


def _colours(shelf: LoadedBundle) -> tuple[npt.NDArray[np.int64], list[tuple[int, str]]]:
    catalog = shelf.catalog
    if not catalog.levels or catalog.categories is None:
        return np.full(len(shelf.ids), COLOURS), []
    top = catalog.categories[:, 0]
    names = catalog.category_names[0]
    sales = np.bincount(np.maximum(top, 0), np.where(top >= 0, shelf.index.item_count, 0), minlength=len(names))
    largest = np.argsort(-sales, kind="stable")[:COLOURS]
    colour_of = np.full(len(names) + 1, COLOURS)  # the last entry is for unknown, code -1
    colour_of[largest] = np.arange(len(largest))
    legend = [(number, names[code]) for number, code in enumerate(largest.tolist())]
    more = [(COLOURS, "all others")] if len(names) > COLOURS or (top < 0).any() else []
    return colour_of[top], legend + more
