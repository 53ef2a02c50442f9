"""`check_baskets`: the contents, suspicious items and statistical power of baskets."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from neatrec._version import __version__
from neatrec.check.power import MIN_BASKET, TRIAL, Power, measure_power
from neatrec.check.suspects import LONG_BASKET, Suspects, find_suspects
from neatrec.check.text import as_text, warnings_of
from neatrec.cooccurrence.counting import MEMORY, Engine
from neatrec.cooccurrence.strata import default_strata, parse_strata, strata_groups
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.data.table_result import TableResult
from neatrec.io.assemble import GUEST
from neatrec.labels.make import smaller_baskets
from neatrec.text import printable

log = logging.getLogger(__name__)

FORMAT = 1
MAX_PAIRS = 30_000_000_000
"""With more pairs of lines (some minutes of work) the pairs are not counted."""
QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class ItemCounts:
    """Numbers of items."""

    catalogue: int
    bought: int


@dataclass(frozen=True)
class Period:
    """Times of the first and the last basket, ISO 8601."""

    first: str
    last: str


@dataclass(frozen=True)
class BasketSizes:
    """Numbers of lines of the baskets."""

    mean: float
    quantiles: Mapping[str, int]
    ones: int
    """Baskets of one line: kept, but without pairs."""
    counted: int
    """Baskets of at least 5 lines, which the protocols count by default."""


@dataclass(frozen=True, eq=False, repr=False)
class CheckResult(TableResult):
    """The result of `check`."""

    source: str
    hash: str
    lines: int
    baskets: int
    items: ItemCounts
    users: int | None
    guests: int
    """Baskets without a user; each counts as a customer of its own."""
    categories: Mapping[str, int]
    """Number of categories by level, shallow to deep."""
    uncategorised: float
    """Share of lines whose item has no category at the deepest level."""
    ordered: bool
    period: Period | None
    sizes: BasketSizes
    dropped: Mapping[str, int]
    suspects: Suspects
    power: Power | None
    strata: tuple[str, ...]
    """Columns within which labels and evidence are measured."""
    advice: str
    """A sentence that suggests how to get more labels, where there are few."""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object of `neatrec check --json`."""
        return {"format": FORMAT, "version": __version__, **asdict(self)}

    def to_arrow(self) -> pa.Table:
        """The values of `to_json`, one row per value."""
        facts = dict(_flat(self.to_json()))
        return pa.table({"fact": list(facts), "value": list(facts.values())})

    def to_text(self) -> str:
        """The result as text for a terminal."""
        return as_text(self)

    def _caption(self) -> str:
        return f"Check of {printable(self.source) or 'baskets'}"


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of a JSON object by name: {"sizes": {"mean": 2}} -> ("sizes.mean", "2")."""
    if isinstance(value, Mapping | tuple):
        parts = value.items() if isinstance(value, Mapping) else enumerate(value, 1)
        for key, part in parts:
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif value is not None:
        yield name, f"{value:.4g}" if isinstance(value, float) else str(value)


def check_baskets(
    baskets: Baskets,
    *,
    strata: Sequence[str] | None = None,
    engine: Engine = MEMORY,
) -> CheckResult:
    """Check `baskets`: contents, dropped rows, suspicious items, the smallest detectable lift.

    Parameters
    ----------
    baskets
        The baskets to check.
    strata
        Columns within which evidence is measured; None: basket size, month and store, as far as
        they are known.
    engine
        Engine that counts pairs.

    Examples
    --------
    >>> check = check_baskets(Baskets.from_lists([["tea", "milk"]] * 3 + [["tea"]]))
    >>> check.lines, check.sizes.ones, check.power
    (7, 1, None)
    """
    strata = parse_strata(strata)
    strata_groups(baskets, strata or ())  # a missing column is refused before counting
    options = replace(TRIAL, strata=strata)
    long = baskets.sizes > LONG_BASKET
    shopping = baskets.select(~long) if long.any() else baskets
    power, advice = None, ""
    pairs = int((shopping.sizes * (shopping.sizes - 1) // 2).sum())
    affordable = pairs <= MAX_PAIRS
    if affordable:
        power = measure_power(shopping, options, engine)
        advice = smaller_baskets(shopping, power.labels if power else 0, options, engine)
    else:
        log.warning("%s pairs of lines are too many to be counted here", f"{pairs:,}")
    sales, catalog = baskets.item_counts, baskets.catalog
    levels = zip(catalog.levels, catalog.category_names, strict=True)
    check = CheckResult(
        source=baskets.source,
        hash=baskets.hash,
        lines=baskets.lines,
        baskets=len(baskets),
        items=ItemCounts(len(catalog), int((sales > 0).sum())),
        users=None if baskets.users is None else len(np.unique(baskets.users)),
        guests=_guests(baskets),
        categories={level: len(names) for level, names in levels},
        uncategorised=float(sales[catalog.category_of() == UNKNOWN].sum() / max(baskets.lines, 1)),
        ordered=baskets.ordered,
        period=_period(baskets),
        sizes=_sizes(baskets),
        dropped=baskets.dropped,
        suspects=find_suspects(baskets, shopping if affordable else None, engine),
        power=power,
        strata=default_strata(baskets) if strata is None else strata,
        advice=advice,
    )
    return replace(check, warnings=tuple(warnings_of(check)))


def _guests(baskets: Baskets) -> int:
    if baskets.user_ids is None or baskets.users is None:
        return 0
    guest = [str(user).startswith(GUEST) for user in baskets.user_ids.to_pylist()]
    return int(np.array(guest, dtype=bool)[baskets.users].sum())


def _period(baskets: Baskets) -> Period | None:
    if baskets.times is None or not len(baskets):
        return None
    # NumPy's calendar has no first and no last year
    ends = (baskets.times.min(), baskets.times.max())
    return Period(*(f"{np.datetime64(int(end) // 1_000_000, 's')}Z" for end in ends))


def _sizes(baskets: Baskets) -> BasketSizes:
    sizes = baskets.sizes
    if not len(sizes):
        return BasketSizes(0.0, {}, 0, 0)
    values = np.quantile(sizes, QUANTILES, method="inverted_cdf")
    return BasketSizes(
        mean=float(sizes.mean()),
        quantiles={f"{q:g}": int(value) for q, value in zip(QUANTILES, values, strict=True)},
        ones=int((sizes == 1).sum()),
        counted=int((sizes >= MIN_BASKET).sum()),
    )
