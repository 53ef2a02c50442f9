"""`Ranking`: what a model answers, best first, and `score_cart`: how a cart's scores become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.catalog import Catalog
from neatrec.data.table_result import TableResult
from neatrec.text import printable


@dataclass(frozen=True)
class RankedItem:
    """One line of an answer."""

    rank: int
    id: str
    name: str
    category: tuple[str, ...]
    score: float
    goes_with: tuple[str, ...]
    """Names of the items of the cart that contribute to its score, the largest contribution first."""


RANKED = pa.schema(
    [
        ("rank", pa.int64()),
        ("id", pa.string()),
        ("name", pa.string()),
        ("category", pa.list_(pa.string())),
        ("score", pa.float64()),
        ("goes_with", pa.list_(pa.string())),
    ]
)


@dataclass(frozen=True, eq=False)
class Ranking(TableResult):
    """An answer, best first. Iterate it for `RankedItem` lines; `codes` and `scores` are arrays."""

    catalog: Catalog
    cart: npt.NDArray[np.int32]
    """Codes of what was asked for."""
    codes: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]
    asked: npt.NDArray[np.int32]
    """The items of the cart that the model knows."""
    parts: npt.NDArray[np.float64]
    """The contribution of each of them, shape (answers, asked)."""
    notes: tuple[str, ...] = ()
    """What the reader should know: an item of the cart that was never bought, for example."""

    @classmethod
    def empty(cls, catalog: Catalog, cart: npt.NDArray[np.int32], notes: tuple[str, ...]) -> Self:
        """No answer."""
        no_codes = np.zeros(0, dtype=np.int32)
        return cls(catalog, cart, no_codes, np.zeros(0), no_codes, np.zeros((0, 0)), notes)

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[RankedItem]:
        for row, code in enumerate(self.codes.tolist()):
            yield RankedItem(
                rank=row + 1,
                id=self.catalog.id(code),
                name=self.catalog.name(code),
                category=self.catalog.category_path(code),
                score=float(self.scores[row]),
                goes_with=self._contributors(row),
            )

    def _contributors(self, row: int) -> tuple[str, ...]:
        part = self.parts[row]
        order = np.argsort(-part, kind="stable")
        return tuple(
            self.catalog.name(self.asked[i]) for i in order if part[i] > 0 or len(part) == 1
        )

    def __repr__(self) -> str:
        cart = ", ".join(printable(self.catalog.name(code)) for code in self.cart)
        lines = [f"{line.rank:3d}  {line.score:10.4g}  {printable(line.name)}" for line in self]
        return "\n".join([f"<{len(self)} recommendations for {cart}>", *lines, *self.notes])

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_pylist([asdict(line) for line in self], RANKED)

    def _caption(self) -> str:
        return repr(self).split("\n")[0]

    @property
    def ids(self) -> list[str]:
        return [self.catalog.id(code) for code in self.codes]

    @property
    def names(self) -> list[str]:
        return [self.catalog.name(code) for code in self.codes]

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON holds it."""
        return {
            "items": [
                {"id": self.catalog.id(code), "name": self.catalog.name(code)} for code in self.cart
            ],
            "recommendations": self.to_arrow().to_pylist(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class CartScores:
    """The scores of candidates for a cart."""

    codes: npt.NDArray[np.int32]
    """Candidates that may be recommended for it."""
    total: npt.NDArray[np.float64]
    """Shape (codes,)."""
    parts: Callable[[npt.NDArray[np.int32]], npt.NDArray[np.float64]]
    """The contributions of the cart's items to some codes, shape (any, queries)."""


class CartScorer(Protocol):
    """A model's own ranking of carts of several items."""

    def score(
        self, cart: npt.NDArray[np.int32], candidates: npt.NDArray[np.int32]
    ) -> CartScores: ...


CandidateRows = Callable[[npt.NDArray[np.int32]], Iterable[npt.NDArray[Any]]]
"""The scores of some candidates by each item of a cart, one row after the other."""


def score_cart(
    rows: CandidateRows, queries: int, candidates: npt.NDArray[np.int32], min_score: float
) -> CartScores:
    """The mean scores of a cart of `queries` items; `rows(codes)` are the scores of `codes` by each of them.

    What no item scores above `min_score` is left out. Of several items each is put on one scale: 0 for its median
    candidate, 1 for its best; one that scores all alike contributes zeros. One item keeps its own scores.

    >>> rows = np.array([[0.0, 1.0, 9.0], [5.0, 5.0, 5.0]])
    >>> score_cart(lambda codes: rows[:, codes], 2, np.arange(3, dtype=np.int32), -np.inf).total.tolist()
    [-0.0625, 0.0, 0.5]
    """
    if min_score > -np.inf:
        above = np.zeros(len(candidates), dtype=np.bool_)
        for row in rows(candidates):
            above |= row > min_score
        candidates = candidates[above]
    total, scales = np.zeros(len(candidates)), np.tile([0.0, 1.0], (queries, 1))
    for query, row in enumerate(rows(candidates) if len(candidates) else ()):
        if queries > 1:
            scales[query] = scale_of(row)
        total += (row - scales[query, 0]) / scales[query, 1]

    def parts(codes: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
        scores = np.stack([np.asarray(row) for row in rows(codes)], axis=1)
        scaled: npt.NDArray[np.float64] = (scores - scales[:, 0]) / scales[:, 1]
        return scaled

    return CartScores(candidates, total / queries, parts)


def scale_of(part: npt.NDArray[Any]) -> tuple[np.float64, np.float64]:
    """The median, and how far above it the best is; infinitely far where it is not above, so that all become 0."""
    middle = median(part)
    reach = np.float64(part.max()) - middle
    return middle, reach if reach > 0 else np.float64(np.inf)


SAMPLED = 512
"""Values that are looked at first to find the median's neighbourhood."""


def median(values: npt.NDArray[Any]) -> np.float64:
    """The median, as `np.median` has it, several times faster where there are many values.

    A sample shows about where it is: only the values in that neighbourhood need be put in order.

    >>> float(median(np.array([4.0, 1.0, 3.0, 2.0])))
    2.5
    """
    first, last = (len(values) - 1) // 2, len(values) // 2
    sample = np.sort(values[:: max(1, len(values) // SAMPLED)])
    low, high = (
        sample[int(0.42 * len(sample))],
        sample[min(int(0.58 * len(sample)) + 1, len(sample) - 1)],
    )
    below = int(np.count_nonzero(values < low))
    near = values[(values >= low) & (values <= high)]
    if not below <= first <= last < below + len(near):
        near, below = values, 0
    ordered = np.partition(near, sorted({first - below, last - below}))
    return (np.float64(ordered[first - below]) + np.float64(ordered[last - below])) / 2.0


def best(scores: npt.NDArray[Any], k: int) -> npt.NDArray[np.intp]:
    """Positions of the `k` highest scores, best first; equal scores in the order of their positions.

    >>> best(np.array([1.0, 3.0, 3.0, 2.0]), 3).tolist()
    [1, 2, 3]
    """
    if k >= len(scores):
        return np.argsort(-scores, kind="stable")
    # the k-th highest among the maxima of many runs is no higher than the k-th highest score: few scores reach it
    size = max(1, len(scores) // (4 * k))
    runs = len(scores) // size
    highest = scores[: runs * size].reshape(runs, size).max(axis=1)
    near = np.flatnonzero(scores >= np.partition(highest, runs - k)[runs - k])
    return near[np.argsort(-scores[near], kind="stable")[:k]]
