"""The compiled simulation: households visit stores and fill their carts line by line.

Every basket has a random stream of its own, keyed by seed and basket number, and so has every
household: the contents of a basket depend neither on the number of threads nor on other baskets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from neatrec.compiled import compiled, splitmix64
from neatrec.simulator.catalog import DECEMBER_ONLY, LARGE_BASKET, ONE_STORE_ONLY, PLAIN, STAPLE

BASKET_STREAM, HOUSEHOLD_STREAM, TASTE_STREAM, FAVOURITE_STREAM = 1, 2, 3, 4

AT_HOME_STORE = 0.9
SIZE_HABIT = 0.6  # how far a household's baskets stray from its usual size, as a share of all sizes
SHARE_OF_FAVOURITES = 0.35
FAVOURITES = 12
REPLACED = 0.92  # how often a substitute in the cart keeps an item out
STOCK_UP_SIZE = 36  # lines of a shopping trip on which stocks are filled up
MAX_TRIES = 400  # then the first item that is not in the cart will do
MAX_WAITING = 8


class VisitTables(NamedTuple):
    """The numbers and distributions that visits are drawn from."""

    seed: Any
    baskets: int
    households: int
    size_table: Any
    """Cumulative shares of the basket sizes, shape (largest,)."""
    store_table: Any
    """Cumulative shares of the stores, shape (stores,)."""


class Visits(NamedTuple):
    """Household, store and size of each basket, shape (baskets,)."""

    household: Any
    store: Any
    size: Any


class ItemDraws(NamedTuple):
    """The tables that items are drawn from: arrays by item, and complements by query."""

    kind: Any
    department: Any
    group: Any
    alias_share: Any
    alias_item: Any
    partner_offsets: Any
    partner: Any
    partner_until: Any
    """Cumulative strengths, reset for each query."""


class Trips(NamedTuple):
    """All visits of a simulation, with their times and the store of the trap."""

    seed: Any
    offsets: Any
    """Where each basket starts and the last one ends, shape (baskets + 1,)."""
    visits: Visits
    is_december: Any
    trap_store: Any


class Visit(NamedTuple):
    """One shopping trip."""

    seed: Any
    household: Any
    december: Any
    in_store: Any
    """Whether the store is the only one that sells the items of the one-store trap."""
    stock_up: Any
    """How readily stock-up items are taken."""


@compiled(inline="always")
def key(seed, stream, number):
    """The start of a stream of its own for (seed, stream, number)."""
    return splitmix64(
        splitmix64(np.uint64(seed) + np.uint64(stream) * np.uint64(0x9E3779B97F4A7C15))
        ^ splitmix64(np.uint64(number))
    )


@compiled(inline="always")
def bits(state):
    """The next 64 bits of the stream; `state` (1,) moves on."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return splitmix64(state[0])


