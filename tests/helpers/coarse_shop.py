"""A shop whose best pairs are of one category."""

import numpy as np

from neatrec.data import Baskets, Catalog


def coarse_shop() -> Baskets:
    """Machines go with beans and bread with butter; beans and machines are one category."""
    rng = np.random.default_rng(3)
    ids = ["machine", "beans", "bread", "butter", "paper", "soap", "pen", "cup"]
    catalog = Catalog.from_ids(ids, categories=[*["coffee"] * 2, *["food"] * 2, *["other"] * 4])
    couples = [["machine", "beans"], ["bread", "butter"], ["machine", "cup"], ["pen"]]
    lists = [
        [*couples[rng.integers(4)], *rng.choice(ids[4:7], size=rng.integers(1, 3), replace=False)]
        for _ in range(900)
    ]
    return Baskets.from_lists([list(dict.fromkeys(each)) for each in lists], catalog=catalog)
