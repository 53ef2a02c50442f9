"""Items that may not be purchases of their own: bags, fees, deposits, gifts, placeholders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.cooccurrence import CountOptions, Engine, count
from neatrec.data.baskets import Baskets

LONG_BASKET = 2_000
"""Longer baskets are no shopping trips: the trial count of suspects and evidence omits them."""
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
class SuspectItem:
    """An item with its share of all baskets."""

    item: str | int
    name: str
    share: float


@dataclass(frozen=True)
class InseparablePair:
    """An item hardly ever bought without `partner`."""

    item: str | int
    name: str
    partner: str | int
    partner_name: str
    baskets: int
    """Baskets with the item."""
    share: float
    """Share of them that hold the partner."""


@dataclass(frozen=True)
class Suspects:
    """Items and baskets that may be no purchases."""

    frequent: tuple[SuspectItem, ...]
    """Items in more than a tenth of all baskets, most frequent first."""
    placeholders: tuple[SuspectItem, ...]
    """Bought items whose id or name is a placeholder."""
    inseparable: tuple[InseparablePair, ...] | None
    """Items with a partner in nine tenths of their baskets; None if pairs were not counted."""
    long_baskets: int
    """Baskets over 2,000 lines, which the trial count omits."""
    long_lines: int
    """Number of lines of these baskets."""


def find_suspects(baskets: Baskets, counted: Baskets | None, engine: Engine) -> Suspects:
    """Suspects among all baskets; pairs among those that are `counted`, if any."""
    sales, catalog = baskets.item_counts, baskets.catalog
    words = pa.array(PLACEHOLDERS, pa.large_string())
    is_placeholder = np.zeros(len(catalog), dtype=bool)
    for texts in (catalog.ids, catalog.ids if catalog.names is None else catalog.names):
        is_placeholder |= pc.is_in(pc.utf8_lower(texts), words).to_numpy(zero_copy_only=False)
    long = baskets.sizes[baskets.sizes > LONG_BASKET]
    return Suspects(
        frequent=_by_share(baskets, sales > FREQUENT * max(len(baskets), 1)),
        placeholders=_by_share(baskets, is_placeholder & (sales > 0)),
        inseparable=None if counted is None else _inseparable(counted, engine),
        long_baskets=len(long),
        long_lines=int(long.sum()),
    )


def _by_share(baskets: Baskets, selected: npt.NDArray[np.bool_]) -> tuple[SuspectItem, ...]:
    share = baskets.item_counts / max(len(baskets), 1)
    codes = np.flatnonzero(selected)
    codes = codes[np.argsort(-share[codes], kind="stable")]
    catalog = baskets.catalog
    return tuple(
        SuspectItem(catalog.public_id(code), catalog.name(code), float(share[code]))
        for code in codes.tolist()
    )


def _inseparable(baskets: Baskets, engine: Engine) -> tuple[InseparablePair, ...]:
    """Those in most baskets first."""
    catalog, sales = baskets.catalog, baskets.item_counts
    least = int(np.ceil(INSEPARABLE * SUPPORT))
    options = CountOptions(directed=False, category_level=None, min_count=least, customers=False)
    pairs = count(baskets, options, engine)
    items = np.append(pairs.query, pairs.item)
    partners, together = np.append(pairs.item, pairs.query), np.append(pairs.count, pairs.count)
    suspect = (together >= INSEPARABLE * sales[items]) & (sales[items] >= SUPPORT)
    suspect &= sales[partners] <= EVERYWHERE * len(baskets)
    columns = (values[suspect].tolist() for values in (items, partners, together))
    found = [
        InseparablePair(
            *(catalog.public_id(one), catalog.name(one)),
            *(catalog.public_id(other), catalog.name(other)),
            baskets=int(sales[one]),
            share=number / int(sales[one]),
        )
        for one, other, number in zip(*columns, strict=True)
    ]
    return tuple(sorted(found, key=lambda pair: (-pair.baskets, str(pair.item), str(pair.partner))))
