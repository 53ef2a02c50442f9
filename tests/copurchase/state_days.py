"""Shops whose baskets come in days: what is bought each day, and the same baskets read all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from neatrec.baskets import Attribute, Baskets
from neatrec.catalog import Catalog

CATEGORY = {item: None if item == "é" else "sweet" if item < "d" else "sour" for item in "abcdefgh"} | {"é": None}
STORES = ("north", "south")


@dataclass(frozen=True)
class Bought:
    """One basket."""

    id: str
    user: str
    items: tuple[str, ...]

    @property
    def store(self) -> str:
        return STORES[len(self.id) % 2]


def read(bought: Sequence[Bought], *, ordered: bool, users: bool) -> Baskets:
    """The baskets as a source gives them: sorted by id, items sorted where order is not known, only what was bought."""
    rows = sorted(bought, key=lambda basket: basket.id)
    ids = sorted({item for basket in rows for item in basket.items})
    shop = Baskets.from_lists(
        [basket.items if ordered else sorted(basket.items) for basket in rows],
        ordered=ordered,
        users=[basket.user for basket in rows] if users else None,
        ids=[basket.id for basket in rows],
        catalog=Catalog.from_ids(ids, categories=[CATEGORY[item] for item in ids]),
    )
    names = sorted({basket.store for basket in rows})
    codes = np.array([names.index(basket.store) for basket in rows], dtype=np.int32)
    return replace(shop, attributes={"store": Attribute(codes, tuple(names))})


@st.composite
def days(draw: st.DrawFn) -> tuple[list[list[Bought]], bool, bool]:
    """Baskets cut into days, in any order; whether cart order and users are known."""
    contents = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["ann", "bob", "cem"]),
                st.lists(st.sampled_from(sorted(CATEGORY)), min_size=1, max_size=6, unique=True),
            ),
            min_size=1,
            max_size=12,
        )
    )
    bought = [Bought("b" * (1 + n % 2) + str(n), user, tuple(items)) for n, (user, items) in enumerate(contents)]
    bought = draw(st.permutations(bought))
    cuts = sorted(draw(st.lists(st.integers(0, len(bought)), max_size=4)))
    parts = [bought[a:b] for a, b in zip([0, *cuts], [*cuts, len(bought)], strict=True)]
    return [part for part in parts if part], draw(st.booleans()), draw(st.booleans())
