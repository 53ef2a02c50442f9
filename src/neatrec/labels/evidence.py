"""What a protocol's test says of the pairs that may become labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence import CoPurchases, Margins, PairBlock, Screen

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Pairs with their test, arrays of one length."""

    pairs: CoPurchases
    expected: Floats
    statistic: Floats
    p: Floats
    q: Floats | None


class Test(Protocol):
    """A protocol's test, made for one count: first it says which pairs to keep, then what they are worth."""

    @property
    def level_kind(self) -> str:
        """What a level is: a p-value ("p") or a false-discovery rate ("q")."""

    def screen(self, margins: Margins) -> Screen: ...

    def __call__(self, block: PairBlock, margins: Margins) -> Mask:
        """Which pairs of a block may become labels."""

    def judge(self, pairs: CoPurchases) -> Evidence:
        """The test of the pairs that were kept."""

    def thresholds(self, evidence: Evidence, levels: tuple[float, ...]) -> dict[float, float]:
        """The number that decides at each level."""

    def passes(self, evidence: Evidence, threshold: float) -> Mask:
        """Which pairs are labels by that number."""
