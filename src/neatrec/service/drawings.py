"""Where the lines of drawings go, as numbers; templates write the SVG."""

from __future__ import annotations

import math
from typing import Any

from neatrec.serving import Evidence

TICKS = (1, 3, 10, 30, 100, 300)
WIDTH, LEFT = 208.0, 8.0


def ruler(evidence: Evidence) -> dict[str, Any] | None:
    """The 95 % interval of the lift on a ruler of times chance, from 1x on; None where it is not known."""
    low, high, middle = evidence.lift_low, evidence.lift_high, evidence.lift
    if not all(math.isfinite(value) and value > 0 for value in (low, high, middle)):
        return None
    reach = next((tick for tick in (30, 100, 300, 1000, 10_000) if high <= tick), 100_000)

    def along(value: float) -> float:
        # left of 1x there is a little space for intervals that reach below chance
        share = math.log10(max(min(value, reach), 0.5) / 0.5) / math.log10(reach / 0.5)
        return round(LEFT + WIDTH * share, 1)

    return {
        "label": f"{middle:.1f} times chance, 95 % interval {low:.1f} to {high:.1f}",
        "ticks": [(tick, along(tick)) for tick in TICKS if tick <= reach],
        "start": along(low),
        "end": along(high),
        "point": along(middle),
    }
