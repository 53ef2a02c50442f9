"""`Labels`, the pairs with their evidence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.catalog import Catalog
from neatrec.data.table_result import TableResult
from neatrec.errors import must_be

Codes = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
MEASURES = ("count", "expected", "lift", "lift_low", "lift_high", "statistic", "p")
"""Columns of `Labels` that the table has under the same name."""


@dataclass(frozen=True, eq=False)
class Labels(TableResult):
    """Labels of the widest level, sorted by query, then item; `at` selects those of another level.

    Without cart order both (q, v) and (v, q) are labels.
    """

    protocol: str
    level_kind: str
    """Kind of level: "p", a p-value of each test, or "q", a false-discovery rate of all labels."""
    levels: tuple[float, ...]
    thresholds: Mapping[float, float]
    """Threshold of each level: the chi-squared value to exceed (paper), or the largest accepted
    p-value (calibrated; 0 without labels)."""
    baskets: int
    """Number of counted baskets."""
    records: int
    """N: number of counted pairs of lines."""
    pairs: int
    """Number of unique pairs."""
    basket_hash: str
    """`Baskets.hash` of the baskets of the labels."""
    catalog: Catalog
    query: Codes
    item: Codes
    count: Counts
    """O1: records of the pair."""
    expected: Floats
    """The protocol's own expected count."""
    lift: Floats
    """Predicted lift in new baskets: count / expected, shrunk by a prior of all pairs. Without a
    prior (paper protocol, too few pairs): count / expected with Garwood's interval."""
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
    """The options that determine the labels."""

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{n:,} at {level}" for level, n in self.label_counts.items())
        return f"<Labels {self.protocol}: {numbers}>"

    def at(self, level: float) -> Mask:
        """Mask of the labels at `level`, one of `levels`."""
        if level not in self.levels:
            raise must_be("level", f"one of {', '.join(map(level_key, self.levels))}", level)
        return passes(self.level_kind, self.statistic, self.p, self.thresholds[level])

    @property
    def largest_p(self) -> float:
        """The largest accepted p-value; 0 if levels are p-values."""
        return max(self.thresholds.values()) if self.level_kind == "q" else 0.0

    @property
    def label_counts(self) -> dict[str, int]:
        """Number of labels by level, with the keys of the JSON output."""
        return {level_key(level): int(np.count_nonzero(self.at(level))) for level in self.levels}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over protocol, levels and sorted (query id, item id, count), without floats."""
        levels = [level_key(level) for level in sorted(self.levels, reverse=True)]
        digest = hashlib.sha256(json.dumps([self.protocol, levels]).encode())
        queries, items = (
            self.catalog.ids.take(pa.array(codes)).to_pylist() for codes in (self.query, self.item)
        )
        for label in sorted(zip(queries, items, self.count.tolist(), strict=True)):
            digest.update(b"\n" + json.dumps(label).encode())
        return digest.hexdigest()

    def strongest(self, k: int) -> npt.NDArray[np.int64]:
        """Positions of the k labels with the largest `statistic`, largest first.

        Without direction each pair is listed once, not as (q, v) and (v, q).
        """
        best = np.argsort(-self.statistic, kind="stable")
        if not self.options["directed"]:
            best = best[self.query[best] < self.item[best]]
        return best[:k]

    def table(self) -> pa.Table:
        """The labels with ids, names and evidence; `level` is the strictest level of each label.

        The metadata `neatrec` of the schema holds protocol, levels, options and hash as JSON.
        """
        rows = len(self)
        level = np.full(rows, max(self.levels))
        for narrower in sorted(self.levels, reverse=True):
            level[self.at(narrower)] = narrower
        ids, names = self.catalog.ids, self.catalog.names
        names = ids if names is None else pc.coalesce(names, ids)
        columns = {
            "query": self.catalog.public_ids.take(pa.array(self.query)),
            "item": self.catalog.public_ids.take(pa.array(self.item)),
            "query_name": names.take(pa.array(self.query)),
            "item_name": names.take(pa.array(self.item)),
            **{name: pa.array(getattr(self, name)) for name in MEASURES},
            "q": _or_nulls(self.q, rows, pa.float64()),
            "customers": _or_nulls(self.customers, rows, pa.int64()),
            "reverse_count": _or_nulls(self.reverse, rows, pa.int64()),
            "level": pa.array(level),
            "protocol": pa.array([self.protocol] * rows, pa.large_string()),
        }
        origin = {
            "protocol": self.protocol,
            "level_kind": self.level_kind,
            "levels": list(self.levels),
            "options": dict(self.options),
            "hash": self.hash,
        }
        return pa.table(columns).replace_schema_metadata({b"neatrec": json.dumps(origin).encode()})

    def to_arrow(self) -> pa.Table:
        """The same as `table`."""
        return self.table()

    def _caption(self) -> str:
        return repr(self)

    def to_json(self) -> dict[str, Any]:
        """Counts, thresholds and hash: the core of the output of `neatrec labels --json`."""
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


def passes(level_kind: str, statistic: Floats, p: Floats, threshold: float) -> Mask:
    """Mask of the pairs that are labels: by chi-squared (levels of p) or by p-value (of q)."""
    return statistic > threshold if level_kind == "p" else p <= threshold


def level_key(level: float) -> str:
    """The spelling of a level in JSON keys and in the hash.

    >>> level_key(0.05), level_key(1e-3)
    ('0.05', '0.001')
    """
    return repr(float(level))


def _or_nulls(values: Any, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(rows, kind) if values is None else pa.array(values)
