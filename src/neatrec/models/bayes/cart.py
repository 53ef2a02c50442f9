"""How `bayes` ranks for a cart of several items: `CartRanking` by its counts, with settings chosen on training carts.

Each cart is a training basket without one of its items, and that item is ranked by the counts of all other baskets.
What is recommended shares no category with the cart. So an item that mostly goes into carts with others of its category
ranks lower (`alone`), and one whose category such carts usually hold ranks higher (`ratio`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from itertools import islice
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.compiled import compiled
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.models.bayes.features import MAX_CATEGORIES
from neatrec.models.cart_ranking import CartRanking
from neatrec.models.counts import PairCounts
from neatrec.models.ease import inverse

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

TRIED = {"strength": (0.1, 0.5), "discount": (0.0, 0.4), "alone": (0.0, 1.0), "categories": (0.0, 0.6)}
"""Besides the defaults."""
K, RIDGE, CATEGORY_RIDGE = 5.0, 100.0, 100.0
FIRST = 10
"""Ranks that count."""
MIN_GAIN = 2.0
"""Standard errors by which another setting must beat the one before."""
MAX_CARTS, MIN_CARTS = 1_000, 200
"""Carts that settings are chosen on; with fewer the choice would be noise."""
MIN_CART = 2
"""Items that stay in the cart."""
MAX_TIMES = 1 << 24
"""Counts above are taken as this one: the table of their logarithms takes memory."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CartSettings:
    """Settings of a `CartRanking`, and how they rank the items left out of training carts."""

    strength: float = 0.25
    discount: float = 0.2
    """Of log n, how often an item was bought."""
    k: float = K
    ridge: float = RIDGE
    carts: int = 0
    """Training carts they were chosen on; 0: too few to choose."""
    gain: float = 0.0
    """NDCG@10 of the items left out."""
    alone: float = 0.5
    """Of the log of how often an item is alone of its category."""
    categories: float = 0.3

    def offset(self, alone: npt.NDArray[Any], bought: npt.NDArray[Any]) -> Floats:
        """What does not depend on the cart, shape (items,)."""
        offset: Floats = self.alone * alone - self.discount * np.log(np.maximum(bought, 1))
        return offset


class CategoryCounts(NamedTuple):
    """In how many baskets categories stand together, and items without others of their category."""

    baskets: int
    together: npt.NDArray[np.int64]
    """Shape (categories, categories); on the diagonal: baskets with the category."""
    alone: npt.NDArray[np.int64]
    """Shape (items,)."""
    category: npt.NDArray[np.int64]
    """Shape (items,), one more than the last where unknown."""

    @classmethod
    def of(cls, shards: Iterable[Baskets], category: Codes) -> CategoryCounts:
        size = int(category.max(initial=UNKNOWN)) + 1
        size = size if size <= MAX_CATEGORIES else 0
        codes = np.where((category == UNKNOWN) | (category >= size), size, category).astype(np.int64)
        together, alone = np.zeros((size, size), dtype=np.int64), np.zeros(len(category), dtype=np.int64)
        baskets = 0
        for shard in shards:
            count_categories(shard.items, shard.offsets, codes, together, alone)
            baskets += len(shard)
        return cls(baskets, together, alone, codes)

    def log_alone(self, bought: npt.NDArray[np.int64], less: int = 0) -> Floats:
        """Log of an item's share of purchases alone of its category over that of all baskets without another of it.

        less: baskets of each item that are left out.
        """
        with_category = np.append(np.diagonal(self.together), 0)[self.category]
        alone = np.where(self.category < len(self.together), self.alone, bought)
        others = np.where(self.category < len(self.together), with_category - alone, 0)
        share = (np.maximum(alone - less, 0) + 0.5) / (np.maximum(bought - less, 0) + 0.5)
        ratio: Floats = np.log(share) - np.log1p(-others / (self.baskets + 1))
        return ratio

    def ratio(self) -> npt.NDArray[np.float32]:
        """How many times as often as usual baskets with the row's category hold the column's: weights as of `ease`."""
        if not len(self.together):
            return np.zeros((0, 0), dtype=np.float32)
        gram = sparse.csr_matrix(self.together + CATEGORY_RIDGE * np.eye(len(self.together)))
        weights = inverse(gram, np.dtype(np.float64))
        weights /= -np.diagonal(weights).copy()
        np.fill_diagonal(weights, 0.0)
        return (weights * (self.baskets / np.maximum(np.diagonal(self.together), 1))).astype(np.float32)


@compiled
def count_categories(items, offsets, category, together, alone):  # type: ignore[no-untyped-def]
    """Adds the baskets to `together` and `alone`, as in `CategoryCounts`."""
    known = len(together)
    held, found = np.zeros(known + 1, dtype=np.int64), np.empty(known, dtype=np.int64)
    for basket in range(len(offsets) - 1):
        mine = items[offsets[basket] : offsets[basket + 1]]
        size = 0
        for item in mine:
            c = category[item]
            if c < known and held[c] == 0:
                found[size] = c
                size += 1
            held[c] += 1
        for item in mine:
            alone[item] += held[category[item]] == 1
        for i in range(size):
            for j in range(size):
                together[found[i], found[j]] += 1
        for item in mine:
            held[category[item]] = 0


