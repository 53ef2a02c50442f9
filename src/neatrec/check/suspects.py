"""Items that may not be purchases of their own: bags, fees, deposits, gifts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.cooccurrence import CountOptions, count
from neatrec.cooccurrence.engine import MEMORY, Engine
from neatrec.data.baskets import Baskets

FREQUENT = 0.1
"""An item in more than this share of all baskets is worth a look."""
INSEPARABLE = 0.9
"""An item bought with a certain partner in at least this share of its baskets is worth a look."""
SUPPORT = 20
"""... if it is in at least this many baskets."""
EVERYWHERE = 0.5
"""A partner in more than this share of all baskets is in everybody's basket: that says nothing of the item."""


@dataclass(frozen=True)
class FrequentItem:
    """An item in a large share of all baskets."""

    item: str
    name: str
    share: float


PLACEHOLDERS = (
    *(
        "-",
        "?",
        "none",
        "null",
        "nan",
        "n/a",
        "unknown",
        "undefined",
        "unbekannt",
        "inconnu",
        "desconocido",
    ),
    *("test", "dummy"),
)
"""What programs and people write where there is no item, in small letters."""


def placeholder_items(baskets: Baskets) -> tuple[FrequentItem, ...]:
    """Bought items whose id or name is a word for nothing, most frequent first."""
    catalog, bought = baskets.catalog, baskets.item_counts
    names = catalog.ids if catalog.names is None else catalog.names
    words = pa.array(PLACEHOLDERS, pa.large_string())
    is_one = [
        pc.is_in(pc.utf8_lower(texts), words).to_numpy(zero_copy_only=False)
        for texts in (catalog.ids, names)
    ]
    codes = np.flatnonzero((is_one[0] | is_one[1]) & (bought > 0))
    codes = codes[np.argsort(-bought[codes], kind="stable")].tolist()
    return tuple(
        FrequentItem(catalog.id(c), catalog.name(c), float(bought[c] / len(baskets))) for c in codes
    )


@dataclass(frozen=True)
class InseparablePair:
    """An item hardly ever bought without `partner`."""

    item: str
    name: str
    partner: str
    partner_name: str
    baskets: int
    """Baskets with the item."""
    share: float
    """The part of them that hold the partner."""


def frequent_items(baskets: Baskets) -> tuple[FrequentItem, ...]:
    """Items in more than a tenth of all baskets, most frequent first."""
    share = baskets.item_counts / max(len(baskets), 1)
    codes = np.flatnonzero(share > FREQUENT)
    codes = codes[np.argsort(-share[codes], kind="stable")]
    catalog = baskets.catalog
    return tuple(
        FrequentItem(catalog.id(code), catalog.name(code), float(share[code]))
        for code in codes.tolist()
    )


def inseparable_items(baskets: Baskets, engine: Engine = MEMORY) -> tuple[InseparablePair, ...]:
    """Items with a partner in nine tenths of their baskets, those in most baskets first."""
    in_baskets = baskets.item_counts
    least = int(np.ceil(INSEPARABLE * SUPPORT))
    options = CountOptions(directed=False, category_level=None, min_count=least)
    pairs = count(baskets, options, engine)
    fewer = np.minimum(in_baskets[pairs.query], in_baskets[pairs.item])
    pairs = pairs.where((pairs.count >= INSEPARABLE * fewer) & (fewer >= SUPPORT))
    found = []
    for query, item, together in zip(pairs.query, pairs.item, pairs.count, strict=True):
        for one, other in ((query, item), (item, query)):
            everywhere = in_baskets[other] > EVERYWHERE * len(baskets)
            if (
                together >= INSEPARABLE * in_baskets[one]
                and in_baskets[one] >= SUPPORT
                and not everywhere
            ):
                found.append(_inseparable(baskets, int(one), int(other), int(together)))
    return tuple(sorted(found, key=lambda pair: (-pair.baskets, pair.item, pair.partner)))


def _inseparable(baskets: Baskets, item: int, partner: int, together: int) -> InseparablePair:
    catalog, number = baskets.catalog, int(baskets.item_counts[item])
    return InseparablePair(
        catalog.id(item),
        catalog.name(item),
        catalog.id(partner),
        catalog.name(partner),
        number,
        together / number,
    )
