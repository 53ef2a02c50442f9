"""How many labels chance alone makes: the protocol on shuffled baskets."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError, must_be
from neatrec.labels.config import LabelConfig
from neatrec.labels.record import Labels, level_key
from neatrec.labels.shuffle import shuffled

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NullResult:
    """Labels that come out of shuffled baskets, level by level, one number a round."""

    rounds: int
    within: str
    seed: int
    labels: Mapping[float, tuple[int, ...]]
    """Pairs of the shuffled baskets that pass the real run's threshold."""
    rerun: Mapping[float, tuple[int, ...]]
    """Labels of the whole protocol on the shuffled baskets, with a threshold of their own."""
    real: Mapping[float, int]
    """Labels of the real baskets."""

    @property
    def fdr(self) -> dict[float, float]:
        """The empirical false-discovery rate: mean of `labels` over real labels; NaN where there are none."""
        return {level: float(np.mean(self.labels[level])) / n if n else np.nan for level, n in self.real.items()}

    def to_json(self) -> dict[str, Any]:
        return {
            "rounds": self.rounds,
            "within": self.within,
            "labels": {level_key(level): list(counts) for level, counts in self.labels.items()},
            "fdr": {level_key(level): None if np.isnan(rate) else rate for level, rate in self.fdr.items()},
            "rerun": {level_key(level): list(counts) for level, counts in self.rerun.items()},
        }


def shuffle_null(
    baskets: Baskets,
    labels: Labels,
    rounds: int,
    *,
    within: str = "none",
    seed: int = 0,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    threads: int | None = None,
) -> NullResult:
    """What `rounds` shuffles of the baskets that `labels` come from make of the same protocol.

    Margins and expected counts are those of the shuffled baskets. Round r = 0, 1, ... shuffles by md5("seed|r|...").
    """
    options: dict[str, Any] = {"engine": engine, "memory_limit": memory_limit, "threads": threads}
    return shuffle_nulls(baskets, [labels], rounds, within=within, seed=seed, **options)[0]


def shuffle_nulls(
    baskets: Baskets, all_labels: Sequence[Labels], rounds: int, *, within: str = "none", seed: int = 0, **engine: Any
) -> list[NullResult]:
    """`shuffle_null` of several labels of the same baskets, which are shuffled once for all of them."""
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise must_be("rounds", "a whole number of at least 1", rounds)
    if any(labels.basket_hash != baskets.hash for labels in all_labels):
        raise ParameterError("`labels` must come from the baskets that are shuffled, got those of others")
    tallies = [_ChanceCounts(labels) for labels in all_labels]
    for round_ in range(rounds):
        by_chance = shuffled(baskets, seed, round_, within)
        for tally in tallies:
            found = tally.add(by_chance, engine)
            log.info("shuffle %d of %d: %s labels by chance: %s", round_ + 1, rounds, tally.labels.protocol, found)
    return [tally.result(rounds, within, seed) for tally in tallies]


class _ChanceCounts:
    """Labels by chance of one protocol, round after round."""

    def __init__(self, labels: Labels) -> None:
        self.labels, self.recipe = labels, LabelConfig.of(labels)
        self.passed: dict[float, list[int]] = {level: [] for level in labels.levels}
        self.rerun: dict[float, list[int]] = {level: [] for level in labels.levels}

    def add(self, by_chance: Baskets, engine: dict[str, Any]) -> str:
        """Count those of one more shuffle; they are given back in words."""
        labels, recipe = self.labels, self.recipe
        test, evidence = recipe.test_pairs(by_chance, engine, at_least=labels.largest_p)
        own = test.thresholds(evidence, recipe.levels)
        ways = 1 if recipe.directed else 2
        for level in recipe.levels:
            for counts, threshold in ((self.passed, labels.thresholds[level]), (self.rerun, own[level])):
                counts[level].append(ways * int(np.count_nonzero(test.passes(evidence, threshold))))
        return ", ".join(f"{counts[-1]:,} at {level:g}" for level, counts in self.passed.items())

    def result(self, rounds: int, within: str, seed: int) -> NullResult:
        return NullResult(
            rounds,
            within,
            seed,
            {level: tuple(counts) for level, counts in self.passed.items()},
            {level: tuple(counts) for level, counts in self.rerun.items()},
            {level: int(np.count_nonzero(self.labels.at(level))) for level in self.labels.levels},
        )
