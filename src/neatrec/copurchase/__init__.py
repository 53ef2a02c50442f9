"""Pair counting behind one door: `count` and `margins`, a compiled engine and an SQL engine behind them."""

from neatrec.copurchase.records import CoPurchases, Counting, Margins, PairBlock

__all__ = ["CoPurchases", "Counting", "Margins", "PairBlock"]
