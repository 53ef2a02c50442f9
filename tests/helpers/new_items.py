"""A shop in which the name of an item tells what it goes with, and one item of each kind has never
been bought."""

from functools import cache

import numpy as np

from neatrec.data import Baskets, Catalog

KINDS, PER_KIND = 40, 6
"""Items of kind n go with those of kind n + 20, for n below 20; the last item of a kind is new."""


@cache
def shop_with_new_items(categories: bool = False) -> Baskets:
    rng = np.random.default_rng(1)
    kinds = ["".join(rng.choice(list("bcdfghklmnprst"), 5)) for _ in range(KINDS)]
    names = [f"{kind} {n}{chr(97 + n)}{chr(98 + n)}" for kind in kinds for n in range(PER_KIND)]
    ids = [str(code) for code in range(len(names))]
    catalog = Catalog.from_ids(
        ids, names=names, categories=list(np.repeat(kinds, PER_KIND)) if categories else None
    )
    lists = []
    for pair, other, one, two in rng.integers(
        0, [KINDS // 2, KINDS, PER_KIND - 1, PER_KIND - 1], (6000, 4)
    ):
        bought = (pair * PER_KIND + one, (pair + KINDS // 2) * PER_KIND + two, other * PER_KIND)
        lists.append(list(dict.fromkeys(str(code) for code in bought)))
    return Baskets.from_lists(lists, catalog=catalog)


def new_item(kind: int) -> int:
    """The code of the item of a kind that nobody bought."""
    return kind * PER_KIND + PER_KIND - 1
