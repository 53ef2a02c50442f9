"""Expected counts by chance where pairs of one category are excluded: quasi-independence.

Without same-category pairs some cells are empty by construction, but F_q F_v / N expects records
there. Under quasi-independence E = a_q b_v holds for pairs of different categories only, and over
these its sums are the observed margins: sum over v of E(q, v) = F_q. and over q F_.v.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from neatrec.errors import NeatrecError
from neatrec.statistics.measures import Counts, Floats, Numbers, as_floats

TOLERANCE = 1e-6
"""Largest difference of fitted and observed margins, as a share of all records."""
CONVERGED = 1e-13
ROUNDS = 60
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Factors:
    """E = a_q b_v."""

    query: Floats
    """a, shape (items,)."""
    item: Floats
    """b, shape (items,)."""

    def of(self, query: Counts, item: Counts, count: Numbers | None = None) -> Floats:
        """E of the aligned pairs; their counts do not matter."""
        return self.query[query] * self.item[item]


def quasi_independence(first: Numbers, second: Numbers, category: Counts) -> Factors:
    """Fit expected counts with the margins `first` (F_q.) and `second` (F_.v).

    `category` holds a code per item; a negative code is a category of its own. Within a category a
    and b are proportional to the margins: iterative proportional fitting of category totals takes
    a few rounds.

    >>> fit = quasi_independence([2, 1, 1], [1, 1, 2], np.array([0, 1, 2]))
    >>> fit.of(np.array([0, 0]), np.array([1, 2])).round(3).tolist()
    [0.603, 1.397]
    """
    f, s = as_floats(first), as_floats(second)
    group = groups_of(category)
    count = int(group.max()) + 1 if len(group) else 0
    rows, columns = np.bincount(group, f, count), np.bincount(group, s, count)
    query_rate, item_rate = _rates(as_floats(rows), as_floats(columns))
    return Factors(f * query_rate[group], s * item_rate[group])


def possible_pairs(
    first: Numbers, second: Numbers, category: Counts, *, directed: bool = True
) -> int:
    """M: pairs of different categories of an item seen first and one seen second.

    Without `directed` both orders are one pair.

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
    """Sample the M possible pairs as (query, item, weight), frequent items more often.

    The weights sum to M.

    >>> sample = sample_possible_pairs([3, 1, 0], [1, 1, 2], np.array([0, 1, 2]), size=1_000)
    >>> sorted(set(zip(sample[0].tolist(), sample[1].tolist()))), round(float(sample[2].sum()), 9)
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
        indices = rng.choice(len(seen), size, p=chance)
        drawn.append(seen[indices])
        weight /= chance[indices]
    group = groups_of(category)
    apart = group[drawn[0]] != group[drawn[1]]
    weight = weight[apart]
    return drawn[0][apart], drawn[1][apart], weight * (total / max(weight.sum(), 1e-300))


def groups_of(category: Counts) -> Codes:
    """Category codes; each item of an unknown category gets a code of its own."""
    codes = np.array(category, dtype=np.int64)
    unknown = codes < 0
    codes[unknown] = codes.max(initial=-1) + 1 + np.arange(np.count_nonzero(unknown))
    return codes


def _rates(rows: Floats, columns: Floats) -> tuple[Floats, Floats]:
    """a_q / F_q. and b_v / F_.v, equal for all items of a category."""
    if rows.sum() == 0:
        return np.zeros_like(rows), np.zeros_like(columns)
    # a category in nearly every record: fitting hardly converges, a direct solution exists
    query_rate, item_rate = _proportional_fitting(rows, columns) or _solve_directly(rows, columns)
    a, b = query_rate * rows, item_rate * columns
    gaps = np.maximum(np.abs(a * _others(b) - rows), np.abs(b * _others(a) - columns))
    gap = gaps.max() / rows.sum()
    if not gap <= TOLERANCE:
        raise NeatrecError(
            f"expected counts did not converge: their margins are off by {gap:.1e} of all records"
        )
    return query_rate, item_rate


def _proportional_fitting(rows: Floats, columns: Floats) -> tuple[Floats, Floats] | None:
    """Rates once the margins are equal, or None after ROUNDS rounds."""
    item_rate = np.ones_like(columns)
    for _ in range(ROUNDS):
        query_rate = _inverse(_others(item_rate * columns))
        item_rate = _inverse(_others(query_rate * rows))
        gap = np.abs(query_rate * rows * _others(item_rate * columns) - rows).max()
        if gap <= CONVERGED * rows.sum():
            return query_rate, item_rate
    return None


def _solve_directly(rows: Floats, columns: Floats) -> tuple[Floats, Floats]:
    """The fixed point of proportional fitting, from one unknown.

    With T = sum(a) sum(b), x = a_c / sum(a), y = b_c / sum(b), r = R_c / T and s = S_c / T the
    margins of category c are x (1 - y) = r and y (1 - x) = s: a quadratic with the roots y and
    1 - x'. Shares sum to 1, which determines T. Only the category with the largest
    sqrt(R) + sqrt(S) can have the larger root.
    """
    width = np.sqrt(rows) + np.sqrt(columns)
    largest = int(np.argmax(width))
    # just above the double root, where rounding could make the discriminant negative
    lowest = float(width[largest] ** 2) * (1 + 1e-15)

    def surplus(total: float, share_of_largest: bool) -> float:
        x, y = _small_roots(rows / total, columns / total)
        return float(y.sum() - y[largest] - x[largest] if share_of_largest else 1.0 - y.sum())

    dominated = surplus(lowest, False) > 0
    ends = np.log(lowest), np.log(1e15 * float(rows.sum()))
    below, above = (surplus(np.exp(end), dominated) for end in ends)
    root = ends[0] if below >= 0 else ends[1]
    if below < 0 < above:
        root = brentq(lambda log: surplus(np.exp(log), dominated), *ends, xtol=1e-15)
    total = float(np.exp(root))
    x, y = _small_roots(rows / total, columns / total)
    if dominated:
        x[largest], y[largest] = 1.0 - y[largest], 1.0 - x[largest]
    return x * _inverse(rows), total * y * _inverse(columns)


def _small_roots(r: Floats, s: Floats) -> tuple[Floats, Floats]:
    """The smaller solutions of x (1 - y) = r and y (1 - x) = s, without cancellation."""
    root = np.sqrt(np.maximum((1.0 - r - s) ** 2 - 4.0 * r * s, 0.0))
    return 2.0 * r / (1.0 + r - s + root), 2.0 * s / (1.0 - r + s + root)


def _others(values: Floats) -> Floats:
    """The sum of the other values, for each; that of the largest value without cancellation."""
    total = values.sum()
    rest: Floats = total - values
    largest = int(np.argmax(values))
    rest[largest] = values[:largest].sum() + values[largest + 1 :].sum()
    return rest


def _inverse(values: Floats) -> Floats:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
