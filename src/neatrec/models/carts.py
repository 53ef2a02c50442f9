"""The answers to many carts at once by the scaled scores of their items, compiled and on every core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled, offer_best, sort_best
from neatrec.models.parallel import parallel_slices
from neatrec.models.recommendations import SAMPLED

Codes = npt.NDArray[np.int32]


class CartCandidates(NamedTuple):
    """What may be recommended."""

    sold: npt.NDArray[np.uint32]
    """Codes that may be recommended at all, ascending."""
    category: npt.NDArray[np.uint32]
    """Category codes, shape (items,), `unknown` where not known: what shares one with the cart is left out."""
    unknown: int
    min_score: float
    """What no item of the cart scores higher is left out."""

    @classmethod
    def of(cls, sold: npt.NDArray[np.bool_], category: Codes, min_score: float) -> CartCandidates:
        """From a mask (items,) and category codes that are negative where unknown."""
        unknown = int(category.max(initial=-1)) + 1
        known = np.where(category < 0, unknown, category).astype(np.uint32)
        # unsigned: compiled code need not look whether an index is negative
        return cls(np.flatnonzero(sold).astype(np.uint32), known, unknown, float(min_score))


class CartBatch(NamedTuple):
    """Carts one after the other: cart c holds `item[start[c]:start[c + 1]]`, and the scores of those that the model
    knows stand at `row[row_start[c]:row_start[c + 1]]` of `CartRows`."""

    start: npt.NDArray[np.int64]
    item: npt.NDArray[np.int64]
    row_start: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]


@dataclass(frozen=True)
class CartRows:
    """The scores of some items: those of each item stand in a row of `new` or in one of `kept`."""

    new: npt.NDArray[Any]
    """shape (rows, items)"""
    kept: npt.NDArray[Any]
    """shape (capacity, items), of the type of `new`"""
    place: npt.NDArray[np.int64]
    """The row of `new`, or -1 - the row of `kept`, of each item."""


def scored_once(
    blocks: Sequence[Codes], score_all: Callable[[Codes], npt.NDArray[Any]], capacity: int
) -> Iterator[CartRows]:
    """The scores of each block of items; what later blocks ask for again is kept, up to `capacity` rows.

    They hold until the next block is asked for: rows are taken up again for other items.
    """
    last = {code: number for number, block in enumerate(blocks) for code in block.tolist()}
    capacity = min(capacity, len(last))
    kept = np.empty((0, 0))
    slot_of: dict[int, int] = {}
    free = list(range(capacity))
    for number, block in enumerate(blocks):
        is_new = np.array([code not in slot_of for code in block.tolist()], dtype=np.bool_)
        new = np.ascontiguousarray(score_all(block[is_new]))
        if number == 0:
            kept = np.empty((capacity, new.shape[1]), dtype=new.dtype)  # memory is taken row by row, as it is written
        place = np.cumsum(is_new) - 1
        place[~is_new] = [-1 - slot_of[code] for code in block[~is_new].tolist()]
        yield CartRows(new, kept, place)
        for code, row in zip(block.tolist(), place.tolist(), strict=True):
            if row < 0 and last[code] == number:
                free.append(slot_of.pop(code))
        for code, row in zip(block.tolist(), place.tolist(), strict=True):
            if row >= 0 and last[code] > number and free:
                slot_of[code] = free.pop()
                kept[slot_of[code]] = new[row]


def answer_carts(
    rows: CartRows, asked: Codes, carts: Sequence[Codes], candidates: CartCandidates, k: int
) -> list[Codes]:
    """The codes recommended for each cart, best first; `rows` are the scores of `asked`, which ascends.

    Items of a cart that are not in `asked` contribute nothing; a cart of such items alone gets no answer. Scores are
    numbers: among NaN and infinite ones no order is promised.
    """
    batch = CartBatch(*flat(carts), *flat([rows.place[_places(asked, cart)] for cart in carts]))
    best = np.full((len(carts), k), -1, dtype=np.int32)
    filled = np.zeros(len(carts), dtype=np.int64)

    def work(part: slice) -> None:
        best_of_carts((rows.new, rows.kept), batch, candidates, (part.start, part.stop), best, filled)

    parallel_slices(len(carts), work)
    return [codes[:count] for codes, count in zip(best, filled.tolist(), strict=True)]


def _places(asked: Codes, cart: Codes) -> npt.NDArray[np.int64]:
    """Where the items of `cart` stand in `asked`; those that do not are left out."""
    return np.flatnonzero(np.isin(asked, cart))


def flat(lists: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where each list starts, and all of them one after the other."""
    start = np.concatenate([[0], np.cumsum([len(each) for each in lists])]).astype(np.int64)
    return start, np.concatenate([*lists, np.zeros(0)]).astype(np.int64)


@compiled
def best_of_carts(scores, batch, candidates, among, best, filled):  # type: ignore[no-untyped-def]
    """The best of carts `among[0]` to `among[1]`; scores: `new` and `kept` rows; best: (carts, k), of which `filled`
    (carts,) are in use.
    """
    items = len(candidates.category)
    banned = np.full(candidates.unknown + 1, -1, dtype=np.int64)
    chosen = np.empty(items, dtype=np.uint32)
    part, near = np.empty(items, dtype=scores[0].dtype), np.empty(items, dtype=scores[0].dtype)
    above = np.empty(items, dtype=np.bool_)
    total, best_total = np.empty(items), np.empty(best.shape[1])
    for c in range(among[0], among[1]):
        cart = batch.item[batch.start[c] : batch.start[c + 1]]
        mine = batch.row[batch.row_start[c] : batch.row_start[c + 1]]
        if len(mine) == 0:
            continue
        count = outside_cart(cart, candidates, banned, c, chosen)
        if candidates.min_score > -np.inf:
            count = above_min_score(scores, mine, candidates.min_score, above, chosen, count)
        if count == 0:
            continue
        total[:count] = 0.0
        for place in mine:
            middle, reach = gather(row_at(scores, place), chosen[:count], part, near)
            if len(mine) == 1:
                middle, reach = 0.0, 1.0  # one item keeps its own scores
            add_on_one_scale(part[:count], middle, reach, total)
        for i in range(count):
            filled[c] = offer_best(best_total, best[c], filled[c], total[i] / len(mine), chosen[i])
        sort_best(best_total, best[c], filled[c])


