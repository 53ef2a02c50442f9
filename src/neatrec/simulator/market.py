"""`supermarket(...)`: simulated baskets of one year, with the truth about what goes together."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.baskets import Attribute, Baskets
from neatrec.data.catalog import Catalog
from neatrec.data.randomness import children, kernel_seed
from neatrec.errors import must_be, must_be_one_of, require_whole
from neatrec.simulator.catalog import (
    STAPLE,
    Assortment,
    choose_assortment,
    make_catalog,
    product_table,
)
from neatrec.simulator.kernel import ItemDraws, Trips, Visits, VisitTables, draw_visits, fill_carts
from neatrec.simulator.planting import (
    PlantedPairs,
    PlantedTruth,
    plant_complements,
    substitute_groups,
    substitute_pairs,
    trap_pairs,
)
from neatrec.simulator.tables import (
    alias_table,
    basket_size_table,
    draw_weights,
    partners_by_query,
    share_of_lines,
    store_table,
)

VISITS = 8
"""Mean baskets of a household, when the number of households is not given."""


def parse_supermarket_spec(spec: str) -> dict[str, Any]:
    """The keyword arguments of `supermarket` that a SOURCE such as `supermarket:baskets=5000,seed=3` stands for.

    >>> parse_supermarket_spec("supermarket:baskets=5_000,items=800,seed=3")
    {'baskets': 5000, 'items': 800, 'seed': 3}
    """
    name, _, rest = spec.partition(":")
    if name != "supermarket":
        raise must_be("source", "`supermarket` or `supermarket:key=value,...`", spec)
    options: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = (text.strip() for text in part.partition("="))
        if key not in SupermarketOptions.__dataclass_fields__:
            raise must_be_one_of("supermarket", SupermarketOptions.__dataclass_fields__, key)
        if not equals or not value:
            raise must_be(f"supermarket:{key}", f"followed by a value, as in {key}=3", part)
        if key in options:
            raise must_be(f"supermarket:{key}", "given once", spec)
        whole = key != "strength"
        try:
            options[key] = int(value) if whole else float(value)
        except ValueError:
            raise must_be(
                f"supermarket:{key}", "a whole number" if whole else "a number", value
            ) from None
    SupermarketOptions(**options)
    return options


@dataclass(frozen=True)
class SupermarketOptions:
    """See `supermarket`."""

    baskets: int = 30_000
    items: int = 1_000
    households: int | None = None
    stores: int = 6
    strength: float = 1.0
    changes: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        require_whole("baskets", self.baskets, 1, 200_000_000)
        require_whole("items", self.items, 60, 1_000_000)
        if self.households is not None:
            hint = "There cannot be more households than baskets."
            require_whole("households", self.households, 1, self.baskets, hint=hint)
        require_whole("stores", self.stores, 2, 1_000)
        require_whole("seed", self.seed, 0, 2**63 - 1)
        require_whole("changes", self.changes, 0, 1)
        strength = self.strength
        if (
            isinstance(strength, bool)
            or not isinstance(strength, int | float)
            or not 0 <= strength <= 2
        ):
            raise must_be("strength", "a number from 0 (nothing goes together) to 2", strength)


DAYS = 365
FIRST_DAY_OF_DECEMBER = 334
NEW_YEAR = np.datetime64("2025-01-01T00:00:00", "us").astype(np.int64)
HOUR = 3_600_000_000
OPENS, OPEN_HOURS = 7, 15
LARGEST_BASKET = 100


@dataclass(frozen=True, eq=False)
class Supermarket:
    """A year of shopping, and what is true about it."""

    baskets: Baskets
    truth: PlantedTruth


@dataclass(frozen=True)
class ShopLayout:
    """Everything that is decided before the first basket is drawn."""

    seed: int
    catalog: Catalog
    kind: npt.NDArray[np.int8]
    group: npt.NDArray[np.int32]
    planted: PlantedPairs
    size_table: npt.NDArray[np.float64]
    store_table: npt.NDArray[np.float64]
    trap_store: int
    alias: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]


def supermarket(
    baskets: int = SupermarketOptions.baskets,
    items: int = SupermarketOptions.items,
    *,
    households: int | None = None,
    stores: int = SupermarketOptions.stores,
    strength: float = 1.0,
    changes: int = 0,
    seed: int = 0,
    threads: int | None = None,
) -> Supermarket:
    """Simulate one year of a supermarket, with the truth about what goes together.

    Parameters
    ----------
    baskets
        Number of baskets.
    items
        Number of items in the catalogue.
    households
        Number of customers; None: an eighth of the baskets. As many as baskets: each shops once.
    stores
        Number of stores.
    strength
        Factor on the strength of all complements; 0: nothing goes together.
    changes
        1: other items go together from the middle of the year on, and the truth is that of the
        second half.
    seed
        Seed; the same one gives the same bits for any number of threads.
    threads
        Number of threads; None: all cores.

    Examples
    --------
    >>> market = supermarket(baskets=1_000, items=100)
    >>> market.baskets
    <Baskets 1,000 baskets, 9,974 lines, 100 items, 124 users, in cart order>
    """
    SupermarketOptions(baskets, items, households, stores, strength, changes, seed)
    threads = _cores() if threads is None else require_whole("threads", threads)
    households = max(1, baskets // VISITS) if households is None else households
    shop, truth = _build_shop(items, stores, strength, seed, half=0 if changes else None)
    source = f"supermarket:baskets={baskets},items={items},households={households},stores={stores},seed={seed}"
    if strength != 1.0:
        source += f",strength={strength:g}"
    later = shop
    if changes:
        source += ",changes=1"
        later, truth = _build_shop(items, stores, strength, seed, half=1)
    return Supermarket(_simulate(shop, later, baskets, households, threads, source), truth)


def _build_shop(
    items: int, stores: int, strength: float, seed: int, *, half: int | None
) -> tuple[ShopLayout, PlantedTruth]:
    assortment, naming, selling, planting, kernel = children(seed, 5)
    chosen = choose_assortment(items, assortment)
    share = share_of_lines(chosen, selling)
    planted = plant_complements(chosen, share, strength, planting, half=half)
    kind = np.array([product.kind for product in product_table().products], dtype=np.int8)[
        chosen.product
    ]
    sizes, store_shares = basket_size_table(min(LARGEST_BASKET, items // 3)), store_table(stores)
    trap_store = stores - 1
    trap_share = float(store_shares[trap_store] - store_shares[trap_store - 1])
    shop = ShopLayout(
        seed=kernel_seed(kernel),
        catalog=make_catalog(chosen, naming),
        kind=kind,
        group=substitute_groups(chosen, share),
        planted=planted,
        size_table=sizes,
        store_table=store_shares,
        trap_store=trap_store,
        alias=alias_table(draw_weights(share, kind, planted, sizes, trap_share)),
    )
    return shop, _truth(shop, chosen)


def _truth(shop: ShopLayout, chosen: Assortment) -> PlantedTruth:
    trap_query, trap_item, trap_kind = trap_pairs(chosen, shop.kind)
    variants = shop.catalog.variant_codes
    return PlantedTruth(
        query=shop.planted.query,
        item=shop.planted.item,
        strength=shop.planted.strength,
        substitutes=substitute_pairs(shop.group),
        trap_query=trap_query,
        trap_item=trap_item,
        trap_kind=trap_kind,
        noise=np.flatnonzero((shop.kind == STAPLE) & (chosen.number == 0)).astype(np.int32),
        variant_items=np.unique(variants) if variants is not None else np.zeros(0, dtype=np.int32),
        items=len(shop.catalog),
        trap_store=_store_name(shop.trap_store),
    )


def _simulate(
    shop: ShopLayout, later: ShopLayout, baskets: int, households: int, threads: int, source: str
) -> Baskets:
    """Baskets of `shop` in the first half of the year; of `later`, which has other complements, in the second."""
    visits = Visits(*(np.empty(baskets, dtype=np.int32) for _ in range(3)))
    tables = VisitTables(shop.seed, baskets, households, shop.size_table, shop.store_table)
    _in_parallel(lambda start, stop: draw_visits(tables, start, stop, visits), baskets, threads)
    offsets = np.concatenate([[0], np.cumsum(visits.size, dtype=np.int64)])
    number = np.arange(baskets, dtype=np.int64)
    day = number * DAYS // baskets
    items = np.empty(offsets[-1], dtype=np.int32)
    department = np.ascontiguousarray(shop.catalog.category_of("department"))
    trips = Trips(shop.seed, offsets, visits, day >= FIRST_DAY_OF_DECEMBER, shop.trap_store)
    draws = [
        ItemDraws(
            each.kind,
            department,
            each.group,
            *each.alias,
            *partners_by_query(each.planted, len(each.catalog)),
        )
        for each in (shop, later)
    ]

    def fill(start: int, stop: int) -> None:
        middle = min(max(start, (baskets + 1) // 2), stop)
        fill_carts(trips, start, middle, draws[0], items)
        fill_carts(trips, middle, stop, draws[1], items)

    _in_parallel(fill, baskets, threads)
    users, user_codes = np.unique(visits.household, return_inverse=True)
    return Baskets(
        catalog=shop.catalog,
        items=items,
        offsets=offsets,
        ids=_numbered(number, baskets),
        ordered=True,
        users=user_codes.astype(np.int32),
        user_ids=_numbered(users, households),
        times=_times(number, day, baskets),
        attributes={
            "store": Attribute(
                visits.store, tuple(_store_name(k) for k in range(len(shop.store_table)))
            )
        },
        source=source,
    )


def _numbered(number: npt.NDArray[Any], count: int) -> pa.LargeStringArray:
    """Whole numbers of equal length as strings, so that they sort alike as numbers and as strings."""
    return pc.cast(pa.array(number.astype(np.int64) + 10 ** len(str(count))), pa.large_string())


def _times(
    number: npt.NDArray[np.int64], day: npt.NDArray[np.int64], baskets: int
) -> npt.NDArray[np.int64]:
    """Later baskets have later times, within opening hours; microseconds since 1970."""
    part_of_day = number * DAYS / baskets - day
    return np.asarray(
        NEW_YEAR + (day * 24 + OPENS) * HOUR + (part_of_day * OPEN_HOURS * HOUR).astype(np.int64)
    )


def _store_name(number: int) -> str:
    return f"Store {number + 1:02d}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_parallel(work: Callable[[int, int], None], count: int, threads: int) -> None:
    """`work(start, stop)` over slices of range(count), on `threads` threads."""
    slices = min(count, max(1, threads * 8))
    edges = [count * k // slices for k in range(slices + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, edges[:-1], edges[1:]))
