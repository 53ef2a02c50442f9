"""`pop`, the most bought items, and `popco`, the items most often bought with the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.models.base import Codes, Model, Scores
from neatrec.models.counts import CountModel, Counts, Floats
from neatrec.models.run import Run


class Pop(Model):
    """An item's score is the number of training baskets that hold it."""

    name: ClassVar[str] = "pop"
    kind: ClassVar[str] = "paper"
    description: ClassVar[str] = "The most bought items, the same for every query."
    scores_unseen_items: ClassVar[bool] = True
    reason: ClassVar[str] = "popular"

    def _fit(self, baskets: Baskets, run: Run) -> None:
        """`item_count` is all that it needs, and `fit` has counted it."""

    def _score(self, queries: Codes, items: Codes) -> Scores:
        return self.item_count[items].astype(np.float64)

    def _score_all(self, queries: Codes) -> Scores:
        counts = self.item_count.astype(np.float64)
        return np.broadcast_to(counts, (len(queries), len(counts)))

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """`item_count` is restored already."""


class PopCo(CountModel):
    """C itself."""

    name: ClassVar[str] = "popco"
    kind: ClassVar[str] = "paper"
    description: ClassVar[str] = "How often two items were bought together."

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return count.astype(np.float64)
