"""Pair counting: `count` and `margins`, by one compiled counter, in memory or on Spark."""

from neatrec.cooccurrence.counting import PARTS, CountBook, Engine, count, margins
from neatrec.cooccurrence.strata import (
    default_strata,
    strata_groups,
    strata_of,
    stratum_column,
    usable_strata,
)
from neatrec.data.counts import CountOptions, Counts, Margins

__all__ = [
    "PARTS",
    "CountBook",
    "CountOptions",
    "Counts",
    "Engine",
    "Margins",
    "count",
    "default_strata",
    "margins",
    "strata_groups",
    "strata_of",
    "stratum_column",
    "usable_strata",
]
