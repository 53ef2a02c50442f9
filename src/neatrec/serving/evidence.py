"""`Evidence`: the numbers, the grade and the words of one pair.

Each field of `Evidence` names its column's type, bounds and unit, a description, and the function
that makes the column. The columns of the serving table, the checks at load, JSON, OpenAPI, exports,
data frames and the page of a pair are derived from these fields: adding one is one line here.
"""

from __future__ import annotations

import math
from calendar import month_name
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.strata import RULED_OUT, strata_words
from neatrec.statistics import LiftEstimate
from neatrec.text import plural, show_number

if TYPE_CHECKING:
    from neatrec.serving.counted import CountedPairs

GRADES = ("certain", "likely", "guess", "chance", "category", "rule")
"""Grades of certainty, best first.

`guess`: the counts cannot tell; `chance`: the pair is bought together no more often than chance;
`category`: answered from the category; `rule`: set by the shop. Explanations of pairs that look
certain overall but not within strata follow."""
CERTAIN, LIKELY, GUESS, CHANCE, CATEGORY, RULE = range(len(GRADES))
EXPLAINED = 16
"""The grade of a pair that the first of the strata explains; one more: the second."""

CERTAIN_Q, CERTAIN_TIMES = 0.001, 3
"""Certain: at most this q, at least this count, and the 95 % interval of the lift above 1."""
LIKELY_Q = 0.05
"""Likely: q at most this, and the interval of the lift above 1."""
STRENGTHS = {"strong": 2.0, "moderate": 1.2, "weak": 1.0}
"""How strong a pair is: the lower end of the 95 % interval of its lift is at least this."""
NO_MORE = STRENGTHS["moderate"]
"""By chance: the upper end of the interval is below this."""
MONTHS = tuple(month_name)[1:]

Numbers = npt.NDArray[Any]


def grade_pairs(times: Numbers, lift: LiftEstimate, q: Numbers) -> npt.NDArray[np.uint8]:
    """The grade of each pair, a number into `GRADES`; NaN (not known) is no evidence.

    `times` is the count behind `q`: customers if they return, else baskets.

    >>> lift = LiftEstimate(np.ones(4), np.array([9.2, 1.5, 0.1, 0.9]), np.array([20, 9, 9, 1.1]))
    >>> grade_pairs(np.array([37, 2, 1, 300]), lift, np.array([1e-6, 0.01, 1.0, 0.4])).tolist()
    [0, 1, 2, 3]
    """
    with np.errstate(invalid="ignore"):
        likely = (q <= LIKELY_Q) & (lift.low > 1)
        certain = likely & (q <= CERTAIN_Q) & (times >= CERTAIN_TIMES)
        unsure = np.where(lift.high < NO_MORE, CHANCE, GUESS)
    return np.where(certain, CERTAIN, np.where(likely, LIKELY, unsure)).astype(np.uint8)


def grade_names(strata: Sequence[str]) -> tuple[str, ...]:
    """The names of the grades of a table with these strata; unused numbers have empty names.

    >>> grade_names(["month", "store"])[EXPLAINED:]
    ('seasonal', 'explained by store')
    """
    explained = (
        "seasonal" if name == "month" else f"explained by {name.replace('_', ' ')}"
        for name in strata
    )
    return (*GRADES, *[""] * (EXPLAINED - len(GRADES)), *explained)


def strength_of(grade: int, lift_low: float) -> str | None:
    """The strength of a pair with evidence; None without evidence.

    >>> strength_of(CERTAIN, 3.1), strength_of(LIKELY, 1.7), strength_of(GUESS, 0.4)
    ('strong', 'moderate', None)
    """
    if grade not in (CERTAIN, LIKELY):
        return None
    return next((word for word, low in STRENGTHS.items() if lift_low >= low), None)


FOOTER = "Association, not proof of extra sales."

REASONS = {
    "similar": "suggested because similar items go together",
    "popular": "suggested because it is bought often",
}
"""Why a model names a pair without evidence; a model that only counts has no reason."""


