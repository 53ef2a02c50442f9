"""The study of the labels: the paper's own (coverage, consistency, accuracy), and beside it what that leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec._version import __version__
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.labels.config import LabelConfig, LabelOptions
from neatrec.labels.make import DEFAULTS, make_labels
from neatrec.labels.null import NullResult, check_within, shuffle_nulls
from neatrec.labels.paper import DependentPairs, dependent_pairs
from neatrec.labels.record import GroundTruth, Labels, TruthScore, pair_codes, score_against

FORMAT = 1
BIN_WIDTH = 100
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CategoryShare:
    """A category's share of all unique pairs and of the labels, by the category of the query."""

    name: str
    of_pairs: float
    of_labels: Mapping[tuple[str, float], float]
    """(protocol, level) -> share; NaN where there are no labels."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Dependent pairs of one sign at one level, by chi-squared."""

    level: float
    positive: bool
    start: Counts
    """Lower ends of the bins that hold a pair, multiples of 100."""
    count: Counts


@dataclass(frozen=True)
class CasePair:
    """A pair by name."""

    query: str
    item: str
    count: int
    expected: float
    statistic: float
    true_lift: float


@dataclass(frozen=True)
class Negatives:
    """Pairs the paper calls negatively dependent at one level, and how many of them are bought together too often."""

    level: float
    pairs: int
    lift_above_one: int
    """Seen more often than the product of their directed margins, F_q. F_.v / N."""
    quasi_lift_above_one: int
    """Seen more often than quasi-independence expects."""


@dataclass(frozen=True)
class Overlap:
    """Labels of both protocols at one level."""

    level: float
    both: int
    only_paper: int
    only_calibrated: int


@dataclass(frozen=True)
class Clustering:
    """How labels of one level stand together: labels of one query are not independent."""

    protocol: str
    level: float
    labels: int
    queries: int
    most_of_one_query: int


@dataclass(frozen=True, eq=False)
class Audit:
    """Everything the study found."""

    source: str
    paper: Labels
    calibrated: Labels
    category_level: str | None
    """The level whose categories `coverage` speaks of; None where items have no category."""
    coverage: tuple[CategoryShare, ...]
    consistency: tuple[Histogram, ...]
    positive: tuple[CasePair, ...]
    negative: tuple[CasePair, ...]
    popular: tuple[tuple[str, int], ...]
    """The most popular items with their lines."""
    negatives: tuple[Negatives, ...]
    overlap: tuple[Overlap, ...]
    clustering: tuple[Clustering, ...]
    nulls: Mapping[str, NullResult]
    """Protocol -> what shuffled baskets make of it; empty without null rounds."""
    truth: Mapping[tuple[str, float], TruthScore]
    """(protocol, level) -> precision and recall; empty where the truth is not known."""
    seed: int
    """Seed of the shuffle."""
    null_rounds: int
    null_within: str

    def to_json(self) -> dict[str, Any]:
        """The numbers of the study and what made them, without names of items."""
        return {
            "format": FORMAT,
            "version": __version__,
            "source": self.source,
            "seed": self.seed,
            "null_rounds": self.null_rounds,
            "null_within": self.null_within,
            **{
                labels.protocol: {**labels.to_json(), "options": dict(labels.options)}
                for labels in (self.paper, self.calibrated)
            },
            "negatives": [vars(row) for row in self.negatives],
            "overlap": [vars(row) for row in self.overlap],
            "clustering": [vars(row) for row in self.clustering],
            "null": {protocol: null.to_json() for protocol, null in self.nulls.items()},
            "truth": [
                {
                    "protocol": protocol,
                    "level": level,
                    "precision": _known(score.precision),
                    "recall": _known(score.recall),
                }
                for (protocol, level), score in self.truth.items()
            ],
        }


def audit_labels(
    baskets: Baskets,
    options: LabelOptions = DEFAULTS,
    *,
    truth: GroundTruth | None = None,
    null_rounds: int = 3,
    null_within: str = "none",
    seed: int = 0,
    cases: int = 20,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    threads: int | None = None,
    **changes: Any,
) -> Audit:
    """The study of the labels of `baskets` by both protocols with the same options; strata are for the calibrated one.

    `changes` are fields of `LabelOptions`.
    """
    check_within(null_within, ordered=baskets.ordered)
    choice: dict[str, Any] = {"engine": engine, "memory_limit": memory_limit, "threads": threads}
    options = replace(options, protocol="calibrated", **changes)
    calibrated = make_labels(baskets, options, **choice)
    paper = make_labels(baskets, replace(options, protocol="paper", strata=(), expected="quasi"), **choice)
    catalog = baskets.catalog
    shown = catalog.levels[0] if catalog.levels else None
    counting = LabelConfig.of(paper).counting
    dependent = dependent_pairs(baskets, paper.levels, counting, catalog.category_of(shown), choice)
    both = (paper, calibrated)
    nulls: dict[str, NullResult] = {}
    if null_rounds:
        found = shuffle_nulls(baskets, both, null_rounds, within=null_within, seed=seed, **choice)
        nulls = {labels.protocol: null for labels, null in zip(both, found, strict=True)}
    return Audit(
        source=baskets.source,
        paper=paper,
        calibrated=calibrated,
        category_level=shown,
        coverage=() if shown is None else _coverage(catalog, shown, dependent, both),
        consistency=tuple(_histogram(dependent, level, sign) for level in paper.levels for sign in (True, False)),
        positive=_cases(catalog, dependent, dependent.strongest(cases, positive=True)),
        negative=_cases(catalog, dependent, dependent.strongest(cases, positive=False)),
        popular=_popular(baskets, cases),
        negatives=tuple(_negatives(dependent, level) for level in paper.levels),
        overlap=tuple(_overlap(paper, calibrated, level) for level in paper.levels),
        clustering=tuple(_clustering(labels, level) for labels in both for level in labels.levels),
        nulls=nulls,
        truth={} if truth is None else _scores(truth, both, directed=baskets.ordered),
        seed=seed,
        null_rounds=null_rounds,
        null_within=null_within,
    )


