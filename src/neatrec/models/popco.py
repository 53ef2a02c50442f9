"""`popco`: what was bought together most often."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from neatrec.models.counts import CountModel, Counts, Floats


class PopCo(CountModel):
    """C itself; `window=5` counts only items that went into the cart at most five apart."""

    name: ClassVar[str] = "popco"
    kind: ClassVar[str] = "paper"
    about: ClassVar[str] = "How often two items were bought together."

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return count.astype(np.float64)
