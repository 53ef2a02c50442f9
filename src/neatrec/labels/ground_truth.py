"""Labels against the truth, where it is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]


class GroundTruth(Protocol):
    """What really goes together: `query` brings `item`, aligned item codes. The simulator knows."""

    @property
    def query(self) -> Codes: ...

    @property
    def item(self) -> Codes: ...


@dataclass(frozen=True)
class TruthScore:
    """How right and how complete a set of pairs is."""

    given: int
    right: int
    planted: int

    @property
    def precision(self) -> float:
        """The share of the given pairs that are true; NaN when none are given."""
        return self.right / self.given if self.given else float("nan")

    @property
    def recall(self) -> float:
        """The share of the true pairs that are given; NaN when none are true."""
        return self.right / self.planted if self.planted else float("nan")


def score_against(truth: GroundTruth, query: Codes, item: Codes, *, directed: bool) -> TruthScore:
    """Precision and recall of pairs; where direction is not known, a true pair is true both ways.

    >>> from types import SimpleNamespace as Pairs
    >>> score_against(Pairs(query=np.array([0]), item=np.array([1])), np.array([0, 1]), np.array([1, 0]), directed=True)
    TruthScore(given=2, right=1, planted=1)
    """
    true_query, true_item = np.asarray(truth.query), np.asarray(truth.item)
    if not directed:
        true_query, true_item = np.append(true_query, true_item), np.append(true_item, true_query)
    planted = np.unique(_keys(true_query, true_item))
    given = np.unique(_keys(query, item))
    return TruthScore(len(given), int(np.isin(given, planted).sum()), len(planted))


def _keys(query: npt.NDArray[Any], item: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return (query.astype(np.int64) << 32) | item.astype(np.int64)
