"""Strata: baskets of similar size, of one month or one store; their differences are no evidence."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from neatrec.data.baskets import STORES, Baskets
from neatrec.data.counts import Int64
from neatrec.errors import ParameterError, must_be, must_be_one_of
from neatrec.text import plain_name, plural, printable

log = logging.getLogger(__name__)

SIZE, MONTH = BUILT_IN = ("basket_size", "month")
FEW_BASKETS = 200
"""A smaller stratum explains its own pairs away: a pair bought once in n baskets is expected there
1/n times for that reason alone."""
RULED_OUT = "could not be ruled out as the reason of a pair."


def parse_strata(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names of strata, each once: `size` is `basket_size`, `none` no strata, None the default.

    >>> parse_strata(["size", "store", "store"]), parse_strata(["none"]), parse_strata(None)
    (('basket_size', 'store'), (), None)
    """
    if names is None:
        return None
    if isinstance(names, str):
        raise must_be("strata", "a sequence of names", names)
    given = tuple(dict.fromkeys(SIZE if name == "size" else name for name in names))
    if "none" in given and len(given) > 1:
        raise must_be("strata", "`none` alone, or columns", ",".join(given))
    return () if given == ("none",) else given


def strata_words(strata: Sequence[str]) -> str:
    """Name the strata of the evidence, and the reasons that they cannot rule out.

    >>> strata_words(["month"])
    'Evidence is measured within month. Stores could not be ruled out as the reason of a pair.'
    """
    named = ", ".join(printable(name.replace("_", " "), 40) for name in strata)
    open_ = [] if MONTH in strata else ["seasons"]
    open_ += [] if _stores(strata) else ["stores"]
    within = [f"Evidence is measured within {named}."] if strata else []
    return " ".join(
        [*within, *([f"{' and '.join(open_).capitalize()} {RULED_OUT}"] if open_ else [])]
    )


def default_strata(baskets: Baskets) -> tuple[str, ...]:
    """Basket size, month and store, as far as known; none if neither month nor store is known.

    A column whose values have too few baskets is left out.
    """
    known = [MONTH] if baskets.times is not None and len(baskets) else []
    known += _stores(baskets.attributes)[:1]
    usable = tuple(name for name in known if _is_coarse(baskets, [name]))
    return (SIZE, *usable) if usable and _is_coarse(baskets, [SIZE]) else usable


def store_left_out(baskets: Baskets) -> str | None:
    """The store column that is no stratum by default, because its values have too few baskets."""
    stores = _stores(baskets.attributes)[:1]
    return stores[0] if stores and not _is_coarse(baskets, stores) else None


def _stores(names: Iterable[str]) -> list[str]:
    """The `names` that mean a store, in the order of STORES, without names that hold a comma.

    >>> _stores(["month", "Filiale", "Store ID"])
    ['Store ID', 'Filiale']
    """
    plain = {name: plain_name(name) for name in names if "," not in name}
    return [name for store in STORES for name in plain if plain[name] == plain_name(store)]


def strata_groups(baskets: Baskets, names: Sequence[str]) -> list[tuple[str, ...]]:
    """The groups of columns whose combinations are strata: single columns and large enough pairs.

    The basket size is never combined: strata of one size in one month would be so small that they
    explain their own pairs away.
    """
    alone = [(name,) for name in names]
    for name in names:
        stratum_column(baskets, name)  # refuses a missing column
    pairs = combinations([name for name in names if name != SIZE], 2)
    return [*alone, *(pair for pair in pairs if _is_coarse(baskets, pair))]


def _is_coarse(baskets: Baskets, names: Sequence[str]) -> bool:
    cells = int(_combined(baskets, names).max(initial=-1)) + 1
    return len(baskets) >= FEW_BASKETS * cells


def usable_strata(baskets: Baskets, names: Sequence[str] | None) -> tuple[str, ...]:
    """The strata to use; None: the default of the baskets."""
    given = parse_strata(names)
    return default_strata(baskets) if given is None else given


def strata_of(baskets: Baskets, names: Sequence[str]) -> Int64:
    """The stratum of each basket: numbers from 0 for the combinations of the columns that occur.

    `basket_size` means bands whose limits grow by the square root of two, `month` the calendar
    month (of a year) in UTC; any other name is one of `baskets.attributes`.
    """
    cell = _combined(baskets, names)
    count = int(cell.max(initial=-1)) + 1
    if count and len(baskets) < FEW_BASKETS * count:
        log.warning(
            "%s for %s: strata this small explain little; use fewer or coarser ones",
            plural(count, "stratum", "strata"),
            plural(len(baskets), "basket"),
        )
    return cell


def _combined(baskets: Baskets, names: Sequence[str]) -> Int64:
    cell = np.zeros(len(baskets), dtype=np.int64)
    for name in names:
        codes = stratum_column(baskets, name)
        cell = cell * (codes.max(initial=0) + 1) + codes
        cell = np.unique(cell, return_inverse=True)[1].astype(np.int64)
    return cell


def stratum_column(baskets: Baskets, name: str) -> Int64:
    """The code of each basket in a column of strata."""
    if name in baskets.attributes:
        codes = np.asarray(baskets.attributes[name].codes, dtype=np.int64)
        few = np.bincount(codes) < FEW_BASKETS
        # rare values form one stratum, unless all values are rare
        return codes if few[codes].all() else np.where(few[codes], len(few), codes)
    if name == SIZE:
        bands: Int64 = np.floor(2 * np.log2(np.maximum(baskets.sizes, 1))).astype(np.int64)
        return bands
    if name == MONTH:
        months = _months(baskets)
        return months - months.min() if len(months) else months
    raise must_be_one_of("strata", [*BUILT_IN, *baskets.attributes], name)


def month_of_year(baskets: Baskets) -> Int64:
    """The calendar month of each basket in UTC, 0 for January."""
    return _months(baskets) % 12


def _months(baskets: Baskets) -> Int64:
    """Months since January 1970."""
    if baskets.times is None:
        raise ParameterError(
            "`strata` must not name month: these baskets have no times",
            hint="Name the time column with --time.",
        )
    months: Int64 = baskets.times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    return months
