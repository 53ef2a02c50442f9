"""Which queries, partners and negatives a unit has: the meaning of `draws` and of the window, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from neatrec.models.embeddings.kernels.arguments import Draws, KernelSettings, Shard, groups_of
from neatrec.models.embeddings.kernels.draws import TRIES, Words

WORD = 2**64 - 1
HALF = 2**32 - 1
PARTNERS, QUERIES, USERS = 0, 1, 2
"""Streams of draws: what stands in for the partner, for the query, for the user."""


class Group(NamedTuple):
    """A query line, the partners that share its negatives, and the negatives (rows; those left out are not in it)."""

    line: int
    query: int
    partner_lines: list[int]
    partners: list[int]
    negatives: list[int]
    other_queries: list[int]
    other_users: list[int]
    user: int


def mixed(x: int) -> int:
    """`x` with every bit depending on every other."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def basket_key(seed: int, number: int) -> int:
    """What the draws of a basket are counted under."""
    return mixed((seed + number * 0xD1B54A32D192ED03) & WORD)


def counted(key: int, number: int) -> int:
    """Random bits number `number` under `key`."""
    return mixed((key + number * 0x9E3779B97F4A7C15) & WORD)


def picked(bits: int, alias: Words) -> int:
    """The row that random `bits` pick from an alias table."""
    slot = ((bits >> 32) * len(alias)) >> 32
    entry = int(alias[slot])
    return slot if (bits & HALF) < (entry >> 32) else entry & HALF


def holds(words: Words, a: int, b: int) -> bool:
    """Whether the filter `words` holds (a, b)."""
    bits = mixed(((a << 32) + b) & WORD)
    mask = 1 << (bits & 63) | 1 << ((bits >> 6) & 63) | 1 << ((bits >> 12) & 63)
    return int(words[((bits >> 32) * len(words)) >> 32]) & mask == mask


def groups(
    shard: Shard, draws: Draws, settings: KernelSettings, unit: int, pairs: range | None = None, users: int = 0
) -> Iterator[Group]:
    """The groups of a unit that have partners; with `pairs` only those whose pair's number is in the range.

    `users` is how many user rows there are to draw other users from.
    """
    basket, start, stop = int(shard.basket[unit]), int(shard.start[unit]), int(shard.stop[unit])
    begin, end = int(shard.offsets[basket]), int(shard.offsets[basket + 1])
    key = basket_key(int(draws.seed), int(shard.number[basket]))
    inside = {int(row) for row in shard.items[max(begin, start - settings.window) : min(end, stop + settings.window)]}
    user = int(shard.users[basket]) if len(shard.users) else -1
    several, seen = groups_of(settings), 0
    for line in range(start, stop):
        query = int(shard.items[line])
        near = [*range(line + 1, line + 1 + settings.window), *range(line - 1, line - 1 - settings.window, -1)]
        for g in range(several):
            places = near if settings.shared else [near[g]]
            partner_lines = [j for j in places if begin <= j < end and _is_pair(shard, query, int(shard.items[j]))]
            if not partner_lines:
                continue
            seen += len(partner_lines)
            if pairs is not None and seen - 1 not in pairs:
                continue
            number = (line - begin) * several + g
            yield Group(
                line,
                query,
                partner_lines,
                [int(shard.items[j]) for j in partner_lines],
                _items(draws, settings, key, number, inside, query, user),
                _items(draws, settings, mixed((key + QUERIES) & WORD), number, inside, query, user),
                _others(settings, mixed((key + USERS) & WORD), number, users, user),
                user,
            )


def _is_pair(shard: Shard, query: int, partner: int) -> bool:
    same = shard.category[query] >= 0 and shard.category[query] == shard.category[partner]
    return query != partner and not same


def _items(
    draws: Draws, settings: KernelSettings, key: int, number: int, inside: set[int], query: int, user: int
) -> list[int]:
    out = []
    for k in range(settings.negatives):
        bits = counted(key, number * settings.negatives + k)
        for _ in range(TRIES):
            row = picked(bits, draws.alias)
            if row not in inside and not _refused(draws, query, user, row):
                out.append(row)
                break
            bits = mixed((bits + 1) & WORD)
    return out


def _refused(draws: Draws, query: int, user: int, row: int) -> bool:
    if len(draws.observed) and holds(draws.observed, query, row):
        return True
    return len(draws.bought) > 0 and holds(draws.bought, user, row)


def _others(settings: KernelSettings, key: int, number: int, users: int, user: int) -> list[int]:
    out = []
    for k in range(settings.negatives if users else 0):
        bits = counted(key, number * settings.negatives + k)
        for _ in range(TRIES):
            row = ((bits >> 32) * users) >> 32
            if row != user:
                out.append(row)
                break
            bits = mixed((bits + 1) & WORD)
    return out
