"""`pop`: the most bought items, whatever is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.models.base import Codes, Model, Scores
from neatrec.models.run import Run


class Pop(Model):
    """An item's score is the number of training baskets that hold it."""

    name: ClassVar[str] = "pop"
    kind: ClassVar[str] = "paper"
    about: ClassVar[str] = "The most bought items, the same for every query."
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    answers_cold: ClassVar[bool] = True

    def _learn(self, shards: Iterable[Baskets], run: Run) -> None:
        """`item_count` is all there is to learn, and the contract has counted it."""

    def _score(self, queries: Codes, items: Codes) -> Scores:
        return self.item_count[items].astype(np.float64)

    def _score_all(self, queries: Codes) -> Scores:
        counts = self.item_count.astype(np.float64)
        return np.broadcast_to(counts, (len(queries), len(counts)))

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """`item_count` is back already."""
