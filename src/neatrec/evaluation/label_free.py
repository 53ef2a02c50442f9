"""Measures without labels: the held-out lift of answers, and cart completion.

Held-out lift: sum of O over sum of E of all pairs of a query and an answer, O counted in the test
baskets and E expected there by chance (quasi-independence: same-category pairs do not count). It
is pooled: pairs with a tiny expected count do not dominate. A model that answers only where it is
certain gets a higher lift, so the share of sales that it covers is reported with it.

Cart completion: an item of a test basket is hidden and ranked in the answers to the rest. The
measure rewards popular items; the held-out lift of the answers does not. On the Instacart
half-split best sellers have a lift of 1.24, and the answers of `ease` one of 1.41.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.data.counts import Counts
from neatrec.data.splits import Seed, as_generator
from neatrec.evaluation.candidates import Codes, Numbers, partners
from neatrec.evaluation.intervals import ROUNDS, ratio_row
from neatrec.evaluation.metrics import KS, TOP, hit_rate, ndcg
from neatrec.memory import one_blas_thread
from neatrec.statistics import Factors, quasi_independence

CartRanking = Callable[[Sequence[Codes], int], Sequence[Codes]]
"""The first answers to each cart of codes, best first."""

Floats = npt.NDArray[np.float64]

QUERIES, CARTS = 2_000, 3_000
SMALLEST_CART = 2
"""Smallest number of items that stay in the cart."""


@dataclass(frozen=True)
class HeldOutPairs:
    """The pairs of some queries in the test baskets."""

    queries: Codes
    bought_with: Counts
    chance: Factors
    sales: Numbers
    """Lines of each item in the test baskets, shape (items,)."""

    @classmethod
    def of(cls, test: Baskets, queries: Codes) -> HeldOutPairs:
        """Count the pairs of the ascending `queries`, once for all models."""
        counted = partners(test, queries)
        m = counted.margins
        chance = quasi_independence(m.first, m.second, m.category)
        return cls(queries, counted, chance, test.item_counts)

    def counts(self, queries: Codes, answers: Codes) -> tuple[Floats, Floats]:
        """O and E of each query with its answers, 0 for an answer of -1, (queries, answers)."""
        answered = answers >= 0
        query = np.broadcast_to(queries[:, None], answers.shape)[answered]
        observed, expected = np.zeros(answers.shape), np.zeros(answers.shape)
        observed[answered] = self.bought_with.values("count", query, answers[answered])
        expected[answered] = self.chance.of(query, answers[answered])
        return observed, expected


def best_sellers(baskets: Baskets, queries: int = QUERIES) -> Codes:
    """The best-selling items by ascending code: queries independent of labels."""
    sales = baskets.item_counts
    order = np.argsort(-sales, kind="stable")[:queries]
    return np.sort(order[sales[order] > 0]).astype(np.int32)


def held_out_lift(
    best: Codes, held: HeldOutPairs, *, rounds: int = ROUNDS, rng: Seed | None = 0
) -> dict[str, float]:
    """The pooled lift of a model's answers, (queries, TOP), with intervals over queries."""
    columns = np.array(KS) - 1
    counts = held.counts(held.queries, best)
    observed, expected = (np.cumsum(part, axis=1)[:, columns] for part in counts)
    names = [f"held_out_lift@{k}" for k in KS]
    row = ratio_row(names, observed, expected, rounds=rounds, rng=rng)
    covered = held.sales[held.queries[(best >= 0).any(axis=1)]].sum()
    return {**row, "sales_covered": float(covered / max(held.sales.sum(), 1))}


@dataclass(frozen=True)
class HiddenItems:
    """Carts of held-out baskets, each with its hidden item."""

    carts: tuple[Codes, ...]
    hidden: Codes
    """The hidden item of each cart, shape (carts,)."""
    pairs: HeldOutPairs
    """The pairs of the items of the carts in the test baskets."""

    def __len__(self) -> int:
        return len(self.hidden)


