"""Strata: baskets of about the same size, of one month, of one store. What differs between them makes no labels."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError, must_be_one_of
from neatrec.text import plural

log = logging.getLogger(__name__)
Codes = npt.NDArray[np.int64]

BUILT_IN = ("basket_size", "month")
FEW_BASKETS = 30
"""A stratum with fewer baskets explains its own pairs away."""


def strata_of(baskets: Baskets, names: Sequence[str]) -> Codes:
    """The stratum of each basket, 0 to the number of strata - 1: every combination of the named columns that occurs.

    `basket_size` means bands whose limits grow by the square root of two, `month` the calendar month (of a year) in
    UTC; any other name is one of `baskets.attributes`.
    """
    cell = np.zeros(len(baskets), dtype=np.int64)
    for name in names:
        codes = _column(baskets, name)
        cell = cell * (codes.max(initial=0) + 1) + codes
        cell = np.unique(cell, return_inverse=True)[1].astype(np.int64)
    count = int(cell.max(initial=-1)) + 1
    if count and len(baskets) < FEW_BASKETS * count:
        log.warning(
            "%s for %s: strata this small explain their own pairs away; use fewer or coarser ones",
            plural(count, "stratum", "strata"),
            plural(len(baskets), "basket"),
        )
    return cell


def _column(baskets: Baskets, name: str) -> Codes:
    if name in baskets.attributes:
        return np.asarray(baskets.attributes[name].codes, dtype=np.int64)
    if name == "basket_size":
        bands: Codes = np.floor(2 * np.log2(np.maximum(baskets.sizes, 1))).astype(np.int64)
        return bands
    if name == "month":
        return _months(baskets)
    raise must_be_one_of("strata", [*BUILT_IN, *baskets.attributes], name)


def _months(baskets: Baskets) -> Codes:
    if baskets.times is None:
        raise ParameterError(
            "`strata` must not name month: these baskets have no times", hint="Name the time column with --time."
        )
    months: Codes = baskets.times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    return months - months.min() if len(months) else months
