"""Items that may not be purchases of their own: bags, fees, deposits, gifts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.cooccurrence import CountOptions, count
from neatrec.cooccurrence.engine import MEMORY, Engine
from neatrec.data.baskets import Baskets

FREQUENT = 0.1
"""Items in more than this share of all baskets are listed."""
INSEPARABLE = 0.9
"""Items with one partner in at least this share of their baskets are suspects ..."""
SUPPORT = 20
"""... if they are in at least this many baskets."""
EVERYWHERE = 0.5
"""Partners in more than this share of all baskets do not make an item a suspect."""
PLACEHOLDERS = (
    *("-", "?", "none", "null", "nan", "n/a", "unknown", "undefined"),
    *("unbekannt", "inconnu", "desconocido", "test", "dummy"),
)
"""Lower-case words that stand for a missing item."""


@dataclass(frozen=True)
class FrequentItem:
    """An item in a large share of all baskets."""

    item: str | int
    name: str
    share: float


def placeholder_items(baskets: Baskets) -> tuple[FrequentItem, ...]:
    """Bought items whose id or name is a placeholder, most frequent first."""
    catalog = baskets.catalog
    names = catalog.ids if catalog.names is None else catalog.names
    words = pa.array(PLACEHOLDERS, pa.large_string())
    is_placeholder = np.zeros(len(catalog), dtype=bool)
    for texts in (catalog.ids, names):
        is_placeholder |= pc.is_in(pc.utf8_lower(texts), words).to_numpy(zero_copy_only=False)
    return _by_share(baskets, is_placeholder & (baskets.item_counts > 0))


@dataclass(frozen=True)
class InseparablePair:
    """An item that is hardly ever bought without `partner`."""

    item: str | int
    name: str
    partner: str | int
    partner_name: str
    baskets: int
    """Baskets with the item."""
    share: float
    """Share of them that hold the partner."""


def frequent_items(baskets: Baskets) -> tuple[FrequentItem, ...]:
    """Items in more than a tenth of all baskets, most frequent first."""
    return _by_share(baskets, baskets.item_counts > FREQUENT * max(len(baskets), 1))


def _by_share(baskets: Baskets, selected: npt.NDArray[np.bool_]) -> tuple[FrequentItem, ...]:
    share = baskets.item_counts / max(len(baskets), 1)
    codes = np.flatnonzero(selected)
    codes = codes[np.argsort(-share[codes], kind="stable")]
    catalog = baskets.catalog
    return tuple(
        FrequentItem(catalog.public_id(code), catalog.name(code), float(share[code]))
        for code in codes.tolist()
    )


def inseparable_items(baskets: Baskets, engine: Engine = MEMORY) -> tuple[InseparablePair, ...]:
    """Items with a partner in nine tenths of their baskets, those in most baskets first."""
    catalog, sales = baskets.catalog, baskets.item_counts
    least = int(np.ceil(INSEPARABLE * SUPPORT))
    options = CountOptions(directed=False, category_level=None, min_count=least)
    pairs = count(baskets, options, engine)
    items = np.append(pairs.query, pairs.item)
    partners, together = np.append(pairs.item, pairs.query), np.append(pairs.count, pairs.count)
    suspect = (together >= INSEPARABLE * sales[items]) & (sales[items] >= SUPPORT)
    suspect &= sales[partners] <= EVERYWHERE * len(baskets)
    rows = zip(items[suspect].tolist(), partners[suspect].tolist(), strict=True)
    found = [
        InseparablePair(
            *(catalog.public_id(one), catalog.name(one)),
            *(catalog.public_id(other), catalog.name(other)),
            baskets=int(sales[one]),
            share=number / int(sales[one]),
        )
        for (one, other), number in zip(rows, together[suspect].tolist(), strict=True)
    ]
    return tuple(sorted(found, key=lambda pair: (-pair.baskets, str(pair.item), str(pair.partner))))
