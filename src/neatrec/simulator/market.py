"""`supermarket(...)`: simulated baskets of one year, with the truth about their complements."""

from __future__ import annotations

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
from neatrec.memory import available_processors
from neatrec.simulator.catalog import (
    STAPLE,
    Floats,
    draw_assortment,
    make_catalog,
    product_kinds,
    product_table,
)
from neatrec.simulator.kernel import ItemDraws, Trips, Visits, VisitTables, draw_visits, fill_carts
from neatrec.simulator.planting import (
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
"""Mean baskets of a household, where the number of households is not given."""
DAYS = 365
FIRST_DAY_OF_DECEMBER = 334
NEW_YEAR = np.datetime64("2025-01-01T00:00:00", "us").astype(np.int64)
HOUR = 3_600_000_000
OPENS, OPEN_HOURS = 7, 15
LARGEST_BASKET = 100


@dataclass(frozen=True)
class SupermarketOptions:
    """See `supermarket`."""

    baskets: int = 30_000
    items: int = 1_000
    households: int | None = None
    stores: int = 6
    strength: float = 1.0
    coarse: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        require_whole("baskets", self.baskets, 1, 200_000_000)
        require_whole("items", self.items, 60, 1_000_000)
        if self.households is not None:
            hint = "There cannot be more households than baskets."
            require_whole("households", self.households, 1, self.baskets, hint=hint)
        require_whole("stores", self.stores, 2, 1_000)
        require_whole("seed", self.seed, 0, 2**63 - 1)
        if self.coarse not in (0, 1):
            raise must_be("coarse", "0 or 1", self.coarse)
        strength, number = self.strength, isinstance(self.strength, int | float)
        if isinstance(strength, bool) or not number or not 0 <= strength <= 2:
            raise must_be("strength", "a number from 0 (nothing goes together) to 2", strength)


def parse_supermarket_spec(spec: str) -> dict[str, Any]:
    """Read a SOURCE such as `supermarket:baskets=5000,seed=3` as arguments of `supermarket`.

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
            wanted = "a whole number" if whole else "a number"
            raise must_be(f"supermarket:{key}", wanted, value) from None
    SupermarketOptions(**options)
    return options


@dataclass(frozen=True, eq=False)
class Supermarket:
    """A year of shopping, and the truth about it."""

    baskets: Baskets
    truth: PlantedTruth


@dataclass(frozen=True)
class ShopLayout:
    """Everything that is decided before the first basket is drawn."""

    seed: int
    catalog: Catalog
    size_table: Floats
    store_table: Floats
    draws: ItemDraws


def supermarket(
    baskets: int = SupermarketOptions.baskets,
    items: int = SupermarketOptions.items,
    *,
    households: int | None = None,
    stores: int = SupermarketOptions.stores,
    strength: float = 1.0,
    coarse: bool = False,
    seed: int = 0,
    threads: int | None = None,
) -> Supermarket:
    """Simulate one year of a supermarket, with the truth about its complements.

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
    coarse
        One level of coarse categories, in which an item and its complements share a category, in
        place of departments and aisles. The baskets are the same.
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
    options = SupermarketOptions(baskets, items, households, stores, strength, coarse, seed)
    threads = available_processors() if threads is None else require_whole("threads", threads)
    households = max(1, baskets // VISITS) if households is None else households
    shop, truth = _build_shop(options)
    source = f"supermarket:baskets={baskets},items={items},households={households}"
    source += f",stores={stores},seed={seed}"
    source += f",strength={strength:g}" if strength != 1.0 else ""
    source += ",coarse=1" if coarse else ""
    return Supermarket(_simulate(shop, baskets, households, threads, source), truth)


def _build_shop(options: SupermarketOptions) -> tuple[ShopLayout, PlantedTruth]:
    items, stores = options.items, options.stores
    drawing, naming, selling, planting, kernel = children(options.seed, 5)
    assortment = draw_assortment(items, drawing)
    share = share_of_lines(assortment, selling)
    planted = plant_complements(assortment, share, options.strength, planting)
    kind = product_kinds()[assortment.product]
    sizes, store_shares = basket_size_table(min(LARGEST_BASKET, items // 3)), store_table(stores)
    group = substitute_groups(assortment, share)
    catalog = make_catalog(assortment, naming, coarse=bool(options.coarse))
    weights = draw_weights(share, kind, planted, sizes, float(store_shares[-1] - store_shares[-2]))
    department = np.array([p.department for p in product_table().products], dtype=np.int32)
    draws = ItemDraws(
        kind,
        department[assortment.product],
        group,
        *alias_table(weights),
        *partners_by_query(planted, items),
    )
    trap_query, trap_item, trap_kind = trap_pairs(assortment, kind)
    truth = PlantedTruth(
        query=planted.query,
        item=planted.item,
        strength=planted.strength,
        substitutes=substitute_pairs(group),
        trap_query=trap_query,
        trap_item=trap_item,
        trap_kind=trap_kind,
        noise=np.flatnonzero((kind == STAPLE) & (assortment.number == 0)).astype(np.int32),
        variant_items=np.unique(np.asarray(catalog.variant_codes, dtype=np.int32)),
        items=items,
        trap_store=_store_name(stores - 1),
    )
    return ShopLayout(kernel_seed(kernel), catalog, sizes, store_shares, draws), truth


def _simulate(
    shop: ShopLayout, baskets: int, households: int, threads: int, source: str
) -> Baskets:
    visits = Visits(*(np.empty(baskets, dtype=np.int32) for _ in range(3)))
    tables = VisitTables(shop.seed, baskets, households, shop.size_table, shop.store_table)
    _in_parallel(lambda start, stop: draw_visits(tables, start, stop, visits), baskets, threads)
    offsets = np.concatenate([[0], np.cumsum(visits.size, dtype=np.int64)])
    number = np.arange(baskets, dtype=np.int64)
    day = number * DAYS // baskets
    items = np.empty(offsets[-1], dtype=np.int32)
    stores = len(shop.store_table)
    trips = Trips(shop.seed, offsets, visits, day >= FIRST_DAY_OF_DECEMBER, stores - 1)
    _in_parallel(
        lambda start, stop: fill_carts(trips, start, stop, shop.draws, items), baskets, threads
    )
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
        attributes={"store": Attribute(visits.store, tuple(map(_store_name, range(stores))))},
        source=source,
    )


def _numbered(number: npt.NDArray[Any], count: int) -> pa.LargeStringArray:
    """Whole numbers of equal length as strings: they sort alike as numbers and as strings."""
    return pc.cast(pa.array(number.astype(np.int64) + 10 ** len(str(count))), pa.large_string())


def _times(
    number: npt.NDArray[np.int64], day: npt.NDArray[np.int64], baskets: int
) -> npt.NDArray[np.int64]:
    """Microseconds since 1970: later baskets have later times, within opening hours."""
    part_of_day = number * DAYS / baskets - day
    within_day = (part_of_day * OPEN_HOURS * HOUR).astype(np.int64)
    return np.asarray(NEW_YEAR + (day * 24 + OPENS) * HOUR + within_day)


def _store_name(number: int) -> str:
    return f"Store {number + 1:02d}"


def _in_parallel(work: Callable[[int, int], None], count: int, threads: int) -> None:
    """`work(start, stop)` over slices of range(count), on `threads` threads."""
    slices = min(count, max(1, threads * 8))
    edges = [count * k // slices for k in range(slices + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, edges[:-1], edges[1:]))