def coincidence_words(q: float, strata: Sequence[str]) -> str:
    """The share of pairs with evidence as strong that are coincidence.

    Less is claimed where seasons or stores may be the reason.

    >>> coincidence_words(1e-37, ["month", "store"]), coincidence_words(1e-37, [])
    ('fewer than 1 in 1,000,000', 'fewer than 1 in 1,000')
    >>> coincidence_words(0.004, [])
    'about 1 in 200'
    """
    smallest = 1e-3 if RULED_OUT in strata_words(strata) else 1e-6
    if q < smallest:
        return f"fewer than 1 in {one_in(smallest):,}"
    return f"about 1 in {one_in(q):,}"


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
    """A lower limit, rounded down: to an integer from 10 on, to one decimal below.

    >>> at_least(9.16), at_least(2.19), at_least(1234.5)
    ('9.1x', '2.1x', '1,234x')
    """
    return (
        f"{math.floor(ratio):,}x" if ratio >= 10 else f"{math.floor(ratio * 10 + 1e-9) / 10:.1f}x"
    )


def months_of(season: int) -> list[str]:
    """The names of the months whose bits are set.

    >>> months_of(1 << 10 | 1 << 11)
    ['November', 'December']
    """
    return [name for place, name in enumerate(MONTHS) if season > 0 and season >> place & 1]


