"""Counts that are kept: a folder to which days of baskets are added, and which answers as a recount would."""

from neatrec.copurchase.state.append import Added, append
from neatrec.copurchase.state.counts import CountState, open_state

__all__ = ["Added", "CountState", "append", "open_state"]
