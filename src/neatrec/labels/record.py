"""The records of labels: `Labels` (the pairs with their evidence) and `TruthScore` (labels against the truth)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.catalog import Catalog
from neatrec.data.table_result import TableResult
from neatrec.errors import must_be, must_be_one_of

Codes = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Labels(TableResult):
    """Labels of the widest level, sorted by query, then item; `at` gives those of another level.

    Where cart order is not known both (q, v) and (v, q) stand here.
    """

    protocol: str
    level_kind: str
    """What a level is: a p-value of each test ("p") or a false-discovery rate of all labels ("q")."""
    levels: tuple[float, ...]
    thresholds: Mapping[float, float]
    """What decided at each level: the chi-squared to exceed (paper), the largest p-value accepted (calibrated; 0 where
    there are no labels)."""
    baskets: int
    """Baskets counted."""
    records: int
    """N: pairs of lines counted."""
    pairs: int
    """Unique pairs among them."""
    basket_hash: str
    """`Baskets.hash` of the baskets the labels come from."""
    catalog: Catalog
    query: Codes
    item: Codes
    count: Counts
    """O1: records of the pair."""
    expected: Floats
    """The protocol's own expected count."""
    lift: Floats
    """The lift that new baskets will show: count / expected, shrunk by a prior of all pairs (calibrated only; the paper
    protocol has count / expected and Garwood's interval, as have calibrated labels that are too few for a prior)."""
    lift_low: Floats
    lift_high: Floats
    """Its 95 % interval."""
    statistic: Floats
    """Chi-squared (paper) or -log10 p (calibrated)."""
    p: Floats
    q: Floats | None
    """Benjamini and Hochberg's q-value (calibrated only)."""
    customers: Counts | None
    """Distinct customers, where users are known."""
    reverse: Counts | None
    """Records of (item, query), where cart order is known."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options that made them."""

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        found = ", ".join(f"{n:,} at {level}" for level, n in self.label_counts.items())
        return f"<Labels {self.protocol}: {found}>"

    def at(self, level: float) -> Mask:
        """Which of the labels hold at `level`, one of `levels`."""
        if level not in self.levels:
            raise must_be("level", f"one of {', '.join(map(level_key, self.levels))}", level)
        threshold = self.thresholds[level]
        return self.statistic > threshold if self.level_kind == "p" else self.p <= threshold

    @property
    def largest_p(self) -> float:
        """The largest p-value accepted at any level; 0 where levels are no false-discovery rates."""
        return max(self.thresholds.values()) if self.level_kind == "q" else 0.0

    @property
    def label_counts(self) -> dict[str, int]:
        """Number of labels by level, as JSON has it."""
        return {level_key(level): int(np.count_nonzero(self.at(level))) for level in self.levels}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over protocol, levels and sorted (query id, item id, count): no floats, equal on every engine."""
        levels = [level_key(level) for level in sorted(self.levels, reverse=True)]
        digest = hashlib.sha256(json.dumps([self.protocol, levels]).encode())
        queries, items = (
            self.catalog.ids.take(pa.array(codes)).to_pylist() for codes in (self.query, self.item)
        )
        for label in sorted(zip(queries, items, self.count.tolist(), strict=True)):
            digest.update(b"\n" + json.dumps(label).encode())
        return digest.hexdigest()

    def strongest(self, k: int, by: str = "statistic") -> npt.NDArray[np.int64]:
        """Positions of the k labels with the largest `statistic` or `lift_low`, largest first.

        Where pairs have no direction, each is named once, not as (q, v) and (v, q).
        """
        if by not in ("statistic", "lift_low"):
            raise must_be_one_of("by", ("statistic", "lift_low"), by)
        best = np.argsort(-getattr(self, by), kind="stable")
        return (
            best[:k] if self.options["directed"] else best[self.query[best] < self.item[best]][:k]
        )

    def table(self) -> pa.Table:
        """The labels with ids, names and evidence; `level` is the strictest level at which each is one.

        The schema's metadata holds under `neatrec` what made them: protocol, levels, options, hash, as JSON.
        """
        rows = len(self)
        level = np.full(rows, max(self.levels))
        for narrower in sorted(self.levels, reverse=True):
            level[self.at(narrower)] = narrower
        names = (
            self.catalog.ids
            if self.catalog.names is None
            else pc.coalesce(self.catalog.names, self.catalog.ids)
        )
        columns = {
            "query": self.catalog.public_ids.take(pa.array(self.query)),
            "item": self.catalog.public_ids.take(pa.array(self.item)),
            "query_name": names.take(pa.array(self.query)),
            "item_name": names.take(pa.array(self.item)),
            **{
                name: pa.array(getattr(self, name))
                for name in ("count", "expected", "lift", "lift_low", "lift_high")
            },
            "statistic": pa.array(self.statistic),
            "p": pa.array(self.p),
            "q": pa.nulls(rows, pa.float64()) if self.q is None else pa.array(self.q),
            "customers": pa.nulls(rows, pa.int64())
            if self.customers is None
            else pa.array(self.customers),
            "reverse_count": pa.nulls(rows, pa.int64())
            if self.reverse is None
            else pa.array(self.reverse),
            "level": pa.array(level),
            "protocol": pa.array([self.protocol] * rows, pa.large_string()),
        }
        return pa.table(columns).replace_schema_metadata(
            {b"neatrec": json.dumps(self._origin()).encode()}
        )

    def to_arrow(self) -> pa.Table:
        return self.table()

    def _caption(self) -> str:
        return repr(self)

    def _origin(self) -> dict[str, Any]:
        """What made the labels, for a reader of the table alone."""
        return {
            "protocol": self.protocol,
            "level_kind": self.level_kind,
            "levels": list(self.levels),
            "options": dict(self.options),
            "hash": self.hash,
        }

    def to_json(self) -> dict[str, Any]:
        """Counts, thresholds and hash: the core of what `neatrec labels --json` prints."""
        return {
            "protocol": self.protocol,
            "level_kind": self.level_kind,
            "baskets": self.baskets,
            "records": self.records,
            "pairs": self.pairs,
            "labels": self.label_counts,
            "threshold": {level_key(level): float(self.thresholds[level]) for level in self.levels},
            "hash": self.hash,
        }


def level_key(level: float) -> str:
    """A level as JSON keys and the hash spell it.

    >>> level_key(0.05), level_key(1e-3)
    ('0.05', '0.001')
    """
    return repr(float(level))


class GroundTruth(Protocol):
    """What really goes together: `query` brings `item`, aligned item codes. The simulator knows."""

    @property
    def query(self) -> Codes: ...

    @property
    def item(self) -> Codes: ...


@dataclass(frozen=True)
class TruthScore:
    """How right and how complete a set of pairs is."""

    given: int
    right: int
    planted: int

    @property
    def precision(self) -> float:
        """The share of the given pairs that are true; NaN when none are given."""
        return self.right / self.given if self.given else float("nan")

    @property
    def recall(self) -> float:
        """The share of the true pairs that are given; NaN when none are true."""
        return self.right / self.planted if self.planted else float("nan")


def score_against(truth: GroundTruth, query: Codes, item: Codes, *, directed: bool) -> TruthScore:
    """Precision and recall of pairs; where direction is not known, a true pair is true both ways.

    >>> from types import SimpleNamespace as Pairs
    >>> score_against(Pairs(query=np.array([0]), item=np.array([1])), np.array([0, 1]), np.array([1, 0]), directed=True)
    TruthScore(given=2, right=1, planted=1)
    """
    true_query, true_item = np.asarray(truth.query), np.asarray(truth.item)
    if not directed:
        true_query, true_item = np.append(true_query, true_item), np.append(true_item, true_query)
    planted = np.unique(pair_codes(true_query, true_item))
    given = np.unique(pair_codes(query, item))
    return TruthScore(len(given), int(np.isin(given, planted).sum()), len(planted))


def pair_codes(query: npt.NDArray[Any], item: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """A number for each ordered pair."""
    codes: npt.NDArray[np.int64] = query.astype(np.int64) << 32 | item
    return codes
