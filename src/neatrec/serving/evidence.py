"""`PairEvidence`: what the training baskets say about one pair, its grade, and the same in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.strata import RULED_OUT, strata_words
from neatrec.text import plural

GRADES = ("certain", "likely", "guess", "category", "rule")
"""How sure a pair is, best first. The first three are about a pair; `category`: answered from the category; `rule`: set
by the shop. After these come the explanations of pairs that look certain overall but not within strata."""
CERTAIN, LIKELY, GUESS, CATEGORY, RULE = range(len(GRADES))
EXPLAINED = 16
"""The grade of a pair explained by the first of the strata; by the second: one more; see `grade_names`."""

CERTAIN_Q, CERTAIN_TIMES = 0.001, 3
"""Certain: q at most this, seen at least so many times, and the 95 % interval of the lift above 1."""
LIKELY_Q = 0.05
"""Likely: q at most this, and the interval of the lift above 1."""
STRENGTHS = {"strong": 2.0, "moderate": 1.2, "weak": 1.0}
"""How strong a pair is: the lower end of the 95 % interval of its lift is at least this."""
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)

Numbers = npt.NDArray[Any]


def grade_pairs(times: Numbers, lift_low: Numbers, q: Numbers) -> npt.NDArray[np.uint8]:
    """The grade of each pair, a number into `GRADES`; NaN (not known) is no evidence.

    `times` are those that `q` was made of: customers where they return, baskets otherwise.

    >>> grade_pairs(np.array([37, 2, 1]), np.array([9.2, 1.5, 0.1]), np.array([1e-6, 0.01, 1.0])).tolist()
    [0, 1, 2]
    """
    with np.errstate(invalid="ignore"):
        likely = (q <= LIKELY_Q) & (lift_low > 1)
        certain = likely & (q <= CERTAIN_Q) & (times >= CERTAIN_TIMES)
    return np.where(certain, CERTAIN, np.where(likely, LIKELY, GUESS)).astype(np.uint8)


def grade_names(strata: Sequence[str]) -> tuple[str, ...]:
    """The names of the grades of a table whose evidence is within these strata; numbers without a meaning have none.

    >>> grade_names(["month", "store"])[EXPLAINED:]
    ('seasonal', 'explained by store')
    """
    explained = ("seasonal" if name == "month" else f"explained by {name.replace('_', ' ')}" for name in strata)
    return (*GRADES, *[""] * (EXPLAINED - len(GRADES)), *explained)


def strength_of(grade: int, lift_low: float) -> str | None:
    """How strong a pair with evidence is; None without evidence.

    >>> strength_of(CERTAIN, 3.1), strength_of(LIKELY, 1.7), strength_of(GUESS, 0.4)
    ('strong', 'moderate', None)
    """
    if grade not in (CERTAIN, LIKELY):
        return None
    return next((word for word, low in STRENGTHS.items() if lift_low >= low), None)


def thresholds() -> dict[str, dict[str, float]]:
    """What the words mean, as a manifest states it."""
    return {
        "certain": {"q": CERTAIN_Q, "lift_low": 1.0, "times": CERTAIN_TIMES},
        "likely": {"q": LIKELY_Q, "lift_low": 1.0, "times": 1},
        **{word: {"lift_low": low} for word, low in STRENGTHS.items()},
    }


FOOTER = "Association, not proof of extra sales."

REASONS = {
    "similar": "suggested because similar items go together",
    "popular": "suggested because it is bought often",
}
"""Why a model recommends a pair without evidence in the counts; one that only counts has no reason."""
NO_LIFT = 1.1
"""Up to this lift a pair without evidence is said to be bought together no more often than chance."""


def coincidence_words(q: float, strata: Sequence[str]) -> str:
    """How many pairs with evidence as strong are coincidence; less is claimed where seasons or stores may be behind it.

    >>> coincidence_words(1e-37, ["month", "store"]), coincidence_words(1e-37, []), coincidence_words(0.004, [])
    ('fewer than 1 in 1,000,000', 'fewer than 1 in 1,000', 'about 1 in 200')
    """
    smallest = 1e-3 if RULED_OUT in strata_words(strata) else 1e-6
    if q < smallest:
        return f"fewer than 1 in {one_in(smallest):,}"
    return f"about 1 in {one_in(q):,}"


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


def one_in(q: float) -> int:
    """1 / q to one digit, rounded down: never more than was shown.

    >>> one_in(0.001), one_in(0.0123), one_in(0.05)
    (1000, 80, 20)
    """
    whole = math.floor(1.0 / q * (1 + 1e-6))
    zeros = len(str(whole)) - 1
    return int(str(whole)[0] + "0" * zeros)


def times_chance(ratio: float) -> str:
    """A lift as people read it.

    >>> times_chance(3.58), times_chance(11.2), times_chance(1234.5)
    ('3.6x', '11x', '1,234x')
    """
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{ratio:,.0f}x"


def at_least(ratio: float) -> str:
    """A lower limit, rounded down: whole from 10 on, with one decimal below.

    >>> at_least(9.16), at_least(2.19), at_least(1234.5)
    ('9.1x', '2.1x', '1,234x')
    """
    return f"{math.floor(ratio):,}x" if ratio >= 10 else f"{math.floor(ratio * 10 + 1e-9) / 10:.1f}x"


def months_of(season: int) -> list[str]:
    """The names of the months whose bits are set.

    >>> months_of(1 << 10 | 1 << 11)
    ['November', 'December']
    """
    return [name for place, name in enumerate(MONTHS) if season > 0 and season >> place & 1]


@dataclass(frozen=True, slots=True)
class PairEvidence:
    """Of a pair (query, item). Whole numbers are -1 and others NaN where they are not known."""

    count: int = -1
    """Baskets that hold both."""
    expected: float = math.nan
    """How many there would be by chance, within strata; customers instead of baskets where customers return."""
    lift: float = math.nan
    """How many times as often as by chance new baskets will show the pair: customers where they return, baskets
    otherwise."""
    lift_low: float = math.nan
    lift_high: float = math.nan
    """The 95 % interval of the lift, corrected for the pair having been picked from many."""
    q: float = math.nan
    """Of all pairs with evidence at least as strong, the share expected to be coincidence."""
    customers: int = -1
    """Distinct customers who bought both in one basket."""
    forward: int = -1
    """Baskets in which the query went into the cart first."""
    backward: int = -1
    """Baskets in which the item did."""
    overall_lift: float = math.nan
    """The lift over all baskets; `expected`, `lift` and `q` are within strata where the table has them."""
    season: int = -1
    """Of a seasonal pair: its months, the first bit for January."""
    weighted: int = -1
    """Where old baskets count less: what is compared with `expected`, instead of `customers` or `count`."""
    query_count: int = -1
    item_count: int = -1
    """Baskets that hold the query, and the item."""
    query_variance: float = math.nan
    item_variance: float = math.nan
    grade: str = "guess"
    """How sure: one of `GRADES`, or `seasonal`, or `explained by` a column."""
    reason: str = "similar"
    """Why the model names a pair without evidence: `similar`, `counts` or `popular`."""

    @property
    def strength(self) -> str | None:
        """How strong a pair with evidence is: one of `STRENGTHS`."""
        return strength_of(GRADES.index(self.grade), self.lift_low) if self.grade in GRADES else None

    def words(self, public: bool = False, suggested: bool = True) -> str:
        """The evidence in one sentence; `public` withholds counts. `suggested`: whether a model names the pair."""
        if self.grade == "category":
            return "A new item: suggested because items of its category go together."
        if self.grade == "rule":
            return "Placed here by a rule of the shop."
        if self.count < 0 and math.isnan(self.expected):
            return "Items of one category are not counted together."
        if self.grade == "guess":
            return self._guess(public, suggested)
        together = "Bought together" if public else self._together()
        joined = together if public else f"{together},"
        if self.grade in GRADES:
            return f"{joined} {times_chance(self.lift)} more than chance (at least {at_least(self.lift_low)})."
        within = " or ".join(months_of(self.season)) or f"one {self.grade.removeprefix('explained by ')}"
        ratios = f"{times_chance(self.overall_lift)} overall, {times_chance(self.lift)} within {within}"
        return f"{joined} {ratios}: {self.grade}."

    def times_words(self) -> str:
        """How often both were bought, in the unit of every text: customers where they are known, else orders.

        The sentence of the same pair says the same number.
        """
        times = plural(self.count, "order") if self.customers < 0 else plural(self.customers, "customer")
        return times if self.weighted < 0 else f"{times} (weighted: {self.weighted:,})"

    def _together(self) -> str:
        if self.count < 0:
            return "Seldom or never bought together"
        if not self.count:
            return "Never bought together"
        if self.customers < 0:
            return f"Bought together in {self.times_words()}"
        return f"Bought together by {self.times_words()}"

    def _guess(self, public: bool, suggested: bool) -> str:
        why = "not more often than chance" if self.lift <= NO_LIFT else "chance may explain it"
        if suggested:
            why = REASONS.get(self.reason, why)
        if public:
            return f"{why[0].upper()}{why[1:]}."
        never = self.count == 0 and (not suggested or self.reason not in REASONS)
        return f"{self._together()}." if never else f"{self._together()}; {why}."

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it: what is not known is None, a season the names of its months."""
        numbers = {name: None if value == -1 or value != value else value for name, value in asdict(self).items()}
        return {**numbers, "season": months_of(self.season) or None, "strength": self.strength}
