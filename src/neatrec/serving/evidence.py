"""`PairEvidence`: what the training baskets say about one pair, its grade, and the same in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.text import plural

GRADES = ("strong", "some", "predicted", "category", "rule")
"""Best first. The first three are about a pair; `category`: answered from the category; `rule`: set by the shop."""
STRONG, SOME, PREDICTED, CATEGORY, RULE = range(len(GRADES))

STRONG_Q, STRONG_LOW, STRONG_TIMES = 0.001, 2.0, 3
"""Strong: q at most this, the lower end of the 95 % interval of the lift at least this, seen at least so many times."""
SOME_Q, SOME_LOW = 0.05, 1.0
"""Some: q at most this, and the interval of the lift above this."""

Numbers = npt.NDArray[Any]


def grade_pairs(times: Numbers, lift_low: Numbers, q: Numbers) -> npt.NDArray[np.uint8]:
    """The grade of each pair, a number into `GRADES`; NaN (not known) is no evidence.

    `times` are those that `q` was made of: customers where they return, baskets otherwise.

    >>> grade_pairs(np.array([37, 2, 1]), np.array([9.2, 1.5, 0.1]), np.array([1e-6, 0.01, 1.0])).tolist()
    [0, 1, 2]
    """
    with np.errstate(invalid="ignore"):
        strong = (q <= STRONG_Q) & (lift_low >= STRONG_LOW) & (times >= STRONG_TIMES)
        some = (q <= SOME_Q) & (lift_low > SOME_LOW)
    return np.where(strong, STRONG, np.where(some, SOME, PREDICTED)).astype(np.uint8)


def thresholds() -> dict[str, dict[str, float]]:
    """What the grades mean, as a manifest states it."""
    return {
        "strong": {"q": STRONG_Q, "lift_low": STRONG_LOW, "times": STRONG_TIMES},
        "some": {"q": SOME_Q, "lift_low": SOME_LOW, "times": 1},
    }


FOOTER = "Association, not proof of extra sales."

REASONS = {
    "similar": "suggested because similar items go together",
    "counts": "chance may explain it",
    "popular": "suggested because it is bought often",
}
"""Why a model recommends a pair without evidence in the counts."""


def evidence_words(
    grade: int, *, count: int, customers: int, expected: float, lift_low: float, q: float, reason: str, public: bool
) -> str:
    """What is known about a pair in one or two sentences; without any count where they are for the `public`."""
    if grade == CATEGORY:
        return "A new item: suggested because items of its category go together."
    if grade == RULE:
        return "Placed here by a rule of the shop."
    if count < 0 and math.isnan(expected):
        return "Items of one category are not counted together."
    if grade == PREDICTED:
        return _predicted(count, reason, public)
    low = at_least(lift_low)
    if public:
        return f"Bought together at least {low}x as often as by chance (95 %). {_coincidence(q)}"
    return f"{_seen(count, customers, expected)}; at least {low}x chance (95 %). {_coincidence(q)}"


def table_words(recall: Mapping[str, Any] | None, public: bool = False) -> str:
    """How far the table itself can be trusted: `recall` of the manifest's notes; without a count for the `public`."""
    if recall is None:
        return "Exact: every item's best answers by the model."
    measured = "" if public else f", measured on {plural(recall['sample'], 'item')}"
    return (
        f"Approximate: it holds {_at_most(recall['first'])} % of the exact first ten answers and "
        f"{_at_most(recall['all'])} % of all of them{measured}. Evidence is exact all the same."
    )


def _at_most(share: float) -> str:
    """Percent, never rounded up to all."""
    return f"{math.floor(1000 * share + 1e-9) / 10:.1f}"


def _seen(count: int, customers: int, expected: float) -> str:
    people = f" by {plural(customers, 'customer')}" if customers >= 0 else ""
    return f"In {plural(count, 'order')}{people}; {about(expected)} expected by chance"


def _predicted(count: int, reason: str, public: bool) -> str:
    why = REASONS[reason]
    if public:
        return f"{why[0].upper()}{why[1:]}."
    return f"{_times(count)}; {why}."


def _times(count: int) -> str:
    if count < 0:
        return "Seldom or never bought together"
    words = {0: "Never bought together", 1: "Bought together once", 2: "Bought together twice"}
    return words.get(count, f"Bought together {count:,} times")


def _coincidence(q: float) -> str:
    if q < 1e-6:
        return "Of pairs with evidence this strong fewer than 1 in 1,000,000 is expected to be coincidence."
    return f"Of pairs with evidence this strong about 1 in {one_in(q):,} is expected to be coincidence."


def one_in(q: float) -> int:
    """1 / q to one digit, rounded down: never more than was shown.

    >>> one_in(0.001), one_in(0.0123), one_in(0.05)
    (1000, 80, 20)
    """
    whole = math.floor(1.0 / q * (1 + 1e-6))
    zeros = len(str(whole)) - 1
    return int(str(whole)[0] + "0" * zeros)


def about(expected: float) -> str:
    """An expected count with two digits.

    >>> about(2.3456), about(0.00123), about(47.8), about(1234.5)
    ('2.3', '0.0012', '48', '1,234')
    """
    if expected >= 100:
        return f"{expected:,.0f}"
    if expected < 0.0001:
        return "fewer than 0.0001"
    digits = max(0, 1 - math.floor(math.log10(expected)))
    return f"{expected:.{digits}f}"


def at_least(ratio: float) -> str:
    """A lower limit, rounded down: whole from 3 on, with one decimal below.

    >>> at_least(9.16), at_least(2.19), at_least(1234.5)
    ('9', '2.1', '1,234')
    """
    return f"{math.floor(ratio):,}" if ratio >= 3 else f"{math.floor(ratio * 10) / 10:.1f}"


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
