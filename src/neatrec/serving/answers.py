"""`ItemAnswers`: what goes with an item, best first, with the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.serving.evidence import PairEvidence
from neatrec.serving.grades import GRADES

COLUMNS: dict[str, Any] = {
    "item": np.int32,
    "score": np.float32,
    "grade": np.uint8,
    "count": np.int32,
    "expected": np.float32,
    "lift": np.float32,
    "lift_low": np.float32,
    "lift_high": np.float32,
    "q": np.float32,
    "customers": np.int32,
    "forward": np.int32,
    "backward": np.int32,
    "posterior": np.float32,
    "posterior_low": np.float32,
    "posterior_high": np.float32,
}
"""Columns of an answer. Whole numbers are -1 and others NaN where they are not known."""

EVERY = slice(None)
NUMBERS = tuple(name for name in COLUMNS if name not in {"item", "score", "grade"})


def missing(name: str, length: int) -> npt.NDArray[Any]:
    """A column of which nothing is known; it takes no room."""
    kind = COLUMNS[name]
    return np.broadcast_to(kind(-1 if kind is np.int32 else np.nan), length)


class ItemFacts:
    """What is known of each item by itself."""

    __slots__ = ("count", "reason", "variance")

    def __init__(self, count: npt.NDArray[np.int64], variance: npt.NDArray[np.float32] | None, reason: str) -> None:
        self.count, self.variance, self.reason = count, variance, reason

    def evidence(self, query: int, item: int, grade: int, numbers: Mapping[str, Any]) -> PairEvidence:
        """The evidence of a pair whose columns have these numbers."""
        variance = self.variance
        return PairEvidence(
            **numbers,
            query_count=int(self.count[query]),
            item_count=int(self.count[item]),
            query_variance=float("nan") if variance is None else float(variance[query]),
            item_variance=float("nan") if variance is None else float(variance[item]),
            grade=GRADES[grade],
            reason=self.reason,
        )


class ItemAnswers:
    """Arrays of one length, best first: `item`, `score`, `grade` (a number into `GRADES`) and the evidence's numbers.

    Those of a table are slices of the mapped file, made when they are asked for: nothing is copied.
    """

    item: npt.NDArray[np.int32]
    score: npt.NDArray[np.float32]
    grade: npt.NDArray[np.uint8]
    count: npt.NDArray[np.int32]
    expected: npt.NDArray[np.float32]
    lift: npt.NDArray[np.float32]
    lift_low: npt.NDArray[np.float32]
    lift_high: npt.NDArray[np.float32]
    q: npt.NDArray[np.float32]
    customers: npt.NDArray[np.int32]
    forward: npt.NDArray[np.int32]
    backward: npt.NDArray[np.int32]
    posterior: npt.NDArray[np.float32]
    posterior_low: npt.NDArray[np.float32]
    posterior_high: npt.NDArray[np.float32]

    def __init__(
        self, query: int, facts: ItemFacts, columns: Mapping[str, npt.NDArray[Any]], rows: slice = EVERY
    ) -> None:
        """The answers of one query that stand in these rows of `columns`."""
        self.query = query
        self._facts, self._columns, self._rows = facts, columns, rows

    def __getattr__(self, name: str) -> Any:
        if name not in COLUMNS:
            raise AttributeError(f"answers have no {name!r}")
        values = self._columns[name][self._rows]
        setattr(self, name, values)
        return values

    def __len__(self) -> int:
        return len(self.item)

    def __repr__(self) -> str:
        return f"<{len(self)} answers for item {self.query}>"

    def take(self, rows: npt.ArrayLike | slice) -> ItemAnswers:
        """The answers of a mask, of a slice or of row numbers in that order."""
        chosen = rows if isinstance(rows, slice) else np.asarray(rows)
        if not isinstance(chosen, slice) and not chosen.size:
            chosen = chosen.astype(np.intp)
        return ItemAnswers(self.query, self._facts, {name: getattr(self, name)[chosen] for name in COLUMNS})

    def followed_by(self, other: ItemAnswers) -> ItemAnswers:
        """These answers, then the other ones."""
        joined = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in COLUMNS}
        return ItemAnswers(self.query, self._facts, joined)

    def evidence(self, row: int) -> PairEvidence:
        """The evidence of one answer."""
        numbers = {name: getattr(self, name)[row].item() for name in NUMBERS}
        return self._facts.evidence(self.query, int(self.item[row]), int(self.grade[row]), numbers)