def leave_one_out(
    train: Baskets,
    test: Baskets,
    *,
    carts: int = CARTS,
    smallest: int = SMALLEST_CART,
    rng: Seed | None = 0,
) -> HiddenItems:
    """Hide a random item in each of at most `carts` random baskets of `test`.

    Items without a training basket are removed first: no model has learned them. No item left in
    the cart shares the category of the hidden one, since models do not offer such items.
    """
    generator = as_generator(rng)
    sold = train.item_counts > 0
    category = train.catalog.category_of()
    left: list[Codes] = []
    hidden: list[int] = []
    for basket in generator.permutation(len(test)):
        items = np.unique(test.items[test.offsets[basket] : test.offsets[basket + 1]])
        items = items[sold[items]]
        hideable = items[_alone_in_category(category[items])]
        if len(items) > smallest and len(hideable):
            item = int(generator.choice(hideable))
            left.append(items[items != item])
            hidden.append(item)
        if len(left) == carts:
            break
    in_carts = np.unique(np.concatenate([*left, np.zeros(0, dtype=np.int32)]))
    pairs = HeldOutPairs.of(test, in_carts)
    return HiddenItems(tuple(left), np.array(hidden, dtype=np.int32), pairs)


def _alone_in_category(category: Codes) -> npt.NDArray[np.bool_]:
    _, code, size = np.unique(category, return_inverse=True, return_counts=True)
    alone: npt.NDArray[np.bool_] = (size[code] == 1) | (category == UNKNOWN)
    return alone


def answer_hidden(rank: CartRanking, hidden: HiddenItems, *, k: int = TOP) -> Codes:
    """The first k answers to each cart, shape (carts, k), padded with -1."""
    out = np.full((len(hidden), k), -1, dtype=np.int32)
    # threads of the matrix product would spin while our own threads work
    with one_blas_thread():
        answers = rank(hidden.carts, k)
    for row, codes in zip(out, answers, strict=True):
        row[: len(codes)] = codes[:k]
    return out


def cart_completion(
    answers: Codes, hidden: HiddenItems, *, rounds: int = ROUNDS, rng: Seed | None = 0
) -> dict[str, float]:
    """Hit rate, NDCG and held-out lift of the answers, (carts, TOP), with intervals over carts."""
    if not len(hidden):
        return {"carts": 0}
    gains = completion_gains(answers, hidden, KS)
    observed, expected = answer_counts(answers, hidden, KS)
    totals = np.concatenate([gains, observed], axis=1)  # (carts, metrics)
    sizes = np.concatenate([np.ones_like(gains), expected], axis=1)
    names = [f"cart_{metric}@{k}" for metric in ("hr", "ndcg", "lift") for k in KS]
    return {**ratio_row(names, totals, sizes, rounds=rounds, rng=rng), "carts": len(hidden)}


def completion_gains(answers: Codes, hidden: HiddenItems, ks: Sequence[int]) -> Floats:
    """HR@k, then NDCG@k, of each cart, shape (carts, 2 ks)."""
    matches = answers == hidden.hidden[:, None]
    rank, hit = matches.argmax(axis=1), matches.any(axis=1).astype(np.int64)
    return np.stack([metric(rank, hit, k) for metric in (hit_rate, ndcg) for k in ks], axis=1)


def answer_counts(answers: Codes, hidden: HiddenItems, ks: Sequence[int]) -> tuple[Floats, Floats]:
    """O and E of each cart with its first k answers, without its own basket, shape (carts, ks)."""
    sizes = np.array([len(cart) for cart in hidden.carts])
    cart = np.repeat(np.arange(len(hidden)), sizes)  # of each line
    of_line = answers[cart, : max(ks)]
    times, chance = hidden.pairs.counts(np.concatenate(hidden.carts), of_line)
    # the hidden item is in the cart's own basket, with every other item
    times -= of_line == hidden.hidden[cart][:, None]
    columns, start = np.array(ks) - 1, np.concatenate([[0], np.cumsum(sizes)[:-1]])
    observed, expected = (
        np.add.reduceat(part, start).cumsum(axis=1)[:, columns] for part in (times, chance)
    )
    return observed, expected
