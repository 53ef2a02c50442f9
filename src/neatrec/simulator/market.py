"""`supermarket(...)`: a shop is furnished, its tills run on all cores, and the baskets come back with the truth."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.baskets import Attribute, Baskets
from neatrec.data.catalog import Catalog
from neatrec.data.randomness import children, kernel_seed
from neatrec.errors import must_be
from neatrec.simulator.catalog import Assortment, choose_range, make_catalog
from neatrec.simulator.kernel import draw_visits, fill_carts
from neatrec.simulator.options import BASKETS, ITEMS, STORES, VISITS, check_options
from neatrec.simulator.planting import (
    PlantedPairs,
    plant_complements,
    substitute_groups,
    substitute_pairs,
    trap_pairs,
)
from neatrec.simulator.popularity import basket_size_table, share_of_lines
from neatrec.simulator.products import STAPLE, all_goods
from neatrec.simulator.tables import alias_table, draw_weights, partners_by_query, store_table
from neatrec.simulator.truth import PlantedTruth

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
    """A furnished shop: everything that is decided before the first customer comes."""

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
    baskets: int = BASKETS,
    items: int = ITEMS,
    *,
    households: int | None = None,
    stores: int = STORES,
    strength: float = 1.0,
    seed: int = 0,
    threads: int | None = None,
) -> Supermarket:
    """Simulated baskets of one year in cart order, with the truth about what goes together.

    `households` (default: an eighth of the baskets) shop again and again, or once each when there are as many of them
    as baskets. `strength` multiplies the strength of all complements; 0 is a shop in which nothing goes together. The
    same seed gives the same bits for any number of threads.
    """
    check_options(baskets, items, households, stores, strength, seed)
    if threads is not None and threads < 1:
        raise must_be("threads", "at least 1", threads)
    households = max(1, baskets // VISITS) if households is None else households
    shop, truth = _furnish(items, stores, strength, seed)
    source = f"supermarket:baskets={baskets},items={items},households={households},stores={stores},seed={seed}"
    if strength != 1.0:
        source += f",strength={strength:g}"
    return Supermarket(_open_for_a_year(shop, baskets, households, threads or _cores(), source), truth)


def _furnish(items: int, stores: int, strength: float, seed: int) -> tuple[ShopLayout, PlantedTruth]:
    assortment, naming, selling, planting, tills = children(seed, 5)
    chosen = choose_range(items, assortment)
    share = share_of_lines(chosen, selling)
    planted = plant_complements(chosen, share, strength, planting)
    kind = np.array([product.kind for product in all_goods().products], dtype=np.int8)[chosen.product]
    sizes, store_shares = basket_size_table(min(LARGEST_BASKET, items // 3)), store_table(stores)
    trap_store = stores - 1
    trap_share = float(store_shares[trap_store] - store_shares[trap_store - 1])
    shop = ShopLayout(
        seed=kernel_seed(tills),
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


def _open_for_a_year(shop: ShopLayout, baskets: int, households: int, threads: int, source: str) -> Baskets:
    household_of, store_of, size_of = (np.empty(baskets, dtype=np.int32) for _ in range(3))

    def visit(start: int, stop: int) -> None:
        draw_visits(
            shop.seed,
            start,
            stop,
            baskets,
            households,
            shop.size_table,
            shop.store_table,
            household_of,
            store_of,
            size_of,
        )

    _in_parallel(visit, baskets, threads)
    offsets = np.concatenate([[0], np.cumsum(size_of, dtype=np.int64)])
    number = np.arange(baskets, dtype=np.int64)
    day = number * DAYS // baskets
    items = np.empty(offsets[-1], dtype=np.int32)
    department = np.ascontiguousarray(shop.catalog.category_of("department"))
    tables = (shop.kind, department, shop.group, *shop.alias, *partners_by_query(shop.planted, len(shop.catalog)))
    is_december = day >= FIRST_DAY_OF_DECEMBER

    def fill(start: int, stop: int) -> None:
        fill_carts(
            shop.seed, start, stop, offsets, household_of, store_of, is_december, shop.trap_store, *tables, items
        )

    _in_parallel(fill, baskets, threads)
    users, user_codes = np.unique(household_of, return_inverse=True)
    return Baskets(
        catalog=shop.catalog,
        items=items,
        offsets=offsets,
        ids=_numbered(number, baskets),
        ordered=True,
        users=user_codes.astype(np.int32),
        user_ids=_numbered(users, households),
        times=_times(number, day, baskets),
        attributes={"store": Attribute(store_of, tuple(_store_name(k) for k in range(len(shop.store_table))))},
        source=source,
    )


def _numbered(number: npt.NDArray[Any], count: int) -> pa.LargeStringArray:
    """Whole numbers of equal length as strings, so that they sort alike as numbers and as strings."""
    return pc.cast(pa.array(number.astype(np.int64) + 10 ** len(str(count))), pa.large_string())


def _times(number: npt.NDArray[np.int64], day: npt.NDArray[np.int64], baskets: int) -> npt.NDArray[np.int64]:
    """Later baskets have later times, within opening hours; microseconds since 1970."""
    part_of_day = number * DAYS / baskets - day
    return np.asarray(NEW_YEAR + (day * 24 + OPENS) * HOUR + (part_of_day * OPEN_HOURS * HOUR).astype(np.int64))


def _store_name(number: int) -> str:
    return f"Store {number + 1:02d}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_parallel(work: Callable[[int, int], None], count: int, threads: int) -> None:
    """`work(start, stop)` over slices of range(count), on `threads` threads."""
    slices = min(count, max(1, threads * 8))
    edges = [count * k // slices for k in range(slices + 1)]
    if threads == 1:
        for start, stop in pairwise(edges):
            work(start, stop)
        return
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, start, stop) for start, stop in pairwise(edges)]:
            done.result()
