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
from neatrec.data.splits import children, kernel_seed
from neatrec.errors import must_be, must_be_one_of, require_whole
from neatrec.memory import available_processors
from neatrec.simulator.catalog import Codes, draw_assortment, make_catalog
from neatrec.simulator.kernel import ItemDraws, Trips, Visits, VisitTables, draw_visits, fill_carts
from neatrec.simulator.planting import (
    PlantedTruth,
    basket_size_table,
    item_draws,
    plant,
    share_of_lines,
    store_table,
    substitute_groups,
)

VISITS = 8
"""Mean baskets of a household, where the number of households is not given."""
DAYS = 365
FIRST_DAY_OF_DECEMBER = 334
NEW_YEAR = np.datetime64("2025-01-01T00:00:00", "us").astype(np.int64)
HOUR = 3_600_000_000
OPENS, OPEN_HOURS = 7, 15
LARGEST_BASKET = 100


OPTIONS = ("baskets", "items", "households", "stores", "strength", "coarse", "seed")


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
        key, _, value = (text.strip() for text in part.partition("="))
        if key not in OPTIONS:
            raise must_be_one_of("supermarket", OPTIONS, key)
        if not value:
            raise must_be(f"supermarket:{key}", f"followed by a value, as in {key}=3", part)
        if key in options:
            raise must_be(f"supermarket:{key}", "given once", spec)
        try:
            options[key] = float(value) if key == "strength" else int(value)
        except ValueError:
            wanted = "a number" if key == "strength" else "an integer"
            raise must_be(f"supermarket:{key}", wanted, value) from None
    return options


@dataclass(frozen=True, eq=False)
class Supermarket:
    """A year of shopping, and the truth about it."""

    baskets: Baskets
    truth: PlantedTruth


def supermarket(
    baskets: int = 30_000,
    items: int = 1_000,
    *,
    households: int | None = None,
    stores: int = 6,
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
    require_whole("baskets", baskets, 1, 200_000_000)
    require_whole("items", items, 60, 1_000_000)
    require_whole("stores", stores, 2, 1_000)
    require_whole("seed", seed, 0, 2**63 - 1)
    if coarse not in (0, 1):
        raise must_be("coarse", "0 or 1", coarse)
    if not isinstance(strength, int | float) or not 0 <= strength <= 2:
        raise must_be("strength", "a number from 0 (nothing goes together) to 2", strength)
    households = max(1, baskets // VISITS) if households is None else households
    hint = "There cannot be more households than baskets."
    require_whole("households", households, 1, baskets, hint=hint)
    threads = available_processors() if threads is None else require_whole("threads", threads)
    source = f"supermarket:baskets={baskets},items={items},households={households}"
    source += f",stores={stores},seed={seed}"
    source += f",strength={strength:g}" if strength != 1.0 else ""
    source += ",coarse=1" if coarse else ""

    drawing, naming, selling, planting, kernel = children(seed, 5)
    assortment = draw_assortment(items, drawing)
    share = share_of_lines(assortment, selling)
    group = substitute_groups(assortment, share)
    truth = plant(assortment, share, group, strength, planting)
    sizes, store_shares = basket_size_table(min(LARGEST_BASKET, items // 3)), store_table(stores)
    tables = VisitTables(kernel_seed(kernel), baskets, households, sizes, store_shares)
    draws = item_draws(assortment, share, truth, group, tables)
    visits, lines = _simulate(tables, draws, threads)
    catalog = make_catalog(assortment, naming, coarse=bool(coarse))
    return Supermarket(_baskets(catalog, tables, visits, lines, source), truth)


def _simulate(tables: VisitTables, draws: ItemDraws, threads: int) -> tuple[Visits, Codes]:
    """The visits, and the items of their baskets."""
    baskets, stores = tables.baskets, len(tables.store_table)
    visits = Visits(*(np.empty(baskets, dtype=np.int32) for _ in range(3)))
    _in_parallel(lambda start, stop: draw_visits(tables, start, stop, visits), baskets, threads)
    offsets = np.concatenate([[0], np.cumsum(visits.size, dtype=np.int64)])
    items = np.empty(offsets[-1], dtype=np.int32)
    december = np.arange(baskets) * DAYS // baskets >= FIRST_DAY_OF_DECEMBER
    trips = Trips(tables.seed, offsets, visits, december, stores - 1)
    _in_parallel(lambda start, stop: fill_carts(trips, start, stop, draws, items), baskets, threads)
    return visits, items


def _baskets(
    catalog: Catalog, tables: VisitTables, visits: Visits, items: Codes, source: str
) -> Baskets:
    number = np.arange(tables.baskets, dtype=np.int64)
    users, user_codes = np.unique(visits.household, return_inverse=True)
    stores = tuple(f"Store {store + 1:02d}" for store in range(len(tables.store_table)))
    return Baskets(
        catalog=catalog,
        items=items,
        offsets=np.concatenate([[0], np.cumsum(visits.size, dtype=np.int64)]),
        ids=_numbered(number, tables.baskets),
        ordered=True,
        users=user_codes.astype(np.int32),
        user_ids=_numbered(users, tables.households),
        times=_times(number),
        attributes={"store": Attribute(visits.store, stores)},
        source=source,
    )


def _numbered(number: npt.NDArray[Any], count: int) -> pa.LargeStringArray:
    """Integers of equal length as strings: they sort alike as numbers and as strings."""
    return pc.cast(pa.array(number.astype(np.int64) + 10 ** len(str(count))), pa.large_string())


def _times(number: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Microseconds since 1970: later baskets have later times, within opening hours."""
    day = number * DAYS // len(number)
    part_of_day = number * DAYS / len(number) - day
    within_day = (part_of_day * OPEN_HOURS * HOUR).astype(np.int64)
    return np.asarray(NEW_YEAR + (day * 24 + OPENS) * HOUR + within_day)


def _in_parallel(work: Callable[[int, int], None], count: int, threads: int) -> None:
    """`work(start, stop)` over slices of range(count), on `threads` threads."""
    slices = min(count, max(1, threads * 8))
    edges = [count * k // slices for k in range(slices + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, edges[:-1], edges[1:]))
