"""The frozen records that everything else passes around: catalogue, baskets, counts, splits."""

from neatrec.data.baskets import Attribute, Baskets
from neatrec.data.catalog import UNKNOWN, Catalog, string_array
from neatrec.data.counts import CountOptions, Counts, ExpectedLimit, Margins
from neatrec.data.splits import (
    Split,
    as_generator,
    at_random,
    by_time,
    children,
    half,
    kernel_seed,
    refuse_overlap,
    rng_for,
    split_baskets,
)

__all__ = [
    "UNKNOWN",
    "Attribute",
    "Baskets",
    "Catalog",
    "CountOptions",
    "Counts",
    "ExpectedLimit",
    "Margins",
    "Split",
    "as_generator",
    "at_random",
    "by_time",
    "children",
    "half",
    "kernel_seed",
    "refuse_overlap",
    "rng_for",
    "split_baskets",
    "string_array",
]
