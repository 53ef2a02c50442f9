"""Small shops for the tests of the evaluation: random baskets, and models whose scores are
given."""

import numpy as np

from helpers.counting_reference import count_plainly
from neatrec.cooccurrence import CountOptions
from neatrec.data import Baskets, Catalog, string_array

NAMES = [f"{name}{i}" for i in range(6) for name in ("bun", "sausage", "tea", "milk")]


def random_baskets(
    rng: np.random.Generator, *, items: int = 12, baskets: int = 30, first_id: int = 0
) -> Baskets:
    """Baskets of 1 to 6 of `items` items in 4 categories, one of which is unknown."""
    categories = [None if i % 4 == 3 else f"c{i % 4}" for i in range(items)]
    # ids whose order as text is not their order as numbers
    catalog = Catalog.from_ids(
        [str(7 * i % items + 1) for i in range(items)], categories=categories
    )
    lists = [rng.choice(items, size=rng.integers(1, 7), replace=False) for _ in range(baskets)]
    return Baskets(
        catalog=catalog,
        items=np.concatenate(lists).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum([len(x) for x in lists])]),
        ids=string_array([str(first_id + i) for i in range(baskets)]),
        ordered=True,
    )


def planted_baskets(baskets: int, *, seed: int = 0, first_id: int = 0) -> Baskets:
    """bun goes with the sausage of its number, tea with the milk of its number; the rest is
    random."""
    rng = np.random.default_rng(seed)
    catalog = Catalog.from_ids(NAMES, categories=[name.rstrip("0123456789") for name in NAMES])
    lists = []
    for _ in range(baskets):
        number, kinds = rng.integers(6), rng.choice(["bun sausage", "tea milk"]).split()
        planted = [f"{kind}{number}" for kind in kinds]
        noise = rng.choice([name for name in NAMES if name not in planted], size=3, replace=False)
        lists.append([*planted, *noise.tolist()])
    ids = [str(first_id + i) for i in range(baskets)]
    return Baskets.from_lists(lists, catalog=catalog, ids=ids)


def pair_counts(baskets: Baskets) -> dict[tuple[int, int], int]:
    """Times two items of different categories were bought together, both ways, counted the slow
    way."""
    plain = count_plainly(baskets, CountOptions(directed=False))
    return {
        pair: n for (one, other), (n, _) in plain.items() for pair in ((one, other), (other, one))
    }


class TableModel:
    """Scores from a table (items, items)."""

    def __init__(self, table: np.ndarray, name: str = "table") -> None:
        self.table, self.name = table, name

    def score(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return self.table[queries, items].astype(np.float64)

    def score_all(self, queries: np.ndarray) -> np.ndarray:
        return self.table[queries]


def candidates_of(baskets: Baskets, query: int) -> list[int]:
    """The catalogue candidates of a query, by definition."""
    category = baskets.catalog.category_of()
    return [
        v
        for v in range(len(baskets.catalog))
        if baskets.item_counts[v] > 0
        and v != query
        and (category[v] < 0 or category[v] != category[query])
    ]
