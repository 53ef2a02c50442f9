"""Pair counting behind one door: `count` and `margins`, a compiled engine and an SQL engine behind them."""

from neatrec.copurchase.counter import count, forecast, margins
from neatrec.copurchase.forecast import Forecast
from neatrec.copurchase.records import CoPurchases, Counting, Keep, Margins, PairBlock
from neatrec.copurchase.screen import Screen, Screened

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
