"""Pair counting: `count` and `margins`, by one compiled counter, in memory or on Spark."""

from neatrec.cooccurrence.counting import count, margins
from neatrec.cooccurrence.engine import Engine
from neatrec.data.counts import CountOptions, Counts, Margins

__all__ = ["CountOptions", "Counts", "Engine", "Margins", "count", "margins"]
