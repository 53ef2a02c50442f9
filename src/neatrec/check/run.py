"""`check_baskets`: the contents, suspicious items and statistical power of baskets."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from neatrec._version import __version__
from neatrec.check.power import (
    LEVEL,
    MIN_BASKET,
    POWER,
    TRIAL,
    LabelRepeat,
    Power,
    label_repeats,
    measure_power,
)
from neatrec.check.suspects import (
    FrequentItem,
    InseparablePair,
    frequent_items,
    inseparable_items,
    placeholder_items,
)
from neatrec.cooccurrence import CountOptions
from neatrec.cooccurrence.counting import pairs_of_size
from neatrec.cooccurrence.engine import MEMORY, Engine
from neatrec.cooccurrence.strata import FEW_BASKETS as FEW_IN_STRATUM
from neatrec.cooccurrence.strata import (
    MONTH,
    RULED_OUT,
    default_strata,
    parse_strata,
    strata_groups,
    strata_words,
)
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.data.table_result import TableResult
from neatrec.io.assemble import GUEST
from neatrec.labels.make import smaller_baskets
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

FORMAT = 1
LONG_BASKET = 2_000
"""Longer baskets are no shopping trips: the trial count of suspects and evidence omits them."""
MAX_RECORDS = 30_000_000_000
"""With more pairs of lines (some minutes of work) the pairs are not counted."""
FEW_BASKETS = 1_000
CAP = CountOptions().max_basket_pairs
QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


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
    catalogue_items: int
    bought_items: int
    users: int | None
    guests: int
    """Baskets without a user; each counts as a customer of its own."""
    categories: Mapping[str, int]
    """Number of categories by level, shallow to deep."""
    uncategorised: float
    """Share of lines whose item has no category at the deepest level."""
    ordered: bool
    period: tuple[str, str] | None
    """Times of the first and the last basket, ISO 8601, where known."""
    sizes: BasketSizes
    dropped: Mapping[str, int]
    frequent: tuple[FrequentItem, ...]
    inseparable: tuple[InseparablePair, ...] | None
    """None if pairs were not counted."""
    long_baskets: int
    """Baskets over 2,000 lines, which the trial count omits."""
    long_lines: int
    """Number of lines of these baskets."""
    over_cap: int
    """Baskets with more pairs of lines than `max_basket_pairs`: `labels` refuses them."""
    max_pairs: int
    """Pairs of lines of the largest basket."""
    power: Power | None
    advice: str
    """A sentence that suggests how to get more labels, where there are few."""
    strata: tuple[str, ...] = ()
    """Columns within which labels and evidence are measured."""
    repeats: tuple[LabelRepeat, ...] = ()
    """Repeats of the labels of the first half of the period, without and with strata."""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object of `neatrec check --json`."""
        return {
            "format": FORMAT,
            "version": __version__,
            **{name: getattr(self, name) for name in ("source", "hash", "lines", "baskets")},
            "items": {"catalogue": self.catalogue_items, "bought": self.bought_items},
            **{
                name: getattr(self, name)
                for name in ("users", "guests", "uncategorised", "ordered")
            },
            "categories": dict(self.categories),
            "period": None
            if self.period is None
            else {"first": self.period[0], "last": self.period[1]},
            "sizes": asdict(self.sizes),
            "dropped": dict(self.dropped),
            "suspects": {
                "frequent": [asdict(item) for item in self.frequent],
                "inseparable": None
                if self.inseparable is None
                else [asdict(pair) for pair in self.inseparable],
                "long_baskets": self.long_baskets,
            },
            "trial_count": {
                "counted": self.power is not None or self.inseparable is not None,
                "excluded_baskets": self.long_baskets,
                "excluded_lines": self.long_lines,
                "longest": LONG_BASKET,
            },
            "over_cap": {
                "baskets": self.over_cap,
                "max_pairs": self.max_pairs,
                "max_basket_pairs": CAP,
            },
            "power": None if self.power is None else _power_json(self.power),
            "strata": list(self.strata),
            "repeats": [asdict(repeat) for repeat in self.repeats],
            "warnings": list(self.warnings),
            "advice": self.advice,
        }

    def to_arrow(self) -> pa.Table:
        """The values of `to_json`, one row per value."""
        facts = dict(_flat(self.to_json()))
        return pa.table({"fact": list(facts), "value": list(facts.values())})

    def _caption(self) -> str:
        return f"Check of {printable(self.source) or 'baskets'}"

    def to_text(self) -> str:
        """The result as text for a terminal."""
        from neatrec.check.text import as_text

        return as_text(self)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of a JSON object by name: {"sizes": {"mean": 2}} -> ("sizes.mean", "2")."""
    if isinstance(value, Mapping | list):
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
    >>> found = check_baskets(Baskets.from_lists([["tea", "milk"]] * 3 + [["tea"]]))
    >>> found.lines, found.sizes.ones, found.power
    (7, 1, None)
    """
    strata = parse_strata(strata)
    strata_groups(baskets, strata or ())  # a missing column is refused before counting
    options = replace(TRIAL, strata=strata)
    long = baskets.sizes > LONG_BASKET
    shopping = baskets.select(~long) if long.any() else baskets
    pairs = pairs_of_size(baskets.sizes)
    records = int(pairs[~long].sum())
    affordable = records <= MAX_RECORDS
    if not affordable:
        log.warning("%s pairs of lines are too many to be counted here", f"{records:,}")
    power = measure_power(shopping, options, engine) if affordable else None
    sales, deepest = baskets.item_counts, baskets.catalog.category_of()
    levels = zip(baskets.catalog.levels, baskets.catalog.category_names, strict=True)
    found = CheckResult(
        source=baskets.source,
        hash=baskets.hash,
        lines=baskets.lines,
        baskets=len(baskets),
        catalogue_items=len(baskets.catalog),
        bought_items=int((sales > 0).sum()),
        users=None if baskets.users is None else len(np.unique(baskets.users)),
        guests=_guests(baskets),
        categories={level: len(names) for level, names in levels},
        uncategorised=float(sales[deepest == UNKNOWN].sum() / max(baskets.lines, 1)),
        ordered=baskets.ordered,
        period=_period(baskets),
        sizes=_sizes(baskets),
        dropped=baskets.dropped,
        frequent=frequent_items(baskets),
        inseparable=inseparable_items(shopping, engine) if affordable else None,
        long_baskets=int(long.sum()),
        long_lines=int(baskets.sizes[long].sum()),
        over_cap=int((pairs > CAP).sum()),
        max_pairs=int(pairs.max(initial=0)),
        power=power,
        advice=smaller_baskets(shopping, power.labels if power else 0, options, engine)
        if affordable
        else "",
        strata=default_strata(baskets) if strata is None else strata,
        repeats=label_repeats(shopping, strata, engine) if affordable else (),
    )
    return replace(found, warnings=(*_placeholders(baskets), *_warnings(found)))


