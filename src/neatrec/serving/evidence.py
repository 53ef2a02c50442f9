"""`PairEvidence`: what the training baskets say about one pair."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from neatrec.serving.grades import GRADES
from neatrec.serving.words import evidence_words


@dataclass(frozen=True, slots=True)
class PairEvidence:
    """Of a pair (query, item). Whole numbers are -1 and others NaN where they are not known."""

    count: int
    """Baskets that hold both."""
    expected: float
    """How many there would be by chance; customers instead of baskets where customers return."""
    lift: float
    """Times seen over times expected: customers where they return, baskets otherwise."""
    lift_low: float
    lift_high: float
    """The exact 95 % interval of the lift."""
    q: float
    """Of all pairs with evidence at least as strong, the share expected to be coincidence."""
    customers: int
    """Distinct customers who bought both in one basket."""
    forward: int
    """Baskets in which the query went into the cart first."""
    backward: int
    """Baskets in which the item did."""
    query_count: int
    item_count: int
    """Baskets that hold the query, and the item."""
    query_variance: float
    item_variance: float
    posterior: float
    """What a Bayesian model makes of the lift: mean and 95 % interval."""
    posterior_low: float
    posterior_high: float
    grade: str
    """One of `GRADES`."""
    reason: str = "similar"
    """Why the model names a pair without evidence: `similar`, `counts` or `popular`."""

    def words(self, public: bool = False) -> str:
        """The evidence in one or two sentences; `public` withholds counts."""
        return evidence_words(
            GRADES.index(self.grade),
            count=self.count,
            customers=self.customers,
            expected=self.expected,
            lift_low=self.lift_low,
            q=self.q,
            reason=self.reason,
            public=public,
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it: what is not known is None."""
        return {name: None if value == -1 or value != value else value for name, value in asdict(self).items()}
