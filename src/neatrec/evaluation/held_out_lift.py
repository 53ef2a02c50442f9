"""Held-out lift: the lift of the answers of a model in the test baskets.

No labels are needed: sum of O over sum of E of the pairs of query and answer, O counted in the test
baskets, E expected there by chance (quasi-independence: same-category pairs do not count). The
lift is pooled: pairs with a tiny expected count do not dominate. A model that answers only where it
is certain gets a higher lift: the share of sales that it covers is reported with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.counts import Counts
from neatrec.data.randomness import Seed
from neatrec.errors import ParameterError, must_be
from neatrec.evaluation.candidates import Codes, Numbers, partners
from neatrec.evaluation.intervals import ROUNDS, pooled_ratios
from neatrec.evaluation.metrics import KS
from neatrec.statistics import Factors, quasi_independence
from neatrec.text import printable

Floats = npt.NDArray[np.float64]

QUERIES = 2_000


@dataclass(frozen=True)
class HeldOutPairs:
    """The pairs of some queries in the test baskets."""

    queries: Codes
    bought_with: Counts
    chance: Factors
    sales: Numbers
    """Lines of each item in the test baskets, shape (items,)."""


@dataclass(frozen=True)
class HeldOutLift:
    """Lift of the answers, by list length: (lift, low, high)."""

    lift: dict[int, tuple[float, float, float]]
    sales_covered: float
    """Share of the test sales (lines) whose item is a query with answers."""


def best_sellers(baskets: Baskets, queries: int = QUERIES) -> Codes:
    """The best-selling items by ascending code: queries independent of labels."""
    if queries < 1:
        raise must_be("queries", "at least 1", queries)
    sales = baskets.item_counts
    order = np.argsort(-sales, kind="stable")[:queries]
    return np.sort(order[sales[order] > 0]).astype(np.int32)


def held_out_pairs(test: Baskets, queries: Codes) -> HeldOutPairs:
    """Count the pairs of `queries` in the test baskets, once for all models."""
    queries = np.unique(np.asarray(queries, dtype=np.int32))
    counted = partners(test, queries)
    m = counted.margins
    chance = quasi_independence(m.first, m.second, m.category)
    return HeldOutPairs(queries, counted, chance, test.item_counts)


def held_out_lifts(
    best: Mapping[str, Codes],
    held: HeldOutPairs,
    *,
    ks: Sequence[int] = KS,
    rounds: int = ROUNDS,
    rng: Seed | None = 0,
) -> dict[str, HeldOutLift]:
    """The pooled lift of each model's answers, (queries, at least max(ks)), with intervals."""
    totals = [_totals(name, answers, held, ks) for name, answers in best.items()]
    if not totals:
        return {}
    # (queries, models x ks)
    observed, expected = (np.concatenate(part, axis=1) for part in zip(*totals, strict=True))
    lifts = iter(pooled_ratios(observed, expected, rounds=rounds, rng=rng))
    sales = held.sales[held.queries]
    return {
        name: HeldOutLift(
            {k: next(lifts) for k in ks},
            float(sales[(answers >= 0).any(axis=1)].sum() / max(held.sales.sum(), 1)),
        )
        for name, answers in best.items()
    }


def _totals(name: str, best: Codes, held: HeldOutPairs, ks: Sequence[int]) -> tuple[Floats, Floats]:
    """O and E of the first k answers to each query, shape (queries, ks) each."""
    if best.shape[0] != len(held.queries) or best.shape[1] < max(ks):
        wanted = f"{max(ks)} answers to each of the {len(held.queries)} queries"
        raise ParameterError(f"{printable(name)!r} must have {wanted}")
    columns = np.array(ks) - 1
    counts = pair_counts(held.queries, best, held)
    observed, expected = (np.cumsum(part, axis=1)[:, columns] for part in counts)
    return observed, expected


def pair_counts(queries: Codes, answers: Codes, held: HeldOutPairs) -> tuple[Floats, Floats]:
    """O and E of each query with its answers, 0 for an answer of -1, (queries, answers) each."""
    known = answers >= 0
    query, item = np.broadcast_to(queries[:, None], answers.shape)[known], answers[known]
    observed, expected = np.zeros(answers.shape), np.zeros(answers.shape)
    observed[known] = held.bought_with.values("count", query, item)
    expected[known] = held.chance.of(query, item)
    return observed, expected
