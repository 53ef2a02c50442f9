"""Statistics of pair counts.

C: the count of a pair, F: an item's pairs, N: all pairs, E = F_q F_v / N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from neatrec import statistics
from neatrec.models.counts import CountModel, Counts, Floats, StrataParameters
from neatrec.models.parameters import ModelParameters, parameter


class Lift(CountModel):
    """C / E: how many times more often than by chance."""

    name: ClassVar[str] = "lift"
    description: ClassVar[str] = "Count of the pair over its expectation under independence."
    Parameters: ClassVar[type[ModelParameters]] = StrataParameters

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return statistics.lift(count, self.counts.expected(query_total, item_total))


@dataclass(frozen=True)
class ShrunkLiftParameters(StrataParameters):
    """Parameters of `shrunk-lift`."""

    k: float = parameter(1.0, "Strength of the shrinkage, in expected counts.", low=0.0)


class ShrunkLift(CountModel):
    """C / (E + k): the lift, shrunk towards 0 where little was expected."""

    name: ClassVar[str] = "shrunk-lift"
    description: ClassVar[str] = "Count of the pair over (its expectation under independence + k)."
    Parameters: ClassVar[type[ModelParameters]] = ShrunkLiftParameters

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return statistics.shrunk_lift(
            count, self.counts.expected(query_total, item_total), self.parameters.k
        )


class LLR(CountModel):
    """G^2 of the 2x2 table, negative where the pair was seen less often than expected."""

    name: ClassVar[str] = "llr"
    description: ClassVar[str] = (
        "Signed log-likelihood ratio of the 2x2 table: how significant the pair is."
    )
    Parameters: ClassVar[type[ModelParameters]] = StrataParameters

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return statistics.signed_llr(count, query_total, item_total, self.counts.records)

    def _unseen(self, query_total: Floats, item_total: Floats) -> Floats:
        """G^2 with C = 0: one logarithm per pair instead of four."""
        n = float(max(self.counts.records, 1))
        # F <= N / 2, as C is symmetric with an empty diagonal; two halves have odds of 1, which
        # must not meet log1p
        odds = (query_total / (n - query_total)) * (item_total / (n - item_total))
        g2 = np.log1p(-np.minimum(odds, 1.0 - 1e-15))
        g2 *= n - query_total - item_total
        g2 -= query_total * np.log1p(-item_total / n)
        g2 -= item_total * np.log1p(-query_total / n)
        return np.minimum(-2.0 * g2, 0.0)


class Jaccard(CountModel):
    """C / (F_q + F_v - C)."""

    name: ClassVar[str] = "jaccard"
    description: ClassVar[str] = "Count of the pair over the count of pairs with either item."

    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        return statistics.jaccard(count, query_total, item_total)
