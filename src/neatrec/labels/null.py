"""The shuffle null: a protocol on baskets with shuffled items, which meet by chance alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neatrec.cooccurrence.counting import MEMORY, CountBook, Engine
from neatrec.cooccurrence.totals import id_rank
from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError, must_be_one_of, require_whole
from neatrec.labels.config import LabelConfig
from neatrec.labels.protocols import run_test
from neatrec.labels.record import Labels, level_key

WITHIN = ("none", "size", "size+position")

log = logging.getLogger(__name__)


def shuffled(baskets: Baskets, seed: int, round_: int, within: str = "none") -> Baskets:
    """Permute the items of all lines: basket sizes and item counts stay, associations vanish.

    Lines are ordered by basket id, then position, for any order of the baskets; NumPy's
    `default_rng([seed, round])` permutes them. `within` keeps items among baskets of the same
    size, or of the same size and position.
    """
    require_whole("seed", seed, 0)
    require_whole("round", round_, 0)
    check_within(within, ordered=baskets.ordered)
    basket = baskets.basket_of_line
    slots = np.argsort(id_rank(baskets)[basket], kind="stable")
    drawn = slots[np.random.default_rng([int(seed), int(round_)]).permutation(len(slots))]
    if within != "none":
        group = baskets.sizes[basket]
        if within == "size+position":
            position = np.arange(baskets.lines) - baskets.offsets[basket]
            group = group * (group.max(initial=0) + 1) + position
        slots, drawn = (lines[np.argsort(group[lines], kind="stable")] for lines in (slots, drawn))
    items = np.empty_like(baskets.items)
    items[slots] = baskets.items[drawn]
    return replace(baskets, items=items)


def check_within(within: str, *, ordered: bool = True) -> None:
    """Refuse an unknown `within`, and positions without cart order."""
    if within not in WITHIN:
        raise must_be_one_of("within", WITHIN, within)
    if within == "size+position" and not ordered:
        raise ParameterError(
            "`within` must not be 'size+position' for baskets without cart order: their lines "
            "have no position",
            argument="within",
            hint="Use 'size', or name the column that holds the cart position.",
        )


@dataclass(frozen=True)
class NullResult:
    """Numbers of labels from shuffled baskets, by level and round."""

    rounds: int
    within: str
    seed: int
    labels: Mapping[float, tuple[int, ...]]
    """Pairs of the shuffled baskets that pass the real run's threshold."""
    rerun: Mapping[float, tuple[int, ...]]
    """Labels of the shuffled baskets with their own threshold."""
    real: Mapping[float, int]
    """Labels of the real baskets."""

    @property
    def fdr(self) -> dict[float, float]:
        """The empirical false-discovery rate: mean of `labels` over real labels, or NaN."""
        return {
            level: float(np.mean(self.labels[level])) / n if n else np.nan
            for level, n in self.real.items()
        }

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            "rounds": self.rounds,
            "within": self.within,
            "labels": {level_key(level): list(counts) for level, counts in self.labels.items()},
            "fdr": {
                level_key(level): None if np.isnan(rate) else rate
                for level, rate in self.fdr.items()
            },
            "rerun": {level_key(level): list(counts) for level, counts in self.rerun.items()},
        }


def shuffle_null(
    baskets: Baskets,
    labels: Labels,
    rounds: int,
    *,
    within: str = "none",
    seed: int = 0,
    engine: Engine = MEMORY,
) -> NullResult:
    """Count the labels that the same protocol finds in shuffled baskets.

    Margins and expected counts are those of the shuffled baskets.

    Parameters
    ----------
    baskets
        The baskets that `labels` come from.
    labels
        The labels of the real baskets; their threshold applies to the shuffled ones.
    rounds
        Number of shuffles.
    within
        Properties that a shuffle keeps: `none`, `size` (of the basket) or `size+position`.
    seed
        Seed of the shuffles.
    engine
        Engine that counts pairs.

    Examples
    --------
    >>> from neatrec import make_labels
    >>> baskets = Baskets.from_lists([["bun", "sausage"]] * 30 + [["tea", "milk"]] * 30)
    >>> labels = make_labels(baskets, min_basket=2, levels=0.05)
    >>> shuffle_null(baskets, labels, rounds=2).labels
    {0.05: (0, 0)}
    """
    require_whole("rounds", rounds)
    if labels.basket_hash != baskets.hash:
        raise ParameterError("`labels` must come from the shuffled baskets, got labels of others")
    config = LabelConfig.of(labels)
    ways = 1 if config.directed else 2
    passed: dict[float, tuple[int, ...]] = dict.fromkeys(labels.levels, ())
    rerun = passed.copy()
    for round_ in range(rounds):
        book = CountBook(shuffled(baskets, seed, round_, within), engine)
        pairs = run_test(config, book, labels.largest_p)
        for level in labels.levels:
            passed[level] += (ways * int(pairs.passing(labels.thresholds[level]).sum()),)
            rerun[level] += (ways * int(pairs.passing(pairs.thresholds[level]).sum()),)
        log.info(
            "shuffle %d of %d: %s labels by chance: %s",
            *(round_ + 1, rounds, labels.protocol),
            ", ".join(f"{counts[-1]:,} at {level:g}" for level, counts in passed.items()),
            extra={"done": round_ + 1, "total": rounds},
        )
    real = {level: int(np.count_nonzero(labels.at(level))) for level in labels.levels}
    return NullResult(rounds, within, seed, passed, rerun, real)
