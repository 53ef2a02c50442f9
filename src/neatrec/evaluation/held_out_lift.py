"""Held-out lift: how much more often than by chance recommended pairs are bought together in the test baskets.

No labels are needed: sum of O over sum of E of the recommended pairs, O counted in the test baskets, E what chance
would give there (quasi-independence: same-category pairs are not counted, and chance must not put records there).
The lift is pooled, so that pairs with a tiny expected count do not dominate. A model that recommends only
where it is certain gets a higher lift: the share of sales that it covers is reported with it.
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
from neatrec.statistics import QuasiIndependence, quasi_independence
from neatrec.text import printable

Floats = npt.NDArray[np.float64]

QUERIES = 2_000


@dataclass(frozen=True)
class HeldOutPairs:
    """What the test baskets hold about some queries."""

    queries: Codes
    bought_with: Counts
    chance: QuasiIndependence
    sales: Numbers
    """Lines of each item in the test baskets, shape (items,)."""


@dataclass(frozen=True)
class HeldOutLift:
    """Lift of what is recommended, by list length: (lift, low, high)."""

    lift: dict[int, tuple[float, float, float]]
    observed: dict[int, int]
    """Times the recommended pairs were bought together in the test baskets."""
    expected: dict[int, float]
    """Times chance would have given."""
    queries: int
    """Queries with recommendations."""
    sales_covered: float
    """Share of the test sales (lines) whose item is one of these queries."""


def best_sellers(baskets: Baskets, queries: int = QUERIES) -> Codes:
    """The items sold most, ascending by code: queries chosen without labels; equal sales by code."""
    if queries < 1:
        raise must_be("queries", "at least 1", queries)
    sales = baskets.item_counts
    order = np.argsort(-sales, kind="stable")[:queries]
    return np.sort(order[sales[order] > 0]).astype(np.int32)


def held_out_pairs(test: Baskets, queries: Codes) -> HeldOutPairs:
    """Counts of the test baskets for `queries`, made once and used for every model."""
    queries = np.unique(np.asarray(queries, dtype=np.int32))
    counted = partners(test, queries)
    margins = counted.margins
    return HeldOutPairs(
        queries,
        counted,
        quasi_independence(margins.first, margins.second, margins.category),
        test.item_counts,
    )


def held_out_lifts(
    best: Mapping[str, Codes],
    held: HeldOutPairs,
    *,
    ks: Sequence[int] = KS,
    rounds: int = ROUNDS,
    rng: Seed | None = 0,
) -> dict[str, HeldOutLift]:
    """The pooled lift of each model's recommendations (queries, at least max(ks)), with intervals over queries."""
    totals = {name: _totals(name, found, held, ks) for name, found in best.items()}
    if not totals:
        return {}
    observed = np.concatenate(
        [above for above, _ in totals.values()], axis=1
    )  # (queries, models x ks)
    expected = np.concatenate([below for _, below in totals.values()], axis=1)
    lifts = iter(pooled_ratios(observed, expected, rounds=rounds, rng=rng))
    return {
        name: _lift(*totals[name], {k: next(lifts) for k in ks}, best[name], held) for name in best
    }


def _totals(name: str, best: Codes, held: HeldOutPairs, ks: Sequence[int]) -> tuple[Floats, Floats]:
    """O and E of each query's first k recommendations, shape (queries, ks) each."""
    if best.shape[0] != len(held.queries) or best.shape[1] < max(ks):
        raise ParameterError(
            f"{printable(name)!r} must have {max(ks)} recommendations for each of the {len(held.queries)} queries"
        )
    columns = np.array(ks) - 1
    counts = pair_counts(held.queries, best, held)
    observed, expected = (np.cumsum(part, axis=1)[:, columns] for part in counts)
    return observed, expected


def _lift(
    observed: Floats,
    expected: Floats,
    lift: dict[int, tuple[float, float, float]],
    best: Codes,
    held: HeldOutPairs,
) -> HeldOutLift:
    answered = (best >= 0).any(axis=1)
    return HeldOutLift(
        lift,
        dict(zip(lift, observed.sum(axis=0).astype(int).tolist(), strict=True)),
        dict(zip(lift, expected.sum(axis=0).tolist(), strict=True)),
        queries=int(answered.sum()),
        sales_covered=float(held.sales[held.queries[answered]].sum() / max(held.sales.sum(), 1)),
    )


def pair_counts(queries: Codes, answers: Codes, held: HeldOutPairs) -> tuple[Floats, Floats]:
    """O and E of each query with each of its answers, 0 where there is none (-1), shape (queries, answers) each."""
    there = answers >= 0
    query, item = np.broadcast_to(queries[:, None], answers.shape)[there], answers[there]
    observed, expected = np.zeros(answers.shape), np.zeros(answers.shape)
    observed[there] = held.bought_with.values("count", query, item)
    expected[there] = held.chance.expected(query, item)
    return observed, expected
