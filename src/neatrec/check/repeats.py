"""Whether labels last: those of the first half of the period, looked up in the second half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neatrec.check.power import LEVEL, MIN_BASKET
from neatrec.cooccurrence.strata import default_strata
from neatrec.data.baskets import Baskets
from neatrec.data.splits import moment_of_share
from neatrec.labels import LabelOptions, make_labels
from neatrec.labels.config import LabelConfig


@dataclass(frozen=True)
class LabelRepeat:
    """Calibrated labels of the first half of the period, and how many of them repeat."""

    strata: tuple[str, ...]
    labels: int
    repeated: int
    """Bought together more often than expected in the second half too, within the same strata."""


def label_repeats(
    baskets: Baskets, strata: Sequence[str] | None = None, threads: int | None = None
) -> tuple[LabelRepeat, ...]:
    """Without strata, and with these (None: the default); nothing where times are unknown or all the same."""
    if baskets.times is None or not len(baskets) or baskets.times.min() == baskets.times.max():
        return ()
    before = baskets.times < moment_of_share(baskets.times, 0.5)
    first, second = baskets.select(before), baskets.select(~before)
    within = default_strata(first) if strata is None else tuple(strata)
    choices = ((), within) if within else ((),)
    return tuple(_repeat(first, second, names, threads) for names in choices)


def _repeat(first: Baskets, second: Baskets, strata: tuple[str, ...], threads: int | None) -> LabelRepeat:
    options = LabelOptions(levels=(LEVEL,), min_basket=MIN_BASKET, strata=strata)
    labels = make_labels(first, options, threads=threads)
    once = slice(None) if labels.options["directed"] else labels.query < labels.item
    query, item = labels.query[once], labels.item[once]
    lifts = LabelConfig.of(labels).lifts_in(second, query, item, {"threads": threads})
    return LabelRepeat(strata, len(query), int((lifts > 1).sum()))
