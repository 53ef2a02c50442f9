"""Pair counting behind one door: `count` and `margins`, a compiled engine and an SQL engine behind them."""

from neatrec.cooccurrence.counting import count, forecast, margins
from neatrec.cooccurrence.counts import CooccurrenceCounts, CountOptions, Keep, Margins, PairBlock
from neatrec.cooccurrence.forecast import Forecast
from neatrec.cooccurrence.pair_filter import FilteredPairs, PairFilter

__all__ = [
    "CooccurrenceCounts",
    "CountOptions",
    "FilteredPairs",
    "Forecast",
    "Keep",
    "Margins",
    "PairBlock",
    "PairFilter",
    "count",
    "forecast",
    "margins",
]
