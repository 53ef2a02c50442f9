"""A shop whose baskets have times and stores: pairs that go together, and pairs that a month or a
store explains."""

from dataclasses import replace
from functools import cache

import numpy as np

from neatrec.data import Attribute, Baskets, Catalog


@cache
def dated_shop(seed: int = 5) -> Baskets:
    """A year: candy and wreaths sell in December only, ice and charcoal in the north only, buns go
    with sausages."""
    rng = np.random.default_rng(seed)
    ids = ["candy", "wreath", "ice", "charcoal", "bun", "sausage", "rice", "pen"]
    lists, stores, times, users = [], [], [], []
    for number in range(6_000):
        month, store = number % 12, int(rng.integers(0, 2))
        often = {"candy": 0.5 if month == 11 else 0.01, "wreath": 0.5 if month == 11 else 0.01}
        often |= {"ice": 0.4 if store else 0.01, "charcoal": 0.4 if store else 0.01}
        often |= {"rice": 0.4, "pen": 0.4, "bun": 0.15}
        basket = [item for item, chance in often.items() if rng.random() < chance]
        basket += ["sausage"] if "bun" in basket and rng.random() < 0.6 else []
        lists.append(basket)
        stores.append(store)
        times.append(np.datetime64(f"2025-{month + 1:02}-10", "us").astype(np.int64))
        users.append(f"u{rng.integers(0, 4_000)}")
    shop = Baskets.from_lists(lists, catalog=Catalog.from_ids(ids), users=users, ordered=False)
    return replace(
        shop,
        times=np.array(times),
        attributes={"store": Attribute(np.array(stores, np.int32), ("south", "north"))},
    )