def _coverage(
    catalog: Catalog, level: str, dependent: DependentPairs, protocols: Sequence[Labels]
) -> tuple[CategoryShare, ...]:
    names = [*catalog.category_names[catalog.levels.index(level)], "(unknown)"]
    known = catalog.category_of(level)
    category = np.where(known == UNKNOWN, len(names) - 1, known)
    all_pairs = np.zeros(len(names), dtype=np.int64)
    counted = dependent.pairs_by_category
    # the collector's last count is that of unknown categories, wherever the codes of the others end
    all_pairs[: len(counted) - 1], all_pairs[-1] = counted[:-1], counted[-1]
    shares = {
        (labels.protocol, step): _share(np.bincount(category[labels.query[labels.at(step)]], minlength=len(names)))
        for labels in protocols
        for step in labels.levels
    }
    of_pairs = _share(all_pairs)
    rows = [
        CategoryShare(name, float(of_pairs[code]), {key: float(share[code]) for key, share in shares.items()})
        for code, name in enumerate(names)
        if code < len(names) - 1 or all_pairs[code]
    ]
    return tuple(sorted(rows, key=lambda row: row.name))


def _share(counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    total = counts.sum()
    return counts / total if total else np.full(len(counts), np.nan)


def _histogram(dependent: DependentPairs, level: float, positive: bool) -> Histogram:
    statistic = dependent.statistic[dependent.passing(level, positive=positive)]
    start, count = np.unique((statistic // BIN_WIDTH).astype(np.int64), return_counts=True)
    return Histogram(level, positive, start * BIN_WIDTH, count)


def _cases(catalog: Catalog, dependent: DependentPairs, chosen: Counts) -> tuple[CasePair, ...]:
    pairs = dependent.pairs
    return tuple(
        CasePair(
            catalog.name(pairs.query[i]),
            catalog.name(pairs.item[i]),
            int(pairs.count[i]),
            float(dependent.expected[i]),
            float(dependent.statistic[i]),
            float(dependent.true_lift["quasi"][i]),
        )
        for i in chosen
    )


def _popular(baskets: Baskets, k: int) -> tuple[tuple[str, int], ...]:
    counts = baskets.item_counts
    best = np.argsort(-counts, kind="stable")[:k]
    return tuple((baskets.catalog.name(code), int(counts[code])) for code in best if counts[code])


def _negatives(dependent: DependentPairs, level: float) -> Negatives:
    chosen = dependent.passing(level, positive=False)
    above = {kind: int((lift[chosen] > 1).sum()) for kind, lift in dependent.true_lift.items()}
    return Negatives(level, len(chosen), above["product"], above["quasi"])


def _overlap(paper: Labels, calibrated: Labels, level: float) -> Overlap:
    keys = [pair_codes(labels.query, labels.item)[labels.at(level)] for labels in (paper, calibrated)]
    both = len(np.intersect1d(keys[0], keys[1], assume_unique=True))
    return Overlap(level, both, len(keys[0]) - both, len(keys[1]) - both)


def _clustering(labels: Labels, level: float) -> Clustering:
    of_query = np.bincount(labels.query[labels.at(level)])
    return Clustering(
        labels.protocol, level, int(of_query.sum()), int(np.count_nonzero(of_query)), int(of_query.max(initial=0))
    )


def _known(rate: float) -> float | None:
    """JSON has no NaN: a rate of nothing is null."""
    return None if np.isnan(rate) else rate


def _scores(truth: GroundTruth, protocols: Sequence[Labels], *, directed: bool) -> dict[tuple[str, float], TruthScore]:
    return {
        (labels.protocol, level): score_against(
            truth, labels.query[labels.at(level)], labels.item[labels.at(level)], directed=directed
        )
        for labels in protocols
        for level in labels.levels
    }