def fact(
    kind: str,
    unit: str,
    description: str,
    of: Callable[[CountedPairs], Numbers | None] | None = None,
    *,
    low: float = 0.0,
    high: float = math.inf,
    show: Callable[[Any], Any] | None = None,
    json: Any = None,
    optional: bool = False,
) -> Any:
    """A field of `Evidence`.

    Parameters
    ----------
    kind
        The NumPy type of its column. Integers are -1, other columns NaN where a value is missing.
    description
        One noun phrase, for the API, the page and the documentation.
    of
        What makes the column of counted pairs, the smaller code first; None where nothing is known.
    low, high
        Bounds of a known value, checked when a table is opened.
    show
        The JSON form of a value, unless it is the number itself; `json`: its type there.
    optional
        Whether a table may lack its column.
    """
    metadata = {"kind": np.dtype(kind), "description": description, "of": of, "unit": unit}
    metadata |= {"low": low, "high": high, "show": show, "optional": optional}
    metadata |= {"json": json or (float if kind[0] == "f" else int), "public": True}
    return field(default=math.nan if kind[0] == "f" else -1, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence for a pair (query, item); an integer is -1, another number NaN where it is missing.

    "Customers" stands for baskets where customers do not return: see `times_words`.
    """

    count: int = fact("i4", "baskets", "Baskets that hold both", lambda p: p.count)
    customers: int = fact(
        "i4",
        "customers",
        "Customers who bought both in one basket",
        lambda p: p.customers,
        optional=True,
    )
    expected: float = fact(
        "f4", "customers", "Count expected by chance, within strata", lambda p: p.expected
    )
    beyond: float = fact(
        "f4",
        "customers",
        "Count beyond chance, by the lower end of the lift",
        lambda p: p.expected * (p.within.low - 1),
        low=-math.inf,
    )
    revenue: float = fact(
        "f4",
        "currency of the prices",
        "Price of both items times the count beyond chance, per month",
        lambda p: p.revenue,
        low=-math.inf,
        optional=True,
    )
    lift: float = fact(
        "f4",
        "times",
        "Lift: how often new baskets will show both, relative to chance",
        lambda p: p.within.lift,
    )
    lift_low: float = fact(
        "f4", "times", "Lower end of the 95 % interval of the lift", lambda p: p.within.low
    )
    lift_high: float = fact(
        "f4", "times", "Upper end of the 95 % interval of the lift", lambda p: p.within.high
    )
    q: float = fact(
        "f4",
        "share",
        "Share of coincidences among pairs with at least this evidence",
        lambda p: p.q,
        high=1.0,
    )
    forward: int = fact(
        "i4",
        "baskets",
        "Baskets with the first item added first",
        lambda p: p.forward,
        optional=True,
    )
    backward: int = fact("i4", "baskets", "Baskets with the other item added first")
    overall_lift: float = fact(
        "f4", "times", "Lift over all baskets, without strata", lambda p: p.lift.lift
    )
    season: int = fact(
        "i4",
        "months",
        "Months of a seasonal pair",
        lambda p: p.season,
        high=4095,
        show=lambda bits: months_of(bits) or None,
        json=list[str],
        optional=True,
    )
    same_category: int = fact(
        "i1",
        "true or false",
        "Whether both are of one category",
        lambda p: p.same_category,
        high=1,
        show=bool,
        json=bool,
    )
    query_count: int = fact("i8", "baskets", "Baskets with the first item")
    item_count: int = fact("i8", "baskets", "Baskets with the other item")
    grade: str = field(default="guess", metadata={"public": False})
    """How sure: one of `GRADES`, or `seasonal`, or `explained by` a column."""
    reason: str = field(default="similar", metadata={"public": False})
    """Why the model names a pair without evidence: `similar`, `counts` or `popular`."""

    @property
    def strength(self) -> str | None:
        """How strong a pair with evidence is: one of `STRENGTHS`."""
        return (
            strength_of(GRADES.index(self.grade), self.lift_low) if self.grade in GRADES else None
        )

    def words(self, suggested: bool = True) -> str:
        """The evidence in one sentence. `suggested`: whether a model names the pair."""
        if self.grade == "category":
            return "A new item: suggested because items of its category go together."
        if self.grade == "rule":
            return "Placed here by a rule of the shop."
        if self.grade == "guess":
            return self._guess(suggested)
        ratio = times_chance(self.lift)
        if self.grade == "chance":
            often = "about as often as" if self.lift_high >= 1 else "less often than"
            interval = f"{self.lift_low:.2f} to {self.lift_high:.2f}"
            return f"{self._together()}, {often} chance: {self.lift:.2f}x ({interval})."
        if self.grade in GRADES:
            low = at_least(self.lift_low)
            return f"{self._together()}, {ratio} as often as by chance (at least {low})."
        column = self.grade.removeprefix("explained by ")
        within = " or ".join(months_of(self.season)) or f"one {column}"
        ratios = f"{times_chance(self.overall_lift)} overall, {ratio} within {within}"
        return f"{self._together()}, {ratios}: {self.grade}."

    def times_words(self) -> str:
        """The number of customers who bought both; where they are not known, of orders."""
        if self.customers < 0:
            return plural(self.count, "order")
        return plural(self.customers, "customer")

    def _together(self) -> str:
        if self.count < 0:
            return "Seldom or never bought together"
        if not self.count:
            return "Never bought together"
        how = "in" if self.customers < 0 else "by"
        return f"Bought together {how} {self.times_words()}"

    def _guess(self, suggested: bool) -> str:
        why = REASONS.get(self.reason) if suggested else None
        if self.count == 0 and why is None:
            return f"{self._together()}."
        return f"{self._together()}; {why or 'chance may explain it'}."

    def to_dict(self) -> dict[str, Any]:
        """The public fields as JSON holds them, six digits, None where not known."""
        return {name: shown(spec, getattr(self, name)) for name, spec in PUBLIC.items()}

    def facts(self) -> list[tuple[str, str]]:
        """Description and value of each known public field, for a page."""
        known = ((spec, shown(spec, getattr(self, name))) for name, spec in PUBLIC.items())
        return [
            (spec.metadata["description"], _text(value, spec.metadata["unit"]))
            for spec, value in known
            if value is not None
        ]


def shown(spec: Field[Any], value: Any) -> Any:
    """A value of a field as JSON holds it."""
    if value == -1 or value != value:
        return None
    if spec.metadata["show"] is not None:
        return spec.metadata["show"](value)
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _text(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{show_number(value)}{'x' if unit == 'times' else ''}"


PUBLIC: Mapping[str, Field[Any]] = {
    spec.name: spec for spec in fields(Evidence) if spec.metadata["public"]
}
"""The fields of JSON, exports, data frames and pages."""
STORED: Mapping[str, Field[Any]] = {
    spec.name: spec for spec in fields(Evidence) if spec.metadata.get("of") is not None
}
"""The fields that have a column in the table of pairs."""
