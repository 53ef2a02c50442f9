"""The shuffle null: a protocol on baskets with shuffled items, which meet by chance alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.count_book import CountBook
from neatrec.cooccurrence.engine import MEMORY, Engine
from neatrec.cooccurrence.totals import id_rank
from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError, must_be_one_of, require_whole
from neatrec.labels.config import LabelConfig
from neatrec.labels.record import Labels, level_key, passes

WITHIN = ("none", "size", "size+position")
Order = npt.NDArray[np.int64]

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
    slots = _lines_by_basket_id(baskets)
    drawn = slots[np.random.default_rng([int(seed), int(round_)]).permutation(len(slots))]
    group = _group(baskets, within)
    if group is not None:
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


def _lines_by_basket_id(baskets: Baskets) -> Order:
    """Lines sorted by basket id, then position."""
    rank = id_rank(baskets)
    if np.all(np.diff(rank) > 0):
        return np.arange(baskets.lines)
    return np.argsort(rank[baskets.basket_of_line], kind="stable")


def _group(baskets: Baskets, within: str) -> Order | None:
    """The group of each line, in which its item stays; None: a single group."""
    if within == "none":
        return None
    size = np.repeat(baskets.sizes, baskets.sizes)
    if within == "size":
        return size
    position = np.arange(baskets.lines) - np.repeat(baskets.offsets[:-1], baskets.sizes)
    group: Order = size * (baskets.sizes.max(initial=0) + 1) + position
    return group


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
        What a shuffle keeps: `none`, `size` (of the basket) or `size+position`.
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
    test, ways = config.protocol_test, 1 if config.directed else 2
    passed: dict[float, tuple[int, ...]] = dict.fromkeys(labels.levels, ())
    rerun = passed.copy()
    for round_ in range(rounds):
        book = CountBook(shuffled(baskets, seed, round_, within), engine)
        tested = test.test(book, labels.largest_p)
        evidence = tested.column("statistic"), tested.column("p")
        own = test.thresholds(tested, labels.levels)
        for level in labels.levels:
            for counts, thresholds in ((passed, labels.thresholds), (rerun, own)):
                passing = passes(test.level_kind, *evidence, thresholds[level])
                counts[level] += (ways * int(np.count_nonzero(passing)),)
        log.info(
            "shuffle %d of %d: %s labels by chance: %s",
            *(round_ + 1, rounds, labels.protocol),
            ", ".join(f"{counts[-1]:,} at {level:g}" for level, counts in passed.items()),
            extra={"done": round_ + 1, "total": rounds},
        )
    real = {level: int(np.count_nonzero(labels.at(level))) for level in labels.levels}
    return NullResult(rounds, within, seed, passed, rerun, real)
