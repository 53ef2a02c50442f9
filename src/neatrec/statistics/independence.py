"""How often a pair would be seen by chance when pairs of one category cannot be seen at all.

Removing same-category pairs leaves cells that are empty by construction. F_q F_v / N would put records there; under
quasi-independence E = a_q b_v holds for pairs of different categories only, and over those its sums are the observed
ones: sum over v of E(q, v) = F_q. and sum over q of E(q, v) = F_.v.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neatrec.errors import NeatrecError
from neatrec.statistics.types import Counts, Floats, Numbers, as_floats

TOLERANCE = 1e-6
"""The margins of what is returned are the observed ones up to this share of all records."""
CONVERGED = 1e-13
ROUNDS = 60
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class QuasiIndependence:
    """E = a_q b_v for pairs of different categories."""

    query_factor: Floats
    """a, shape (items,)."""
    item_factor: Floats
    """b, shape (items,)."""
    rounds: int
    """Rounds of proportional fitting; 0 where the solution was found directly."""

    def expected(self, query: Counts, item: Counts) -> Floats:
        """E of the pairs of different categories (query, item), aligned codes."""
        return self.query_factor[query] * self.item_factor[item]


def quasi_independence(first: Numbers, second: Numbers, category: Counts) -> QuasiIndependence:
    """The expected counts whose margins over different-category pairs are `first` (F_q.) and `second` (F_.v).

    `category` holds a code for each item; a negative code is a category of its own. Within a category a and b are
    proportional to the margins, so iterative proportional fitting works on category totals, in a handful of rounds.

    >>> fit = quasi_independence([2, 1, 1], [1, 1, 2], np.array([0, 1, 2]))
    >>> fit.expected(np.array([0, 0]), np.array([1, 2])).round(3).tolist()
    [0.603, 1.397]
    """
    f, s = as_floats(first), as_floats(second)
    group = groups_of(category)
    count = int(group.max()) + 1 if len(group) else 0
    rows, columns = np.bincount(group, f, count), np.bincount(group, s, count)
    query_rate, item_rate, rounds = _rates(as_floats(rows), as_floats(columns))
    return QuasiIndependence(f * query_rate[group], s * item_rate[group], rounds)


def possible_pairs(
    first: Numbers, second: Numbers, category: Counts, *, directed: bool = True
) -> int:
    """M: different-category pairs of an item seen first and an item seen second; unordered ones where not `directed`.

    >>> possible_pairs([1, 1, 0], [1, 1, 1], np.array([0, 0, 1]))
    2
    """
    group = groups_of(category)
    count = int(group.max()) + 1 if len(group) else 0
    queries = np.bincount(group[as_floats(first) > 0], minlength=count)
    items = np.bincount(group[as_floats(second) > 0], minlength=count)
    pairs = int(queries.sum()) * int(items.sum()) - int((queries * items).sum())
    return pairs if directed else pairs // 2


def sample_possible_pairs(
    first: Numbers, second: Numbers, category: Counts, *, directed: bool = True, size: int = 400_000
) -> tuple[Codes, Codes, Floats]:
    """Some of the M possible pairs as (query, item, weight); the weights sum to M, and frequent items are drawn more.

    >>> query, item, weight = sample_possible_pairs([3, 1, 0], [1, 1, 2], np.array([0, 1, 2]), size=1_000)
    >>> sorted(set(zip(query.tolist(), item.tolist()))), round(float(weight.sum()), 9)
    ([(0, 1), (0, 2), (1, 0), (1, 2)], 4.0)
    """
    total = possible_pairs(first, second, category, directed=directed)
    if not total:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
    rng, drawn, weight = np.random.default_rng(0), [], np.ones(size)
    for margin in (as_floats(first), as_floats(second)):
        seen = np.flatnonzero(margin > 0)
        # half of the draws in proportion to the root of the margin: pairs of frequent items are few
        chance = 0.5 * np.sqrt(margin[seen]) / np.sqrt(margin[seen]).sum() + 0.5 / len(seen)
        chosen = rng.choice(len(seen), size, p=chance)
        drawn.append(seen[chosen])
        weight /= chance[chosen]
    group = groups_of(category)
    apart = group[drawn[0]] != group[drawn[1]]
    weight = weight[apart]
    return drawn[0][apart], drawn[1][apart], weight * (total / max(weight.sum(), 1e-300))


def groups_of(category: Counts) -> Codes:
    """Category codes in which each item of an unknown category has one of its own."""
    codes = np.array(category, dtype=np.int64)
    unknown = codes < 0
    codes[unknown] = codes.max(initial=-1) + 1 + np.arange(np.count_nonzero(unknown))
    return codes


def _rates(rows: Floats, columns: Floats) -> tuple[Floats, Floats, int]:
    """a_q / F_q. and b_v / F_.v, which are the same for all items of a category, and the rounds it took."""
    if rows.sum() == 0:
        return np.zeros_like(rows), np.zeros_like(columns), 0
    fitted = _proportional_fitting(rows, columns)
    if fitted is None:
        # a category in nearly every record: each round gains ever less, and the solution is found directly
        fitted = (*_solve_directly(rows, columns), 0)
    query_rate, item_rate, _ = fitted
    a, b = query_rate * rows, item_rate * columns
    gap = (
        np.maximum(np.abs(a * _others(b) - rows), np.abs(b * _others(a) - columns)).max()
        / rows.sum()
    )
    if not gap <= TOLERANCE:
        raise NeatrecError(
            f"expected counts did not converge: their margins are off by {gap:.1e} of all records"
        )
    return fitted


def _proportional_fitting(rows: Floats, columns: Floats) -> tuple[Floats, Floats, int] | None:
    """Rates after as many rounds as make the margins equal, or None where ROUNDS are too few."""
    item_rate = np.ones_like(columns)
    for round_ in range(1, ROUNDS + 1):
        query_rate = _inverse(_others(item_rate * columns))
        item_rate = _inverse(_others(query_rate * rows))
        gap = np.abs(query_rate * rows * _others(item_rate * columns) - rows).max()
        if gap <= CONVERGED * rows.sum():
            return query_rate, item_rate, round_
    return None


def _solve_directly(rows: Floats, columns: Floats) -> tuple[Floats, Floats]:
    """The fixed point of proportional fitting, from one unknown.

    With T = sum(a) sum(b), x = a_c / sum(a), y = b_c / sum(b), r = R_c / T and s = S_c / T the margins of category c
    say x (1 - y) = r and y (1 - x) = s: a quadratic with the roots y and 1 - x'. Shares must sum to 1, which decides T.
    At most one category, the one with the largest sqrt(R) + sqrt(S), can have the larger root.
    """
    width = np.sqrt(rows) + np.sqrt(columns)
    largest = int(np.argmax(width))
    # just above the double root, where rounding could make the discriminant negative
    lowest = float(width[largest] ** 2) * (1 + 1e-15)

    def surplus(total: float, share_of_largest: bool) -> float:
        x, y = _small_roots(rows / total, columns / total)
        return (
            float(y.sum() - y[largest] - x[largest]) if share_of_largest else float(1.0 - y.sum())
        )

    dominated = surplus(lowest, False) > 0
    total = _root(lambda t: surplus(t, dominated), lowest, 1e15 * float(rows.sum()))
    x, y = _small_roots(rows / total, columns / total)
    if dominated:
        x[largest], y[largest] = 1.0 - y[largest], 1.0 - x[largest]
    return x * _inverse(rows), total * y * _inverse(columns)


def _small_roots(r: Floats, s: Floats) -> tuple[Floats, Floats]:
    """The smaller solutions of x (1 - y) = r and y (1 - x) = s, without cancellation."""
    root = np.sqrt(np.maximum((1.0 - r - s) ** 2 - 4.0 * r * s, 0.0))
    return 2.0 * r / (1.0 + r - s + root), 2.0 * s / (1.0 - r + s + root)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that rises from below 0 passes 0, by bisection of the logarithm; `high` where it never does."""
    if function(high) <= 0:
        return high
    for _ in range(200):
        middle = float(np.sqrt(low) * np.sqrt(high))
        if not low < middle < high:
            break
        low, high = (middle, high) if function(middle) <= 0 else (low, middle)
    return low


def _others(values: Floats) -> Floats:
    """The sum of all other values, for each; summed again where one value is most of the total, to lose no digits."""
    total = values.sum()
    rest: Floats = total - values
    largest = int(np.argmax(values))
    rest[largest] = values[:largest].sum() + values[largest + 1 :].sum()
    return rest


def _inverse(values: Floats) -> Floats:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
