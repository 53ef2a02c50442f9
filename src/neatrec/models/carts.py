"""Many carts at once: what `name_best` of `answers` names for each of them, in compiled code and on every core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.models.answers import SAMPLED
from neatrec.models.parts import in_parts

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Choice:
    """What may be named."""

    sold: npt.NDArray[np.bool_]
    """Items that may be named at all, shape (items,)."""
    category: Codes
    """Category codes, negative where unknown, shape (items,): what shares one with the cart is not named."""
    floor: float
    """What no item of the cart scores higher is not named."""
    k: int


def scored_once(
    blocks: Sequence[Codes], score_all: Callable[[Codes], npt.NDArray[Any]], room: int
) -> Iterator[npt.NDArray[Any]]:
    """The scores of each block of items, (block, items); what later blocks ask for again is kept, up to `room` rows."""
    last = {code: number for number, block in enumerate(blocks) for code in block.tolist()}
    kept: dict[int, npt.NDArray[Any]] = {}
    for number, block in enumerate(blocks):
        codes = block.tolist()
        new = np.array([code not in kept for code in codes], dtype=np.bool_)
        scores = score_all(block[new])
        rows = scores if new.all() else np.empty((len(block), scores.shape[1]), dtype=scores.dtype)
        if rows is not scores:
            rows[new] = scores
        for row, code in enumerate(codes):
            if code in kept:
                rows[row] = kept[code] if last[code] > number else kept.pop(code)
            elif last[code] > number and len(kept) < room:
                kept[code] = rows[row].copy()
        yield rows


def answer_carts(rows: npt.NDArray[Any], asked: Codes, carts: Sequence[Codes], choice: Choice) -> list[Codes]:
    """The codes named for each cart, best first; `rows` (asked, items) are scores, `asked` ascends.

    Items of a cart that are not in `asked` say nothing; a cart of such items alone gets no answer.
    """
    best = np.full((len(carts), choice.k), -1, dtype=np.int32)
    lines, speakers = _flat(carts), _flat([_places(asked, cart) for cart in carts])
    filled = np.zeros(len(carts), dtype=np.int64)
    categories = int(choice.category.max(initial=-1)) + 1

    def work(part: slice) -> None:
        among = part.start, part.stop
        best_of_carts(
            rows, lines, speakers, among, choice.sold, choice.category, categories, choice.floor, best, filled
        )

    in_parts(len(carts), work)
    return [codes[:count] for codes, count in zip(best, filled.tolist(), strict=True)]


def _places(asked: Codes, cart: Codes) -> npt.NDArray[np.int64]:
    """Where the items of `cart` stand in `asked`; those that do not are left out."""
    return np.flatnonzero(np.isin(asked, cart))


def _flat(lists: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where each list starts, and all of them one after the other."""
    start = np.concatenate([[0], np.cumsum([len(each) for each in lists])]).astype(np.int64)
    return start, np.concatenate([*lists, np.zeros(0)]).astype(np.int64)


@compiled
def best_of_carts(rows, lines, speakers, among, sold, category, categories, floor, best, filled):  # type: ignore[no-untyped-def]
    """The best of carts `among[0]` to `among[1]`; rows: (asked, items); lines, speakers: start and items or rows.

    best: (carts, k), of which `filled` (carts,) are named; sold, category: (items,).
    """
    items = rows.shape[1]
    banned = np.full(categories, -1, dtype=np.int64)
    chosen = np.empty(items, dtype=np.uint32)  # unsigned: no index is looked at for being negative
    part, near = np.empty(items, dtype=rows.dtype), np.empty(items, dtype=rows.dtype)
    total, best_total = np.empty(items), np.empty(best.shape[1])
    for c in range(among[0], among[1]):
        cart = lines[1][lines[0][c] : lines[0][c + 1]]
        mine = speakers[1][speakers[0][c] : speakers[0][c + 1]]
        if len(mine) == 0:
            continue
        count = may_be_named(cart, sold, category, banned, c, chosen)
        if floor > -np.inf:
            count = worth_naming(rows, mine, floor, chosen, count)
        total[:count] = 0.0
        for row in mine:
            gather(rows[row], chosen[:count], part)
            middle, reach = 0.0, 1.0
            if len(mine) > 1 and count:
                middle, reach = scale_of_part(part[:count], near)
            add_on_one_scale(part[:count], middle, reach, total)
        for i in range(count):
            filled[c] = keep_best(total[i] / len(mine), chosen[i], best_total, best[c], filled[c])


