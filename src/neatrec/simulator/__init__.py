"""A simulated supermarket with readable names, planted complements and traps: its truth is known.

>>> market = supermarket(baskets=500, items=100, seed=3)
>>> market.baskets
<Baskets 500 baskets, 5,135 lines, 100 items, 62 users, in cart order>
"""

from __future__ import annotations

from neatrec.simulator.market import Supermarket, parse_supermarket_spec, supermarket
from neatrec.simulator.planting import TRAP_NAMES, PlantedTruth

__all__ = ["TRAP_NAMES", "PlantedTruth", "Supermarket", "parse_supermarket_spec", "supermarket"]
