"""The quick way through a span: each unit's changes are made at once, its negatives are drawn one unit ahead."""

from __future__ import annotations

from numpy import float32 as f32

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.borrowed import borrowed
from neatrec.models.embeddings.kernels.cpu_negatives import accept, basket_key, draw_ahead, roll
from neatrec.models.embeddings.kernels.rows import prefetch, prefetch_row

RELAXED = {"reassoc", "contract", "nsz", "arcp"}
"""What the compiler may do with sums; it may not assume that there are no NaN."""


@compiled(inline="always")
def bounds(shard, unit, window):
    """The lines of a unit: first one loaded, how many are loaded, and its queries, counted from the first loaded."""
    basket = shard.basket[unit]
    low = max(shard.offsets[basket], shard.start[unit] - window)
    high = min(shard.offsets[basket + 1], shard.stop[unit] + window)
    return low, high - low, shard.start[unit] - low, shard.stop[unit] - low


@compiled(inline="always")
def in_basket(line, g, begin, end, settings):
    """Whether the partner of group g of a line lies in its basket; with shared negatives, whether any does."""
    if settings.shared:
        return end - begin > 1
    partner = line + 1 + g if g < settings.window else line - 1 - (g - settings.window)
    return begin <= partner < end


@compiled(inline="always")
def at_once(
    gather, compare, push, settle, tables, shard, draws, settings, first, last, room, groups, dims, slots, near
):
    """Visit the units one after the other, changing the tables as it goes: (pairs, loss, active hinges).

    Rows of negatives belong to the last table. The turn before the first unit only draws for it.
    """
    tables, shard, draws, room = borrowed(tables), borrowed(shard), borrowed(draws), borrowed(room)
    far, window, negatives = tables[len(tables) - 1], settings.window, settings.negatives
    pairs, loss, active = 0.0, 0.0, 0.0
    for unit in range(first - 1, last):
        following = min(unit + 1, last - 1)
        begin, lines = shard.start[following], shard.stop[following] - shard.start[following]
        basket = shard.basket[following]
        basket_start, basket_end = shard.offsets[basket], shard.offsets[basket + 1]
        low, count, start, stop = bounds(shard, max(unit, first), window)
        if unit < first:
            count, stop = 0, start
        queries = stop - start
        rate = f32(settings.rate + (settings.last_rate - settings.rate) * (unit - first) / (last - first))
        gather(tables, shard, low, count, room, dims, near)
        for n in range(queries * groups):
            for k in range(negatives):
                room.negative[n, k] = room.ahead[n, k]
            query = room.item[0, start + n // groups]
            accept(room, room.negative, n, negatives, count, query, -1, draws)
        key = basket_key(draws.seed, shard.number[basket])
        for n in range(lines * groups):
            if in_basket(begin + n // groups, n % groups, basket_start, basket_end, settings):
                roll(draws.alias, key, (begin - basket_start) * groups + n, room.dice, n, negatives)
        p, e, a = compare(tables, room, count, start, stop, groups, settings, dims, slots, near)
        pairs += p
        loss += e
        active += a
        done = 0
        for n in range(max(1, queries)):
            until = (n + 1) * lines // max(1, queries)
            for m in range(done, until):
                for table in tables:
                    prefetch_row(table, shard.items[begin + m], dims)
                prefetch(shard.category, shard.items[begin + m])
                for g in range(groups):
                    if in_basket(begin + m, g, basket_start, basket_end, settings):
                        draw_ahead(far, draws.alias, room.dice, room.ahead, m * groups + g, negatives, dims)
            done = until
            if n < queries:
                loss += push(
                    tables, room, start + n, n * groups, n * groups + groups, unit, settings, rate, dims, slots
                )
        settle(tables, room, count, settings, rate, dims, near)
    return pairs, loss, active
