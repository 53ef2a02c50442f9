"""Negatives of a position, in compiled code: `reference_draws` says which."""

from __future__ import annotations

from numpy import uint64 as u64

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.draws import TRIES, counted, holds, mixed, picked
from neatrec.models.embeddings.kernels.rows import prefetch, prefetch_row

SEEN_WORDS = 8
"""Words of `room.seen`: so many bits that most candidates need no look through the unit's lines."""


@compiled(inline="always")
def basket_key(seed, number):
    """What the draws of a basket are counted under."""
    return mixed(seed + u64(number) * u64(0xD1B54A32D192ED03))


@compiled(inline="always")
def roll(alias, key, group, dice, row, count):
    """Random bits for the candidates of group number `group` into dice[row]; asks for the alias entries they pick."""
    for k in range(count):
        bits = counted(key, u64(group * count + k))
        dice[row, k] = bits
        prefetch(alias, ((bits >> u64(32)) * u64(len(alias))) >> u64(32))


@compiled(inline="always")
def draw_ahead(table, alias, dice, negative, row, count, chunks):
    """Turn dice[row] into candidates negative[row]; asks for their rows."""
    for k in range(count):
        item = picked(dice[row, k], alias)
        negative[row, k] = item
        prefetch_row(table, item, chunks)


@compiled(inline="always")
def roll_all(alias, key, group, room, count, negatives):
    """`roll` for `count` groups numbered from `group` on."""
    for n in range(count):
        roll(alias, key, group + n, room.dice, n, negatives)


@compiled(inline="always")
def draw_all(table, alias, room, count, negatives, chunks):
    """`draw_ahead` for the first `count` groups."""
    for n in range(count):
        draw_ahead(table, alias, room.dice, room.negative, n, negatives, chunks)


@compiled(inline="always")
def draw(alias, key, group, dice, negative, row, count):
    """The candidates of group number `group` into negative[row], with their random bits in dice[row]."""
    for k in range(count):
        bits = counted(key, u64(group * count + k))
        dice[row, k] = bits
        negative[row, k] = picked(bits, alias)


@compiled(inline="always")
def enter(shard, low, count, room):
    """Note rows and categories of `count` lines from `low` on; `room.seen` gets a bit for the last bits of each row."""
    for word in range(SEEN_WORDS):
        room.seen[word] = u64(0)
    for i in range(count):
        row = u64(shard.items[low + i])
        room.item[0, i] = row
        room.category[0, i] = shard.category[row]
        room.seen[(row >> u64(6)) & u64(SEEN_WORDS - 1)] |= u64(1) << (row & u64(63))


@compiled(inline="always")
def _maybe_seen(seen, row):
    return (seen[(u64(row) >> u64(6)) & u64(SEEN_WORDS - 1)] >> (u64(row) & u64(63))) & u64(1) == u64(1)


@compiled
def _another(item, bits, items, lines, seen, query, user, alias, observed, bought):
    for _ in range(TRIES):
        refused = False
        if _maybe_seen(seen, item):
            for i in range(lines):
                refused |= items[0, i] == item
        if len(observed) > 0:
            refused |= holds(observed, query, item)
        if len(bought) > 0:
            refused |= holds(bought, user, item)
        if not refused:
            return item
        bits = mixed(bits + u64(1))
        item = picked(bits, alias)
    return query


@compiled(inline="always")
def accept(room, negative, row, count, lines, query, user, draws):
    """Replace candidates of negative[row] that are refused; one that cannot be replaced becomes the query itself."""
    for k in range(count):
        item = negative[row, k]
        if _maybe_seen(room.seen, item) or len(draws.observed) > 0 or len(draws.bought) > 0:
            negative[row, k] = _another(
                item,
                room.dice[row, k],
                room.item,
                lines,
                room.seen,
                query,
                user,
                draws.alias,
                draws.observed,
                draws.bought,
            )


@compiled
def draw_others(key, group, negative, row, count, users, user):
    """Other users than `user` for group number `group` into negative[row]; where there is none, the user."""
    for k in range(count):
        bits = counted(key, u64(group * count + k))
        other = user
        for _ in range(TRIES):
            other = ((bits >> u64(32)) * u64(users)) >> u64(32)
            if other != user:
                break
            bits = mixed(bits + u64(1))
        negative[row, k] = other