@compiled
def gather(scores, chosen, out):  # type: ignore[no-untyped-def]
    """The chosen scores, to the front of `out`."""
    for i in range(len(chosen)):
        out[i] = scores[chosen[i]]


@compiled
def add_on_one_scale(part, middle, reach, total):  # type: ignore[no-untyped-def]
    """Adds to `total` what an item of the cart says: 0 for `middle`, 1 for what is `reach` above it."""
    for i in range(len(part)):
        total[i] += (part[i] - middle) / reach


@compiled
def may_be_named(cart, sold, category, banned, stamp, out):  # type: ignore[no-untyped-def]
    """How many items may be named for a cart, which go to the front of `out`; banned: `stamp` where the cart has been.

    All that is sold, but for the cart and what shares a category with it.
    """
    for q in cart:
        if category[q] >= 0:
            banned[category[q]] = stamp
    count = 0
    for v in range(len(sold)):
        if sold[v] and (category[v] < 0 or banned[category[v]] != stamp):
            inside = False
            if category[v] < 0:
                for q in cart:
                    inside |= q == v
            out[count] = v
            count += not inside
    return count


@compiled
def worth_naming(rows, mine, floor, chosen, count):  # type: ignore[no-untyped-def]
    """How many of the first `count` chosen items any row scores above `floor`; they move to the front."""
    kept = 0
    for i in range(count):
        v = chosen[i]
        worth = False
        for row in mine:
            if rows[row, v] > floor:
                worth = True
                break
        chosen[kept] = v
        kept += worth
    return kept


@compiled
def scale_of_part(part, near):  # type: ignore[no-untyped-def]
    """The median of `part`, and how far above it the best is; infinitely far where it is not above."""
    middle = median_of(part, near)
    reach = np.float64(highest(part)) - middle
    return middle, reach if reach > 0 else np.inf


@compiled(fastmath={"nnan", "nsz", "reassoc"})  # scores are numbers: the highest of many at a time
def highest(part):  # type: ignore[no-untyped-def]
    best = part[0]
    for value in part:
        best = max(best, value)
    return best


@compiled
def median_of(part, near):  # type: ignore[no-untyped-def]
    """The median: a sample says about where it is, only the values near there are put in order; near: as long.

    It is the mean of the two in the middle where there are two.
    """
    size = len(part)
    first, last = (size - 1) // 2, size // 2
    step = max(1, size // SAMPLED)
    sampled = 0
    for i in range(0, size, step):
        near[sampled] = part[i]
        sampled += 1
    low = nth_smallest(near[:sampled], int(0.42 * sampled))
    high = nth_smallest(near[:sampled], min(int(0.58 * sampled) + 1, sampled - 1))
    below, count = 0, 0
    for value in part:
        near[count] = value
        count += (value >= low) & (value <= high)
        below += value < low
    if not (below <= first and last < below + count):
        near[:size] = part
        below, count = 0, size
    elif low == high:
        return np.float64(low)
    one = np.float64(nth_smallest(near[:count], first - below))
    if first == last:
        return one
    other = near[last - below]
    for value in near[last - below : count]:
        other = min(other, value)
    return (one + np.float64(other)) / 2.0


@compiled
def nth_smallest(values, n):  # type: ignore[no-untyped-def]
    """The value that would stand at place `n` in order; it stands there afterwards, none greater before it."""
    left, right = 0, len(values) - 1
    while left < right:
        pivot = values[(left + right) // 2]
        i, j = left, right
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if n <= j:
            right = j
        elif n >= i:
            left = i
        else:
            break
    return values[n]


@compiled
def keep_best(score, item, best_score, best_item, filled):  # type: ignore[no-untyped-def]
    """Put `item` into the sorted list of the best, equal scores in the order they come; the new length of the list."""
    k = len(best_item)
    if np.isnan(score) or (filled == k and not score > best_score[k - 1]):
        return filled  # of what has no number nothing can be said
    place = min(filled, k - 1)
    while place > 0 and best_score[place - 1] < score:
        best_score[place], best_item[place] = best_score[place - 1], best_item[place - 1]
        place -= 1
    best_score[place], best_item[place] = score, item
    return min(filled + 1, k)
