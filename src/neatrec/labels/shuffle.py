"""The shuffle: the same slots and the same items, dealt anew, so that only chance puts two items together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError, must_be, must_be_one_of
from neatrec.labels.md5 import Keys, line_keys
from neatrec.labels.order import id_rank

WITHIN = ("none", "size", "size+position")
Order = npt.NDArray[np.int64]


def shuffled(baskets: Baskets, seed: int, round_: int, within: str = "none") -> Baskets:
    """`baskets` with the items of all lines dealt anew: sizes and item counts stay, associations go.

    Lines are ordered by md5("seed|round|basket id|position"), ties by basket id, then position, and their items dealt
    in that order into the slots of all baskets (by basket id, then position). `within` keeps items among baskets of
    their own size, or of their own size and position. The order in which the baskets come does not matter.
    """
    for name, value in (("seed", seed), ("round", round_)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise must_be(name, "a whole number of at least 0", value)
    check_within(baskets, within)
    slots = _lines_by_basket_id(baskets)
    high, low = line_keys(f"{int(seed)}|{int(round_)}|", baskets.ids, baskets.offsets)
    group = _group(baskets, within)
    dealt = slots[_sorted_by(high[slots], low[slots], None if group is None else group[slots])]
    if group is not None:
        slots = slots[np.argsort(group[slots], kind="stable")]
    items = np.empty_like(baskets.items)
    items[slots] = baskets.items[dealt]
    return replace(baskets, items=items)


def check_within(baskets: Baskets, within: str) -> None:
    """Refuse what a shuffle of these baskets cannot keep: without cart order a line has no position."""
    if within not in WITHIN:
        raise must_be_one_of("within", WITHIN, within)
    if within == "size+position" and not baskets.ordered:
        raise ParameterError(
            "`within` must not be 'size+position' for baskets without cart order: their lines have no position",
            argument="within",
            hint="Use 'size', or name the column that holds the cart position.",
        )


def _lines_by_basket_id(baskets: Baskets) -> Order:
    """Lines sorted by basket id, then position."""
    rank = id_rank(baskets)
    if np.all(np.diff(rank) > 0):
        return np.arange(baskets.lines)
    return np.argsort(rank[baskets.basket_of_line], kind="stable")


def _group(baskets: Baskets, within: str) -> Order | None:
    """What an item may not leave, for each line."""
    if within == "none":
        return None
    size = np.repeat(baskets.sizes, baskets.sizes)
    if within == "size":
        return size
    position = np.arange(baskets.lines) - np.repeat(baskets.offsets[:-1], baskets.sizes)
    return np.unique(size * (baskets.sizes.max(initial=0) + 1) + position, return_inverse=True)[1]


def _sorted_by(high: Keys, low: Keys, group: Order | None) -> Order:
    """The order of lines by group, then digest, then where they stand."""
    if group is not None:
        return np.lexsort((low, high, group))
    order = np.argsort(high, kind="stable")
    ordered = high[order]
    # two of a million lines share eight bytes once in ten million shuffles: only then the other eight matter
    return np.lexsort((low, high)) if np.any(ordered[1:] == ordered[:-1]) else order