@dataclass(frozen=True, eq=False)
class CartFit:
    """What a `CartRanking` is made of, besides the counts of pairs."""

    settings: CartSettings
    alone: npt.NDArray[np.float32]
    """`CategoryCounts.log_alone`, shape (items,)."""
    ratio: npt.NDArray[np.float32]
    """`CategoryCounts.ratio`."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self.settings)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {"cart": np.array(astuple(self.settings)), "cart_alone": self.alone, "cart_ratio": self.ratio}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> CartFit | None:
        """None in bundles that do not have it."""
        if "cart" not in arrays:
            return None
        # earlier bundles know nothing of categories
        settings = CartSettings(*[*arrays["cart"].tolist(), 0.0, 0.0][: len(astuple(DEFAULT_CART_SETTINGS))])
        alone = arrays.get("cart_alone", np.zeros(1, dtype=np.float32))
        ratio = arrays.get("cart_ratio", np.zeros((0, 0), dtype=np.float32))
        if ratio.ndim != 2 or ratio.shape[0] != ratio.shape[1]:
            raise ValueError(f"`cart_ratio` must have a row and a column per category, got shape {ratio.shape}")
        if not (settings.k > 0 and settings.ridge > 0):
            raise ValueError(f"`cart` must have a `k` and a `ridge` above 0, got {settings.k:g} and {settings.ridge:g}")
        if alone.ndim != 1:
            raise ValueError(f"`cart_alone` must have a value per item, got shape {alone.shape}")
        return cls(replace(settings, carts=int(settings.carts)), alone, ratio)

    def ranking(self, counts: PairCounts, bought: npt.NDArray[np.int64], category: Codes) -> CartRanking:
        """By `counts`; bought: purchases of each item, category: its code, shape (items,)."""
        settings, matrix, (totals, place) = self.settings, counts.matrix, counts.totals
        most, known = int(matrix.data.max(initial=0)), len(self.ratio)
        times = np.arange(min(most, MAX_TIMES) + 1)
        return CartRanking(
            start=matrix.indptr.astype(np.int64),
            item=matrix.indices.astype(np.int32, copy=False),
            value=matrix.data if most <= MAX_TIMES else np.minimum(matrix.data, MAX_TIMES),
            table=(settings.strength * np.log1p(times / settings.k)).astype(np.float32),
            bought=bought.astype(np.float64),
            total=counts.total.astype(np.float64),
            totals=totals.astype(np.float64),
            total_place=place,
            per_record=1.0 / max(counts.records, 1),
            ridge=settings.ridge,
            k=settings.k,
            strength=settings.strength,
            offset=settings.offset(self.alone, bought),
            category=np.where((category < 0) | (category >= known), known, category).astype(np.uint32),
            ratio=self.ratio,
            categories=settings.categories,
        )


DEFAULT_CART_SETTINGS = CartSettings()


def fit_cart(shards: Iterable[Baskets], counts: PairCounts, category: Codes, rng: np.random.Generator) -> CartFit:
    """The settings that rank the items left out of training carts best; the defaults where there are too few carts."""
    bought = sum((shard.item_counts for shard in shards), start=np.zeros(len(category), dtype=np.int64))
    of_categories = CategoryCounts.of(shards, category)
    fit = CartFit(DEFAULT_CART_SETTINGS, of_categories.log_alone(bought).astype(np.float32), of_categories.ratio())
    found: list[tuple[Codes, int]] = []
    for shard in shards:
        found += islice(_carts(shard, bought, category, rng), ceil(MAX_CARTS * len(shard) / of_categories.baskets))
    if len(found) < MIN_CARTS:
        log.info("only %d training carts to choose cart settings on: keeping the defaults", len(found))
        return fit
    carts, hidden = [cart for cart, _ in found], np.array([item for _, item in found], dtype=np.int32)
    left_out = of_categories.log_alone(bought, 1)

    def gains(settings: CartSettings) -> Floats:
        """NDCG of the item left out of each cart."""
        ranking = replace(fit, settings=settings).ranking(counts, bought, category)
        ranks = ranking.left_out_ranks(carts, hidden, settings.offset(left_out, bought - 1), category)
        return np.where((ranks < 0) | (ranks >= FIRST), 0.0, 1.0 / np.log2(2.0 + np.maximum(ranks, 0)))

    chosen, best = fit.settings, gains(fit.settings)
    for name, values in TRIED.items():
        for tried in [replace(chosen, **{name: value}) for value in values]:  # type: ignore[arg-type]
            found_gains = gains(tried)
            more = found_gains - best
            if more.mean() > MIN_GAIN * more.std() / np.sqrt(len(carts)):
                chosen, best = tried, found_gains
    chosen = replace(chosen, carts=len(carts), gain=float(best.mean()))
    settings = {name: getattr(chosen, name) for name in TRIED}
    log.info("cart settings chosen on %d training carts: %s", len(carts), settings)
    return replace(fit, settings=chosen)


def _carts(
    shard: Baskets, bought: npt.NDArray[np.int64], category: Codes, rng: np.random.Generator
) -> Iterator[tuple[Codes, int]]:
    """Baskets without one item, and that item: bought in others too, of another category than all in the cart."""
    for basket in rng.permutation(len(shard)):
        items = np.unique(shard.items[shard.offsets[basket] : shard.offsets[basket + 1]])
        _, group, members = np.unique(category[items], return_inverse=True, return_counts=True)
        free = items[((members[group] == 1) | (category[items] == UNKNOWN)) & (bought[items] > 1)]
        if len(items) > MIN_CART and len(free):
            out = int(rng.choice(free))
            yield items[items != out], out