@compiled
def row_at(scores, place):  # type: ignore[no-untyped-def]
    """The row at `place`, as `CartRows` has it."""
    return scores[0][place] if place >= 0 else scores[1][-1 - place]


@compiled
def gather(row, chosen, part, near):  # type: ignore[no-untyped-def]
    """The median of the chosen scores, and how far above it the best is: infinitely far where it is not above.

    The scores go to the front of `part`; near: as long. A sample shows about where the median is: only the values near
    there are put in order.
    """
    low, high = around_median(row, chosen, near)
    below, count = 0, 0
    best = row[chosen[0]]
    for i in range(len(chosen)):
        value = row[chosen[i]]
        part[i] = value
        near[count] = value
        count += (value >= low) & (value <= high)
        below += value < low
        best = max(best, value)
    middle = median_of(part[: len(chosen)], near, below, count)
    reach = np.float64(best) - middle
    return middle, reach if reach > 0 else np.inf


@compiled
def add_on_one_scale(part, middle, reach, total):  # type: ignore[no-untyped-def]
    """Adds to `total` the contribution of an item of the cart: 0 for `middle`, 1 for what is `reach` above it."""
    for i in range(len(part)):
        total[i] += (part[i] - middle) / reach


@compiled
def outside_cart(cart, candidates, banned, stamp, out):  # type: ignore[no-untyped-def]
    """How many items may be recommended for a cart, which go to the front of `out`: all that is sold, but for the cart
    and what shares a category with it. banned: `stamp` where the cart has been; its last place is that of unknown ones.
    """
    category, unknown = candidates.category, candidates.unknown
    alone = 0
    for q in cart:
        if category[q] < unknown:
            banned[category[q]] = stamp
        alone += category[q] == unknown
    count = 0
    for v in candidates.sold:
        out[count] = v
        count += banned[category[v]] != stamp
    return without(cart, out, count) if alone else count


@compiled
def without(cart, out, count):  # type: ignore[no-untyped-def]
    """How many of the first `count` of `out` are not in the cart; they move to the front."""
    kept = 0
    for i in range(count):
        inside = False
        for q in cart:
            inside |= q == out[i]
        out[kept] = out[i]
        kept += not inside
    return kept


@compiled
def above_min_score(scores, mine, min_score, above, chosen, count):  # type: ignore[no-untyped-def]
    """How many of the first `count` chosen items any of the rows `mine` scores above `min_score`: moved to the front.

    above: (items,), to be written on.
    """
    above[:] = False
    for place in mine:
        mark_above(row_at(scores, place), min_score, above)
    kept = 0
    for i in range(count):
        v = chosen[i]
        chosen[kept] = v
        kept += above[v]
    return kept


@compiled
def mark_above(row, min_score, above):  # type: ignore[no-untyped-def]
    for v in range(len(above)):
        above[v] |= row[v] > min_score


@compiled
def around_median(row, chosen, near):  # type: ignore[no-untyped-def]
    """Two values between which the median of the chosen scores is likely to be."""
    sampled = 0
    for i in range(0, len(chosen), max(1, len(chosen) // SAMPLED)):
        near[sampled] = row[chosen[i]]
        sampled += 1
    low = nth_smallest(near[:sampled], int(0.42 * sampled))
    high = nth_smallest(near[:sampled], min(int(0.58 * sampled) + 1, sampled - 1))
    return low, high


@compiled
def median_of(part, near, below, count):  # type: ignore[no-untyped-def]
    """The median, the mean of the two in the middle where there are two.

    The first `count` of `near` are those that may stand in the middle, `below` is the number of smaller ones.
    """
    size = len(part)
    first, last = (size - 1) // 2, size // 2
    if not (below <= first and last < below + count):
        near[:size] = part
        below, count = 0, size
    one = np.float64(nth_smallest(near[:count], first - below))
    if first == last:
        return one
    other = near[last - below]
    for value in near[last - below : count]:
        other = min(other, value)
    return (one + np.float64(other)) / 2.0


@compiled
def nth_smallest(values, n):  # type: ignore[no-untyped-def]
    """The value that would stand at place `n` in order; it stands there afterwards, none greater before it.

    Values are put before or behind another one without a branch, whose outcome no processor could foresee.
    """
    start, end = 0, len(values)
    while end - start > 1:
        pivot = values[(start + end) // 2]
        smaller = start
        for i in range(start, end):
            value = values[i]
            values[i] = values[smaller]
            values[smaller] = value
            smaller += value < pivot
        if n < smaller:
            end = smaller
            continue
        equal = smaller
        for i in range(smaller, end):
            value = values[i]
            values[i] = values[equal]
            values[equal] = value
            equal += value == pivot
        if n < equal:
            break
        start = max(equal, start + 1)  # what is not a number equals nothing, and must not hold us up
    return values[n]
