"""Pair counting behind one door: `count` and `margins`, a compiled engine and an SQL engine behind them."""

from neatrec.cooccurrence.count import count, forecast, margins
from neatrec.cooccurrence.counts import CoPurchases, Counting, Keep, Margins, PairBlock
from neatrec.cooccurrence.forecast import Forecast
from neatrec.cooccurrence.pair_filter import Screen, Screened

__all__ = [
    "CoPurchases",
    "Counting",
    "Forecast",
    "Keep",
    "Margins",
    "PairBlock",
    "Screen",
    "Screened",
    "count",
    "forecast",
    "margins",
]
