"""`Recommendations`: what a model answers, best first, and how a cart's scores become one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.catalog import Catalog
from neatrec.text import printable


@dataclass(frozen=True)
class Recommendation:
    """One line of an answer."""

    rank: int
    id: str
    name: str
    category: tuple[str, ...]
    score: float
    goes_with: tuple[str, ...]
    """Names of the items of the cart that speak for it, the loudest first."""


@dataclass(frozen=True, eq=False)
class Recommendations:
    """An answer, best first. Iterate it for `Recommendation` lines; `codes` and `scores` are arrays."""

    catalog: Catalog
    cart: npt.NDArray[np.int32]
    """Codes of what was asked for."""
    codes: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]
    asked: npt.NDArray[np.int32]
    """The items of the cart that the model knows."""
    parts: npt.NDArray[np.float64]
    """What each of them says, shape (answers, asked); a score is the mean of its row."""
    notes: tuple[str, ...] = ()
    """What the reader should know: an item of the cart that was never bought, for example."""

    @classmethod
    def empty(cls, catalog: Catalog, cart: npt.NDArray[np.int32], notes: tuple[str, ...]) -> Self:
        """No answer."""
        no_codes = np.zeros(0, dtype=np.int32)
        return cls(catalog, cart, no_codes, np.zeros(0), no_codes, np.zeros((0, 0)), notes)

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Recommendation]:
        for row, code in enumerate(self.codes.tolist()):
            yield Recommendation(
                rank=row + 1,
                id=self.catalog.id(code),
                name=self.catalog.name(code),
                category=self.catalog.category_path(code),
                score=float(self.scores[row]),
                goes_with=self._speakers(row),
            )

    def _speakers(self, row: int) -> tuple[str, ...]:
        part = self.parts[row]
        order = np.argsort(-part, kind="stable")
        return tuple(self.catalog.name(self.asked[i]) for i in order if part[i] > 0 or len(part) == 1)

    def __repr__(self) -> str:
        cart = ", ".join(printable(self.catalog.name(code)) for code in self.cart)
        lines = [f"{line.rank:3d}  {line.score:10.4g}  {printable(line.name)}" for line in self]
        return "\n".join([f"<{len(self)} recommendations for {cart}>", *lines, *self.notes])

    @property
    def ids(self) -> list[str]:
        return [self.catalog.id(code) for code in self.codes]

    @property
    def names(self) -> list[str]:
        return [self.catalog.name(code) for code in self.codes]

    def to_dict(self) -> dict[str, Any]:
        """The answer as `--json` prints it."""
        return {
            "items": [{"id": self.catalog.id(code), "name": self.catalog.name(code)} for code in self.cart],
            "recommendations": [
                {
                    "rank": line.rank,
                    "id": line.id,
                    "name": line.name,
                    "category": list(line.category),
                    "score": line.score,
                    "goes_with": list(line.goes_with),
                }
                for line in self
            ],
            "notes": list(self.notes),
        }

    def table(self) -> pa.Table:
        """rank, id, name, score: one row an answer."""
        return pa.table(
            {
                "rank": pa.array(np.arange(1, len(self) + 1)),
                "id": pa.array(self.ids, pa.large_string()),
                "name": pa.array(self.names, pa.large_string()),
                "score": pa.array(self.scores),
            }
        )


def combined(parts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scores of several queries on one scale, shape (queries, candidates): 0 for the median, 1 for the best.

    A query that scores all candidates alike says nothing and gets zeros.

    >>> combined(np.array([[0.0, 1.0, 9.0], [5.0, 5.0, 5.0]])).tolist()
    [[-0.125, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    middle = np.median(parts, axis=1, keepdims=True)
    reach = parts.max(axis=1, keepdims=True) - middle
    flat = reach <= 0
    return np.where(flat, 0.0, (parts - middle) / np.where(flat, 1.0, reach))


def best(scores: npt.NDArray[Any], k: int) -> npt.NDArray[np.intp]:
    """Positions of the `k` highest scores, best first; equal scores in the order of their positions.

    >>> best(np.array([1.0, 3.0, 3.0, 2.0]), 3).tolist()
    [1, 2, 3]
    """
    if k >= len(scores):
        return np.argsort(-scores, kind="stable")
    limit = np.partition(scores, len(scores) - k)[len(scores) - k]
    above = np.flatnonzero(scores > limit)
    chosen = np.concatenate([above, np.flatnonzero(scores == limit)[: k - len(above)]])
    return chosen[np.lexsort((chosen, -scores[chosen]))]
