"""The number of distinct customers of each label."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neatrec.baskets import Baskets
from neatrec.copurchase import CoPurchases, Counting, Margins, PairBlock, count
from neatrec.labels.recipe import Engine, Recipe

Counts = npt.NDArray[np.int64]


def customers_of(baskets: Baskets, recipe: Recipe, pairs: CoPurchases, chosen: Counts, engine: Engine) -> Counts | None:
    """Distinct customers of `pairs`, right at the positions `chosen`; None where users are not known.

    Strata that count a pair once a customer make several customers of one: then the chosen pairs are counted again.
    """
    if pairs.customers is None or not (recipe.strata and recipe.once_per_customer):
        return pairs.customers
    counting = Counting(directed=recipe.directed, min_basket=recipe.min_basket, category_level=recipe.category_level)
    wanted = _keys(pairs.query[chosen], pairs.item[chosen])

    def only_wanted(block: PairBlock, margins: Margins) -> npt.NDArray[np.bool_]:
        return np.isin(_keys(block.query, block.item), wanted)

    customers = np.zeros(len(pairs), dtype=np.int64)
    again = count(baskets, counting, keep=only_wanted, **engine)
    if again.customers is not None:
        customers[chosen] = again.customers
    return customers


def _keys(query: npt.NDArray[np.int32], item: npt.NDArray[np.int32]) -> Counts:
    return (query.astype(np.int64) << 32) | item