@compiled(inline="always")
def uniform(state):
    """The next number of the stream in [0, 1)."""
    return (bits(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def draw_item(state, alias_share, alias_item):
    """An item by its weight, from an alias table: shapes (items,)."""
    random = bits(state)
    slot = np.int64(((random >> np.uint64(32)) * np.uint64(len(alias_item))) >> np.uint64(32))
    if np.int64(random & np.uint64(0xFFFFFFFF)) < alias_share[slot]:
        return slot
    return np.int64(alias_item[slot])


@compiled
def position_in(table, value):
    """The first position whose cumulative share exceeds `value`."""
    low, high = 0, len(table) - 1
    while low < high:
        middle = (low + high) // 2
        if table[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def taste(seed, household, department):
    """How readily a household takes items of a department: 0.15, 0.45, 0.8 or 1."""
    quarter = key(seed, TASTE_STREAM, household * 64 + department) >> np.uint64(62)
    return (0.15, 0.45, 0.8, 1.0)[quarter]


@compiled
def stocking_up(size):
    """How readily stock-up items are taken on a trip of `size` lines: (size / 36)^6, at most 1."""
    cube = (size / STOCK_UP_SIZE) * (size / STOCK_UP_SIZE) * (size / STOCK_UP_SIZE)
    return min(1.0, cube * cube)


@compiled
def draw_visits(tables, start, stop, visits):
    """Draw household, store and size of the baskets from start to stop into `visits`."""
    state = np.empty(1, dtype=np.uint64)
    own = np.empty(1, dtype=np.uint64)
    for basket in range(start, stop):
        state[0] = key(tables.seed, BASKET_STREAM, 2 * basket)
        # half of the visits are spread evenly, half go to the regular customers
        quantile = uniform(state)
        if uniform(state) < 0.5:
            quantile *= uniform(state)
        household = np.int64(quantile * tables.households)
        if tables.households >= tables.baskets:
            household = np.int64(basket)
        own[0] = key(tables.seed, HOUSEHOLD_STREAM, household)
        home = position_in(tables.store_table, uniform(own))
        store = home
        if uniform(state) >= AT_HOME_STORE:
            store = position_in(tables.store_table, uniform(state))
        # reflected at both ends, so that sizes over all baskets follow the table exactly
        quantile = abs(uniform(own) + SIZE_HABIT * (uniform(state) - 0.5))
        quantile = 2.0 - quantile if quantile > 1.0 else quantile
        visits.household[basket] = household
        visits.store[basket] = store
        visits.size[basket] = position_in(tables.size_table, quantile) + 1


@compiled
def draw_by_taste(state, visit, draws):
    """An item that this household takes on this visit; popular noise regardless of taste.

    The first draw alone decides between noise and the rest: the amount of noise in a basket is
    independent of tastes.
    """
    item = draw_item(state, draws.alias_share, draws.alias_item)
    if draws.kind[item] == STAPLE:
        return item
    while True:
        what = draws.kind[item]
        if what == PLAIN:
            accept = taste(visit.seed, visit.household, draws.department[item])
        elif what == DECEMBER_ONLY:
            accept = 1.0 if visit.december else 0.0
        elif what == ONE_STORE_ONLY:
            accept = 1.0 if visit.in_store else 0.0
        elif what == LARGE_BASKET:
            accept = visit.stock_up
        else:
            accept = 0.0
        if accept > 0.0 and uniform(state) < accept:
            return item
        item = draw_item(state, draws.alias_share, draws.alias_item)


@compiled
def draw_favourite(state, own, visit, draws):
    """One of the household's favourites, the first most often; the same ones at every visit."""
    draw = uniform(state)
    number = np.int64(FAVOURITES * draw * draw)
    own[0] = key(visit.seed, FAVOURITE_STREAM, visit.household * 64 + number)
    return draw_by_taste(own, Visit(visit.seed, visit.household, False, False, 0.0), draws)


@compiled
def fits(state, item, cart, filled, group):
    """Whether the item may join the cart: never twice, and hardly ever beside a substitute."""
    for line in range(filled):
        if cart[line] == item:
            return False
    for line in range(filled):
        if group[cart[line]] == group[item]:
            return uniform(state) >= REPLACED
    return True


@compiled
def delay(state):
    """Lines between an item and the complement it brings: 0 to 3, mostly none."""
    draw = uniform(state)
    return (draw >= 0.5) + (draw >= 0.75) + (draw >= 0.9)


@compiled
def not_in_cart(cart, filled, kind):
    """The first ordinary item outside the cart, for the rare basket that gets no other item."""
    for item in range(len(kind)):
        if kind[item] <= STAPLE:
            here = False
            for line in range(filled):
                here = here or cart[line] == item
            if not here:
                return item
    return 0


@compiled
def take_due(waiting, due, queue, filled):
    """The first waiting complement that is due, or -1; the last of the queue fills its slot."""
    for slot in range(queue):
        if due[slot] <= filled:
            item = waiting[slot]
            waiting[slot] = waiting[queue - 1]
            due[slot] = due[queue - 1]
            return item
    return -1


@compiled
def brought_by(state, item, draws):
    """The complement that the item brings this time, or -1."""
    first, end = draws.partner_offsets[item], draws.partner_offsets[item + 1]
    if first == end:
        return -1
    draw = uniform(state)
    for choice in range(first, end):
        if draw < draws.partner_until[choice]:
            return draws.partner[choice]
    return -1


@compiled
def fill_carts(trips, start, stop, draws, items):
    """Fill `items` (lines,) of the baskets from start to stop, in cart order.

    A line is, in this order: a complement that an earlier line brings and that is due; a favourite
    of the household; an item by taste. Only lines of the last two kinds bring complements, each at
    most one, so that two complements of one item are independent of each other.
    """
    state = np.empty(1, dtype=np.uint64)
    own = np.empty(1, dtype=np.uint64)
    waiting = np.empty(MAX_WAITING, dtype=np.int64)
    due = np.empty(MAX_WAITING, dtype=np.int64)
    for basket in range(start, stop):
        state[0] = key(trips.seed, BASKET_STREAM, 2 * basket + 1)
        size = trips.offsets[basket + 1] - trips.offsets[basket]
        cart = items[trips.offsets[basket] : trips.offsets[basket + 1]]
        household, december = trips.visits.household[basket], trips.is_december[basket]
        in_store = trips.visits.store[basket] == trips.trap_store
        visit = Visit(trips.seed, household, december, in_store, stocking_up(size))
        filled, queue, tries = 0, 0, 0
        while filled < size:
            item = take_due(waiting, due, queue, filled)
            if item >= 0:
                queue -= 1
                if fits(state, item, cart, filled, draws.group):
                    cart[filled] = item
                    filled += 1
                continue
            tries += 1
            if tries > MAX_TRIES:
                item = not_in_cart(cart, filled, draws.kind)
            elif uniform(state) < SHARE_OF_FAVOURITES:
                item = draw_favourite(state, own, visit, draws)
            else:
                item = draw_by_taste(state, visit, draws)
            if tries <= MAX_TRIES and not fits(state, item, cart, filled, draws.group):
                continue
            cart[filled] = item
            filled += 1
            tries = 0
            complement = brought_by(state, item, draws)
            if complement >= 0 and queue < MAX_WAITING:
                waiting[queue] = complement
                due[queue] = filled + delay(state)
                queue += 1
