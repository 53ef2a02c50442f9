"""What a protocol's test says of the pairs that may become labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence import CooccurrenceCounts, Margins, PairBlock, PairFilter

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PairTest:
    """Pairs with their test, arrays of one length."""

    pairs: CooccurrenceCounts
    expected: Floats
    statistic: Floats
    p: Floats
    q: Floats | None


class PairTester(Protocol):
    """A protocol's test, made for one count: first it says which pairs to keep, then what they are worth."""

    @property
    def level_kind(self) -> str:
        """What a level is: a p-value ("p") or a false-discovery rate ("q")."""

    def screen(self, margins: Margins) -> PairFilter: ...

    def __call__(self, block: PairBlock, margins: Margins) -> Mask:
        """Which pairs of a block may become labels."""

    def judge(self, pairs: CooccurrenceCounts) -> PairTest:
        """The test of the pairs that were kept."""

    def thresholds(self, evidence: PairTest, levels: tuple[float, ...]) -> dict[float, float]:
        """The number that decides at each level."""

    def passes(self, evidence: PairTest, threshold: float) -> Mask:
        """Which pairs are labels by that number."""