def _placeholders(baskets: Baskets) -> Iterator[str]:
    """A note on each item that may be a placeholder."""
    for item in placeholder_items(baskets):
        called = printable(
            repr(item.name if item.name == item.item else f"{item.name} ({item.item})"), 60
        )
        yield (
            f"Item {called} is in {item.share:.1%} of the baskets: if it is not a "
            f"product, leave it out with --exclude-item {shlex.quote(printable(item.item, 60))}."
        )


def _guests(baskets: Baskets) -> int:
    if baskets.user_ids is None or baskets.users is None:
        return 0
    guest = np.array(
        [str(user).startswith(GUEST) for user in baskets.user_ids.to_pylist()], dtype=bool
    )
    return int(guest[baskets.users].sum())


def _period(baskets: Baskets) -> tuple[str, str] | None:
    if baskets.times is None or not len(baskets):
        return None
    # NumPy's calendar has no first and no last year
    first, last = (
        np.datetime64(int(end) // 1_000_000, "s")
        for end in (baskets.times.min(), baskets.times.max())
    )
    return f"{first}Z", f"{last}Z"


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


def _warnings(found: CheckResult) -> list[str]:
    warnings = []
    if not found.categories:
        warnings.append("There is no category: substitutes cannot be told from complements.")
    elif found.uncategorised > 0.05:
        warnings.append(
            f"{found.uncategorised:.0%} of the lines have no category: their substitutes look "
            "like complements."
        )
    if not found.ordered:
        warnings.append("Cart order is not known: pairs have no direction.")
    if found.users is None:
        warnings.append(
            "Customers are not known: a pair that one customer buys every week counts every week."
        )
    if RULED_OUT in (within := strata_words(found.strata)):
        advice = "Name a time with --time, and a store or another column with --strata."
        if found.period is not None:  # `--strata COLUMN` alone would give up size and month
            advice = "Name a store or another column: --strata size,month,COLUMN."
            if MONTH not in found.strata:
                advice += f" By default months and stores need {FEW_IN_STRATUM} baskets each."
        warnings.append(f"{within} {advice}")
    multiple = found.baskets - found.sizes.ones
    if multiple < FEW_BASKETS:
        warnings.append(
            f"Only {plural(multiple, 'basket')} of more than one item: expect little evidence."
        )
    if found.long_baskets:
        warnings.append(
            f"{plural(found.long_baskets, 'basket has', 'baskets have')} over "
            f"{LONG_BASKET:,} lines: "
            "are these business orders, or reused ids? `check` leaves them out of the evidence; "
            "`labels` counts them."
        )
    if found.over_cap:
        warnings.append(
            f"`labels` will refuse {plural(found.over_cap, 'basket')} of more than {CAP:,} pairs "
            f"of lines (the largest has {found.max_pairs:,}): raise --max-basket-pairs, or leave "
            "such baskets out."
        )
    if found.advice:
        warnings.append(found.advice)
    left_out = sum(found.dropped.values())
    if left_out > 0.1 * (left_out + found.lines):
        warnings.append(f"{left_out / (left_out + found.lines):.0%} of the rows were left out.")
    return warnings


def _power_json(power: Power) -> dict[str, Any]:
    tested = {"protocol": "calibrated", "level": LEVEL, "power": POWER, "min_basket": MIN_BASKET}
    return {**tested, **asdict(power)}
