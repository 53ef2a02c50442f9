"""Pair counting: `count` and `margins`, by one compiled counter: in memory, band by band, or on Spark."""

from neatrec.cooccurrence.counting import count, count_parts, counting_engine, forecast, margins
from neatrec.cooccurrence.counts import CooccurrenceCounts, CountOptions, Keep, Margins, PairBlock, PairPart
from neatrec.cooccurrence.pair_filter import FilteredPairs, PairFilter
from neatrec.cooccurrence.resources import Forecast

__all__ = [
    "CooccurrenceCounts",
    "CountOptions",
    "FilteredPairs",
    "Forecast",
    "Keep",
    "Margins",
    "PairBlock",
    "PairFilter",
    "PairPart",
    "count",
    "count_parts",
    "counting_engine",
    "forecast",
    "margins",
]
