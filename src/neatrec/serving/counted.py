"""`EvidenceTable`: the evidence of all pairs that were bought together, one row per pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.compiled import find_pairs
from neatrec.cooccurrence import CountOptions, Counts, Margins
from neatrec.cooccurrence.counting import CountBook
from neatrec.cooccurrence.expected_counts import StratifiedExpected
from neatrec.cooccurrence.lift_prior import LEAST_COUNT, MOST_PAIRS, coverage_words, lift_prior
from neatrec.cooccurrence.strata import strata_words, usable_strata
from neatrec.data.baskets import Baskets, customers_return
from neatrec.memory import blocks, one_blas_thread
from neatrec.serving.evidence import (
    CERTAIN,
    EXPLAINED,
    GUESS,
    LIKELY,
    STORED,
    Evidence,
    Numbers,
    grade_names,
    grade_pairs,
)
from neatrec.statistics import (
    LiftEstimate,
    LiftPrior,
    benjamini_hochberg,
    estimate_lifts,
    exact_estimate,
    poisson_tail,
    possible_pairs,
    quasi_independence,
)

Codes = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]

MAX_PAIRS = 25_000_000
"""Where more pairs than this are to be expected, those seen once are not kept."""
MONTH = 365.25 / 12 * 86_400e6
"""Microseconds."""
UNKNOWN = {"f": np.nan, "i": -1, "u": 0}
"""Kind of a column -> the value of a pair outside the table."""
SMALLEST_Q = 1e-37
"""Smaller q-values are given as this one: float32 holds no less with all its digits."""


@dataclass(frozen=True, eq=False)
class CountedPairs:
    """Counts of pairs, the smaller code first: arrays of one length; None: not known."""

    count: Numbers
    customers: Numbers | None
    forward: Numbers | None
    """Baskets in which the smaller code came first."""
    overall: Numbers
    """Expected by chance over all baskets: of `times`."""
    expected: Numbers
    """Expected by chance within strata."""
    q: Numbers
    season: Numbers | None
    same_category: Numbers
    by_customer: bool
    """Whether a customer counts once."""
    prior: LiftPrior | None
    price_per_month: Numbers | None = None
    """Price of both items, divided by the months that the baskets span."""

    @property
    def times(self) -> Numbers:
        """The count that is compared with `expected`."""
        return self.customers if self.by_customer and self.customers is not None else self.count

    @cached_property
    def lift(self) -> LiftEstimate:
        """Over all baskets."""
        return estimate_lifts(self.prior, self.times, self.overall)

    @cached_property
    def within(self) -> LiftEstimate:
        """Within strata."""
        return self.lift.within(self.overall, self.expected)

    @property
    def revenue(self) -> Numbers | None:
        """The count beyond chance, in money per month."""
        price = self.price_per_month
        return None if price is None else self.expected * (self.within.low - 1) * price

    def columns(self) -> dict[str, Numbers]:
        """The columns of `STORED` that are known, and the grade, made block by block."""
        out: dict[str, Numbers] = {}
        for block in blocks(max(len(self.count), 1)):
            for name, values in self._where(block)._columns().items():
                out.setdefault(name, np.empty(len(self.count), values.dtype))[block] = values
        return out

    def _where(self, block: slice) -> CountedPairs:
        values: dict[str, Any] = {
            name: value[block]
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray)
        }
        return replace(self, **values)

    def _columns(self) -> dict[str, Numbers]:
        made = {name: spec.metadata["of"](self) for name, spec in STORED.items()}
        known = {
            name: values.astype(STORED[name].metadata["kind"])
            for name, values in made.items()
            if values is not None
        }
        return {**known, "grade": grade_pairs(self.times, self.within, self.q)}


@dataclass(frozen=True, eq=False)
class EvidenceTable:
    """Each pair of items that was bought together once, the smaller code first, sorted."""

    one: Codes
    other: Codes
    """The smaller and the larger code, shape (pairs,)."""
    columns: Mapping[str, Numbers]
    """The known columns of `evidence.STORED`, and `grade`, a number into `grades`."""
    query_factor: npt.NDArray[np.float64]
    item_factor: npt.NDArray[np.float64]
    """a and b, shape (items,): a[q] b[v] is the expected count of a pair over all baskets."""
    category: Codes
    """The category of each item; negative: unknown."""
    strata: tuple[str, ...]
    """Columns within which the evidence is measured."""
    by_customer: bool
    """Whether a customer counts once in `expected` and `q`."""
    min_count: int
    """Pairs seen fewer times are not kept."""
    prior: LiftPrior | None
    """The prior of the lifts; None if there are too few pairs: lifts are as counted."""

    @classmethod
    def of(
        cls,
        baskets: Baskets,
        category: Codes | None = None,
        *,
        strata: Sequence[str] | None = None,
        book: CountBook | None = None,
    ) -> EvidenceTable:
        """The pairs of all baskets of two lines and more; of very many the most frequent.

        Parameters
        ----------
        category
            The category of each item; by default the deepest. Pairs of one category are counted as
            all others are, and marked.
        strata
            Those of calibrated labels; None: basket size, month and store, where they are known.
        book
            The counts of the baskets, where some are made already.
        """
        book, names = CountBook(baskets) if book is None else book, usable_strata(baskets, strata)
        category = baskets.catalog.category_of(None) if category is None else category
        plain = CountOptions(directed=False, category_level=None)
        tested = replace(plain, once_per_customer=customers_return(baskets))
        pairs = book.count("all", replace(plain, forward=baskets.ordered, max_pairs=MAX_PAIRS))
        times = pairs.column("customers" if tested.once_per_customer else "count")
        totals = _totals(book, pairs, tested)
        prior = _lift_prior(book, pairs, times, totals, tested)
        fit = quasi_independence(totals.first, totals.second, totals.category)
        overall = fit.of(pairs.query, pairs.item)
        possible = possible_pairs(totals.first, totals.second, totals.category, directed=False)
        tests = max(possible, len(pairs))
        within = WithinStrata.of(baskets, names, tested, pairs, times, overall, tests)
        counted = CountedPairs(
            count=pairs.column("count"),
            customers=pairs.columns.get("customers"),
            forward=pairs.columns.get("forward"),
            overall=overall,
            expected=within.expected,
            q=within.q,
            season=within.season if names else None,
            same_category=_same(category, pairs.query, pairs.item),
            by_customer=tested.once_per_customer,
            prior=prior,
            price_per_month=_price_per_month(baskets, pairs),
        )
        with one_blas_thread():
            columns = counted.columns()
        lost = np.flatnonzero(within.explained)
        columns["grade"][lost] = EXPLAINED - 1 + within.explained[lost]
        return cls(
            one=pairs.query,
            other=pairs.item,
            columns=columns,
            query_factor=fit.query,
            item_factor=fit.item,
            category=category,
            strata=names,
            by_customer=counted.by_customer,
            min_count=pairs.options.min_count,
            prior=prior,
        )

    def __len__(self) -> int:
        return len(self.one)

    @cached_property
    def start(self) -> Places:
        """Where the pairs of each smaller code start, shape (items + 1,)."""
        return np.searchsorted(self.one, np.arange(len(self.query_factor) + 1))

    @cached_property
    def grades(self) -> tuple[str, ...]:
        """The names of the grades that the numbers of the column `grade` stand for."""
        return grade_names(self.strata)

    def of_pairs(
        self, queries: npt.ArrayLike, items: npt.ArrayLike, rows: npt.ArrayLike | None = None
    ) -> dict[str, Numbers]:
        """The columns of aligned pairs, seen from the query; `rows`: their rows, where known."""
        query, item = np.asarray(queries, dtype=np.int32), np.asarray(items, dtype=np.int32)
        if rows is None:
            smaller, larger = np.minimum(query, item), np.maximum(query, item)
            rows = find_pairs(self.start, self.other, smaller, larger)
        row = np.asarray(rows)
        kept, away = row >= 0, np.flatnonzero(row < 0)
        unseen = self._unseen(query[away], item[away]) if len(away) else {}
        found = {}
        for name, values in self.columns.items():
            found[name] = np.full(len(row), UNKNOWN[values.dtype.kind], values.dtype)
            found[name][kept] = values[row[kept]]
            if name in unseen:
                found[name][away] = unseen[name]
        if "forward" in found:
            forward = found["forward"]
            backward = np.where(forward < 0, -1, found["count"] - forward)
            turned = query > item
            found["forward"] = np.where(turned, backward, forward)
            found["backward"] = np.where(turned, forward, backward)
        return found

    def _unseen(self, query: Codes, item: Codes) -> dict[str, Numbers]:
        """The columns of pairs outside the table."""
        nothing = np.full(len(query), 0 if self.min_count == 1 else -1)
        overall = self.query_factor[query] * self.item_factor[item]
        overall[query == item] = np.nan
        return CountedPairs(
            count=nothing,
            customers=nothing,
            forward=nothing,
            overall=overall,
            expected=overall,
            q=np.where(nothing < 0, np.nan, 1.0),
            season=np.zeros(len(query)),
            same_category=_same(self.category, query, item),
            by_customer=self.by_customer,
            prior=self.prior,
        ).columns()

    @cached_property
    def evident(self) -> Places:
        """The rows of all certain and likely pairs, the highest lower end of the lift first."""
        rows = np.flatnonzero(self.columns["grade"] <= LIKELY)
        order: Places = rows[np.argsort(-self.columns["lift_low"][rows], kind="stable")]
        return order

    @cached_property
    def explained(self) -> Places:
        """The rows of all pairs that strata explain."""
        found: Places = np.flatnonzero(self.columns["grade"] >= EXPLAINED)
        return found

    @property
    def same_category_share(self) -> float:
        """The share of the pairs with evidence whose items are of one category; 0 without pairs."""
        same = self.columns["same_category"][self.evident] > 0
        return float(same.mean()) if len(same) else 0.0

    def evidence_at(self, row: int) -> Evidence:
        """The evidence of the pair in a row, the smaller code first."""
        values = {name: column[row].item() for name, column in self.columns.items()}
        grade = self.grades[values.pop("grade")]
        return Evidence(**values, grade=grade, reason="counts")

    def words(self) -> str:
        """Sentences on the strata, on what they cannot rule out, and on widened intervals."""
        within = strata_words(self.strata)
        if self.prior is None or self.prior.describes_the_data:
            return within
        return f"{within} {coverage_words(self.prior.coverage)}".lstrip()

    def about(self) -> dict[str, Any]:
        """The options of the counts, for the manifest."""
        options = {"min_count": self.min_count, "by_customer": self.by_customer}
        return {**options, "strata": list(self.strata)}


def _totals(book: CountBook, pairs: Counts, tested: CountOptions) -> Margins:
    """The margins of the tested unit: customers if they return, else baskets."""
    if not tested.once_per_customer:
        return pairs.margins
    if pairs.options.min_count > 1:
        return book.margins("all", tested)
    times, items = pairs.column("customers"), len(pairs.catalog)
    first = np.bincount(pairs.query, times, items) + np.bincount(pairs.item, times, items)
    return replace(pairs.margins, first=first, second=first, records=int(times.sum()))


def _lift_prior(
    book: CountBook, pairs: Counts, times: Numbers, totals: Margins, tested: CountOptions
) -> LiftPrior | None:
    """The prior of the lifts, fitted to all pairs or to a sample of them."""
    if pairs.options.min_count <= LEAST_COUNT:
        margins = replace(totals, pairs=pairs.margins.pairs)
        repeated = replace(pairs, options=tested, margins=margins, columns={"count": times})
    else:
        share = min(1.0, MOST_PAIRS / pairs.margins.pairs)
        sampled = replace(tested, min_count=LEAST_COUNT, share=share, customers=False)
        repeated = book.count("all", sampled, keep=False)
    return lift_prior(repeated, book)


class WithinStrata(NamedTuple):
    """What strata leave of the evidence: arrays of one length."""

    expected: Numbers
    q: Numbers
    explained: Numbers
    """The column that explains a pair, a position among the names from 1; 0: none."""
    season: Numbers

    @classmethod
    def of(
        cls,
        baskets: Baskets,
        names: tuple[str, ...],
        tested: CountOptions,
        pairs: Counts,
        times: Numbers,
        overall: Numbers,
        tests: int,
    ) -> WithinStrata:
        """Of counted pairs; without names those over all baskets."""
        explained, season = np.zeros(len(pairs), np.uint8), np.zeros(len(pairs), np.int32)
        if not names:
            return cls(overall, _q_values(times, overall, tests), explained, season)
        fit = StratifiedExpected.fit(baskets, names, tested, "quasi")
        expected = fit.of(pairs.query, pairs.item, times)
        q = _q_values(times, expected, tests)
        lost = _lost_within_strata(times, overall, expected, q, tests)
        reasons = fit.explain(names, pairs.query[lost], pairs.item[lost])
        explained[lost], season[lost] = reasons
        return cls(expected, q, explained, season)


def _q_values(times: Numbers, expected: Numbers, tests: int) -> Numbers:
    """The q-values of counts, SMALLEST_Q at least."""
    p = np.empty(len(times))
    for block in blocks(len(times)):
        p[block] = poisson_tail(times[block], expected[block])
    q = benjamini_hochberg(p, tests)
    return np.maximum(q, SMALLEST_Q, out=q)


def _lost_within_strata(
    times: Numbers, overall: Numbers, expected: Numbers, q: Numbers, tests: int
) -> Places:
    """The pairs that are certain over all baskets but a guess, or less, within strata."""
    q_overall = _q_values(times, overall, tests)
    lost = np.zeros(len(times), dtype=np.bool_)
    for block in blocks(len(times)):
        n, by_chance, within = times[block], overall[block], expected[block]
        before = grade_pairs(n, exact_estimate(n, by_chance), q_overall[block])
        after = grade_pairs(n, exact_estimate(n, within), q[block])
        lost[block] = (before == CERTAIN) & (after >= GUESS)
    return np.flatnonzero(lost)


def _price_per_month(baskets: Baskets, pairs: Counts) -> Numbers | None:
    """The price of both items of each pair, divided by the months that the baskets span."""
    prices = baskets.catalog.prices
    if prices is None or baskets.times is None:
        return None
    months = max(int(np.ptp(baskets.times)) / MONTH, 1.0)
    paid: Numbers = (prices[pairs.query] + prices[pairs.item]) / months
    return paid


def _same(category: Codes, queries: Codes, items: Codes) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = (category[queries] == category[items]) & (category[queries] >= 0)
    return same
